"""The engine of the extra `fast`: lines are checked and added up thousands at a time, with numpy.

A line as writers emit it consists of five parts:

    {"order_id": "A-1", "dt": "2026-02-01", "amount": -1250, "status": "refund"}
    └─── head ───┘└id┘└───────────── middle ─────────┘└───┘└────── tail ───────┘
                                                      amount

Head, middle and tail are the same bytes in every line of a partition (there are two tails), so they are compared with
what they must be as numbers of eight bytes each, for all lines at once. They are found from the line's end backwards:
the tail ends there, the amount ends where the tail begins, its digits are counted, and the middle ends where they
begin. What is left between head and middle is the order_id, of any length. It is free text, but for three things: a
quote, a backslash and a control character. If every line has its parts, these are counted in the piece as a whole.

A line that does not fit is not judged: it goes on to the pattern, and from there to the strict parser.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy import bitwise_count  # new in numpy 2

from backfill_core.counting.pattern import PatternEngine, Style, Sum, is_utf8, style_of
from backfill_core.counting.pieces import Piece

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import NDArray

    Bytes: TypeAlias = NDArray[np.uint8]
    Flags: TypeAlias = NDArray[np.bool_]
    Places: TypeAlias = NDArray[np.intp]
    Words: TypeAlias = NDArray[np.uint64]

QUOTES = 14  # in a line: two around each of the four keys and the three strings
DIGITS = 8  # of an amount are read, as many as a word has bytes
_LEAST = np.array([10**DIGITS, 0, *(10**digits for digits in range(1, DIGITS))], np.uint64)  # that has so many digits

# Large memory blocks, once given back, make the allocator keep such blocks from then on: else each temporary array
# would be a fresh mapping whose every page the system has to clear.
np.empty(1 << 24, np.uint8)


class VectorEngine:
    """Recognises lines with vectors of numbers; see `add_up`.

    smallest: pieces of fewer bytes are left to the pattern, which needs no run-up.
    """

    size = 1 << 20
    """How many bytes it likes to be given at once: what the processor's cache holds, temporaries included."""

    def __init__(self, smallest: int = 1 << 15) -> None:
        self._smallest = smallest
        self._pattern = PatternEngine()

    def add_up(self, piece: Piece, dt: str) -> Sum:
        """Add up the lines that are spelled like the first, and leave what is left of them to the pattern."""
        style = style_of(piece, dt)
        if style is None or piece.end - piece.begin < self._smallest or not _is_utf8(piece):
            return self._pattern.add_up(piece, dt)
        lines, orders, amount, rest = _add_up(piece, style)
        if rest:
            _, more_orders, more_amount, rest = self._pattern.add_up(Piece.of(rest), dt)
            return Sum(lines, orders + more_orders, amount + more_amount, rest)
        return Sum(lines, orders, amount, b"")


def _add_up(piece: Piece, style: Style) -> Sum:
    buffer, begin, end = piece
    text = np.frombuffer(buffer, np.uint8)
    controls = _places(text[begin:end] < ord(" ")) + begin
    ends = controls[text[controls] == ord("\n")] + 1  # behind each newline
    starts = np.empty_like(ends)
    starts[0], starts[1:] = begin, ends[:-1]
    newline = b"\r\n" if text[ends[0] - 2] == ord("\r") else b"\n"

    # The tail. Most lines are paid; the others are looked at once more.
    good = _spelled(style.paid + newline).ends_at(ends, buffer)
    others = np.flatnonzero(~good)
    good[others] = _spelled(style.refund + newline).ends_at(ends[others], buffer)
    amount_ends = ends - len(style.paid + newline)
    amount_ends[others] -= len(style.refund) - len(style.paid)

    # The amount: as many digits as its value needs, and a refund's is negative.
    digits, values = _numbers_before(amount_ends, buffer)
    first_digits = amount_ends - digits
    good &= values >= _LEAST[digits]
    negative = text[first_digits - 1] == ord("-")
    good[others] &= negative[others] & (values[others] > 0)

    # The middle, the head, and room for both: what is between them is the order_id.
    middle_ends = first_digits - negative
    good &= _spelled(style.middle).ends_at(middle_ends, buffer)
    head_ends = starts + len(style.head)
    good &= _spelled(style.head).ends_at(head_ends, buffer)
    good &= middle_ends - len(style.middle) >= head_ends

    # The order_id: nothing in it ends or escapes a string. If all lines have their parts, that can be seen as a whole.
    if not (
        good.all()
        and len(controls) == len(ends) * len(newline)
        and np.count_nonzero(text[begin:end] == ord('"')) == len(ends) * QUOTES
        and buffer.find(b"\\", begin, end) < 0
    ):
        good &= _are_plain(text[begin:end], starts - begin, len(newline))
        values[~good] = 0
    rest = b"".join(bytes(buffer[starts[line] : ends[line]]) for line in np.flatnonzero(~good))
    amount = int(values.sum()) - 2 * int(values[negative].sum())
    return Sum(len(ends), int(np.count_nonzero(good)), amount, rest)


def _places(marks: Flags) -> Places:
    """Return where the marks are: as `np.flatnonzero` does, in a third of the time as long as no two are close by."""
    whole = len(marks) // 8 * 8
    words = marks[:whole].view("<u8")  # each has eight marks
    marked = np.flatnonzero(words != 0)
    below = words[marked] - np.uint64(1)  # has the bits below that of a word's first mark
    if np.any(words[marked] & below):  # and that was not its only one
        return np.flatnonzero(marks)
    places = (marked << 3) + (bitwise_count(below) >> 3)
    return np.concatenate((places, whole + np.flatnonzero(marks[whole:])))


class _Spelled:
    """A text to compare with, as words of eight bytes; the first word is filled up with bytes that don't count."""

    def __init__(self, text: bytes) -> None:
        fill = -len(text) % 8
        self._words = np.frombuffer(bytes(fill) + text, "<u8")
        self._counts = np.frombuffer(bytes(fill) + b"\xff" * (8 - fill), "<u8")[0]

    def ends_at(self, places: Places, buffer: bytearray) -> Flags:
        """Return for each place whether the text stands just before it."""
        words = _words_before(places, buffer, len(self._words))
        same: Flags = (words[:, 0] & self._counts) == self._words[0]
        for column in range(1, len(self._words)):
            same &= words[:, column] == self._words[column]
        return same


_spelled = lru_cache(maxsize=64)(_Spelled)


def _is_utf8(piece: Piece) -> bool:
    is_ascii = np.frombuffer(piece.view(), np.uint8).max() < 0x80
    return bool(is_ascii) or is_utf8(piece.view())


def _words_before(places: Places, buffer: bytearray, count: int) -> Words:
    """Return the `count` words before each place, shape (places, count)."""
    width = 8 * count
    at_every_byte = np.ndarray(len(buffer) - width + 1, f"V{width}", buffer, strides=(1,))
    words: Words = at_every_byte[places - width].view("<u8").reshape(-1, count)
    return words


_ZEROS, _LOW_BITS, _HIGH_BITS, _TO_HIGH_BIT = (
    np.uint64(0x0101010101010101 * byte) for byte in (0x30, 0x7F, 0x80, 0x76)
)


def _numbers_before(places: Places, buffer: bytearray) -> tuple[Places, Words]:
    """Return for each place how many digits stand just before it, up to eight, and the number they write."""
    word = _words_before(places, buffer, 1)[:, 0]
    word ^= _ZEROS  # a digit's byte is now its value, any other byte is more than 9
    others = (((word & _LOW_BITS) + _TO_HIGH_BIT) | word) & _HIGH_BITS  # the high bit of each byte that is no digit
    for distance in (8, 16, 32):
        others |= others >> np.uint64(distance)  # and of all bytes before one
    skipped = bitwise_count(others)
    shift = skipped.astype(np.uint64) << np.uint64(3)
    word >>= shift
    word <<= shift  # what is no digit counts as leading zeros
    # Eight digits in three steps: neighbours make numbers of two digits, those make numbers of four, those the whole.
    word = (word * np.uint64(1 + (10 << 8)) >> np.uint64(8)) & np.uint64(0x00FF00FF00FF00FF)
    word = (word * np.uint64(1 + (100 << 16)) >> np.uint64(16)) & np.uint64(0x0000FFFF0000FFFF)
    word = word * np.uint64(1 + (10000 << 32)) >> np.uint64(32)
    return DIGITS - skipped.astype(np.intp), word


def _are_plain(text: Bytes, starts: Places, newline: int) -> Flags:
    """Return for each line whether it has nothing but its parts to end or escape a string: slower, and one by one.

    starts: where each line begins; newline: how many bytes end it.
    """

    def count(marked: Flags) -> NDArray[np.int32]:
        return np.add.reduceat(marked.view(np.uint8), starts, dtype=np.int32)

    plain: Flags = count(text < ord(" ")) == newline
    plain &= count(text == ord('"')) == QUOTES
    plain &= count(text == ord("\\")) == 0
    return plain

"""The engine of the extra `fast`: lines are checked and added up thousands at a time, with numpy.

A line as writers emit it consists of five parts:

    {"order_id": "A-1", "dt": "2026-02-01", "amount": -1250, "status": "refund"}
    └─── head ───┘└id┘└───────────── middle ─────────┘└───┘└────── tail ───────┘
                                                      amount

Head, middle and tail are the same bytes in every line of a partition (there are two tails), so they are compared with
what they must be as numbers of eight bytes each, for all lines at once. They are found from the line's end backwards:
the tail ends there, and with it the head of the next line begins; the amount ends where the tail begins, its digits are
counted, and the middle ends where they begin. What is left between head and middle is the order_id, of any length. It
is free text, but for three things: a quote, a backslash and a control character.

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

DIGITS = 8  # of an amount are read, as many as a word has bytes
_LEAST = np.array([10**DIGITS, 0, *(10**digits for digits in range(1, DIGITS))], np.uint64)  # that has so many digits

# Large memory blocks, once given back, make the allocator keep such blocks from then on: else each temporary array
# would be a fresh mapping whose every page the system has to clear.
np.empty(1 << 24, np.uint8)


class VectorEngine:
    """Recognises lines with vectors of numbers; see `add_up`.

    smallest: pieces of fewer bytes are left to the pattern, which needs no run-up.
    """

    size = 1 << 21
    """How many bytes it likes to be given at once: the more, the less a call costs a line, while a cache holds them."""

    def __init__(self, smallest: int = 1 << 15) -> None:
        self._smallest = smallest
        self._pattern = PatternEngine()

    def add_up(self, piece: Piece, dt: str) -> Sum:
        """Add up the lines that are spelled like the first, and leave what is left of them to the pattern."""
        style = style_of(piece, dt)
        if style is None or piece.end - piece.begin < self._smallest:
            return self._pattern.add_up(piece, dt)
        behind = slice(piece.end, piece.end + len(style.head))
        kept, piece.buffer[behind] = piece.buffer[behind], style.head  # so that there is one behind every line
        lines, orders, amount, rest = _add_up(piece, style)
        piece.buffer[behind] = kept
        if rest:
            _, more_orders, more_amount, rest = self._pattern.add_up(Piece.of(rest), dt)
            return Sum(lines, orders + more_orders, amount + more_amount, rest)
        return Sum(lines, orders, amount, b"")


def _add_up(piece: Piece, style: Style) -> Sum:
    buffer, begin, end = piece
    text = np.frombuffer(buffer, np.uint8)
    ends = _newlines(text, begin, end) + 1
    starts = np.concatenate(([begin], ends[:-1]))
    newline = b"\r\n" if buffer[ends[0] - 2] == ord("\r") else b"\n"

    # The tail and the head behind it, and the word before them. Most lines are paid; the others are looked at again.
    paid, refund = (_spelled(tail + newline + style.head) for tail in (style.paid, style.refund))
    amount_ends = ends - len(style.paid + newline)
    words = _words_at(amount_ends - DIGITS, buffer, 1 + paid.width)
    good = paid.equals(words[:, 1:])
    others = np.flatnonzero(~good)
    amount_ends[others] -= len(style.refund) - len(style.paid)
    other_words = _words_at(amount_ends[others] - DIGITS, buffer, 1 + refund.width)
    good[others] = refund.equals(other_words[:, 1:])
    words[others, 0] = other_words[:, 0]
    good[1:] &= good[:-1]  # so far each told of the head of the next line; that of the first is known

    # The amount: as many digits as its value needs, and a refund's is negative.
    digits, values = _numbers(words[:, 0])
    first_digits = amount_ends - digits
    good &= values >= _LEAST[digits]
    negative = text[first_digits - 1] == ord("-")
    good[others] &= negative[others] & (values[others] > 0)

    # The middle, and room for it: what is between head and middle is the order_id.
    middle = _spelled(style.middle)
    id_starts = starts + len(style.head)
    id_ends = first_digits - negative - len(style.middle)
    good &= middle.equals(_words_at(id_ends, buffer, middle.width))
    good &= id_ends >= id_starts

    # The order_id. Most have no byte up to the quote, and none beyond ASCII, which would be negative if it had a sign.
    # If all lines have their parts, and the piece has no more such bytes than these, none need be looked at by itself.
    in_parts = sum(byte <= ord('"') for byte in style.head + style.middle + style.paid + newline)
    if not (
        good.all()
        and np.count_nonzero(text[begin:end].view(np.int8) <= ord('"')) == in_parts * len(ends)
        and buffer.find(b"\\", begin, end) < 0
    ):
        if np.count_nonzero(good) < len(ends) / 2 or not is_utf8(piece.view()):
            return Sum(len(ends), 0, 0, bytes(piece.view()))
        good &= _are_plain(text, id_starts, id_ends)
        values[~good] = 0
    rest = b"".join(bytes(buffer[starts[line] : ends[line]]) for line in np.flatnonzero(~good))
    amount = int(values.sum()) - 2 * int(values[negative].sum())
    return Sum(len(ends), int(np.count_nonzero(good)), amount, rest)


def _newlines(text: Bytes, begin: int, end: int) -> Places:
    """Return where the newlines are: as `np.flatnonzero` does, in less time as long as no two are close by."""
    words = -(-(end - begin) // 64)
    marks: Flags = text[begin : begin + 64 * words] == ord("\n")
    marks[end - begin :] = False
    bits = np.packbits(marks, bitorder="little").view("<u8")
    marked = np.flatnonzero(bits != 0)
    mark = bits[marked]
    below = mark - np.uint64(1)  # the bits below a word's first mark
    if (mark & below).max() > 0:  # and that was not its only one
        return np.flatnonzero(marks) + begin
    places: Places = (marked << 6) + begin
    places += bitwise_count(below).astype(np.intp)
    return places


class _Spelled:
    """A text to compare with, as words of eight bytes; the last word is filled up with bytes that don't count."""

    def __init__(self, text: bytes) -> None:
        fill = -len(text) % 8
        self._words = np.frombuffer(text + bytes(fill), "<u8")
        self._counts = np.frombuffer(b"\xff" * (8 - fill) + bytes(fill), "<u8")[0]
        self.width = len(self._words)

    def equals(self, words: Words) -> Flags:
        """Return for each row of words, shape (rows, width), whether it begins with the text."""
        same: Flags = (words[:, -1] & self._counts) == self._words[-1]
        for column in range(self.width - 1):
            same &= words[:, column] == self._words[column]
        return same


_spelled = lru_cache(maxsize=64)(_Spelled)


def _words_at(places: Places, buffer: bytearray, count: int) -> Words:
    """Return the `count` words from each place on, shape (places, count)."""
    width = 8 * count
    at_every_byte = np.ndarray(len(buffer) - width + 1, f"V{width}", buffer, strides=(1,))
    words: Words = at_every_byte[places].view("<u8").reshape(-1, count)
    return words


_ZEROS, _HIGH_BITS, _TO_HIGH_BIT = (np.uint64(0x0101010101010101 * byte) for byte in (0x30, 0x80, 0x76))


def _numbers(words: Words) -> tuple[Places, Words]:
    """Return how many digits each word ends with, up to eight, and the number they write."""
    word = words.byteswap()  # its last byte is now the lowest
    word ^= _ZEROS  # a digit's byte is now its value, any other byte is more than 9
    other = word + _TO_HIGH_BIT
    other |= word
    other &= _HIGH_BITS  # the high bit of the first byte that is no digit, and maybe of some above it
    other >>= np.uint64(7)
    below = other - np.uint64(1)
    below &= ~other  # all bits below that byte
    word &= below
    # Eight digits in three steps: neighbours make numbers of two digits, those make numbers of four, those the whole.
    word *= np.uint64(10 + (1 << 8))
    word >>= np.uint64(8)
    word &= np.uint64(0x00FF00FF00FF00FF)
    word *= np.uint64(100 + (1 << 16))
    word >>= np.uint64(16)
    word &= np.uint64(0x0000FFFF0000FFFF)
    word *= np.uint64(10000 + (1 << 32))
    word >>= np.uint64(32)
    return (bitwise_count(below) >> 3).astype(np.intp), word


def _are_plain(text: Bytes, starts: Places, ends: Places) -> Flags:
    """Return for each order_id whether nothing in it ends or escapes a string, and it is not empty: slower, one by one.

    starts, ends: where each begins, and before which place it ends.
    """
    harsh = text < ord(" ")
    harsh |= text == ord('"')
    harsh |= text == ord("\\")
    borders = np.stack((starts, np.maximum(starts, ends)), axis=1).ravel()
    plain: Flags = ~np.logical_or.reduceat(harsh, borders)[::2]
    return plain

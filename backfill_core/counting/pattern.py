"""The engine of the standard library: one compiled pattern that recognises whole lines as writers emit them."""

from __future__ import annotations

import re
from collections import namedtuple
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from backfill_core.counting.pieces import Piece


class Sum(namedtuple("Sum", ("lines", "orders", "amount", "rest"))):
    """What an engine says of a piece.

    lines: how many there are.
    orders, amount: of those lines that the engine vouches for; each is what the strict parser would make of it.
    rest: the other lines, each ended by a newline. An engine never says that a line is wrong.
    """

    __slots__ = ()
    lines: int
    orders: int
    amount: int
    rest: bytes


class Style(namedtuple("Style", ("space", "head", "middle", "paid", "refund"))):
    """How a writer spaces its lines: what stands before order_id, then before the amount, then after it.

    space: what follows each separator.
    """

    __slots__ = ()
    space: str
    head: bytes
    middle: bytes
    paid: bytes
    refund: bytes


STYLES = tuple(
    Style(
        space=space,
        head=f'{{"order_id":{space}"'.encode(),
        middle=f'",{space}"dt":{space}"YYYY-MM-DD",{space}"amount":{space}'.encode(),
        paid=f',{space}"status":{space}"paid"}}'.encode(),
        refund=f',{space}"status":{space}"refund"}}'.encode(),
    )
    for space in (" ", "")
)
"""The two styles of `json.dumps`, with spaces after separators and without; the date is that of a partition."""


def style_of(piece: Piece, dt: str) -> Style | None:
    """Return the style that the first line is written in, None for any other."""
    for style in STYLES:
        if piece.buffer.startswith(style.head, piece.begin):
            return style._replace(middle=style.middle.replace(b"YYYY-MM-DD", dt.encode()))
    return None


class PatternEngine:
    """Recognises lines with one regular expression; see `add_up`."""

    size = 1 << 18
    """How many bytes it likes to be given at once."""

    def add_up(self, piece: Piece, dt: str) -> Sum:
        """Add up the lines that are spelled like the first: the four fields in the usual order, order_id unescaped."""
        style = style_of(piece, dt)
        text = piece.view()
        if style is None or not is_utf8(text):
            return Sum(piece.buffer.count(b"\n", piece.begin, piece.end), 0, 0, bytes(text))
        amounts = _pattern(style.space).findall(text)  # one for each line
        matches, rest = len(amounts), b""
        try:
            amount = sum(map(int, amounts))
        except ValueError:  # an empty one, of a line that is not recognised
            rest = b"".join(line + b"\n" for line, found in zip(piece.lines(), amounts, strict=True) if not found)
            recognised = list(filter(None, amounts))
            matches, amount = len(recognised), sum(map(int, recognised))
        if piece.buffer.count(style.middle, piece.begin, piece.end) - rest.count(style.middle) != matches:
            return Sum(len(amounts), 0, 0, bytes(text))
        return Sum(len(amounts), matches, amount, rest)


@lru_cache(maxsize=4)
def _pattern(space: str) -> re.Pattern[bytes]:
    """Compile the pattern of one style, for any date: it matches every line, and has the amount of those it recognises.

    Of the middle it takes the length alone, which is sooner done than to compare it. If the text has a middle for each
    line that matches, each has its own, and in its place: it can't begin before, as an order_id ends at the first quote
    and a comma follows, nor after, as no digit of a middle stands before a comma.
    """
    [style] = (style for style in STYLES if style.space == space)
    order_id = rb"[ !#-\[\]-\xff]*"  # no control character, quote or backslash
    rest_of_middle = b".{%d}" % (len(style.middle) - len(b'",'))
    number = b"[1-9][0-9]{0,17}"  # up to 18 digits are within 64 bits
    is_paid = b"(?=.{%d}p)" % style.paid.index(b"paid")
    amount = b"(%b%b|-%b|0%b)" % (number, is_paid, number, is_paid)
    tail = re.escape(style.paid).replace(b"paid", b"(?:paid|refund)")
    line = re.escape(style.head) + order_id + b'",' + rest_of_middle + amount + tail
    return re.compile(b"(?:" + line + rb"\r?\n|.*\n)")


def is_utf8(text: memoryview) -> bool:
    """Whether the bytes are UTF-8 as Python reads it."""
    try:
        str(text, "utf-8")
    except UnicodeDecodeError:
        return False
    return True

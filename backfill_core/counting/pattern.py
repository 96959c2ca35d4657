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


@lru_cache(maxsize=4)
def styles(dt: str) -> tuple[Style, ...]:
    """Return the two styles of `json.dumps` for one partition: with spaces after separators, and without."""
    return tuple(
        Style(
            space=space,
            head=f'{{"order_id":{space}"'.encode(),
            middle=f'",{space}"dt":{space}"{dt}",{space}"amount":{space}'.encode(),
            paid=f',{space}"status":{space}"paid"}}'.encode(),
            refund=f',{space}"status":{space}"refund"}}'.encode(),
        )
        for space in (" ", "")
    )


def style_of(piece: Piece, dt: str) -> Style | None:
    """Return the style that the first line is written in, None for any other."""
    return next((style for style in styles(dt) if piece.buffer.startswith(style.head, piece.begin)), None)


class PatternEngine:
    """Recognises lines with one regular expression; see `add_up`."""

    size = 1 << 18
    """How many bytes it likes to be given at once."""

    def add_up(self, piece: Piece, dt: str) -> Sum:
        """Add up the lines that are spelled like the first: the four fields in the usual order, order_id unescaped."""
        lines = piece.buffer.count(b"\n", piece.begin, piece.end)
        style = style_of(piece, dt)
        text = piece.view()
        if style is None or not is_utf8(text):
            return Sum(lines, 0, 0, bytes(text))
        pattern = _pattern(style.space)
        amounts = pattern.findall(text)
        rest = b"" if len(amounts) == lines else pattern.sub(b"", text)  # each match is one whole line
        # A line that matches has one middle at most: so these are all of this partition, or not.
        of_date = piece.buffer.count(style.middle, piece.begin, piece.end) - rest.count(style.middle)
        if of_date != len(amounts):
            return Sum(lines, 0, 0, bytes(text))
        return Sum(lines, len(amounts), sum(map(int, amounts)), rest)


@lru_cache(maxsize=4)
def _pattern(space: str) -> re.Pattern[bytes]:
    """Compile the pattern of one style. It takes any date: to compile one for each would cost as much as many lines."""
    style = next(style for style in styles("DATE") if style.space == space)
    head, middle, paid, refund = map(re.escape, style[1:])
    order_id = rb'[^"\\\x00-\x1f]*'
    return re.compile(
        rb"(?m)^" + head + order_id + middle.replace(b"DATE", rb"[0-9-]{10}") + rb"("
        rb"-?(?:0|[1-9][0-9]{0,17})(?=" + paid + rb"\r?\n)|"  # up to 18 digits are within 64 bits; most are paid
        rb"-[1-9][0-9]{0,17}(?=" + refund + rb"\r?\n)"
        rb").*\n"
    )


def is_utf8(text: memoryview) -> bool:
    """Whether the bytes are UTF-8 as Python reads it."""
    try:
        str(text, "utf-8")
    except UnicodeDecodeError:
        return False
    return True

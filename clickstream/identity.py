"""Ids that say nothing: an event of a world, counted from its first, always has the same UUID, and any would do."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK = 256
_DIGITS = [*range(8), *range(9, 13), *range(14, 18), *range(19, 23), *range(24, 36)]
"""Where in a UUID of version 4 its hexadecimal digits are."""
VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))
"""What stands in a UUID where a random digit would: its variant."""

_TO_VARIANT = bytes.maketrans(b"0123456789abcdef", b"89ab" * 4)


def uuids(seed: int, what: str, number: int) -> Iterator[str]:
    """Return the UUIDs of things of a kind, from that of the one with this number (from 0) on."""
    block, begin = divmod(number, _BLOCK)
    while True:
        yield from _block(seed, what, block)[begin:]
        block, begin = block + 1, 0


def _block(seed: int, what: str, block: int) -> list[str]:
    """Spell a block of UUIDs, all of them digit by digit: one by one takes five times as long."""
    random = Random(f"{seed}/{what}/{block}")  # noqa: S311 - it must be repeatable
    digits = random.randbytes(16 * _BLOCK).hex().encode()
    text = bytearray(b"-" * 36 + b"\n") * _BLOCK
    for at, position in enumerate(_DIGITS):
        text[position::37] = digits[at::32]
    text[14::37] = b"4" * _BLOCK
    text[19::37] = digits[16::32].translate(_TO_VARIANT)
    return text.decode().split()

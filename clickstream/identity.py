"""Ids that say nothing: an event of a world, counted from its first, always has the same UUID, and any would do."""

from __future__ import annotations

from random import Random

_BLOCK = 256
_TO_VARIANT = bytes.maketrans(b"0123456789abcdef", b"89ab" * 4)

_WIDTH = 40
_GROUPS = ((0, 0), (1, 4), (2, 9), (3, 14), (4, 19), (5, 24), (6, 28), (7, 32))
"""Where each four digits of a UUID go in a line of _WIDTH bytes."""


class Uuids:
    """The UUIDs of things of a kind, one after the other, from that of the one with this number (from 0) on."""

    def __init__(self, seed: int, what: str, number: int) -> None:
        self._begin = f"{seed}/{what}/"
        self._next_block, begin = divmod(number, _BLOCK)
        self._ready: list[str] = []
        if begin:
            self.take(begin)

    def take(self, count: int) -> list[str]:
        """Return the next ones."""
        missing = count - len(self._ready)
        if missing > 0:
            blocks = -(-missing // _BLOCK)
            for number in range(self._next_block, self._next_block + blocks):
                random = Random(f"{self._begin}{number}")  # noqa: S311 - it must be repeatable
                self._ready += spelt(random.randbytes(16 * _BLOCK))
            self._next_block += blocks
        taken = self._ready[:count]
        del self._ready[:count]
        return taken


def spelt(random: bytes) -> list[str]:
    """Spell UUIDs of version 4, of 16 random bytes each, four digits of all at once: one by one takes far longer."""
    digits = bytearray(random.hex(), "ascii")
    number = len(random) // 16
    digits[12::32] = b"4" * number
    digits[16::32] = digits[16::32].translate(_TO_VARIANT)
    text = bytearray(b"        -    -    -    -                " * number)
    fours = memoryview(digits).cast("I")
    for group, position in _GROUPS:
        begin = position % 4
        end = len(text) - (-begin % 4)
        memoryview(text)[begin:end].cast("I")[position // 4 :: _WIDTH // 4] = fours[group::8]
    return text.decode().split()

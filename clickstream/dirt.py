"""What real streams have: records that are late, repeated or broken, and clocks that are wrong.

A world with dirt is the same world (its events have other ids), with some of its records spoiled on their way. What
happens to a record follows from its visit's id, so it is the same however a history is divided. A record keeps its id
whatever happens to it.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from clickstream.instant import DAY, HOUR, MINUTE, Instant, spell_in_record

if TYPE_CHECKING:
    from collections.abc import Callable

MOST = 1000
"""The greatest share of dirt, of 1,000."""

_STAMP = slice(70, 96)
"""Where a browser record has its timestamp."""

_SHORTEST_DELAY = 6 * MINUTE
_LONGEST_DELAY = 2 * DAY
_YEAR = 365 * DAY


class Fate(NamedTuple):
    """What becomes of a visit: from which event on its records are late, and by how much; and how wrong its clock is.

    Nothing is late where `delay` is 0. `clock` is 0 for right, or a function of the time.
    """

    late_from: int
    delay: int
    clock: Callable[[int], int] | None


class Dirt:
    """The dirt of a world: so many of 1,000 events, and of 1,000 visits, have something wrong with them."""

    def __init__(self, seed: int, share: int) -> None:
        self._hash = blake2b(f"{seed}/dirt/".encode(), digest_size=16)
        self._share = share * 2**32 // 1000

    def fate(self, click_id: str) -> Fate:
        """Return what becomes of a visit: a quarter of the share is late, a quarter has a wrong clock."""
        chance, bits, more = self._drawn(click_id)
        if chance >= self._share // 2:
            return Fate(0, 0, None)
        if chance < self._share // 4:
            return Fate(bits & 3, _SHORTEST_DELAY + more % (_LONGEST_DELAY - _SHORTEST_DELAY), None)
        return Fate(0, 0, _CLOCKS[bits & 7])

    def events(self, click_id: str, sequence: int, at: int, lines: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
        """Return what is published of an event that happens `at` an instant, as the clock of its visit has it.

        lines: its browser and its location record, each with its newline.
        """
        browser, location = lines
        browser = browser[: _STAMP.start] + spell_in_record(Instant(at)).encode() + browser[_STAMP.stop :]
        chance, bits, more = self._drawn(f"{click_id}/{sequence}")
        if chance >= self._share // 2:
            return browser, location
        match bits & 7:
            case 0 | 1:
                return browser * 2, location * 2
            case 2:
                return browser * 2, location
            case 3:
                return browser, location * 2
            case 4 | 5:
                return _broken(browser, _BROKEN_BROWSER, more), location
            case _:
                return browser, _broken(location, _BROKEN_LOCATION, more)

    def birth(self, click_id: str, device: bytes, geo: bytes) -> tuple[bytes, bytes]:
        """Return what is published of a visit's birth: of the same lines, sometimes one broken."""
        chance, bits, more = self._drawn(f"{click_id}/birth")
        if chance >= self._share // 2:
            return device, geo
        if bits & 1:
            return _broken(device, _BROKEN_DEVICE, more), geo
        return device, _broken(geo, _BROKEN_GEO, more)

    def _drawn(self, what: str) -> tuple[int, int, int]:
        """Return three random numbers, of 32, 32 and 64 bits, that are always the same for a thing."""
        hashed = self._hash.copy()
        hashed.update(what.encode())
        digits = hashed.digest()
        return (
            int.from_bytes(digits[:4], "big"),
            int.from_bytes(digits[4:8], "big"),
            int.from_bytes(digits[8:], "big"),
        )


_CLOCKS: tuple[Callable[[int], int], ...] = (
    *(lambda at, hours=hours: at + hours * HOUR for hours in (-8, -3, 1, 2, 9)),
    lambda at: at + DAY,
    lambda at: at - _YEAR,
    lambda at: at % DAY,  # 1970: the battery was empty
)

_BROKEN_BROWSER = (
    (b'"event_timestamp":"', b'"event_timestamp":"on '),
    (b'"event_type":"', b'"event_kind":"'),
    (b'"click_id":"', b'"click_id":"click-'),
    (b'"browser_name":"', b'"browser_name":null,"name":"'),
)
_BROKEN_LOCATION = (
    (b'"page_url":"', b'"url":"'),
    (b'"page_url_path":"', b'"page_url_path":404,"path":"'),
    (b'"utm_source":"', b'"utm_source":{},"source":"'),
)
_BROKEN_DEVICE = ((b'"device_is_mobile":', b'"device_is_mobile":"?","mobile":'), (b'"os_name":"', b'"os_version":"'))
_BROKEN_GEO = ((b'"geo_latitude":"', b'"geo_latitude":"N'), (b'"geo_longitude":"', b'"geo_longitude":"9999'))

_HEAD = 60
"""A record that is cut has at least so many bytes left, its id among them."""


def _broken(line: bytes, ways: tuple[tuple[bytes, bytes], ...], more: int) -> bytes:
    """Return a line that no longer says what it should: cut off, or with one field wrong."""
    way = more % (len(ways) + 1)
    if way == len(ways):
        return line[: _HEAD + (more >> 8) % (len(line) - _HEAD - 2)] + b"\n"
    return line.replace(*ways[way], 1)

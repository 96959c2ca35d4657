"""When the clocks of the time zone database were and will be changed."""

from __future__ import annotations

import zoneinfo
from datetime import datetime, timezone
from typing import Any

# What Python read in a zone's file it keeps to itself.
from zoneinfo import _zoneinfo  # type: ignore[attr-defined]


def changes(first: int, last: int) -> list[tuple[str, datetime]]:
    """Return [zone, instant] of every jump of a clock from the year `first` to `last`, inclusive, in any zone.

    Zones of several names, and those that jump at once from one offset to the same other, are there once.
    """
    jumps: dict[Any, str] = {}
    for name in sorted(zoneinfo.available_timezones()):
        for instant in transitions(name, first, last):
            before, after = (datetime.fromtimestamp(at, zoneinfo.ZoneInfo(name)) for at in (instant - 1, instant))
            if before.utcoffset() != after.utcoffset():
                jumps.setdefault((instant, before.utcoffset(), after.utcoffset()), name)
    return [(name, datetime.fromtimestamp(instant, timezone.utc)) for (instant, _, _), name in jumps.items()]


def transitions(zone: str, first: int, last: int) -> set[int]:
    """Return the transitions that the zone's file lists, and those by its rule for the years after them, in seconds."""
    own: Any = _zoneinfo.ZoneInfo.no_cache(zone)
    found, rule = set(own._trans_utc), own._tz_after
    if hasattr(rule, "transitions"):
        for year in range(first, last + 1):
            starts, ends = rule.transitions(year)  # each by the clock that it ends
            by_rule = {int(starts - rule.std.utcoff.total_seconds()), int(ends - rule.dst.utcoff.total_seconds())}
            found |= {instant for instant in by_rule if instant > max(own._trans_utc, default=0)}
    return {instant for instant in found if first <= datetime.fromtimestamp(instant, timezone.utc).year <= last}

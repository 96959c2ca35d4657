"""Model time: instants in whole microseconds since 1970-01-01T00:00:00Z, so that no float and no time zone gets in."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from typing import NewType

from clickstream.errors import UsageError

Instant = NewType("Instant", int)

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SPELLING = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2})(:\d{2})?(\.\d{1,6})?(?:[Zz]|([+-])(\d{2}):?(\d{2}))", re.ASCII
)

EARLIEST = Instant(0)
LATEST = Instant((date(2299, 12, 31) - date(1970, 1, 1)).days * DAY)
"""Histories stay within [EARLIEST, LATEST]: what the warehouse's DateTime64(6) can hold."""


def parse(text: str) -> Instant:
    """Read an instant such as `2024-02-29T12:00:00Z` or `2024-02-29T15:00+03:00`.

    Raises: UsageError when it is no instant, has no offset, or lies outside [EARLIEST, LATEST].
    """
    match = _SPELLING.fullmatch(text.strip())
    if not match:
        raise UsageError(f"{text!r} is not an instant with an offset; write it like 2024-02-29T12:00:00Z or …+03:00.")
    day, clock, seconds, fraction, sign, hours, minutes = match.groups()
    if fraction and not seconds:
        raise UsageError(f"{text!r} has a fraction but no seconds; write it like 2024-02-29T12:00:00.5Z.")
    micros = (fraction or ".")[1:].ljust(6, "0")
    try:
        local = datetime.fromisoformat(f"{day}T{clock}{seconds or ':00'}.{micros}+00:00")
        offset = timezone(timedelta(hours=int(hours or 0), minutes=int(minutes or 0)))
    except ValueError as error:
        raise UsageError(f"{text!r} is not an instant: {error}.") from None
    if int(minutes or 0) > 59:
        raise UsageError(f"{text!r} is not an instant: an offset has at most 59 minutes.")
    shift = offset.utcoffset(None) // timedelta(microseconds=1)
    instant = (local - _EPOCH) // timedelta(microseconds=1) - (shift if sign == "+" else -shift)
    if not EARLIEST <= instant <= LATEST:
        raise UsageError(f"{text!r} lies outside of {spell(EARLIEST)} … {spell(LATEST)}.")
    return Instant(instant)


def spell(instant: Instant) -> str:
    """Return an instant's one spelling in manifests and answers, `2024-02-29T12:00:00[.ffffff]Z`, for `parse`."""
    return (_EPOCH + timedelta(microseconds=instant)).isoformat().replace("+00:00", "Z")


def spell_minute(instant: Instant) -> str:
    """`YYYY-MM-DD HH:MM:` of the instant's minute, the beginning of a record's timestamp."""
    return (_EPOCH + timedelta(microseconds=instant)).isoformat(" ")[:17]


def spell_in_record(instant: Instant) -> str:
    """Return a record's timestamp, `YYYY-MM-DD HH:MM:SS.ffffff`; texts sort as the instants do."""
    return (_EPOCH + timedelta(microseconds=instant)).strftime("%Y-%m-%d %H:%M:%S.%f")

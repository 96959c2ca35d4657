"""Keys: which rows a partition has, as text, as a half-open window of time, and as values of a table's key column.

A key is text, `2026-02-01`. Its window is `[start, end)`, in the dataset's zone: a day has 23 hours or 25 where clocks
change. A day begins at its first instant; so no instant is in two days or in none, also where midnight comes twice or
not at all.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from backfill_core.errors import UsageError
from backfill_core.partition import DateRange, parse_date

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Value = date | datetime | str | int

GRAINS = ("day",)
KINDS = ("date", "text", "integer", "instant", "local")
_DAY = timedelta(days=1)
_LENGTHS = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2}
_ORDER = "YmdHMS"
_ZERO = {"Y": 1, "m": 1, "d": 1, "H": 0, "M": 0, "S": 0}


def parse_key(text: str, grain: str = "day") -> str:
    """Return the key as it is written, `2026-02-01`.

    Raises:
        UsageError: it is no key of that grain.
    """
    _check_grain(grain)
    return parse_date(text).isoformat()


def keys_between(first: str, last: str, grain: str = "day") -> list[str]:
    """Return the keys from `first` to `last`, inclusive, in order."""
    _check_grain(grain)
    return list(DateRange.parse(first, last))


def spans(keys: Iterable[str], grain: str = "day") -> list[tuple[str, ...]]:
    """Part keys into runs without a gap, in order."""
    found: list[list[str]] = []
    for key in sorted({parse_key(key, grain) for key in keys}):
        if found and following(found[-1][-1], grain) == key:
            found[-1].append(key)
        else:
            found.append([key])
    return [tuple(span) for span in found]


def following(key: str, grain: str = "day") -> str:
    """Return the key after this one."""
    _check_grain(grain)
    try:
        return (parse_date(key) + _DAY).isoformat()
    except OverflowError:
        raise UsageError(f"{key} is the last day of the calendar; it has no end") from None


def window(key: str, zone: str, grain: str = "day") -> tuple[datetime, datetime]:
    """Return the first instant of a key, and the first instant after it, as times of that zone.

    Raises:
        UsageError: there is no such zone, or the day was left out there.
    """
    place = find_zone(zone)
    start = _first_instant(parse_date(key), place)
    end = _first_instant(parse_date(following(key, grain)), place)
    if start >= end:
        raise UsageError(f"there was no {key} in {zone}: the calendar there left this day out")
    return start.astimezone(place), end.astimezone(place)


def find_zone(name: str) -> ZoneInfo:
    """Return the zone of that name.

    Raises:
        UsageError: there is none.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f"there is no time zone {name!r}; write a name such as Europe/Warsaw, or UTC") from None


def _first_instant(day: date, zone: ZoneInfo) -> datetime:
    """Return the first instant at which a clock of that zone shows this day or a later one, in UTC."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    try:
        # Of a midnight that comes twice the first; of one in a gap what it would have been without the change.
        upper = midnight.astimezone(timezone.utc)
        if upper.astimezone(zone).replace(tzinfo=None) == midnight.replace(tzinfo=None):
            return upper
        lower = midnight.replace(fold=1).astimezone(timezone.utc)
    except OverflowError:
        raise UsageError(f"{day} is at the end of the calendar; its instants can't be told") from None
    while upper - lower > timedelta(seconds=1):
        middle = lower + (upper - lower) // 2
        middle = middle.replace(microsecond=0)
        lower, upper = (lower, middle) if middle.astimezone(zone).date() >= day else (middle, upper)
    return upper


class Format:
    """How a key column writes a time: `%Y%m%d`, with other text between and around it.

    Raises:
        UsageError: it has something else than %Y, %m, %d, %H, %M, %S, or no day.
    """

    def __init__(self, text: str) -> None:
        pieces = re.split(r"%(.)", text)
        self._text = text
        self.directives = "".join(pieces[1::2])
        if not set(self.directives) <= set(_LENGTHS) or "%" in "".join(pieces[::2]):
            raise UsageError(f"the format {text!r} can't be used; write it with %Y, %m, %d, %H, %M and %S")
        if not {"Y", "m", "d"} <= set(self.directives) or len(set(self.directives)) < len(self.directives):
            raise UsageError(f"the format {text!r} names no day; it needs each of %Y, %m and %d once")
        self._literals = pieces[::2]
        self._patterns = {False: re.compile(self._pattern("")), True: re.compile(self._pattern(r"(?:\.[0-9]+)?"))}

    @property
    def sorts(self) -> bool:
        """Whether what it writes is in the order of time."""
        return _ORDER.startswith(self.directives)

    def write(self, time: date, *, bound: bool = False) -> str:
        """Write a day or a time; as a bound without what follows the last of its digits.

        The bound `…00:00:00` is before `…00:00:00.5Z` and not after `…00:00:00Z`, which the whole text isn't.
        """
        values = (f"{getattr(time, _ATTRIBUTES[one], 0):0{_LENGTHS[one]}}" for one in self.directives)
        pairs = zip(self._literals, values, strict=False)
        return "".join(literal + value for literal, value in pairs) + ("" if bound else self._literals[-1])

    def read_day(self, text: str, *, fraction: bool = False) -> date | None:
        """Return the day that a text names, None if it is not written so; seconds may have a fraction if so asked."""
        found = self._patterns[fraction].fullmatch(text)
        if found is None:
            return None
        values = dict(zip(self.directives, map(int, found.groups()), strict=True))
        try:
            time = datetime(*(values.get(one, default) for one, default in _ZERO.items()))  # type: ignore[arg-type]  # noqa: DTZ001
        except ValueError:
            return None
        return time.date()

    def _pattern(self, fraction: str) -> str:
        digits = [f"([0-9]{{{_LENGTHS[one]}}})" for one in self.directives]
        literals = [re.escape(literal) for literal in self._literals]
        middle = "".join(literal + digit for literal, digit in zip(literals, digits, strict=False))
        return f"{middle}{fraction}{literals[-1]}"

    def __repr__(self) -> str:
        return f"Format({self._text!r})"


_ATTRIBUTES = {"Y": "year", "m": "month", "d": "day", "H": "hour", "M": "minute", "S": "second"}


class Bounds(NamedTuple):
    """A span of keys as values of the key column: `start` and `end`, half-open; None where values don't sort."""

    start: Value | None
    end: Value | None


class KeyColumn:
    """A key column, by its kind, and what values of it belong to a key.

    name: of the column.
    kind: `date`; `text` or `integer`, with a format; `instant`; `local`, a time without a zone.
    written: the format, how text, an integer, or an instant or local time that a database keeps as text is written.
    zone: of a local time; that of the dataset by default.
    timezone: of the dataset.

    Raises:
        UsageError: there is no such kind, or the format is missing or can't be used.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        timezone: str,
        *,
        written: str | None = None,
        zone: str | None = None,
        grain: str = "day",
    ) -> None:
        _check_grain(grain)
        if kind not in KINDS:
            raise UsageError(f"the key column {name} is of the kind {kind!r}; the kinds are {', '.join(KINDS)}")
        if kind in ("text", "integer") and not written:
            raise UsageError(f"the key column {name} is {kind}: say its format, such as format='%Y%m%d'")
        if zone and kind != "local":
            raise UsageError(f"only a local time has a zone of its own; the key column {name} is of the kind {kind}")
        self.name, self.kind, self.timezone, self.grain = name, kind, timezone, grain
        self.format = Format(written) if written else None
        if kind == "integer" and written and not re.fullmatch(r"(%[YmdHMS])+", written):
            raise UsageError(f"the format {written!r} doesn't write an integer; write it without other characters")
        self.zone = zone or timezone
        find_zone(self.zone)
        find_zone(timezone)

    @property
    def has_one_value(self) -> bool:
        """Whether a key is one value of the column; else it is a window of them."""
        return self.kind in ("date", "text", "integer")

    def value(self, key: str) -> Value:
        """Return `:key`: the column's value where a key has one, else the day."""
        day = parse_date(key)
        if self.kind == "text":
            return _needed(self.format).write(day)
        return int(_needed(self.format).write(day)) if self.kind == "integer" else day

    def bounds(self, span: Sequence[str]) -> Bounds:
        """Return `:start` and `:end` of a span without gaps, in the column's kind."""
        if self.kind in ("text", "integer") and not _needed(self.format).sorts:
            return Bounds(None, None)
        if self.has_one_value:
            return Bounds(self.value(span[0]), self.value(following(span[-1], self.grain)))
        start, end = window(span[0], self.timezone, self.grain)[0], window(span[-1], self.timezone, self.grain)[1]
        if self.kind == "instant":
            return Bounds(start, end)
        if self.zone == self.timezone:
            return Bounds(_midnight(span[0]), _midnight(following(span[-1], self.grain)))
        return Bounds(self._on_the_clock(start), self._on_the_clock(end))

    def _on_the_clock(self, instant: datetime) -> datetime:
        """Return what a clock of the column's zone shows; refused where that doesn't part before from after."""
        zone = find_zone(self.zone)
        shown = instant.astimezone(zone)
        before = (shown.replace(tzinfo=None) - timedelta(seconds=1)).replace(tzinfo=zone)
        if _comes_twice(shown) and (shown.fold or _comes_twice(before)):
            raise UsageError(
                f"a day of {self.timezone} begins or ends at {shown:%Y-%m-%d %H:%M} in {self.zone}, an hour that comes"
                f" twice there, so the times of {self.name} don't say which day they are of; keep instants, with a zone"
            )
        return shown.replace(tzinfo=None)


def _comes_twice(time: datetime) -> bool:
    return time.replace(fold=0).utcoffset() != time.replace(fold=1).utcoffset()


def _midnight(key: str) -> datetime:
    day = parse_date(key)
    return datetime(day.year, day.month, day.day)  # noqa: DTZ001  a local time has no zone


def _needed(found: Format | None) -> Format:
    assert found is not None  # noqa: S101  the constructor saw to it
    return found


def _check_grain(grain: str) -> None:
    if grain not in GRAINS:
        raise UsageError(f"there is no grain {grain!r} yet; the grain is day")

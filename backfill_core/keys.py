"""Keys: which rows a partition has, as text, as a half-open window of time, and as values of a table's key column.

A key is text. By the dataset's grain it is a day, `2026-02-01`; one of a list of values, `PL`, or `all`: a table.

The window of a day is `[start, end)`, in the dataset's zone: it has 23 hours or 25 where clocks change. A day begins at
its first instant; so no instant is in two days or in none, also where midnight comes twice or not at all.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from backfill_core.errors import UsageError
from backfill_core.guard import fits_64_bits
from backfill_core.partition import DateRange, check_text, parse_date

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Value = date | datetime | str | int

DAY, LIST, NONE = "day", "list", "none"
GRAINS = (DAY, LIST, NONE)
WHOLE = "all"
"""The one key of a table that is published as a whole."""
KINDS = ("date", "text", "integer", "instant", "local")
_DAY = timedelta(days=1)
_LENGTHS = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2}
_ORDER = "YmdHMS"
_ZERO = {"Y": 1, "m": 1, "d": 1, "H": 0, "M": 0, "S": 0}


def parse_key(text: str) -> str:
    """Return the key of a day as it is written, `2026-02-01`.

    Raises:
        UsageError: it is no such key.
    """
    return parse_date(text).isoformat()


def keys_between(first: str, last: str) -> list[str]:
    """Return the days from `first` to `last`, inclusive, in order."""
    return list(DateRange.parse(first, last))


def spans(keys: Iterable[str]) -> list[tuple[str, ...]]:
    """Part days into runs without a gap, in order."""
    found: list[list[str]] = []
    for key in sorted({parse_key(key) for key in keys}):
        if found and following(found[-1][-1]) == key:
            found[-1].append(key)
        else:
            found.append([key])
    return [tuple(span) for span in found]


def following(key: str) -> str:
    """Return the day after this one."""
    try:
        return (parse_date(key) + _DAY).isoformat()
    except OverflowError:
        raise UsageError(f"{key} is the last day of the calendar; it has no end") from None


def window(key: str, zone: str) -> tuple[datetime, datetime]:
    """Return the first instant of a day, and the first instant after it, as times of that zone.

    Raises:
        UsageError: there is no such zone, or the day was left out there.
    """
    place = find_zone(zone)
    start = _first_instant(parse_date(key), place)
    end = _first_instant(parse_date(following(key)), place)
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
    """A key column of days, by its kind, and what values of it belong to a key.

    name: of the column.
    kind: `date`; `text` or `integer`, with a format; `instant`; `local`, a time without a zone.
    written: the format, how text, an integer, or an instant or local time that a database keeps as text is written.
    zone: of a local time; that of the dataset by default.
    timezone: of the dataset.

    Raises:
        UsageError: there is no such kind, or the format is missing or can't be used.
    """

    grain = DAY
    values: Mapping[str, str | int] = {}
    """Of a list: by key the value of the column."""

    def __init__(
        self, name: str, kind: str, timezone: str, *, written: str | None = None, zone: str | None = None
    ) -> None:
        if kind not in KINDS:
            raise UsageError(f"the key column {name} is of the kind {kind!r}; the kinds are {', '.join(KINDS)}")
        if kind in ("text", "integer") and not written:
            raise UsageError(f"the key column {name} is {kind}: say its format, such as format='%Y%m%d'")
        if zone and kind != "local":
            raise UsageError(f"only a local time has a zone of its own; the key column {name} is of the kind {kind}")
        self.name, self.kind, self.timezone = name, kind, timezone
        self.format = Format(written) if written else None
        if kind == "integer" and written and not re.fullmatch(r"(%[YmdHMS])+", written):
            raise UsageError(f"the format {written!r} doesn't write an integer; write it without other characters")
        self.zone = zone or timezone
        find_zone(self.zone)
        find_zone(timezone)

    @property
    def has_days(self) -> bool:
        """Whether the keys are days, with a window of time, and in its order."""
        return self.grain == DAY

    @property
    def has_one_value(self) -> bool:
        """Whether a key is one value of the column; else it is a window of them."""
        return self.kind in ("date", "text", "integer")

    @property
    def why_no_bounds(self) -> str:
        """Why `:start` and `:end` can't be told, where `bounds` has none, and what to do."""
        return f"texts of the format of {self.name} don't sort as days do; use :key"

    def parse(self, text: str) -> str:
        """Return a key as it is written.

        Raises:
            UsageError: there is no such key.
        """
        return parse_key(text)

    def between(self, first: str, last: str) -> list[str]:
        """Return the keys from `first` to `last`, inclusive, in order.

        Raises:
            UsageError: they are no such keys, or have no order.
        """
        return keys_between(first, last)

    def has(self, text: str) -> bool:
        """Return whether a value, as text, is of any key; of a column without a format that isn't told so."""
        return self.format is None or self.format.read_day(text) is not None

    def spans(self, keys: Iterable[str]) -> list[tuple[str, ...]]:
        """Part keys into what one query can be bound to: days without a gap, else each key for itself; in order."""
        return spans(keys)

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
            return Bounds(self.value(span[0]), self.value(following(span[-1])))
        start, end = window(span[0], self.timezone)[0], window(span[-1], self.timezone)[1]
        if self.kind == "instant":
            return Bounds(start, end)
        if self.zone == self.timezone:
            return Bounds(_midnight(span[0]), _midnight(following(span[-1])))
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


class ListedKeys(KeyColumn):
    """A key column of which each declared value is a partition. A row with any other value belongs to no key.

    Raises:
        UsageError: a value is there twice, is no text or integer, or is a text that can't be a key.
    """

    grain = LIST

    def __init__(self, name: str, values: Sequence[str | int], timezone: str) -> None:
        if isinstance(values, str) or not values:
            raise UsageError(f"the values of the key column {name} are a list of texts or of integers, at least one")
        kinds = {type(value) for value in values}
        if kinds not in ({str}, {int}):
            raise UsageError(f"the values of the key column {name} are {values!r}; write all as texts, or as integers")
        super().__init__(name, "date", timezone)
        self.kind = "text" if kinds == {str} else "integer"
        self.values = {str(value): value for value in values}
        if len(self.values) < len(values):
            twice = next(value for value in values if list(values).count(value) > 1)
            raise UsageError(f"the key column {name} has the value {twice!r} twice; name each once")
        for value in values:
            if isinstance(value, str):
                check_text(f"value of the key column {name}", value)
            elif not fits_64_bits(value + 1):
                raise UsageError(f"the key column {name} has the value {value}; a database keeps no such integer")

    @property
    def has_one_value(self) -> bool:
        """Whether a key is one value of the column: it is."""
        return True

    @property
    def why_no_bounds(self) -> str:
        """Why there are no bounds."""
        return f"its keys are values of {self.name}, which have no start and no end; use :key"

    def parse(self, text: str) -> str:
        """Return a key of the list."""
        if text not in self.values:
            raise UsageError(f"there is no key {text!r}: the list of {self.name} has {_some(list(self.values))}")
        return text

    def between(self, first: str, last: str) -> list[str]:
        """Return the key, if both are the same; a list has no order."""
        if first != last:
            raise UsageError(f"{first!r} to {last!r}: keys of a list have no order; name each of them")
        return [self.parse(first)]

    def has(self, text: str) -> bool:
        """Return whether a value is in the list."""
        return text in self.values

    def spans(self, keys: Iterable[str]) -> list[tuple[str, ...]]:
        """Return each key for itself, in order."""
        return [(key,) for key in sorted(set(keys))]

    def value(self, key: str) -> Value:
        """Return `:key`, the column's value; also of a key that has left the list."""
        return int(key) if self.kind == "integer" else key

    def bounds(self, span: Sequence[str]) -> Bounds:  # noqa: ARG002
        """Return none."""
        return Bounds(None, None)


class WholeTable(KeyColumn):
    """No key column: the table is one partition, and all of its rows belong to the key `all`."""

    grain = NONE

    def __init__(self, timezone: str) -> None:
        super().__init__("", "date", timezone)
        self.kind = "none"

    @property
    def has_one_value(self) -> bool:
        """Whether a key is one value of a column: there is none."""
        return False

    @property
    def why_no_bounds(self) -> str:
        """Why there are no bounds."""
        return "the whole table is one partition, which has no start and no end; leave them out"

    def parse(self, text: str) -> str:
        """Return the one key."""
        if text != WHOLE:
            raise UsageError(f"there is no key {text!r}: the whole table is one partition, {WHOLE!r}")
        return text

    def between(self, first: str, last: str) -> list[str]:
        """Return the one key."""
        return sorted({self.parse(first), self.parse(last)})

    def spans(self, keys: Iterable[str]) -> list[tuple[str, ...]]:
        """Return the one key, if it is there."""
        return [(key,) for key in sorted(set(keys))]

    def value(self, key: str) -> Value:
        """Return `:key`, the text `all`."""
        return key

    def bounds(self, span: Sequence[str]) -> Bounds:  # noqa: ARG002
        """Return none."""
        return Bounds(None, None)


def _some(keys: Sequence[str], most: int = 10) -> str:
    more = f" and {len(keys) - most} more" if len(keys) > most else ""
    return f"{', '.join(keys[:most])}{more}"


def _comes_twice(time: datetime) -> bool:
    return time.replace(fold=0).utcoffset() != time.replace(fold=1).utcoffset()


def _midnight(key: str) -> datetime:
    day = parse_date(key)
    return datetime(day.year, day.month, day.day)  # noqa: DTZ001  a local time has no zone


def _needed(found: Format | None) -> Format:
    assert found is not None  # noqa: S101  the constructor saw to it
    return found

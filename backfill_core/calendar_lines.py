"""Partitions as a calendar of plain characters: what needs a person, years of days, and how many there are of each.

A month is a line, two years stand side by side in 80 columns. Each state has a shape of its own, so that nothing hangs
on colour. Keys that are no days are listed in spans.
"""

from __future__ import annotations

from collections import Counter
from datetime import date
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from backfill_core.errors import UsageError
from backfill_core.partition import parse_date
from backfill_core.states import STATES, TO_LOOK_AT
from backfill_core.terminal import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from backfill_core.states import State
    from backfill_core.terminal import Screen

SHAPES: dict[State, str] = {
    "drifted": "!",
    "failed": "X",
    "held": "=",
    "corrected": "*",
    "sealed": "#",
    "late": ">",
    "published": "o",
    "missing": ".",
}
COLOURS: dict[State, str] = {
    "drifted": "1;31",
    "failed": "31",
    "held": "33",
    "corrected": "35",
    "sealed": "36",
    "late": "1;33",
    "published": "32",
    "missing": "2",
}
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

LISTED = 31
"""Up to how many partitions are told one by one beneath the calendar, without being asked to."""
MOST_SPANS = 5
"""How many spans of a state are listed to look at; the newest ones."""
YEAR = 33
"""The columns of a year: 31 days, with a space after the tenth and the twentieth."""
MARGIN, GAP = 5, 3
"""The columns before the first year, and those between two."""


class Spot(NamedTuple):
    """A partition to draw. note: why it is so, in words."""

    key: str
    state: State
    note: str = ""


class Span(NamedTuple):
    """Partitions one after the other that are in the same state for the same reason."""

    first: str
    last: str
    state: State
    note: str
    number: int

    @property
    def keys(self) -> str:
        """The first and the last, or the only one."""
        return self.first if self.first == self.last else f"{self.first} to {self.last}"


def overview(spots: Iterable[Spot], bounds: tuple[str, str], screen: Screen) -> list[str]:
    """Draw partitions, in key order: first what a person should look at, at the end how many there are of each.

    bounds: the first and the last key to draw, also where nothing is known of them; empty for those that are known.
    """
    known = [spot for spot in spots if spot.state != "missing"]
    if not (known or bounds[0]):
        return ["nothing was published yet"]
    try:
        days = {parse_date(spot.key): spot for spot in known}
        first = parse_date(bounds[0]) if bounds[0] else min(days)
        last = parse_date(bounds[1]) if bounds[1] else max(days)
    except UsageError:  # keys that are no days
        return _listed(known, screen)
    days = {day: spot for day, spot in days.items() if first <= day <= last}
    spans = _spans_of_days(days, first, last)
    counts = Counter(spot.state for spot in days.values())
    counts["missing"] = (last - first).days + 1 - len(days)
    drawn = _calendar({day: spot.state for day, spot in days.items()}, first, last, screen)
    return [*_to_look_at(spans, screen), *drawn, *_legend(counts, screen)]


def listed(spots: Iterable[Spot], keys: Iterable[str], screen: Screen) -> list[str]:
    """List partitions that are no days, in spans; of `keys` those that nothing is known of are missing."""
    missing = {key: Spot(key, "missing") for key in keys}
    found = {**missing, **{spot.key: spot for spot in spots}}
    return _listed([found[key] for key in sorted(found)], screen)


def _listed(spots: Sequence[Spot], screen: Screen) -> list[str]:
    """List partitions in spans; whether one is missing between them isn't told."""
    if not spots:
        return ["nothing was published there yet"]
    spans = _spans(enumerate(spots))
    rows = [(_mark(span.state), span.keys, str(span.number), span.note) for span in spans]
    counts = Counter(spot.state for spot in spots)
    return [*_painted(table(("state", "partitions", "number", "why"), rows), screen), "", *_legend(counts, screen)]


# spans


def _spans(spots: Iterable[tuple[int, Spot]]) -> list[Span]:
    """Put together what is alike and has numbers one after the other."""
    found: list[Span] = []
    expected = 0
    for number, spot in spots:
        before = found[-1] if found else None
        if before and number == expected and (before.state, before.note) == (spot.state, spot.note):
            found[-1] = before._replace(last=spot.key, number=before.number + 1)
        else:
            found.append(Span(spot.key, spot.key, spot.state, spot.note, 1))
        expected = number + 1
    return found


def _spans_of_days(days: Mapping[date, Spot], first: date, last: date) -> list[Span]:
    """Return the spans of these days, and those between them of which nothing is known, in order."""
    found, expected = [], first.toordinal()
    for span in _spans((day.toordinal(), spot) for day, spot in days.items()):
        start = parse_date(span.first).toordinal()
        if start > expected:
            found.append(_missing(expected, start))
        found.append(span)
        expected = start + span.number
    if expected <= last.toordinal():
        found.append(_missing(expected, last.toordinal() + 1))
    return found


def _missing(start: int, end: int) -> Span:
    return Span(date.fromordinal(start).isoformat(), date.fromordinal(end - 1).isoformat(), "missing", "", end - start)


def _to_look_at(spans: Sequence[Span], screen: Screen) -> list[str]:
    rows: list[tuple[str, ...]] = []
    for state in TO_LOOK_AT:
        of_state = [span for span in spans if span.state == state]
        newest = of_state[-MOST_SPANS:]
        rows += [(_mark(state), span.keys, str(span.number), span.note) for span in newest]
        if before := sum(span.number for span in of_state[:-MOST_SPANS]):
            rows.append((_mark(state), f"and before {newest[0].first}", str(before)))
    return [*_painted(table(("to look at", "partitions", "number", "why"), rows), screen), ""] if rows else []


def _mark(state: State) -> str:
    return f"{SHAPES[state]} {state}"


# the calendar


def _calendar(days: Mapping[date, State], first: date, last: date, screen: Screen) -> list[str]:
    beside = max(1, (screen.width - MARGIN + GAP) // (YEAR + GAP))
    busy = {day.year for day in days} or {first.year}
    lines: list[str] = []
    for empty, years in groupby(range(first.year, last.year + 1), lambda year: year not in busy):
        run = list(years)
        if empty:
            lines += [f"{run[0]:04}{f' to {run[-1]:04}' if run[1:] else ''}: nothing was published", ""]
        else:
            for at in range(0, len(run), beside):
                lines += [*_band(run[at : at + beside], days, first, last, screen), ""]
    return lines


def _band(years: Sequence[int], days: Mapping[date, State], first: date, last: date, screen: Screen) -> list[str]:
    """Draw years side by side, month by month, without months that are not asked for in any of them."""
    heads = [f"{year:04}       11         21".ljust(YEAR) for year in years]
    lines = [(" " * MARGIN + (" " * GAP).join(heads)).rstrip()]
    for month, name in enumerate(MONTHS, start=1):
        cells = [_month(year, month, days, first, last) for year in years]
        if any(any(cell) for cell in cells):
            lines.append(_line(name, cells, screen))
    return lines


def _month(year: int, month: int, days: Mapping[date, State], first: date, last: date) -> list[State | None]:
    """Return the states of a month's days, and nothing for days that are not asked for or not in the calendar."""
    found: list[State | None] = []
    for number in range(1, 32):
        try:
            day = date(year, month, number)
        except ValueError:
            found.append(None)
        else:
            found.append(days.get(day, "missing") if first <= day <= last else None)
    return found


def _line(name: str, cells: Sequence[Sequence[State | None]], screen: Screen) -> str:
    line: list[State | None] = []
    for cell in cells:
        line += [*cell[:10], None, *cell[10:20], None, *cell[20:], *[None] * GAP]
    while line and line[-1] is None:
        line.pop()
    runs = groupby(line)
    drawn = (
        " " * len(list(run)) if state is None else paint(SHAPES[state] * len(list(run)), state, screen)
        for state, run in runs
    )
    return name.ljust(MARGIN) + "".join(drawn)


def _legend(counts: Mapping[State, int], screen: Screen) -> list[str]:
    """Say what each shape that was drawn means, and how many there are."""
    lines: list[str] = []
    width = 0
    for state in reversed(STATES):
        if not counts.get(state):
            continue
        plain = f"{SHAPES[state]} {counts[state]} {state}"
        item = f"{paint(SHAPES[state], state, screen)} {counts[state]} {state}"
        if lines and width + 3 + len(plain) <= screen.width:
            lines[-1] += f"   {item}"
            width += 3 + len(plain)
        else:
            lines.append(item)
            width = len(plain)
    return lines


# colours


def paint(text: str, state: State, screen: Screen) -> str:
    """Return the text in the state's colour, where the screen has colours."""
    return f"\033[{COLOURS[state]}m{text}\033[0m" if screen.colour else text


def _painted(lines: Sequence[str], screen: Screen) -> list[str]:
    """Paint the marks that rows of a table begin with."""
    marks = {_mark(state): state for state in STATES}
    painted = []
    for line in lines:
        mark = next((mark for mark in marks if line.startswith(mark)), None)
        painted.append(line if mark is None else paint(mark, marks[mark], screen) + line[len(mark) :])
    return painted

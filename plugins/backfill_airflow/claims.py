"""Taking a range for a run and giving back what it took."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from backfill_core import DateRange, parse_date

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backfill_airflow.owner import Owner
    from backfill_core import Backfill
    from backfill_core.answers import ClaimAnswer


class Taken(NamedTuple):
    """What a run took of a range: the claim's answer, and the dates that it has to give back at its end."""

    answer: ClaimAnswer
    to_release: list[str]


def take(backfill: Backfill, dates: DateRange, owner: Owner) -> Taken:
    """Claim the range for this owner.

    Under the run's own name it gives back all it holds. Under a person's name it gives back only what was free
    before, so that a reservation outlives the runs that were let in under its name.
    """
    status = backfill.status(dates)["partitions"]
    held = {date["dt"] for date in status if date["claimed_by"] == owner.name}
    answer = backfill.claim(dates, owner.name)
    return Taken(answer, [dt for dt in answer["claimed"] if not (owner.personal and dt in held)])


def held_by_others(backfill: Backfill, dates: DateRange, owner: str | None) -> list[list[str]]:
    """Return [date, holder] of each date of the range that somebody other than this owner holds."""
    return [
        [date["dt"], date["claimed_by"]]
        for date in backfill.status(dates)["partitions"]
        if date["claimed_by"] not in (None, owner)
    ]


def give_back(backfill: Backfill, dts: Iterable[str], owner: str) -> list[str]:
    """Free those of the dates, given in order, that this owner still holds; return them."""
    return [dt for span in spans(dts) for dt in backfill.release(span, owner)["released"]]


@contextmanager
def taking(backfill: Backfill, dates: DateRange, owner: Owner, *, keep: bool = False) -> Iterator[None]:
    """Hold what is free of the range while the block runs, and give it back in any case.

    keep: leave the claims to whoever gives back the whole range later.
    """
    taken = take(backfill, dates, owner)
    try:
        yield
    finally:
        if not keep:
            give_back(backfill, taken.to_release, owner.name)


def spans(dts: Iterable[str]) -> Iterator[DateRange]:
    """Yield the ranges without a gap that the dates, given in order, make up."""
    days = [parse_date(dt) for dt in dts]
    for _, group in groupby(enumerate(days), lambda numbered: numbered[1].toordinal() - numbered[0]):
        span = [day for _, day in group]
        yield DateRange(span[0], span[-1])

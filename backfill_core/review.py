"""What reads only: the plan of a run, the state of each date, what came late, and what was said."""

from __future__ import annotations

from collections import Counter

from backfill_core.claims import RESERVATION
from backfill_core.errors import PartitionError
from backfill_core.guard import reason_to_skip
from backfill_core.partition import EVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from backfill_core import answers
    from backfill_core.claims import Caller
    from backfill_core.counting.facts import Counted
    from backfill_core.events import EventFolder
    from backfill_core.partition import DateRange
    from backfill_core.store import Store
    from backfill_core.store.tables import Sum, Tables

    Count = Counted | PartitionError | None
    Counting = Callable[[int, int, str], None]


def plan(
    store: Store,
    source: EventFolder,
    dates: DateRange,
    owner: str,
    caller: Caller | None = None,
    counting: Counting | None = None,
) -> answers.PlanAnswer:
    """Decide for each partition what `run` would, and compare; see `Backfill.plan`."""
    source.check()
    with store.reading() as tables:
        sealed, published = tables.sealed(dates), _published(tables, dates)
        holders = tables.holders(dates) if caller is None else tables.run_claims().denied(dates, caller, RESERVATION)
    skips = {dt: reason_to_skip(dt in sealed, holders.get(dt), owner) for dt in dates}
    counts = _counts(source, [dt for dt, skip in skips.items() if skip is None], counting)
    partitions = [_planned(dt, skip, published.get(dt), counts.get(dt)) for dt, skip in skips.items()]
    actions = Counter(partition["action"] for partition in partitions)
    runs = [partition for partition in partitions if partition["action"] in ("change", "unchanged")]
    return {
        "owner": owner,
        "first": dates.first.isoformat(),
        "last": dates.last.isoformat(),
        "asked": len(partitions),
        "change": actions["change"],
        "unchanged": actions["unchanged"],
        "skipped": actions["skipped"],
        "failed": actions["failed"],
        "orders": sum(partition["orders_after"] or 0 for partition in runs),
        "amount": sum(partition["amount_after"] or 0 for partition in runs),
        "partitions": partitions,
    }


def _planned(dt: str, skip: str | None, before: Sum | None, counted: Count) -> answers.PlannedPartition:
    planned: answers.PlannedPartition = {
        "dt": dt,
        "action": "skipped",
        "reason": skip or "no_data",
        "orders_before": before and before[0],
        "amount_before": before and before[1],
        "orders_after": None,
        "amount_after": None,
    }
    if isinstance(counted, PartitionError):
        return {**planned, "action": "failed", "reason": str(counted)}
    if counted is None:
        return planned
    planned["orders_after"], planned["amount_after"] = after = counted.tally
    if before == after:
        return {**planned, "action": "unchanged", "reason": ""}
    reason = "new" if before is None else "moved" if after.orders else "emptied"
    return {**planned, "action": "change", "reason": reason}


def status(
    store: Store, source: EventFolder | None, dates: DateRange | None, counting: Counting | None = None
) -> answers.StatusAnswer:
    """Tell what the tables hold of each date, and with a source whether they agree; see `Backfill.status`."""
    if source is not None:
        source.check()
    with store.reading() as tables:
        asked = tables.dates() if dates is None else list(dates)
        within = dates or EVER
        published, holders, sealed = _published(tables, within), tables.holders(within), tables.sealed(within)
        owners = {dt: owner for dt, _, _, owner in tables.published(within)}
        corrections = Counter(dt for dt, *_ in tables.corrections(within))
    counts = None if source is None else _counts(source, asked, counting)
    partitions: list[answers.PartitionStatus] = [
        {
            "dt": dt,
            "orders": published[dt][0] if dt in published else None,
            "amount": published[dt][1] if dt in published else None,
            "owner": owners.get(dt),
            "claimed_by": holders.get(dt),
            "sealed": dt in sealed,
            "corrections": corrections[dt],
            "source": None if counts is None else _compared(counts[dt], published.get(dt)),
        }
        for dt in asked
    ]
    current = None if source is None else sum(partition["source"] == "current" for partition in partitions)
    return {"partitions": partitions, "current": current}


def _compared(counted: Count, published: Sum | None) -> str:
    if isinstance(counted, PartitionError):
        return str(counted)
    if counted is None:
        return "no_data"
    return "current" if counted.tally == published else "differs"


def late(
    store: Store, source: EventFolder, dates: DateRange | None, counting: Counting | None = None
) -> answers.LateAnswer:
    """Compare each sealed date with its source; see `Backfill.late`."""
    source.check()
    within = dates or EVER
    with store.reading() as tables:
        sealed = sorted(tables.sealed(within))
        known = _published(tables, within) | {dt: after for dt, (after, _) in tables.last_corrections(within).items()}
    answer: answers.LateAnswer = {"late": [], "no_data": [], "failed": []}
    for dt, counted in _counts(source, sealed, counting).items():
        orders, amount = known.get(dt, (0, 0))
        if isinstance(counted, PartitionError):
            answer["failed"].append([dt, str(counted)])
        elif counted is None:
            answer["no_data"].append(dt)
        elif counted.tally != (orders, amount):
            answer["late"].append(
                {
                    "dt": dt,
                    "orders_known": orders,
                    "amount_known": amount,
                    "orders_now": counted.tally.orders,
                    "amount_now": counted.tally.amount,
                    "orders_difference": counted.tally.orders - orders,
                    "amount_difference": counted.tally.amount - amount,
                }
            )
    return answer


def statement(store: Store, dates: DateRange) -> answers.StatementAnswer:
    """Put what was published beside what the last correction says; see `Backfill.statement`."""
    with store.reading() as tables:
        published, sealed = _published(tables, dates), tables.sealed(dates)
        corrected = tables.last_corrections(dates)
        corrections = Counter(dt for dt, *_ in tables.corrections(dates))
    lines: list[answers.StatementLine] = []
    for dt in sorted(published.keys() | corrected.keys()):
        said = published.get(dt, (0, 0))
        right, reason = corrected.get(dt, (said, None))
        lines.append(
            {
                "dt": dt,
                "sealed": dt in sealed,
                "corrections": corrections[dt],
                "orders_published": said[0],
                "amount_published": said[1],
                "orders_corrected": right[0],
                "amount_corrected": right[1],
                "reason": reason,
            }
        )
    return {
        "first": dates.first.isoformat(),
        "last": dates.last.isoformat(),
        "partitions": lines,
        "orders_published": sum(line["orders_published"] for line in lines),
        "amount_published": sum(line["amount_published"] for line in lines),
        "orders_corrected": sum(line["orders_corrected"] for line in lines),
        "amount_corrected": sum(line["amount_corrected"] for line in lines),
    }


def _counts(source: EventFolder, dts: list[str], counting: Counting | None) -> dict[str, Count]:
    """Count each partition: None where there is no file, the error of one that can't be counted."""
    counts: dict[str, Count] = {}
    with source.count_ahead(dts) as ahead:
        for done, dt in enumerate(dts):
            if counting is not None:
                counting(len(dts), done, dt)
            try:
                counted = ahead.take()
                changed = counted is not None and source.fingerprint(dt) != counted.fingerprint
                counts[dt] = source.count(dt) if changed else counted
            except PartitionError as error:
                counts[dt] = error
    return counts


def _published(tables: Tables, dates: DateRange) -> dict[str, Sum]:
    published: dict[str, Sum] = {}
    for dt, orders, amount, _ in tables.published(dates):
        before = published.get(dt, (0, 0))
        published[dt] = (before[0] + orders, before[1] + amount)
    return published

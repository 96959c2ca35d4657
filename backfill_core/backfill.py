"""What run, claim, release, seal, amend and the two rollups mean: the rules, once, above any database."""

from __future__ import annotations

from backfill_core.errors import BackfillError, NotSealedError, PartitionError, StoreError, UsageError
from backfill_core.guard import fits_64_bits, reason_to_skip
from backfill_core.partition import DateRange, check_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date
    from typing import TypeVar

    from backfill_core import answers
    from backfill_core.counting.ahead import Ahead
    from backfill_core.counting.facts import Tally
    from backfill_core.events import EventFolder
    from backfill_core.store import Store
    from backfill_core.store.tables import Sum, Tables

    T = TypeVar("T")

ATTEMPTS = 10
"""How often a partition is counted because its source changed before the count could be written."""


class Backfill:
    """The operations over one store and one source.

    Every answer is ready for JSON and has the shape that `backfill_core.answers` names. Ranges are inclusive.

    source: None will do for what reads no events: claims, seals, rollups, statements.

    Raises, from every operation:
        UsageError: an empty owner or reason, or one that isn't text.
        StoreError: the store failed; what it held before the operation's last whole transaction is still there.
    """

    def __init__(self, store: Store, source: EventFolder | None = None) -> None:
        self._store = store
        self._given_source = source

    @property
    def _source(self) -> EventFolder:
        if self._given_source is None:
            raise UsageError("this reads events, and no folder of events was given; in Airflow, a connection's schema")
        return self._given_source

    def run(
        self,
        dates: DateRange,
        owner: str,
        *,
        stop: Callable[[], bool] | None = None,
        progress: Callable[[int, str], None] | None = None,
        allow_empty: bool = True,
    ) -> answers.RunAnswer:
        """Count the source of each date again and put the result in the place of what `daily` holds.

        A regular run is a range of one day. Dates that are sealed, claimed by another or without a source are
        skipped with that reason; those whose source breaks the shape are in `failed`. Each partition is replaced in
        a transaction of its own, which looks once more for a seal, a claim and a newer source.

        stop: asked between partitions and while a file is read; once true, the answer tells what was done till then.
        progress: told the number of dates passed and the date that begins.
        allow_empty: if false, a partition that holds orders and would become one without is in `failed` and stays.

        Raises:
            SourceError: the events folder can't be read; nothing was done.
            BackfillError: any of these has in `so_far` the answer up to there.
        """
        from backfill_core.counting.facts import Stopped

        check_text("owner", owner)
        self._source.check()
        answer: answers.RunAnswer = {"owner": owner, "done": [], "skipped": [], "orders": 0, "amount": 0}
        try:
            with self._store.reading() as tables:
                sealed, holders = tables.sealed(dates), tables.holders(dates)

            def reason(dt: str) -> str | None:
                return reason_to_skip(dt in sealed, holders.get(dt), owner)

            due = (dt for dt in dates if reason(dt) is None)
            with self._store.burst(), self._source.count_ahead(due, stop) as counts:
                for passed, dt in enumerate(dates):
                    if progress is not None:
                        progress(passed, dt)
                    if stop is not None and stop():
                        break
                    try:
                        outcome = reason(dt) or self._replace(dt, owner, counts, stop, allow_empty)
                    except PartitionError as error:
                        answer.setdefault("failed", []).append([dt, str(error)])
                        continue
                    if isinstance(outcome, str):
                        answer["skipped"].append([dt, outcome])
                    else:
                        answer["done"].append(dt)
                        answer["orders"] += outcome.orders
                        answer["amount"] += outcome.amount
        except Stopped:
            pass
        except BackfillError as error:
            error.so_far = answer
            raise
        return answer

    def _replace(
        self, dt: str, owner: str, counts: Ahead, stop: Callable[[], bool] | None, allow_empty: bool
    ) -> Tally | str:
        """Replace one partition whole, the next of `counts`; return its tally, or the reason why not."""

        def write(tables: Tables, tally: Tally) -> Tally | str:
            reason = reason_to_skip(*tables.guard(dt), owner)
            if reason is None:
                if not (allow_empty or tally.orders):
                    self._refuse_to_empty(tables, dt)
                tables.replace(dt, *tally, owner)
            return reason or tally

        return self._with_count(dt, write, counts, stop) or "no_data"

    def _refuse_to_empty(self, tables: Tables, dt: str) -> None:
        orders, _ = tables.sum_of(DateRange.parse(dt, dt))
        if orders:
            raise PartitionError(f"{self._source.file(dt)}: it holds no orders, but {orders} are published; they stay")

    def _with_count(
        self, dt: str, write: Callable[[Tables, Tally], T], counts: Ahead, stop: Callable[[], bool] | None = None
    ) -> T | None:
        """Take the partition's count, then write in a transaction in which its file is still the one that was counted.

        So an older count never lands after a newer one. None where there is no file.
        """
        for attempt in range(ATTEMPTS):
            counted = self._source.count(dt, stop) if attempt else counts.take()
            if counted is None:
                return None
            with self._store.writing() as tables:
                if self._source.fingerprint(dt) == counted.fingerprint:
                    return write(tables, counted.tally)
        raise self._source.keeps_changing(dt)

    def claim(self, dates: DateRange, owner: str) -> answers.ClaimAnswer:
        """Reserve each date of the range that nobody else holds. Dates that the owner holds count as claimed."""
        check_text("owner", owner)
        with self._store.writing() as tables:
            tables.claim(dates, owner)
            holders = tables.holders(dates)
        return {
            "owner": owner,
            "claimed": [dt for dt in dates if holders[dt] == owner],
            "denied": [[dt, holders[dt]] for dt in dates if holders[dt] != owner],
        }

    def release(self, dates: DateRange, owner: str) -> answers.ReleaseAnswer:
        """Free the dates of the range that this owner holds, and no other's."""
        check_text("owner", owner)
        with self._store.writing() as tables:
            released = [dt for dt, holder in tables.holders(dates).items() if holder == owner]
            tables.release(dates, owner)
        return {"owner": owner, "released": released}

    def seal(self, dates: DateRange) -> answers.SealAnswer:
        """Declare the range as sent: no run changes it any more. Sealing again is success."""
        with self._store.writing() as tables:
            tables.seal(dates)
        return {"sealed": list(dates)}

    def amend(self, day: date, reason: str) -> answers.AmendAnswer:
        """Count a sealed date's source again and record the result beside what `daily` holds, which stays.

        Every call adds a correction. Without a row in `daily` the values before are 0.

        Raises:
            NotSealedError: the date was never sealed.
            SourceError: there is no source, or it can't be counted; nothing is written.
        """
        check_text("reason", reason)
        dates, dt = DateRange(day, day), day.isoformat()
        with self._store.reading() as tables:
            if not tables.sealed(dates):
                raise NotSealedError(f"{dt} is not sealed, so there is nothing to correct; `run` replaces it")
        self._source.check()

        def write(tables: Tables, after: Tally) -> answers.AmendAnswer:
            before = tables.sum_of(dates)
            tables.correct(dt, before, after, reason)
            return {
                "dt": dt,
                "orders_before": before[0],
                "amount_before": before[1],
                "orders_after": after.orders,
                "amount_after": after.amount,
                "reason": reason,
            }

        with self._source.count_ahead((dt,)) as counts:
            correction = self._with_count(dt, write, counts)
        if correction is None:
            raise PartitionError(f"{self._source.file(dt)}: there is no such file; nothing was recorded")
        return correction

    def rollup_add(self, dates: DateRange) -> answers.RollupAnswer:
        """Add the range's sums to the totals: kept to show what goes wrong, as each rerun adds once more."""
        with self._store.writing() as tables:
            (orders, amount), (more_orders, more_amount) = tables.rollup(), tables.sum_of(dates)
            totals = _storable(orders + more_orders, amount + more_amount)
            tables.set_rollup(totals)
        return {"mode": "add", "order_total": totals[0], "amount_total": totals[1]}

    def rollup(self) -> answers.RollupAnswer:
        """Recompute the totals from the whole of `daily` and overwrite them."""
        with self._store.writing() as tables:
            totals = _storable(*tables.sum_of())
            tables.set_rollup(totals)
        return {"mode": "derive", "order_total": totals[0], "amount_total": totals[1]}

    # Reading only

    def plan(self, dates: DateRange, owner: str) -> answers.PlanAnswer:
        """Tell what `run` would do now, partition by partition, and write nothing."""
        from backfill_core.review import plan

        check_text("owner", owner)
        return plan(self._store, self._source, dates, owner)

    def status(self, dates: DateRange | None = None, *, compare: bool = False) -> answers.StatusAnswer:
        """Tell what the store holds of each date of the range, or of every date that it knows.

        compare: count each date's source too, and tell whether the store agrees with it.
        """
        from backfill_core.review import status

        return status(self._store, self._source if compare else None, dates)

    def late(self, dates: DateRange | None = None) -> answers.LateAnswer:
        """Find the sealed dates whose source no longer agrees with what was published or last corrected."""
        from backfill_core.review import late

        return late(self._store, self._source, dates)

    def statement(self, dates: DateRange) -> answers.StatementAnswer:
        """Tell what was published and what is right by the corrections, side by side."""
        from backfill_core.review import statement

        return statement(self._store, dates)


def _storable(orders: int, amount: int) -> Sum:
    if not (fits_64_bits(orders) and fits_64_bits(amount)):
        raise StoreError(
            f"the totals, {orders} orders and an amount of {amount}, are beyond 64 bits; nothing was changed"
        )
    return orders, amount

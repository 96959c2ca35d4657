"""What run, claim, release, seal, amend and the two rollups mean: the rules, once, above any database."""

from __future__ import annotations

from backfill_core.errors import (
    BackfillError,
    ClaimLostError,
    NotSealedError,
    PartitionError,
    Stopped,
    StoreError,
    UsageError,
)
from backfill_core.guard import LOST, check_share, claim_lost, fits_64_bits, reason_to_skip
from backfill_core.partition import EVER, DateRange, check_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date
    from typing import TypeVar

    from backfill_core import answers
    from backfill_core.attempts import Taken
    from backfill_core.claims import Caller, Claim
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
    stop: asked while an operation waits for its turn to write; once true, it ends and has changed nothing.
    counting: told by `plan`, `status` and `late` how many sources they count, how many are done, and which is next.

    Raises, from every operation:
        UsageError: an empty owner or reason, or one that isn't text.
        StoreError: the store failed; what it held before the operation's last whole transaction is still there.
        Stopped: `stop` answered true.
    """

    def __init__(
        self,
        store: Store,
        source: EventFolder | None = None,
        *,
        stop: Callable[[], bool] | None = None,
        counting: Callable[[int, int, str], None] | None = None,
    ) -> None:
        self._store = store
        self._given_source = source
        self._stop = stop
        self._counting = counting

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
        max_shrink: float = 1,
        claim: str | None = None,
    ) -> answers.RunAnswer:
        """Count the source of each date again and put the result in the place of what `daily` holds.

        A regular run is a range of one day. Dates that are sealed, claimed by another or without a source are
        skipped with that reason; those whose source breaks the shape are in `failed`. Each partition is replaced in
        a transaction of its own, which looks once more for a seal, a claim and a newer source.

        stop: asked between partitions and while a file is read or the turn to write is awaited, in the place of the
            one that all operations have; once true, the answer tells what was done till then.
        progress: told the number of dates passed and the date that begins.
        allow_empty: if false, a partition that holds orders and would become one without is in `failed` and stays.
        max_shrink: likewise one that would lose more than this share of its orders, but not all of them.
        claim: the id of an attempt's claim. That no other holds the date is then not enough: the transaction that
            replaces demands that this claim still does; else the date is skipped as `claim_lost:` and who holds it now.

        Raises:
            SourceError: the events folder can't be read; nothing was done.
            BackfillError: any of these has in `so_far` the answer up to there.
        """
        check_text("owner", owner)
        check_share(max_shrink)
        self._source.check()
        stop = stop or self._stop
        answer: answers.RunAnswer = {"owner": owner, "done": [], "skipped": [], "orders": 0, "amount": 0}
        try:
            with self._store.reading() as tables:
                sealed, holders = tables.sealed(dates), {} if claim else tables.holders(dates)

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
                        may_lose = (allow_empty, max_shrink)
                        outcome = reason(dt) or self._replace(dt, owner, counts, stop, may_lose, claim)
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
        self,
        dt: str,
        owner: str,
        counts: Ahead,
        stop: Callable[[], bool] | None,
        may_lose: tuple[bool, float],
        claim: str | None,
    ) -> Tally | str:
        """Replace one partition whole, the next of `counts`; return its tally, or the reason why not."""

        def write(tables: Tables, tally: Tally) -> Tally | str:
            sealed, holder = tables.guard(dt)
            reason = reason_to_skip(sealed, holder, owner) if claim is None or sealed else _lost(tables, dt, claim)
            if reason is None:
                if may_lose != (True, 1):
                    before, _ = tables.sum_of(DateRange.parse(dt, dt))
                    self._check_loss(dt, before, tally.orders, "published", *may_lose)
                tables.replace(dt, *tally, owner)
            return reason or tally

        return self._with_count(dt, write, counts, stop) or "no_data"

    def _check_loss(self, dt: str, before: int, after: int, was: str, allow_empty: bool, max_shrink: float) -> None:
        """Make sure that a partition doesn't lose more orders than it may: a cut source looks like any other."""
        if before and not after and not allow_empty:
            raise PartitionError(f"{self._source.file(dt)}: it holds no orders, but {before} are {was}; they stay")
        if after and before - after > max_shrink * before:
            raise PartitionError(
                f"{self._source.file(dt)}: it holds {after} orders, but {before} are {was}; they stay, as more than"
                f" {max_shrink:.0%} of them would go (max_shrink says how many may)"
            )

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
            with self._store.writing(stop) as tables:
                if self._source.fingerprint(dt) == counted.fingerprint:
                    return write(tables, counted.tally)
        raise self._source.keeps_changing(dt)

    def claim(self, dates: DateRange, owner: str) -> answers.ClaimAnswer:
        """Reserve each date of the range that nobody else holds. Dates that the owner holds count as claimed."""
        check_text("owner", owner)
        with self._store.writing(self._stop) as tables:
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
        with self._store.writing(self._stop) as tables:
            released = [dt for dt, holder in tables.holders(dates).items() if holder == owner]
            tables.release(dates, owner)
        return {"owner": owner, "released": released}

    def seal(self, dates: DateRange) -> answers.SealAnswer:
        """Declare the range as sent: no run changes it any more. Sealing again is success."""
        with self._store.writing(self._stop) as tables:
            tables.seal(dates)
        return {"sealed": list(dates)}

    def amend(
        self,
        day: date,
        reason: str,
        *,
        allow_empty: bool = True,
        max_shrink: float = 1,
        claim: str | None = None,
    ) -> answers.AmendAnswer:
        """Count a sealed date's source again and record the result beside what `daily` holds, which stays.

        Every call adds a correction. Without a row in `daily` the values before are 0.

        allow_empty: if false, a date that is right with some orders is never corrected to none.
        max_shrink: nor to so few that more than this share of its orders would go.
        claim: the id of an attempt's claim, which the transaction that records demands.

        Raises:
            NotSealedError: the date was never sealed.
            ClaimLostError: the claim no longer holds the date; nothing is written.
            SourceError: there is no source, it can't be counted, or it lost too much; nothing is written.
        """
        check_text("reason", reason)
        check_share(max_shrink)
        dates, dt = DateRange(day, day), day.isoformat()
        with self._store.reading() as tables:
            if not tables.sealed(dates):
                raise NotSealedError(f"{dt} is not sealed, so there is nothing to correct; `run` replaces it")
        self._source.check()

        def write(tables: Tables, after: Tally) -> answers.AmendAnswer:
            if claim is not None and (holder := tables.run_claims().lost(dt, claim)) is not None:
                raise ClaimLostError(claim_lost(dt, holder))
            before = tables.sum_of(dates)
            if (allow_empty, max_shrink) != (True, 1):
                right, _ = tables.last_corrections(dates).get(dt, (before, ""))
                self._check_loss(dt, right[0], after.orders, "right until now", allow_empty, max_shrink)
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
            correction = self._with_count(dt, write, counts, self._stop)
        if correction is None:
            raise PartitionError(f"{self._source.file(dt)}: there is no such file; nothing was recorded")
        return correction

    def rollup_add(self, dates: DateRange) -> answers.RollupAnswer:
        """Add the range's sums to the totals: kept to show what goes wrong, as each rerun adds once more."""
        with self._store.writing(self._stop) as tables:
            (orders, amount), (more_orders, more_amount) = tables.rollup(), tables.sum_of(dates)
            totals = _storable(orders + more_orders, amount + more_amount)
            tables.set_rollup(totals)
        return {"mode": "add", "order_total": totals[0], "amount_total": totals[1]}

    def rollup(self) -> answers.RollupAnswer:
        """Recompute the totals from the whole of `daily` and overwrite them."""
        with self._store.writing(self._stop) as tables:
            totals = _storable(*tables.sum_of())
            tables.set_rollup(totals)
        return {"mode": "derive", "order_total": totals[0], "amount_total": totals[1]}

    # Claims of Airflow's runs

    def take(self, dates: DateRange, caller: Caller, kind: str) -> Taken:
        """Claim every date of the range for a run, or none of it, as a RESERVATION or for an ATTEMPT to write."""
        from backfill_core.attempts import take

        return take(self._store, dates, caller, kind)

    def give_back(self, claim: str, dates: DateRange = EVER) -> list[str]:
        """End the one claim of that id, in the range; return the dates that it still held."""
        from backfill_core.attempts import give_back

        return give_back(self._store, claim, dates)

    def give_back_reserved(self, dates: DateRange, run: str, *, task: str | None = None, person: str = "") -> list[str]:
        """End what a run reserved in the range, or one task of it; also a person's own reservation, where one is named.

        Return the dates that were given back.
        """
        from backfill_core.attempts import give_back_reserved

        return give_back_reserved(self._store, dates, run, task=task, person=person)

    def denied(self, dates: DateRange, caller: Caller, kind: str) -> dict[str, str]:
        """Return who would keep a run out now, by date; write nothing."""
        from backfill_core.attempts import denied

        return denied(self._store, dates, caller, kind)

    def standing_claims(self) -> list[Claim]:
        """Return every claim that holds a date; one by the runner has no id and no run."""
        from backfill_core.attempts import standing

        return standing(self._store)

    # Reading only

    def plan(self, dates: DateRange, owner: str, caller: Caller | None = None) -> answers.PlanAnswer:
        """Tell what `run` would do now, partition by partition, and write nothing.

        caller: whose claims count as its own by the rules of `backfill_core.claims`; None for the owner's alone.
        """
        from backfill_core.review import plan

        check_text("owner", owner)
        return plan(self._store, self._source, dates, owner, caller, self._counting)

    def status(self, dates: DateRange | None = None, *, compare: bool = False) -> answers.StatusAnswer:
        """Tell what the store holds of each date of the range, or of every date that it knows.

        compare: count each date's source too, and tell whether the store agrees with it.
        """
        from backfill_core.review import status

        return status(self._store, self._source if compare else None, dates, self._counting)

    def late(self, dates: DateRange | None = None) -> answers.LateAnswer:
        """Find the sealed dates whose source no longer agrees with what was published or last corrected."""
        from backfill_core.review import late

        return late(self._store, self._source, dates, self._counting)

    def duplicates(self, dates: DateRange) -> answers.DuplicatesAnswer:
        """Find the order_ids that occur more than once in the sources of the range, within a day and across days.

        Every line counts as an order, so each of them is counted as often as it occurs. Memory stays bounded; the ids
        are kept in temporary files meanwhile.
        """
        from backfill_core.duplicates import duplicates

        return duplicates(self._source, dates)

    def statement(self, dates: DateRange) -> answers.StatementAnswer:
        """Tell what was published and what is right by the corrections, side by side."""
        from backfill_core.review import statement

        return statement(self._store, dates)


def _lost(tables: Tables, dt: str, claim: str) -> str | None:
    holder = tables.run_claims().lost(dt, claim)
    return None if holder is None else f"{LOST}{holder}"


def _storable(orders: int, amount: int) -> Sum:
    if not (fits_64_bits(orders) and fits_64_bits(amount)):
        raise StoreError(
            f"the totals, {orders} orders and an amount of {amount}, are beyond 64 bits; nothing was changed"
        )
    return orders, amount

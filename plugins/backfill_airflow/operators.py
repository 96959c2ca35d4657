"""The operators. Each returns the core's answer, its receipt, as XCom."""

from __future__ import annotations

import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from backfill_airflow.claims import attempt, who_holds
from backfill_airflow.compat import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    AirflowTaskTerminated,
    BaseOperator,
    failed_before,
    is_asset,
    most_mapped,
    stamp_partition,
    triggerer_is_there,
)
from backfill_airflow.hook import DEFAULT_CONN_ID, BackfillHook
from backfill_airflow.owner import caller_of, name_of
from backfill_airflow.partition import dates_of, parts_of
from backfill_airflow.stale import RunStates
from backfill_airflow.triggers import PartitionFreeTrigger
from backfill_airflow.verdict import airflow_verdict, conclude, one_line, one_of
from backfill_core import DateRange
from backfill_core.claims import ATTEMPT, RESERVATION
from backfill_core.guard import LOST, MAX_SHRINK, check_share, claim_lost
from backfill_core.partition import EVER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backfill_airflow.compat import Context
    from backfill_core import Backfill
    from backfill_core.answers import (
        AmendAnswer,
        LatePartition,
        PartitionStatus,
        PlannedPartition,
        ReleaseAnswer,
        RollupAnswer,
        RunAnswer,
        SealAnswer,
    )
    from backfill_core.attempts import Taken
    from backfill_core.claims import Caller, Claim

ON_CLAIMED = ("defer", "retry", "skip", "fail")
ON_SEALED = ("skip", "fail", "amend")
ON_SEALED_RANGE = ("fail", "skip", "allow")
ON_NO_DATA = ("skip", "fail", "retry")
ON_EMPTY = ("fail", "allow")
EVENT_KEYS = ("run", "date")

TRIGGERER_GRACE = timedelta(minutes=10)
"""How much later than a task's own deadline Airflow takes its trigger for dead."""


class BackfillOperator(BaseOperator):
    """What the operators share: the way to the store, and Airflow's verdict on what goes wrong there.

    :param conn_id: the connection of type `backfill`; see `BackfillHook`.
    """

    ui_color = "#e8f0e4"
    event_key = "run"

    def __init__(self, *, conn_id: str = DEFAULT_CONN_ID, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conn_id = conn_id

    @contextmanager
    def backfill(self) -> Iterator[Backfill]:
        """Open the store for as long as the block lasts; errors of the core leave it as Airflow's."""
        with airflow_verdict(), BackfillHook(self.conn_id).backfill() as backfill:
            yield backfill

    def announce(self, context: Context, dt: str, orders: int, amount: int, **extra: str) -> None:
        """Say in the asset events what is right of the date now."""
        self.send_event(context, [{"dt": dt, "orders": orders, "amount": amount, **extra}])

    def announce_correction(self, context: Context, answer: AmendAnswer) -> None:
        """Say what is right by the correction, and why."""
        self.announce(context, answer["dt"], answer["orders_after"], answer["amount_after"], reason=answer["reason"])

    def announce_nothing(self, context: Context) -> None:
        """Send no asset event, though the task succeeds."""
        self.send_event(context, [])

    def send_event(self, context: Context, written: list[dict[str, Any]]) -> None:
        """Put what was written into the one event of each outlet: the date itself, or the `partitions` if several."""
        if not written:
            self.outlets = []  # Airflow sends an event for each outlet that it finds there
        for outlet in filter(is_asset, self.outlets):
            event: Any = context["outlet_events"][outlet]
            event.extra = written[0] if len(written) == 1 else {"partitions": written}
            if self.event_key == "date":
                for partition in written:
                    stamp_partition(event, partition["dt"])


class WaitingOperator(BackfillOperator):
    """What an operator does that meets another's claim: it neither waits nor overwrites.

    :param on_claimed: what to do where somebody else holds a date. `defer` gives the worker slot back and comes again
        as soon as the dates are free; where no triggerer runs it does as `retry`. `retry` fails, so that Airflow calls
        again by the task's `retries`, and then calls a person; `skip`; `fail` at once for good.
    :param poll_interval: how often a deferred task looks, in seconds.
    :param defer_timeout: for how long a task waits in all, however often it is deferred; then it fails for good.
    """

    def __init__(
        self,
        *,
        on_claimed: str = "defer",
        poll_interval: float = 30,
        defer_timeout: timedelta = timedelta(days=1),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.on_claimed = one_of("on_claimed", on_claimed, ON_CLAIMED)
        self.poll_interval = poll_interval
        self.defer_timeout = defer_timeout
        self._deadline: float | None = None

    def resume(self, context: Context, event: Any, deadline: float) -> Any:
        """Go on after a deferral: do all of it again, as the dates may have been taken once more.

        deadline: until when the task may wait, in seconds since 1970; set by its first deferral.
        """
        self.log.info("%s", event)
        self._deadline = deadline
        return self.act(context)

    def act(self, context: Context) -> Any:
        """Do the operator's work."""
        raise NotImplementedError

    def give_way(self, dates: DateRange, caller: Caller, kind: str, denied: Mapping[str, str]) -> NoReturn:
        """End the task as `on_claimed` says."""
        held = who_holds(denied)
        if self.on_claimed == "defer" and triggerer_is_there():
            self._wait(dates, caller, kind, held)
        action = "retry" if self.on_claimed == "defer" else self.on_claimed
        conclude(action, f"{held}; nothing was written")

    def _wait(self, dates: DateRange, caller: Caller, kind: str, held: str) -> None:
        """Defer until the dates are free or the time is up.

        Airflow's own timeout is for a triggerer that dies meanwhile. It comes later, and the task is tried again.
        """
        deadline = self._deadline or time.time() + self.defer_timeout.total_seconds()
        left = timedelta(seconds=deadline - time.time())
        if left <= timedelta(0):
            raise AirflowFailException(f"{one_line(held)}, still, after {self.defer_timeout}; nothing was written")
        self.log.info("%s; waiting until it is free, for %s at most", one_line(held), left)
        self.defer(
            trigger=PartitionFreeTrigger(
                conn_id=self.conn_id,
                first=dates.first.isoformat(),
                last=dates.last.isoformat(),
                caller=caller,
                kind=kind,
                poll_interval=self.poll_interval,
                deadline=deadline,
            ),
            method_name="resume",
            kwargs={"deadline": deadline},
            timeout=left + TRIGGERER_GRACE,
        )


class ReplacePartitionOperator(WaitingOperator):
    """Count one partition's source again and put the result in the place of what was published.

    It claims the date for this try, beneath what its run or its person has reserved; replaces the partition whole, if
    that claim still holds in the transaction that does so; and gives its claim back in any case, and no other. Run it
    once or ten times, by schedule, by hand or by a backfill: the result is the same.

    :param date: (templated) the partition, YYYY-MM-DD. By default the one that the run means: its partition key, else
        the local day of its data interval.
    :param claim_as: (templated) whose reservation lets it in; by default that of `owner` in the run's conf.
    :param on_sealed: `skip` leaves a sealed date alone, `fail` says so loudly, `amend` records a correction if the
        source has moved on.
    :param on_no_data: what to do where there is no source file: `skip`, `fail`, or `retry` for one that comes late.
    :param on_empty: `fail` where a partition that holds orders would become one without, or a sealed one be corrected
        to that; `allow` writes it.
    :param max_shrink: the share of its orders that a partition may lose, from 0 to 1; it fails where more would go.
    :param amend_reason: (templated) the reason of a correction by `on_sealed="amend"`.
    :param event_key: which partition key an asset event has. `run`: the run's own; where the run has none, neither has
        the event, and the DAGs that are scheduled by the plain asset run. `date`: the partition; only DAGs with a
        `PartitionedAssetTimetable` run then (Airflow 3.3; Airflow 2.11 has no keys).
    """

    template_fields: Sequence[str] = ("date", "claim_as", "amend_reason")

    def __init__(
        self,
        *,
        date: str | None = None,
        claim_as: str | None = None,
        on_sealed: str = "skip",
        on_no_data: str = "skip",
        on_empty: str = "fail",
        max_shrink: float = MAX_SHRINK,
        amend_reason: str = "late events, found by {{ run_id }}",
        event_key: str = "run",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.date = date
        self.claim_as = claim_as
        self.on_sealed = one_of("on_sealed", on_sealed, ON_SEALED)
        self.on_no_data = one_of("on_no_data", on_no_data, ON_NO_DATA)
        self.on_empty = one_of("on_empty", on_empty, ON_EMPTY)
        self.max_shrink = check_share(max_shrink)
        self.amend_reason = amend_reason
        self.event_key = one_of("event_key", event_key, EVENT_KEYS)
        self._stopped = False

    def execute(self, context: Context) -> RunAnswer:
        """Replace the partition; see the class."""
        return self.act(context)

    def act(self, context: Context) -> RunAnswer:
        """Claim, run, give back; then say what came of it."""
        with self.backfill() as backfill:
            dates, caller = dates_of(context, self.date), caller_of(context, self.claim_as)
            before = backfill.status(dates)["partitions"][0]
            with attempt(backfill, dates, caller) as taken:
                receipt = self._run(backfill, dates, taken) if taken.claim else self._kept_out(before, caller, taken)
                if receipt["done"]:
                    was = "as before" if (before["orders"], before["amount"]) == _sums(receipt) else _was(before)
                    self.log.info("%s: %s orders, amount %s; %s", *receipt["done"], *_sums(receipt), was)
                    self.announce(context, receipt["done"][0], *_sums(receipt))
                    return receipt
                # What goes on to skip or fail returns nothing, but its receipt is the record of why.
                context["ti"].xcom_push("return_value", dict(receipt))
                return self._not_done(context, backfill, dates, caller, taken, receipt)

    def _run(self, backfill: Backfill, dates: DateRange, taken: Taken) -> RunAnswer:
        [owner] = taken.owners.values()
        return backfill.run(
            dates,
            owner,
            claim=taken.claim,
            allow_empty=self.on_empty == "allow",
            max_shrink=self.max_shrink,
            stop=lambda: self._stopped,
        )

    def _kept_out(self, before: PartitionStatus, caller: Caller, taken: Taken) -> RunAnswer:
        """Return what a run says of a date that another holds: a seal goes before that, but where it is to amend."""
        [(dt, holder)] = taken.denied.items()
        reason = "sealed" if before["sealed"] and self.on_sealed != "amend" else f"claimed_by:{holder}"
        return {"owner": name_of(caller), "done": [], "skipped": [[dt, reason]], "orders": 0, "amount": 0}

    def _not_done(
        self,
        context: Context,
        backfill: Backfill,
        dates: DateRange,
        caller: Caller,
        taken: Taken,
        receipt: RunAnswer,
    ) -> RunAnswer:
        for _, fault in receipt.get("failed", []):
            raise AirflowFailException(one_line(fault))
        for dt, reason in receipt["skipped"]:
            if reason == "sealed" and self.on_sealed == "amend":
                self._amend_if_late(context, backfill, dates, taken.claim)
                return receipt
            if reason == "sealed":
                conclude(
                    self.on_sealed, f"{dt} is sealed: what was sent stays; record a correction with amend_partition"
                )
            if reason == "no_data":
                conclude(self.on_no_data, f"{dt} has no source file (no_data); what was published stays")
            if reason.startswith(LOST):
                raise AirflowException(claim_lost(dt, reason.removeprefix(LOST)))
            self.give_way(dates, caller, ATTEMPT, taken.denied)
        raise AirflowTaskTerminated(f"stopped by Airflow; {dates.first} is as it was")

    def _amend_if_late(self, context: Context, backfill: Backfill, dates: DateRange, claim: str | None) -> None:
        late = backfill.late(dates)
        for _, fault in late["failed"]:
            raise AirflowFailException(one_line(fault))
        if not late["late"]:
            self.log.info("%s is sealed, and its source has not moved on: no correction", dates.first)
            self.announce_nothing(context)
            return
        guard: dict[str, Any] = {"allow_empty": self.on_empty == "allow", "max_shrink": self.max_shrink}
        answer = backfill.amend(dates.first, self.amend_reason, claim=claim, **guard)
        self.log.info("Corrected: %s", answer)
        self.announce_correction(context, answer)

    def on_kill(self) -> None:
        """Ask the run to stop: it does so between two pieces of the file, and the claim is given back."""
        self._stopped = True


class ReplaceRangeOperator(ReplacePartitionOperator):
    """Replace each partition of a range, one after the other, as `ReplacePartitionOperator` does with one.

    Maps over the parts of a range of any length, see `SplitRangeOperator`. A partition that fails does not stop the
    others; then the task fails and names it. The task is skipped if all of its partitions were.

    :param start: (templated) the first day, YYYY-MM-DD. By default the one partition that the run means.
    :param end: (templated) the last day, inclusive. By default `start`.
    """

    template_fields: Sequence[str] = ("start", "end", "claim_as", "amend_reason")

    def __init__(self, *, start: str | None = None, end: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start = start
        self.end = end
        self._written: list[dict[str, Any]] = []

    def act(self, context: Context) -> RunAnswer:
        """Replace one partition after the other; then say what came of them."""
        with airflow_verdict():
            dates, caller = dates_of(context, self.start, self.end), caller_of(context, self.claim_as)
        answer: RunAnswer = {"owner": name_of(caller), "done": [], "skipped": [], "orders": 0, "amount": 0}
        faults: list[str] = []
        left_alone: list[str] = []
        for self.date in dates:
            try:
                receipt = super().act(context)
            except AirflowFailException as fault:
                faults.append(str(fault))
            except AirflowSkipException as skip:
                self.log.info("Skipped: %s", skip)
                left_alone.append(str(skip))
            else:
                answer["done"] += receipt["done"]
                answer["skipped"] += receipt["skipped"]
                answer["orders"] += receipt["orders"]
                answer["amount"] += receipt["amount"]
        self.send_event(context, self._written)
        if faults:
            raise AirflowFailException("; ".join(faults))
        if len(left_alone) == len(dates):
            raise AirflowSkipException("; ".join(left_alone))
        return answer

    def announce(self, context: Context, dt: str, orders: int, amount: int, **extra: str) -> None:  # noqa: ARG002
        """Keep it for the event of all of them."""
        self._written.append({"dt": dt, "orders": orders, "amount": amount, **extra})

    def announce_nothing(self, context: Context) -> None:
        """Do nothing: others of the range may have been written."""


class RangeOperator(BackfillOperator):
    """What the operators over a range share.

    :param start: (templated) the first day, YYYY-MM-DD. By default the one partition that the run means.
    :param end: (templated) the last day, inclusive. By default `start`.
    :param claim_as: (templated) whose reservation lets it in; by default that of `owner` in the run's conf.
    """

    template_fields: Sequence[str] = ("start", "end", "claim_as")

    def __init__(
        self, *, start: str | None = None, end: str | None = None, claim_as: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.start = start
        self.end = end
        self.claim_as = claim_as


class PlanRangeOperator(RangeOperator):
    """Say in the log what a run over the range would do, partition by partition, and write nothing.

    Returns the planned partitions, one a date: what a mapped task goes over.

    :param reason: (templated) why the range is run again, for who reads the log.
    """

    template_fields: Sequence[str] = (*RangeOperator.template_fields, "reason")

    def __init__(self, *, reason: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reason = reason

    def execute(self, context: Context) -> list[PlannedPartition]:
        """Plan; see the class."""
        with self.backfill() as backfill:
            dates, caller = dates_of(context, self.start, self.end), caller_of(context, self.claim_as)
            plan = backfill.plan(dates, name_of(caller), caller)
        counts = ", ".join(f"{plan[action]} {action}" for action in ("change", "unchanged", "skipped", "failed"))
        self.log.info("%s to %s, %s partitions: %s", plan["first"], plan["last"], plan["asked"], counts)
        self.log.info("In the name of %s", one_line(name_of(caller)))
        if self.reason:
            self.log.info("Reason: %s", one_line(self.reason))
        for partition in plan["partitions"]:
            self.log.info("%s", one_line(_planned(partition)))
        return plan["partitions"]


class SplitRangeOperator(RangeOperator):
    """Split a range into parts, one a date, or longer ones where that would be more than Airflow maps.

    Airflow maps `[core] max_map_length` values, 1024. Returns the parts as `start` and `end`: what a mapped
    `ReplaceRangeOperator` goes over by `expand_kwargs`.
    """

    def execute(self, context: Context) -> list[dict[str, str]]:
        """Split; see the class."""
        with airflow_verdict():
            parts = parts_of(dates_of(context, self.start, self.end), most_mapped())
        return [{"start": part.first.isoformat(), "end": part.last.isoformat()} for part in parts]


class ClaimRangeOperator(WaitingOperator, RangeOperator):
    """Reserve a whole range or nothing: the setup of a backfill, or of anybody's own tasks.

    Where somebody else holds a date it takes nothing and does as `on_claimed` says. Its receipt has two keys more than
    the answer of `runner.py claim`: `claim`, the reservation's id, by which a `ReleaseRangeOperator` gives it back, and
    `sealed`, the dates of the range that were sealed then.

    :param on_sealed: what to do where a date of the range is sealed. `fail` refuses the range, `skip` skips, and
        `allow` claims it and names the sealed dates: for tasks that leave them alone themselves, as
        `ReplacePartitionOperator` does. Looked at once, before the claim: a seal may come later.
    """

    def __init__(self, *, on_sealed: str = "fail", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.on_sealed = one_of("on_sealed", on_sealed, ON_SEALED_RANGE)

    def execute(self, context: Context) -> dict[str, Any]:
        """Claim; see the class."""
        return self.act(context)

    def act(self, context: Context) -> dict[str, Any]:
        """Claim the range, or none of it."""
        with self.backfill() as backfill:
            dates, caller = dates_of(context, self.start, self.end), caller_of(context, self.claim_as)
            sealed = self._sealed(backfill, dates)
            taken = backfill.take(dates, caller, RESERVATION)
            if taken.claim is None:
                self.give_way(dates, caller, RESERVATION, taken.denied)
        self.log.info("Claimed %s to %s as %s", dates.first, dates.last, one_line(name_of(caller)))
        claimed = list(taken.owners)
        return {"owner": name_of(caller), "claimed": claimed, "denied": [], "claim": taken.claim, "sealed": sealed}

    def _sealed(self, backfill: Backfill, dates: DateRange) -> list[str]:
        sealed = [status["dt"] for status in backfill.status(dates)["partitions"] if status["sealed"]]
        if sealed:
            named = f"{', '.join(sealed)} sealed: what was sent stays"
            if self.on_sealed != "allow":
                conclude(self.on_sealed, f"{named}; nothing was claimed")
            self.log.warning("%s; whatever runs under this claim has to leave it alone", named)
        return sealed


class ReleaseRangeOperator(RangeOperator):
    """Give back a reservation, the teardown of a `ClaimRangeOperator`; a date is free when no claim is left on it.

    :param claim: (templated) the receipt of the claim, `claim.output`: gives back that reservation and no other, or
        what that task reserved where it left no receipt (it was marked as a success by hand).
    :param claim_as: (templated) without `claim`: a person whose own reservation to end, beside what this run reserved
        between `start` and `end`.
    """

    template_fields: Sequence[str] = (*RangeOperator.template_fields, "claim")

    def __init__(self, *, claim: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.claim = claim
        self._by_name = claim is None
        self._claiming_task = getattr(getattr(claim, "operator", None), "task_id", None)

    def execute(self, context: Context) -> ReleaseAnswer:
        """Free the dates; see the class."""
        with self.backfill() as backfill:
            caller = caller_of(context, self.claim_as)
            if self._by_name:
                dates, person = dates_of(context, self.start, self.end), caller.person if self.claim_as else ""
                released = backfill.give_back_reserved(dates, caller.run, person=person)
            elif self.claim is not None:
                released = backfill.give_back(self.claim["claim"])
            elif self._claiming_task is not None:
                released = backfill.give_back_reserved(EVER, caller.run, task=self._claiming_task)
            else:
                released = []
            return {"owner": name_of(caller), "released": released}


class SealRangeOperator(RangeOperator):
    """Declare a range as sent: no run changes it any more. Sealing again is success."""

    def execute(self, context: Context) -> SealAnswer:
        """Seal; see the class."""
        with self.backfill() as backfill:
            return backfill.seal(dates_of(context, self.start, self.end))


class AmendPartitionOperator(WaitingOperator):
    """Record a sealed partition's correction, before and after, beside what was published.

    It claims the date for this try as `ReplacePartitionOperator` does, so that one correction is recorded by one run.

    :param date: (templated) the partition, YYYY-MM-DD. By default the one that the run means.
    :param claim_as: (templated) whose reservation lets it in; by default that of `owner` in the run's conf.
    :param reason: (templated) why; a correction without a reason is refused.
    :param on_empty: `fail` where the right value would become one without orders; `allow` records it.
    :param max_shrink: the share of its orders that a partition may lose, from 0 to 1; it fails where more would go.
    """

    template_fields: Sequence[str] = ("date", "claim_as", "reason")

    def __init__(
        self,
        *,
        reason: str,
        date: str | None = None,
        claim_as: str | None = None,
        on_empty: str = "fail",
        max_shrink: float = MAX_SHRINK,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.date = date
        self.claim_as = claim_as
        self.reason = reason
        self.on_empty = one_of("on_empty", on_empty, ON_EMPTY)
        self.max_shrink = check_share(max_shrink)

    def execute(self, context: Context) -> AmendAnswer:
        """Correct; see the class."""
        return self.act(context)

    def act(self, context: Context) -> AmendAnswer:
        """Claim, correct, give back."""
        with self.backfill() as backfill:
            dates, caller = dates_of(context, self.date), caller_of(context, self.claim_as)
            with attempt(backfill, dates, caller) as taken:
                if taken.claim is None:
                    self.give_way(dates, caller, ATTEMPT, taken.denied)
                guard: dict[str, Any] = {"allow_empty": self.on_empty == "allow", "max_shrink": self.max_shrink}
                answer = backfill.amend(dates.first, self.reason, claim=taken.claim, **guard)
        self.announce_correction(context, answer)
        return answer


class FindLateOperator(BackfillOperator):
    """Find the sealed dates whose source has moved on, and say by how much.

    Returns them, one a date: what a mapped `AmendPartitionOperator` goes over. If they are more than Airflow maps
    (`[core] max_map_length`), it returns the first ones; the others are found again once these are corrected. A sealed
    date whose source is gone or broken is a warning in the log.
    """

    def execute(self, context: Context) -> list[LatePartition]:  # noqa: ARG002
        """Find; see the class."""
        with self.backfill() as backfill:
            answer = backfill.late()
        for late in answer["late"]:
            self.log.info(
                "%s is late: %+d orders, amount %+d", late["dt"], late["orders_difference"], late["amount_difference"]
            )
        for dt in answer["no_data"]:
            self.log.warning("%s is sealed, and its source file is gone", dt)
        for dt, fault in answer["failed"]:
            self.log.warning("%s is sealed, and its source can't be counted: %s", dt, one_line(fault))
        if more := answer["late"][most_mapped() :]:
            self.log.warning("%s more are late than Airflow maps, from %s on; run this again", len(more), more[0]["dt"])
        return answer["late"][: most_mapped()]


class RollupOperator(BackfillOperator):
    """Derive the totals from the whole of what is published. Running it twice changes nothing."""

    def execute(self, context: Context) -> RollupAnswer:  # noqa: ARG002
        """Derive; see the class."""
        with self.backfill() as backfill:
            return backfill.rollup()


class RunOutcomeOperator(BaseOperator):
    """Fail the run if a task before this one has failed: a teardown beside a `ReleaseRangeOperator`.

    Use it as `outcome.as_teardown(setups=claim, on_failure_fail_dagrun=True)`. Airflow judges a run by its last tasks.
    They are skipped in a run that somebody marks failed, and with them skipped it would end as a success.
    """

    def execute(self, context: Context) -> None:
        """Look; see the class."""
        if failed := failed_before(context, self):
            raise AirflowFailException(f"this run is not whole: {', '.join(failed)} failed")


class ReleaseStaleClaimsOperator(BackfillOperator):
    """Free the claims whose Airflow run has ended or is gone: what a killed worker left behind.

    It asks Airflow about every run that holds a claim. A run that is queued or running keeps its claims, and so does
    a person. Use it where one Airflow writes to the store: another one's runs are gone in the eyes of this one.
    """

    def execute(self, context: Context) -> dict[str, list[list[str]]]:
        """Return [date, holder, why] of each claim that was `released`, and of each that was `kept`."""
        receipt: dict[str, list[list[str]]] = {"released": [], "kept": []}
        with self.backfill() as backfill:
            states = RunStates(context["ti"])
            for claim in backfill.standing_claims():
                is_stale, why = states.verdict(claim)
                if is_stale and not self._free(backfill, claim):
                    continue  # it was given back meanwhile
                receipt["released" if is_stale else "kept"].append([claim.key, claim.holder, why])
                self.log.info("%s %s of %s: %s", "Released" if is_stale else "Kept", claim.key, claim.holder, why)
        return receipt

    def _free(self, backfill: Backfill, claim: Claim) -> list[str]:
        day = DateRange.parse(claim.key, claim.key)
        return backfill.give_back(claim.id, day) if claim.id else backfill.give_back_reserved(day, claim.owner)


def _sums(receipt: RunAnswer) -> tuple[int, int]:
    return receipt["orders"], receipt["amount"]


def _was(before: PartitionStatus) -> str:
    return f"before: {_orders(before['orders'], before['amount'])}"


def _planned(partition: PlannedPartition) -> str:
    before = _orders(partition["orders_before"], partition["amount_before"])
    after = _orders(partition["orders_after"], partition["amount_after"])
    why = f" ({partition['reason']})" if partition["reason"] else ""
    becomes = f": {before} -> {after}" if partition["action"] == "change" else ""
    return f"{partition['dt']}  {partition['action']}{why}{becomes}"


def _orders(orders: int | None, amount: int | None) -> str:
    return "nothing" if orders is None else f"{orders} orders, amount {amount}"

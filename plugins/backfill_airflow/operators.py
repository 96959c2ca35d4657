"""The operators. Each returns the core's answer, its receipt, as XCom."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from backfill_airflow.base import EVENT_KEYS, BackfillOperator, SourceOperator, WaitingOperator
from backfill_airflow.compat import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    AirflowTaskTerminated,
    BaseOperator,
    failed_before,
    most_mapped,
)
from backfill_airflow.hook import BackfillHook
from backfill_airflow.owner import caller_of, name_of, reason_of
from backfill_airflow.partition import dates_of, parts_of
from backfill_airflow.partitions import who_holds
from backfill_airflow.stale import RunStates
from backfill_airflow.verdict import airflow_verdict, conclude, one_of
from backfill_core import UsageError
from backfill_core.claims import RESERVATION
from backfill_core.guard import MAX_SHRINK, check_share, claim_lost
from backfill_core.protocol.judging import EMPTY, GROWTH, SHRINK, Wish
from backfill_core.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backfill_airflow.compat import Context
    from backfill_airflow.partitions import Corrected, Keys, Partitions, Written
    from backfill_airflow.source import Fingerprint
    from backfill_core.answers import RollupAnswer, RunAnswer
    from backfill_core.claims import Caller
    from backfill_core.dataset import Dataset

ON_SEALED = ("skip", "fail", "amend")
ON_SEALED_RANGE = ("fail", "skip", "allow")
ON_NO_DATA = ("skip", "fail", "retry")
ON_EMPTY = ("fail", "allow")
ON_DRIFT = ("fail", "overwrite")


class ReplacePartitionOperator(WaitingOperator, SourceOperator):
    """Make one partition again from its source and put the result in the place of what was published.

    It claims the partition for this try, beneath what its run or its person has reserved; replaces it whole, if that
    claim still holds when it does so; and gives its claim back in any case, and no other. Run it once or ten times, by
    schedule, by hand or by a backfill: the result is the same.

    With a dataset it also takes many partitions at once, from `start` to `end`; those that are sealed, or that somebody
    else holds, are left alone and said, and the others written.

    :param date: (templated) the partition, YYYY-MM-DD. By default the one that the run means: its partition key, else
        the local day of its data interval.
    :param start: (templated) of a dataset, instead of `date`: the first partition.
    :param end: (templated) the last one, inclusive.
    :param keys: (templated) of a dataset, in place of days: a key, a list of keys, or the JSON of one,
        `{{ params['keys'] | tojson }}`. By default of a list or a whole table all keys, or the run's partition key.
    :param claim_as: (templated) whose reservation lets it in; by default that of `owner` in the run's conf.
    :param on_sealed: `skip` leaves a sealed partition alone, `fail` says so loudly, `amend` records a correction if the
        source has moved on.
    :param on_no_data: what to do where there is no source file: `skip`, `fail`, or `retry` for one that comes late.
    :param on_empty: `fail` where a partition that holds rows would become one without, or a sealed one be corrected to
        that; `allow` writes it.
    :param max_shrink: the share of its orders that a date may lose, from 0 to 1; it fails where more would go. A
        dataset says so itself.
    :param amend_reason: (templated) the reason of a correction by `on_sealed="amend"`.
    :param event_key: which partition key an asset event has. `run`: the run's own; where the run has none, neither has
        the event, and the DAGs that are scheduled by the plain asset run. `date`: the partition; only DAGs with a
        `PartitionedAssetTimetable` run then (Airflow 3.3; Airflow 2.11 has no keys).
    :param reason: (templated) of a dataset: why it is written, for the history; by default `reason` in the run's conf.
    :param fingerprint: of a dataset: (templated) a query of a key and of what changes when that key's rows would, or a
        function of the list of keys that returns the latter by key. A partition whose fingerprint is as it was is left.
    :param on_drift: of a dataset: `fail` where the table holds what nobody of ours published, or `overwrite` it.
    :param allow: (templated) of a dataset: which limits don't count: `shrink`, `growth`, `empty`.
    :param always: of a dataset: publish and announce a result that is there already, too.
    """

    template_fields: Sequence[str] = (
        *BackfillOperator.template_fields,
        "date", "start", "end", "keys", "claim_as", "amend_reason", "reason", "select", "fingerprint", "allow",
    )  # fmt: skip

    def __init__(
        self,
        *,
        date: str | None = None,
        start: str | None = None,
        end: str | None = None,
        keys: Keys | None = None,
        claim_as: str | None = None,
        on_sealed: str = "skip",
        on_no_data: str = "skip",
        on_empty: str = "fail",
        max_shrink: float | None = None,
        amend_reason: str = "late events, found by {{ run_id }}",
        event_key: str = "run",
        reason: str | None = None,
        fingerprint: Fingerprint | None = None,
        on_drift: str = "fail",
        allow: Sequence[str] | str = (),
        always: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.date = date
        self.start = start
        self.end = end
        self.keys = keys
        self.claim_as = claim_as
        self.on_sealed = one_of("on_sealed", on_sealed, ON_SEALED)
        self.on_no_data = one_of("on_no_data", on_no_data, ON_NO_DATA)
        self.on_empty = one_of("on_empty", on_empty, ON_EMPTY)
        self.max_shrink = share_of(max_shrink, self.dataset)
        self.amend_reason = amend_reason
        self.event_key = one_of("event_key", event_key, EVENT_KEYS)
        self.reason = reason
        self.fingerprint = fingerprint
        self.on_drift = one_of("on_drift", on_drift, ON_DRIFT)
        self.allow = allow
        self.always = always
        self._stopped = False
        self._is_at_work = False
        if not (date is None or (start is None and end is None)):
            raise ValueError("the partitions are either one date, or from start to end")
        if self.dataset is None and (start or end or keys or fingerprint or allow or always or on_drift != "fail"):
            raise ValueError(
                "start, end, keys, fingerprint, on_drift, allow and always belong to a dataset; give it too"
            )

    def keys_of(self, context: Context, partitions: Partitions) -> list[str]:
        """Return the partitions that are meant."""
        if self.date is not None:
            return partitions.keys_of(context, self.date, keys=self.keys)
        return partitions.keys_of(context, self.start, self.end, self.keys)

    def work(self, context: Context, partitions: Partitions, keys: list[str], caller: Caller) -> Mapping[str, Any]:
        """Claim, write, give back; then say what came of it."""
        reason = reason_of(context, self.reason)
        self._is_at_work = self.dataset is not None
        try:
            written = partitions.replace(keys, caller, reason, self.wish(), lambda: self._stopped)
        finally:
            self._is_at_work = False
        for line in written.said:
            self.log.info("%s", printable(line))
        # What goes on to skip or fail returns nothing, but its receipt is the record of why.
        context["ti"].xcom_push("return_value", dict(written.receipt))
        self._conclude(context, partitions, caller, written)
        return written.receipt

    def wish(self) -> Wish:
        """Return what is allowed in this write."""
        allow = limits_of(self.allow, self.on_empty)
        return Wish(overwrite=self.on_drift == "overwrite", always=self.always, allow=allow)

    def _conclude(self, context: Context, partitions: Partitions, caller: Caller, written: Written) -> None:
        """Say in events and in the log what was written, and end the task as its options say of what was not."""
        for fault in written.failed.values():
            raise AirflowFailException(printable(fault))
        for key, holder in written.lost.items():
            raise AirflowException(printable(claim_lost(key, holder)))
        corrected = self._amend_if_late(partitions, caller, written.sealed) if self.on_sealed == "amend" else []
        self.announce(context, written.measures, corrected)
        done = bool(written.measures or corrected)
        if written.denied:
            held, what = who_holds(written.denied), "the others were written" if done else "nothing was written"
            if done and self.on_claimed == "skip":
                self.log.warning("%s; %s", printable(held), what)
            else:
                self.give_way(sorted(written.denied), caller, held, what)
        if written.sealed and self.on_sealed != "amend":
            verb = "is" if len(written.sealed) == 1 else "are"
            self._leave(
                done,
                self.on_sealed,
                f"{', '.join(written.sealed)} {verb} sealed: what was sent stays; record a correction with"
                " amend_partition",
            )
        for key in written.missing:
            self._leave(done, self.on_no_data, f"{key} has no source file (no_data); what was published stays")

    def _leave(self, done: bool, action: str, sentence: str) -> None:
        """End the task; but one that has written something is not skipped: its asset events would be lost."""
        if done and action == "skip":
            self.log.warning("%s", printable(sentence))
        else:
            conclude(action, sentence)

    def _amend_if_late(self, partitions: Partitions, caller: Caller, keys: Sequence[str]) -> list[Corrected]:
        found = [(key, partitions.amend(key, caller, self.amend_reason, self.wish(), if_late=True)) for key in keys]
        for key, corrected in found:
            if corrected is None:
                self.log.info("%s is sealed, and its source has not moved on: no correction", key)
            else:
                self.log.info("Corrected: %s", corrected.receipt)
        return [corrected for _, corrected in found if corrected is not None]

    def on_kill(self) -> None:
        """Stop: a count of events between two pieces of its file, all else where it is; nothing is published."""
        self._stopped = True
        if self._is_at_work:
            raise AirflowTaskTerminated("stopped by Airflow; the partitions are as they were")


class ReplaceRangeOperator(ReplacePartitionOperator):
    """Replace each partition of a range, as `ReplacePartitionOperator` does with one; a dataset's all at once.

    Maps over the parts of a range of any length, see `SplitRangeOperator`. A date of `daily` that fails does not stop
    the others; then the task fails and names it. The task is skipped if all of its partitions were.

    :param start: (templated) the first day, YYYY-MM-DD. By default the one partition that the run means.
    :param end: (templated) the last day, inclusive. By default `start`.
    """

    template_fields: Sequence[str] = tuple(
        field for field in ReplacePartitionOperator.template_fields if field != "date"
    )

    def __init__(self, *, start: str | None = None, end: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start = start
        self.end = end
        self._written: dict[str, Mapping[str, Any]] = {}
        self._corrected: list[Corrected] = []

    def act(self, context: Context) -> Any:
        """Replace them; then say what came of them."""
        return super().act(context) if self.dataset is not None else self._act_by_date(context)

    def _act_by_date(self, context: Context) -> RunAnswer:
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
        super().announce(context, self._written, self._corrected)
        if faults:
            raise AirflowFailException("; ".join(faults))
        if len(left_alone) == len(dates):
            raise AirflowSkipException("; ".join(left_alone))
        return answer

    def announce(
        self, context: Context, measures: Mapping[str, Mapping[str, Any]], corrections: Sequence[Corrected] = ()
    ) -> None:
        """Of `daily` keep it for the one event of all dates."""
        if self.dataset is not None:
            super().announce(context, measures, corrections)
        self._written.update(measures)
        self._corrected += corrections


class RangeOperator(BackfillOperator):
    """What the operators over a range share.

    :param start: (templated) the first partition, YYYY-MM-DD. By default the one that the run means.
    :param end: (templated) the last one, inclusive. By default `start`.
    :param keys: (templated) of a dataset, in place of days: a key, a list of keys, or the JSON of one,
        `{{ params['keys'] | tojson }}`. By default of a list or a whole table all keys, or the run's partition key.
    :param claim_as: (templated) whose reservation lets it in; by default that of `owner` in the run's conf.
    """

    template_fields: Sequence[str] = (*BackfillOperator.template_fields, "start", "end", "keys", "claim_as")

    def __init__(
        self,
        *,
        start: str | None = None,
        end: str | None = None,
        keys: Keys | None = None,
        claim_as: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.start = start
        self.end = end
        self.keys = keys
        self.claim_as = claim_as

    def keys_of(self, context: Context, partitions: Partitions) -> list[str]:
        """Return the partitions that are meant."""
        return partitions.keys_of(context, self.start, self.end, self.keys)


class PlanRangeOperator(RangeOperator, SourceOperator):
    """Say in the log what a run over the range would do, partition by partition, and write nothing.

    Returns the planned partitions, one a date: what a mapped task goes over.

    :param reason: (templated) why the range is run again, for who reads the log.
    :param fingerprint: of a dataset: as that of `ReplacePartitionOperator`.
    """

    template_fields: Sequence[str] = (*RangeOperator.template_fields, "reason", "select", "fingerprint")

    def __init__(self, *, reason: str | None = None, fingerprint: Fingerprint | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reason = reason
        self.fingerprint = fingerprint

    def execute(self, context: Context) -> list[Any]:
        """Plan; see the class."""
        with self.partitions(context) as partitions:
            caller = caller_of(context, self.claim_as)
            plan = partitions.plan(self.keys_of(context, partitions), caller, Wish())
        self.log.info("%s", plan.said[0])
        self.log.info("In the name of %s", printable(name_of(caller)))
        if self.reason:
            self.log.info("Reason: %s", printable(self.reason))
        for line in plan.said[1:]:
            self.log.info("%s", printable(line))
        return plan.receipt


class SplitRangeOperator(RangeOperator):
    """Split a range into parts, one a date, or longer ones where that would be more than Airflow maps.

    Airflow maps `[core] max_map_length` values, 1024. Returns the parts as `start` and `end`: what a mapped
    `ReplaceRangeOperator` goes over by `expand_kwargs`.
    """

    def execute(self, context: Context) -> list[dict[str, str]]:
        """Split; see the class."""
        with airflow_verdict():
            if self.keys is not None or not (self.dataset is None or self.dataset.column.has_days):
                raise UsageError("a range of days is split; keys that are no days are written by one task")
            parts = parts_of(dates_of(context, self.start, self.end), most_mapped())
        return [{"start": part.first.isoformat(), "end": part.last.isoformat()} for part in parts]


class ClaimRangeOperator(RangeOperator, WaitingOperator):
    """Reserve a whole range or nothing: the setup of a backfill, or of anybody's own tasks.

    Where somebody else holds a date it takes nothing and does as `on_claimed` says. Its receipt has two keys more than
    the core's answer: `claim`, the reservation's id, by which a `ReleaseRangeOperator` gives it back, and `sealed`, the
    partitions of the range that were sealed then.

    :param on_sealed: what to do where a partition of the range is sealed. `fail` refuses the range, `skip` skips, and
        `allow` claims it and names the sealed ones: for tasks that leave them alone themselves, as
        `ReplacePartitionOperator` does. Looked at once, before the claim: a seal may come later.
    """

    kind = RESERVATION

    def __init__(self, *, on_sealed: str = "fail", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.on_sealed = one_of("on_sealed", on_sealed, ON_SEALED_RANGE)

    def work(self, context: Context, partitions: Partitions, keys: list[str], caller: Caller) -> dict[str, Any]:  # noqa: ARG002
        """Claim the range, or none of it."""
        sealed = self._sealed(partitions, keys)
        receipt = partitions.claim(keys, caller)
        first, last = printable(keys[0]), printable(keys[-1])
        self.log.info("Claimed %s to %s as %s", first, last, printable(name_of(caller)))
        return {**receipt, "sealed": sealed}

    def _sealed(self, partitions: Partitions, keys: list[str]) -> list[str]:
        sealed = partitions.sealed(keys)
        if sealed:
            named = f"{', '.join(sealed)} sealed: what was sent stays"
            if self.on_sealed != "allow":
                conclude(self.on_sealed, f"{named}; nothing was claimed")
            self.log.warning("%s; whatever runs under this claim has to leave it alone", named)
        return sealed


class ReleaseRangeOperator(RangeOperator):
    """Give back a reservation, the teardown of a `ClaimRangeOperator`; a partition is free when no claim is left on it.

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

    def execute(self, context: Context) -> dict[str, Any]:
        """Free the partitions; see the class."""
        with self.partitions(context) as partitions:
            caller = caller_of(context, self.claim_as)
            if self._by_name:
                keys, person = self.keys_of(context, partitions), caller.person if self.claim_as else ""
                released = partitions.release(caller, keys=keys, person=person)
            elif self.claim is not None:
                released = partitions.release(caller, claim=self.claim["claim"])
            elif self._claiming_task is not None:
                released = partitions.release(caller, task=self._claiming_task)
            else:
                released = []
            return {"owner": name_of(caller), "released": released}


class SealRangeOperator(RangeOperator):
    """Declare a range as sent: no run changes it any more. Sealing again is success.

    :param reason: (templated) of a dataset: why, for the history; by default `reason` in the run's conf.
    """

    template_fields: Sequence[str] = (*RangeOperator.template_fields, "reason")

    def __init__(self, *, reason: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reason = reason

    def execute(self, context: Context) -> Mapping[str, Any]:
        """Seal; see the class."""
        with self.partitions(context) as partitions:
            caller, reason = caller_of(context, self.claim_as), reason_of(context, self.reason)
            return partitions.seal(self.keys_of(context, partitions), caller, reason)


class AmendPartitionOperator(WaitingOperator, SourceOperator):
    """Record a sealed partition's correction, before and after, beside what was published.

    It claims a date of `daily` for this try as `ReplacePartitionOperator` does, so that one correction is recorded by
    one run.

    :param date: (templated) the partition, YYYY-MM-DD. By default the one that the run means.
    :param keys: (templated) of a dataset, in place of the day: the key.
    :param claim_as: (templated) whose reservation lets it in; by default that of `owner` in the run's conf.
    :param reason: (templated) why; a correction without a reason is refused.
    :param on_empty: `fail` where the right value would become one without orders, or rows; `allow` records it.
    :param max_shrink: of `daily`: the share of its orders that a date may lose, from 0 to 1.
    :param allow: (templated) of a dataset: which limits don't count: `shrink`, `growth`, `empty`.
    """

    template_fields: Sequence[str] = (
        *BackfillOperator.template_fields, "date", "keys", "claim_as", "reason", "select", "allow",
    )  # fmt: skip

    def __init__(
        self,
        *,
        reason: str,
        date: str | None = None,
        keys: Keys | None = None,
        claim_as: str | None = None,
        on_empty: str = "fail",
        max_shrink: float | None = None,
        allow: Sequence[str] | str = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.date = date
        self.keys = keys
        self.claim_as = claim_as
        self.reason = reason
        self.allow = allow
        self.on_empty = one_of("on_empty", on_empty, ON_EMPTY)
        self.max_shrink = share_of(max_shrink, self.dataset)
        if self.dataset is None and allow:
            raise ValueError("allow belongs to a dataset; give it too")

    def keys_of(self, context: Context, partitions: Partitions) -> list[str]:
        """Return the partition that is meant."""
        keys = partitions.keys_of(context, self.date, keys=self.keys)
        if len(keys) > 1:
            raise UsageError(f"a correction is of one partition, and {len(keys)} are meant; give the operator its key")
        return keys

    def work(self, context: Context, partitions: Partitions, keys: list[str], caller: Caller) -> Mapping[str, Any]:
        """Claim, correct, give back."""
        wish = Wish(allow=limits_of(self.allow, self.on_empty))
        corrected = partitions.amend(keys[0], caller, self.reason, wish)
        assert corrected is not None  # noqa: S101  for the type checker
        self.announce(context, {}, [corrected])
        return corrected.receipt


class FindLateOperator(SourceOperator):
    """Find the sealed partitions whose source has moved on, and say by how much.

    Returns them, one a date: what a mapped `AmendPartitionOperator` goes over. If they are more than Airflow maps
    (`[core] max_map_length`), it returns the first ones; the others are found again once these are corrected. A sealed
    date whose source is gone or broken is a warning in the log.
    """

    template_fields: Sequence[str] = (*BackfillOperator.template_fields, "select")

    def execute(self, context: Context) -> list[Any]:
        """Find; see the class."""
        with self.partitions(context) as partitions:
            late = partitions.late()
        for line in late.said:
            self.log.info("%s", printable(line))
        for line in late.warnings:
            self.log.warning("%s", printable(line))
        if more := late.receipt[most_mapped() :]:
            first = more[0].get("key") or more[0].get("dt")
            self.log.warning("%s more are late than Airflow maps, from %s on; run this again", len(more), first)
        return late.receipt[: most_mapped()]


class RollupOperator(BackfillOperator):
    """Derive the totals from the whole of what `daily` has. Running it twice changes nothing."""

    def execute(self, context: Context) -> RollupAnswer:  # noqa: ARG002
        """Derive; see the class."""
        with airflow_verdict(), BackfillHook(self.conn_id).backfill() as backfill:
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
        """Return [partition, holder, why] of each claim that was `released`, and of each that was `kept`."""
        with self.partitions(context) as partitions:
            receipt = partitions.free_stale(RunStates(context["ti"]))
        for word, claims in receipt.items():
            for key, holder, why in claims:
                self.log.info("%s %s of %s: %s", word.capitalize(), key, holder, why)
        return receipt


def limits_of(allow: Sequence[str] | str, on_empty: str) -> frozenset[str]:
    """Return the limits that don't count.

    Raises:
        UsageError: there is no such limit.
    """
    words = re.split(r"[\s,]+", allow) if isinstance(allow, str) else allow
    allowed = frozenset(word for word in words if word)
    if strange := sorted(allowed - {EMPTY, SHRINK, GROWTH}):
        raise UsageError(f"allow has {strange[0]!r}; it may have {EMPTY}, {SHRINK} and {GROWTH}")
    return allowed | {EMPTY} if on_empty == "allow" else allowed


def share_of(max_shrink: float | None, dataset: Dataset | None) -> float:
    """Return the share of its orders that a date of `daily` may lose.

    Raises:
        UsageError: it is no share, or it was given for a dataset, which says so itself.
    """
    if dataset is not None and max_shrink is not None:
        raise UsageError(f"max_shrink belongs into the definition of {dataset.name}; for one write there is `allow`")
    return check_share(MAX_SHRINK if max_shrink is None else max_shrink)

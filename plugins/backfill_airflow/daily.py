"""The runner's table `daily` and its folder of events, as the operators see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backfill_airflow.claims import attempt
from backfill_airflow.compat import AirflowTaskTerminated
from backfill_airflow.owner import name_of
from backfill_airflow.partition import dates_of
from backfill_airflow.partitions import Corrected, DeniedError, Late, Planned, Written
from backfill_core import DateRange, PartitionError, UsageError
from backfill_core.claims import RESERVATION
from backfill_core.guard import LOST
from backfill_core.partition import EVER
from backfill_core.protocol.judging import EMPTY, SHRINK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backfill_airflow.compat import Context
    from backfill_airflow.partitions import Keys
    from backfill_airflow.stale import RunStates
    from backfill_core import Backfill
    from backfill_core.answers import PartitionStatus, PlannedPartition, RunAnswer, SealAnswer
    from backfill_core.attempts import Taken
    from backfill_core.claims import Caller, Claim
    from backfill_core.protocol.judging import Wish


class Daily:
    """`daily` over the core's own operations; see `partitions.Partitions`.

    max_shrink: the share of its orders that a date may lose.
    """

    def __init__(self, backfill: Backfill, max_shrink: float) -> None:
        self._backfill = backfill
        self._max_shrink = max_shrink

    def keys_of(
        self, context: Context, first: object = None, last: object = None, keys: Keys | None = None
    ) -> list[str]:
        """Return the dates that an operator was given; by default the one that its run means."""
        if keys is not None:
            raise UsageError("keys are for a dataset; a date of daily is named by date, start and end")
        return list(dates_of(context, first, last))

    def replace(
        self,
        keys: Sequence[str],
        caller: Caller,
        reason: str,  # noqa: ARG002  it has no place for one
        wish: Wish,
        stop: Callable[[], bool],
    ) -> Written:
        """Claim the date for this try, count its source, replace what is published, give the claim back."""
        if len(keys) != 1:
            raise UsageError("daily is replaced date by date; give the task one date, and map it over many")
        dates = _range(keys)
        [before] = self._backfill.status(dates)["partitions"]
        with attempt(self._backfill, dates, caller) as taken:
            receipt = self._run(dates, taken, wish, stop) if taken.claim else _kept_out(before, caller, taken)
        if receipt["done"]:
            was = "as before" if (before["orders"], before["amount"]) == _sums(receipt) else _was(before)
            orders, amount = _sums(receipt)
            said = [f"{keys[0]}: {orders} orders, amount {amount}; {was}"]
            return Written(receipt, {keys[0]: {"orders": orders, "amount": amount}}, said)
        return _not_written(dates, receipt)

    def _run(self, dates: DateRange, taken: Taken, wish: Wish, stop: Callable[[], bool]) -> RunAnswer:
        [owner] = taken.owners.values()
        return self._backfill.run(dates, owner, claim=taken.claim, stop=stop, **self._limits(wish))

    def _limits(self, wish: Wish) -> Any:
        max_shrink = 1 if SHRINK in wish.allow else self._max_shrink
        return {"allow_empty": EMPTY in wish.allow, "max_shrink": max_shrink}

    def plan(self, keys: Sequence[str], caller: Caller, wish: Wish) -> Planned:  # noqa: ARG002
        """Tell what a run over the dates would do."""
        plan = self._backfill.plan(_range(keys), name_of(caller), caller)
        counts = ", ".join(f"{plan[action]} {action}" for action in ("change", "unchanged", "skipped", "failed"))
        said = [f"{plan['first']} to {plan['last']}, {plan['asked']} partitions: {counts}"]
        return Planned(list(plan["partitions"]), [*said, *map(_planned, plan["partitions"])])

    def denied(self, keys: Sequence[str], caller: Caller, kind: str) -> dict[str, str]:
        """Return who would keep the caller out now, by date."""
        return self._backfill.denied(_range(keys), caller, kind)

    def claim(self, keys: Sequence[str], caller: Caller) -> dict[str, Any]:
        """Reserve all of the dates, or none."""
        taken = self._backfill.take(_range(keys), caller, RESERVATION)
        if taken.claim is None:
            raise DeniedError(taken.denied)
        return {"owner": name_of(caller), "claimed": list(taken.owners), "denied": [], "claim": taken.claim}

    def release(
        self,
        caller: Caller,
        *,
        claim: str | None = None,
        keys: Sequence[str] | None = None,
        task: str | None = None,
        person: str = "",
    ) -> list[str]:
        """Give back the claim of an id; else what the caller's run, or one task of it, reserved."""
        if claim is not None:
            return self._backfill.give_back(claim)
        dates = EVER if keys is None else _range(keys)
        return self._backfill.give_back_reserved(dates, caller.run, task=task, person=person)

    def sealed(self, keys: Sequence[str]) -> list[str]:
        """Return those of the dates that are sealed."""
        return [one["dt"] for one in self._backfill.status(_range(keys))["partitions"] if one["sealed"]]

    def seal(self, keys: Sequence[str], caller: Caller, reason: str) -> SealAnswer:  # noqa: ARG002
        """Declare the dates as sent."""
        return self._backfill.seal(_range(keys))

    def amend(self, key: str, caller: Caller, reason: str, wish: Wish, *, if_late: bool = False) -> Corrected | None:
        """Claim the date for this try, record the correction, give the claim back."""
        dates = _range([key])
        with attempt(self._backfill, dates, caller) as taken:
            if taken.claim is None:
                raise DeniedError(taken.denied)
            if if_late and not self._is_late(dates):
                return None
            answer = self._backfill.amend(dates.first, reason, claim=taken.claim, **self._limits(wish))
        return Corrected(answer, key, {"orders": answer["orders_after"], "amount": answer["amount_after"]}, reason)

    def _is_late(self, dates: DateRange) -> bool:
        late = self._backfill.late(dates)
        for _, fault in late["failed"]:
            raise PartitionError(fault)
        return bool(late["late"])

    def late(self) -> Late:
        """Find the sealed dates whose source has moved on."""
        answer = self._backfill.late()
        said = [
            f"{late['dt']} is late: {late['orders_difference']:+d} orders, amount {late['amount_difference']:+d}"
            for late in answer["late"]
        ]
        warnings = [f"{dt} is sealed, and its source file is gone" for dt in answer["no_data"]]
        warnings += [f"{dt} is sealed, and its source can't be counted: {fault}" for dt, fault in answer["failed"]]
        return Late(list(answer["late"]), said, warnings)

    def free_stale(self, states: RunStates) -> dict[str, list[list[str]]]:
        """Free the claims whose run or try has ended."""
        receipt: dict[str, list[list[str]]] = {"released": [], "kept": []}
        for claim in self._backfill.standing_claims():
            is_stale, why = states.verdict(claim)
            if is_stale and not self._free(claim):
                continue  # it was given back meanwhile
            receipt["released" if is_stale else "kept"].append([claim.key, claim.holder, why])
        return receipt

    def _free(self, claim: Claim) -> list[str]:
        day = _range([claim.key])
        return (
            self._backfill.give_back(claim.id, day) if claim.id else self._backfill.give_back_reserved(day, claim.owner)
        )


def _range(dates: Sequence[str]) -> DateRange:
    return DateRange.parse(dates[0], dates[-1])


def _kept_out(before: PartitionStatus, caller: Caller, taken: Taken) -> RunAnswer:
    """Return what a run says of a date that another holds: a seal goes before that."""
    [(dt, holder)] = taken.denied.items()
    reason = "sealed" if before["sealed"] else f"claimed_by:{holder}"
    return {"owner": name_of(caller), "done": [], "skipped": [[dt, reason]], "orders": 0, "amount": 0}


def _not_written(dates: DateRange, receipt: RunAnswer) -> Written:
    reasons: Mapping[str, str] = {dt: reason for dt, reason in receipt["skipped"]}  # noqa: C416
    failed = {dt: fault for dt, fault in receipt.get("failed", [])}  # noqa: C416
    if not reasons and not failed:
        raise AirflowTaskTerminated(f"stopped by Airflow; {dates.first} is as it was")
    return Written(
        receipt,
        {},
        [],
        sealed=[dt for dt, reason in reasons.items() if reason == "sealed"],
        missing=[dt for dt, reason in reasons.items() if reason == "no_data"],
        denied=_reason(reasons, "claimed_by:"),
        lost=_reason(reasons, LOST),
        failed=failed,
    )


def _reason(reasons: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {dt: reason.removeprefix(prefix) for dt, reason in reasons.items() if reason.startswith(prefix)}


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

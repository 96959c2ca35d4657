from __future__ import annotations

import asyncio
import json
import re
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_stand import Run, Stand, context_of
from backfill_airflow.compat import (
    DAG,
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    AirflowTaskTerminated,
    Asset,
)
from backfill_airflow.operators import (
    AmendPartitionOperator,
    ClaimRangeOperator,
    FindLateOperator,
    PlanRangeOperator,
    ReleaseRangeOperator,
    ReleaseStaleClaimsOperator,
    ReplacePartitionOperator,
    ReplaceRangeOperator,
    RollupOperator,
    SealRangeOperator,
    SplitRangeOperator,
)
from backfill_airflow.triggers import PartitionFreeTrigger
from backfill_core import DateRange
from backfill_core.claims import ATTEMPT, RESERVATION, Caller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

DAY = "2024-05-01"
RUN = Run()
OWN = "daily/scheduled__2024-05-02T00:00:00+00:00"


def days(first: str, last: str | None = None) -> DateRange:
    return DateRange.parse(first, last or first)


def replace(context: Any = None, **options: Any) -> Any:
    return ReplacePartitionOperator(task_id="replace", **options).execute(context or context_of(RUN))


def claim(stand: Stand, dates: DateRange, owner: str) -> None:
    with stand.backfill() as backfill:
        backfill.claim(dates, owner)


# Replace


def test_a_partition_is_replaced_in_the_runs_own_name_and_the_receipt_says_so(stand: Stand) -> None:
    stand.write(DAY, {"a": 1, "b": 2})

    receipt = replace()

    assert receipt == {"owner": OWN, "done": [DAY], "skipped": [], "orders": 2, "amount": 3}
    assert stand.published() == {DAY: (2, 3)}
    assert stand.holders() == {}


def test_a_rerun_replaces_and_does_not_add(stand: Stand) -> None:
    for orders, expected in [
        ({"a": 1, "b": 2}, (2, 3)),
        ({"a": 1, "b": 2, "c": 4}, (3, 7)),
        ({"a": 1, "c": 4}, (2, 5)),
    ]:
        stand.write(DAY, orders)
        replace()
        replace()

        assert stand.published() == {DAY: expected}


def test_a_given_date_goes_before_the_interval(stand: Stand) -> None:
    stand.write("2024-05-09", {"d": 10})

    replace(date="2024-05-09")

    assert stand.published() == {"2024-05-09": (1, 10)}


def test_an_empty_interval_fails_for_good_and_names_it(stand: Stand) -> None:
    run = Run(data_interval_end=Run().data_interval_start)

    with pytest.raises(AirflowFailException, match=r"empty, 2024-05-01T00:00:00\+00:00 to 2024-05-01T00:00:00\+00:00"):
        replace(context_of(run))


def test_each_outlet_gets_an_event_with_its_partition(stand: Stand) -> None:
    stand.write(DAY, {"a": 1, "b": 2})
    asset, context = Asset("backfill://daily"), context_of(RUN)

    replace(context, outlets=[asset])

    assert context["outlet_events"][asset].extra == {"dt": DAY, "orders": 2, "amount": 3}


@pytest.mark.parametrize(("event_key", "keys"), [("run", []), ("date", [DAY])])
def test_an_event_has_a_key_of_its_own_only_where_that_is_asked_for(
    stand: Stand, event_key: str, keys: list[str]
) -> None:
    stand.write(DAY, {"a": 1})
    asset, context = Asset("backfill://daily"), context_of(RUN)
    stamped: list[str] = []
    context["outlet_events"][asset].add_partitions = stamped.append

    replace(context, outlets=[asset], event_key=event_key)

    assert stamped == keys


def test_a_correction_is_announced_and_no_correction_is_not(stand: Stand) -> None:
    stand.write(DAY, {"a": 1})
    replace()
    SealRangeOperator(task_id="seal").execute(context_of(RUN))
    stand.write(DAY, {"a": 1, "b": 2})
    asset, first, second = Asset("backfill://daily"), context_of(RUN), context_of(RUN)
    task = ReplacePartitionOperator(task_id="replace", outlets=[asset], on_sealed="amend", amend_reason="late")

    task.execute(first)
    announced = list(task.outlets)
    task.execute(second)

    assert announced == [asset]
    assert first["outlet_events"][asset].extra == {"dt": DAY, "orders": 2, "amount": 3, "reason": "late"}
    assert (task.outlets, dict(second["outlet_events"])) == ([], {})


@pytest.mark.parametrize(
    ("on_claimed", "verdict"),
    [("retry", AirflowException), ("skip", AirflowSkipException), ("fail", AirflowFailException)],
)
def test_a_claimed_date_is_left_alone_and_its_holder_is_named(
    stand: Stand, on_claimed: str, verdict: type[Exception]
) -> None:
    stand.write(DAY, {"a": 1})
    claim(stand, days(DAY), "anna")
    context = context_of(RUN)

    with pytest.raises(verdict, match="2024-05-01 claimed_by:anna") as raised:
        replace(context, on_claimed=on_claimed)

    assert type(raised.value) is verdict
    assert context["ti"].xcoms["return_value"]["skipped"] == [[DAY, "claimed_by:anna"]]
    assert stand.published() == {}
    assert stand.holders() == {DAY: "anna"}


def test_a_claimed_date_is_waited_for_without_a_worker_where_a_triggerer_runs(stand: Stand, triggerer: None) -> None:
    stand.write(DAY, {"a": 1})
    claim(stand, days(DAY), "anna")

    with pytest.raises(TaskDeferred) as deferred:
        replace(defer_timeout=timedelta(hours=2))

    assert 0 < deferred.value.kwargs["deadline"] - time.time() <= 7200  # type: ignore[index]
    assert deferred.value.trigger.serialize()[1]["deadline"] == deferred.value.kwargs["deadline"]  # type: ignore[index]


def test_a_claimed_date_is_tried_again_where_no_triggerer_runs(stand: Stand, airflow_database: None) -> None:
    stand.write(DAY, {"a": 1})
    claim(stand, days(DAY), "anna")

    with pytest.raises(AirflowException, match="2024-05-01 claimed_by:anna; nothing was written") as raised:
        replace()

    assert type(raised.value) is AirflowException


def test_all_deferrals_of_a_task_have_one_deadline(stand: Stand, triggerer: None) -> None:
    claim(stand, days(DAY), "anna")
    stand.write(DAY, {"a": 1})
    task, soon = ReplacePartitionOperator(task_id="replace"), time.time() + 60

    with pytest.raises(TaskDeferred) as deferred:
        task.resume(context_of(RUN), "free", deadline=soon)
    with pytest.raises(AirflowFailException, match="claimed_by:anna, still, after 1 day, 0:00:00; nothing was written"):
        task.resume(context_of(RUN), "the time is up", deadline=time.time())

    assert deferred.value.kwargs == {"deadline": soon}


@pytest.mark.parametrize(("seconds", "ending"), [(0, "is not free, and the time to wait is up"), (None, "is free")])
def test_a_trigger_fires_when_the_range_is_free_or_the_time_is_up(
    stand: Stand, airflow_database: None, seconds: int | None, ending: str
) -> None:
    if seconds is not None:
        claim(stand, days(DAY), "anna")
    deadline = None if seconds is None else time.time() + seconds
    trigger = PartitionFreeTrigger(
        conn_id="backfill_default",
        first=DAY,
        last=DAY,
        caller=Caller(OWN, "replace", -1, 1, ""),
        kind=ATTEMPT,
        poll_interval=60,
        deadline=deadline,
    )

    event: Any = asyncio.run(first_of(trigger.run()))

    assert event.payload == f"{DAY} to {DAY} {ending}"


async def first_of(events: AsyncIterator[Any]) -> Any:
    return await anext(events)


def test_a_run_passes_what_the_runner_was_told_in_its_name(stand: Stand) -> None:
    stand.write(DAY, {"a": 1})
    claim(stand, days(DAY), OWN)

    replace()

    assert stand.published() == {DAY: (1, 1)}
    assert stand.holders() == {}


def test_a_run_in_a_persons_name_passes_her_reservation_and_leaves_it(stand: Stand) -> None:
    stand.write(DAY, {"a": 1})
    claim(stand, days(DAY), "anna")

    receipt = replace(context_of(Run(conf={"owner": "anna"})))

    assert receipt["owner"] == "anna"
    assert stand.published() == {DAY: (1, 1)}
    assert stand.holders() == {DAY: "anna"}


@pytest.mark.parametrize("owner", [None, "", "  "])
def test_a_blank_owner_in_the_form_is_the_runs_own(stand: Stand, owner: str | None) -> None:
    stand.write(DAY, {"a": 1})

    assert replace(context_of(Run(conf={"owner": owner})))["owner"] == OWN


def test_an_owner_that_is_no_text_fails_for_good(stand: Stand) -> None:
    with pytest.raises(AirflowFailException, match="owner in the run's conf is not text: 7"):
        replace(context_of(Run(conf={"owner": 7})))


def test_a_run_in_a_persons_name_frees_what_was_free_before(stand: Stand) -> None:
    stand.write(DAY, {"a": 1})

    replace(context_of(Run(conf={"owner": "anna"})))

    assert stand.holders() == {}


def test_a_claim_is_given_back_when_the_run_fails(stand: Stand) -> None:
    path = stand.write(DAY, {"a": 1})
    path.write_text(path.read_text() + '{"order_id": "b"')

    with pytest.raises(AirflowFailException, match=rf"{path}:2: "):
        replace()

    assert stand.published() == {}
    assert stand.holders() == {}


def test_a_later_try_takes_over_from_one_that_was_frozen_or_killed(stand: Stand) -> None:
    stand.write(DAY, {"a": 1})
    with stand.backfill() as backfill:
        frozen = backfill.take(days(DAY), Caller(OWN, "replace"), ATTEMPT)

        replace(context_of(RUN, try_number=2))

        assert backfill.run(days(DAY), OWN, claim=frozen.claim)["skipped"] == [[DAY, "claim_lost:"]]
    assert stand.holders() == {}


def test_an_earlier_try_that_comes_late_is_told_of_the_later_one(stand: Stand) -> None:
    stand.write(DAY, {"a": 1})
    with stand.backfill() as backfill:
        backfill.take(days(DAY), Caller(OWN, "replace", try_number=2), ATTEMPT)

    with pytest.raises(AirflowException, match=f"claimed_by:{re.escape(OWN)}, replace; nothing was written"):
        replace(context_of(RUN, try_number=1))

    assert stand.published() == {}
    assert stand.holders() == {DAY: OWN}


@pytest.mark.parametrize("now_held_by", [None, "ben"])
def test_a_claim_that_goes_while_the_source_is_counted_fails_the_task_and_says_who_has_it(
    stand: Stand, now_held_by: str | None
) -> None:
    stand.write(DAY, {"a": 1})
    task = LosingOperator(task_id="replace")
    task.stand, task.now_held_by = stand, now_held_by

    with pytest.raises(AirflowException, match=f"{now_held_by or 'Nobody'} holds the date now; nothing was written"):
        task.execute(context_of(RUN))

    assert stand.published() == {}
    assert stand.holders() == ({DAY: now_held_by} if now_held_by else {})


class LosingOperator(ReplacePartitionOperator):
    """One whose claim somebody takes away by hand while it counts."""

    stand: Any = None
    now_held_by: str | None = None
    asked = False

    @property
    def _stopped(self) -> bool:
        if self.stand and not self.asked:
            self.asked = True
            with self.stand.backfill() as backfill:
                backfill.release(days(DAY), OWN)
                if self.now_held_by:
                    backfill.claim(days(DAY), self.now_held_by)
        return False

    @_stopped.setter
    def _stopped(self, _: bool) -> None: ...


def test_two_runs_in_a_persons_name_are_inside_one_after_the_other(stand: Stand) -> None:
    stand.write(DAY, {"a": 1})
    claim(stand, days(DAY), "anna")
    hers = Run(run_id="manual__2", conf={"owner": "anna"})
    with stand.backfill() as backfill:
        first = backfill.take(days(DAY), Caller(OWN, "replace", person="anna"), ATTEMPT)

        with pytest.raises(AirflowException, match=f"claimed_by:anna, {re.escape(OWN)}, replace; nothing was written"):
            replace(context_of(hers))
        backfill.give_back(first.claim or "")

    assert replace(context_of(hers))["done"] == [DAY]
    assert stand.holders() == {DAY: "anna"}


def test_two_runs_in_a_persons_name_who_reserved_nothing_keep_each_other_out(stand: Stand) -> None:
    stand.write(DAY, {"a": 1})
    with stand.backfill() as backfill:
        backfill.take(days(DAY), Caller(OWN, "replace", person="anna"), ATTEMPT)

    with pytest.raises(AirflowException, match=f"claimed_by:{re.escape(OWN)}, replace; nothing was written"):
        replace(context_of(Run(run_id="manual__2", conf={"owner": "anna"})))

    assert stand.published() == {}


def test_a_conf_that_names_another_run_does_not_let_in(stand: Stand) -> None:
    stand.write(DAY, {"a": 1})
    ClaimRangeOperator(task_id="claim").execute(context_of(RUN, task_id="claim"))

    with pytest.raises(AirflowException, match=f"claimed_by:{re.escape(OWN)}; nothing was written"):
        replace(context_of(Run(run_id="manual__2", conf={"owner": OWN})))

    assert stand.published() == {}


def test_a_replacement_in_a_reserved_range_leaves_the_range_to_what_follows(stand: Stand) -> None:
    stand.write(DAY, {"a": 1})
    receipt = ClaimRangeOperator(task_id="claim").execute(context_of(RUN, task_id="claim"))

    replace()

    assert stand.holders() == {DAY: OWN}
    with pytest.raises(AirflowException, match="claimed_by"):
        replace(context_of(Run(run_id="manual__2")))
    ReleaseRangeOperator(task_id="release", claim=receipt).execute(context_of(RUN, task_id="release"))
    assert stand.holders() == {}


def test_of_two_guarded_tables_in_one_dag_each_release_gives_back_its_own(stand: Stand) -> None:
    orders, visits = (
        ClaimRangeOperator(task_id=task).execute(context_of(RUN, task_id=task)) for task in ("orders", "visits")
    )

    first = ReleaseRangeOperator(task_id="release", claim=orders).execute(context_of(RUN))
    between = stand.holders()
    ReleaseRangeOperator(task_id="release_too", claim=visits).execute(context_of(RUN))

    assert first["released"] == [DAY]
    assert between == {DAY: OWN}
    assert stand.holders() == {}


def test_after_its_reservation_was_given_back_a_try_writes_nothing(stand: Stand) -> None:
    stand.write(DAY, {"a": 1})
    receipt = ClaimRangeOperator(task_id="claim").execute(context_of(RUN, task_id="claim"))
    with stand.backfill() as backfill:
        working = backfill.take(days(DAY), Caller(OWN, "replace"), ATTEMPT)

        ReleaseRangeOperator(task_id="release", claim=receipt).execute(context_of(RUN, task_id="release"))

        assert backfill.run(days(DAY), OWN, claim=working.claim)["skipped"] == [[DAY, "claim_lost:"]]
    assert stand.published() == {}


def test_a_sealed_date_is_skipped_with_its_reason(stand: Stand) -> None:
    stand.write(DAY, {"a": 1})
    replace()
    SealRangeOperator(task_id="seal").execute(context_of(RUN))
    stand.write(DAY, {"a": 1, "b": 2})
    context = context_of(RUN)

    with pytest.raises(AirflowSkipException, match="2024-05-01 is sealed"):
        replace(context)

    assert context["ti"].xcoms["return_value"]["skipped"] == [[DAY, "sealed"]]
    assert stand.published() == {DAY: (1, 1)}


def test_a_sealed_date_can_be_a_failure(stand: Stand) -> None:
    SealRangeOperator(task_id="seal").execute(context_of(RUN))

    with pytest.raises(AirflowFailException, match="2024-05-01 is sealed"):
        replace(on_sealed="fail")


def test_a_sealed_date_can_be_corrected_once_for_each_time_its_source_moves(stand: Stand) -> None:
    stand.write(DAY, {"x": 50, "y": 30, "z": 20})
    replace()
    SealRangeOperator(task_id="seal").execute(context_of(RUN))
    stand.write(DAY, {"x": 50, "y": 30, "z": 20, "w": 7})

    for _ in range(3):
        replace(on_sealed="amend", amend_reason="late")

    with stand.backfill() as backfill:
        statement = backfill.statement(days(DAY))
    assert statement["partitions"][0]["corrections"] == 1
    assert (statement["amount_published"], statement["amount_corrected"]) == (100, 107)


@pytest.mark.parametrize(
    ("on_no_data", "verdict"),
    [("skip", AirflowSkipException), ("fail", AirflowFailException), ("retry", AirflowException)],
)
def test_a_missing_source_keeps_what_was_published(stand: Stand, on_no_data: str, verdict: type[Exception]) -> None:
    stand.write(DAY, {"a": 1, "b": 1, "c": 1})
    replace()
    (stand.events / f"dt={DAY}.jsonl").unlink()

    with pytest.raises(verdict, match="no_data") as raised:
        replace(on_no_data=on_no_data)

    assert type(raised.value) is verdict
    assert stand.published() == {DAY: (3, 3)}


def test_a_partition_that_would_become_empty_is_refused(stand: Stand) -> None:
    stand.write(DAY, {"a": 1, "b": 1, "c": 1})
    replace()
    stand.write(DAY, {})

    with pytest.raises(AirflowFailException, match="holds no orders, but 3 are published"):
        replace()

    assert stand.published() == {DAY: (3, 3)}
    assert stand.holders() == {}


def test_a_partition_may_become_empty_where_that_is_allowed(stand: Stand) -> None:
    stand.write(DAY, {"a": 1})
    replace()
    stand.write(DAY, {})

    replace(on_empty="allow")

    assert stand.published() == {DAY: (0, 0)}


def test_a_first_partition_may_be_empty(stand: Stand) -> None:
    stand.write(DAY, {})

    replace()

    assert stand.published() == {DAY: (0, 0)}


def test_a_task_that_airflow_ends_stops_and_gives_its_claim_back(stand: Stand) -> None:
    stand.write(DAY, {"a": 1})
    task = ReplacePartitionOperator(task_id="replace")
    task.on_kill()

    with pytest.raises(AirflowTaskTerminated, match="2024-05-01 is as it was"):
        task.execute(context_of(RUN))

    assert stand.published() == {}
    assert stand.holders() == {}


def test_a_store_that_is_not_there_fails_for_good(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_BACKFILL_DEFAULT", stand.connection().replace("state.db", "other.db"))

    with pytest.raises(AirflowFailException, match=r"no state store at .*other\.db"):
        replace()


def test_a_folder_that_is_not_there_is_tried_again(stand: Stand) -> None:
    stand.events.rmdir()

    with pytest.raises(AirflowException, match="can't be read") as raised:
        replace()

    assert not isinstance(raised.value, AirflowFailException)


@pytest.mark.parametrize("option", ["on_claimed", "on_sealed", "on_no_data", "on_empty", "event_key"])
def test_an_option_that_means_nothing_is_refused_when_the_dag_is_parsed(option: str) -> None:
    with pytest.raises(ValueError, match=rf"{option} is 'wait'; it is one of "):
        replace(**{option: "wait"})


def test_the_store_may_be_in_postgresql(
    postgres: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, airflow_database: None
) -> None:
    stand = Stand(tmp_path, postgres.new_store())
    monkeypatch.setenv("AIRFLOW_CONN_BACKFILL_DEFAULT", stand.connection())
    stand.write(DAY, {"a": 1, "b": 2})
    claim(stand, days(DAY), "anna")

    with pytest.raises(AirflowException, match="2024-05-01 claimed_by:anna"):
        replace()
    replace(context_of(Run(conf={"owner": "anna"})))
    RollupOperator(task_id="rollup").execute(context_of(RUN))

    assert stand.published() == {DAY: (2, 3)}
    assert stand.holders() == {DAY: "anna"}
    assert stand.totals() == (2, 3)

    with stand.backfill() as backfill:
        backfill.release(days(DAY), "anna")
    receipt = ClaimRangeOperator(task_id="claim").execute(context_of(RUN, task_id="claim"))
    replace()
    assert stand.holders() == {DAY: OWN}
    ReleaseRangeOperator(task_id="release", claim=receipt).execute(context_of(RUN))
    assert stand.holders() == {}


# Ranges


def test_words_of_others_can_not_look_like_a_line_of_the_log(stand: Stand) -> None:
    stand.write(DAY, {"a": 1})
    claim(stand, days(DAY), "anna\n[2024-05-01] INFO - all is well")

    with pytest.raises(AirflowException, match=r"claimed_by:anna\\n\[2024-05-01\] INFO - all is well"):
        replace(on_claimed="retry")


def test_a_plan_says_what_would_happen_and_writes_nothing(stand: Stand) -> None:
    stand.write("2024-02-28", {"a": 1})
    stand.write("2024-03-01", {"b": 2})

    plan = PlanRangeOperator(task_id="plan", start="2024-02-28", end="2024-03-01").execute(context_of(RUN))

    assert [(row["dt"], row["action"], row["reason"]) for row in plan] == [
        ("2024-02-28", "change", "new"),
        ("2024-02-29", "skipped", "no_data"),
        ("2024-03-01", "change", "new"),
    ]
    assert stand.published() == {}


def test_a_range_that_ends_before_it_starts_fails_and_writes_nothing(stand: Stand) -> None:
    with pytest.raises(AirflowFailException, match="ends before it starts"):
        ClaimRangeOperator(task_id="claim", start="2024-05-02", end=DAY).execute(context_of(RUN))

    assert stand.holders() == {}


def test_a_range_is_claimed_and_released_by_what_the_claim_took(stand: Stand) -> None:
    receipt = ClaimRangeOperator(task_id="claim", start=DAY, end="2024-05-03").execute(context_of(RUN))

    assert {**receipt, "claim": "its id", "sealed": []} == {
        "owner": OWN,
        "claimed": [DAY, "2024-05-02", "2024-05-03"],
        "denied": [],
        "claim": "its id",
        "sealed": [],
    }
    assert set(stand.holders().values()) == {OWN}

    released = ReleaseRangeOperator(task_id="release", claim=receipt).execute(context_of(RUN))

    assert released == {"owner": OWN, "released": [DAY, "2024-05-02", "2024-05-03"]}
    assert stand.holders() == {}


def test_a_range_is_claimed_whole_or_not_at_all(stand: Stand, airflow_database: None) -> None:
    claim(stand, days("2024-05-04", "2024-05-05"), "A")

    with pytest.raises(AirflowException, match="2024-05-04 claimed_by:A, 2024-05-05 claimed_by:A; nothing was written"):
        ClaimRangeOperator(task_id="claim", start="2024-05-03", end="2024-05-07").execute(context_of(RUN))

    assert stand.holders() == {"2024-05-04": "A", "2024-05-05": "A"}


def test_the_teardown_leaves_a_persons_reservation_alone(stand: Stand) -> None:
    claim(stand, days(DAY, "2024-05-02"), "anna")
    context = context_of(Run(conf={"owner": "anna"}))

    receipt = ClaimRangeOperator(task_id="claim", start=DAY, end="2024-05-04").execute(context)
    while_held = stand.holders()
    ReleaseRangeOperator(task_id="release", claim=receipt).execute(context)

    assert while_held == {DAY: "anna", "2024-05-02": "anna", "2024-05-03": OWN, "2024-05-04": OWN}
    assert stand.holders() == {DAY: "anna", "2024-05-02": "anna"}


def test_a_teardown_whose_claim_left_no_receipt_frees_what_that_task_took(stand: Stand) -> None:
    with DAG("daily", schedule=None):
        claiming = ClaimRangeOperator(task_id="claim")
        release = ReleaseRangeOperator(task_id="release", claim=claiming.output)
    for task_id in ("claim", "claim_too"):
        ClaimRangeOperator(task_id=task_id).execute(context_of(RUN, task_id=task_id))
    release.claim = None  # as Airflow renders the XCom of a task that was marked as a success

    receipts = [release.execute(context_of(RUN)) for _ in range(2)]

    assert receipts == [{"owner": OWN, "released": [DAY]}, {"owner": OWN, "released": []}]
    assert stand.holders() == {DAY: OWN}


def test_a_release_by_name_frees_what_this_run_or_that_person_reserved(stand: Stand) -> None:
    other, third = Run(run_id="manual__2"), "2024-05-03"
    claim(stand, days("2024-05-02"), "anna")
    ClaimRangeOperator(task_id="claim", start=DAY).execute(context_of(RUN, task_id="claim"))
    ClaimRangeOperator(task_id="claim", start=third).execute(context_of(other, task_id="claim"))

    def released(run: Run, **options: Any) -> list[str]:
        release = ReleaseRangeOperator(task_id="release", start=DAY, end=third, **options)
        return list(release.execute(context_of(run))["released"])

    assert released(Run(run_id="manual__3", conf={"owner": "anna"})) == []
    assert released(Run(run_id="manual__3"), claim_as=OWN) == []
    assert released(other) == [third]
    assert released(RUN, claim_as="ben") == [DAY]
    assert released(RUN, claim_as="anna") == ["2024-05-02"]


def test_the_rollup_is_derived_from_all_that_is_published(stand: Stand) -> None:
    stand.write(DAY, {"a": 1, "b": 2})
    stand.write("2024-05-09", {"d": 10})
    replace()
    replace(date="2024-05-09")

    receipts = [RollupOperator(task_id="rollup").execute(context_of(RUN)) for _ in range(2)]

    assert receipts == [{"mode": "derive", "order_total": 3, "amount_total": 13}] * 2


def test_a_range_has_as_many_parts_as_airflow_maps_at_most(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "3")
    split = [SplitRangeOperator(task_id="parts", start="2024-02-28", end=end) for end in ("2024-03-01", "2024-03-04")]

    few, many = (operator.execute(context_of(RUN)) for operator in split)

    assert few == [{"start": dt, "end": dt} for dt in ("2024-02-28", "2024-02-29", "2024-03-01")]
    assert many == [
        {"start": "2024-02-28", "end": "2024-02-29"},
        {"start": "2024-03-01", "end": "2024-03-02"},
        {"start": "2024-03-03", "end": "2024-03-04"},
    ]


def test_a_part_of_a_range_is_replaced_but_for_what_is_left_alone(stand: Stand) -> None:
    stand.write(DAY, {"a": 1})
    stand.write("2024-05-03", {"c": 3, "d": 4})
    asset, context = Asset("backfill://daily"), context_of(RUN)

    receipt = ReplaceRangeOperator(task_id="replace", start=DAY, end="2024-05-03", outlets=[asset]).execute(context)

    assert receipt == {"owner": OWN, "done": [DAY, "2024-05-03"], "skipped": [], "orders": 3, "amount": 8}
    assert stand.published() == {DAY: (1, 1), "2024-05-03": (2, 7)}
    assert stand.holders() == {}
    first, second = context["outlet_events"][asset].extra["partitions"]
    assert (first, second["dt"]) == ({"dt": DAY, "orders": 1, "amount": 1}, "2024-05-03")


def test_a_broken_partition_of_a_range_fails_it_and_the_others_are_written(stand: Stand) -> None:
    stand.write(DAY, {"a": 1}).write_text("no order\n")
    stand.write("2024-05-02", {"b": 2})

    with pytest.raises(AirflowFailException, match=f"dt={DAY}.jsonl:1: "):
        ReplaceRangeOperator(task_id="replace", start=DAY, end="2024-05-02").execute(context_of(RUN))

    assert stand.published() == {"2024-05-02": (1, 2)}
    assert stand.holders() == {}


def test_a_range_is_skipped_if_nothing_of_it_was_written(stand: Stand) -> None:
    with pytest.raises(AirflowSkipException, match=r"2024-05-01 has no source file .*; 2024-05-02 has no source file"):
        ReplaceRangeOperator(task_id="replace", start=DAY, end="2024-05-02").execute(context_of(RUN))


@pytest.mark.parametrize(("on_sealed", "verdict"), [("fail", AirflowFailException), ("skip", AirflowSkipException)])
def test_a_range_with_a_sealed_date_is_not_claimed(stand: Stand, on_sealed: str, verdict: type[Exception]) -> None:
    SealRangeOperator(task_id="seal", start=DAY).execute(context_of(RUN))
    options = {"on_sealed": on_sealed} if on_sealed != "fail" else {}

    with pytest.raises(verdict, match="2024-05-01 sealed: what was sent stays; nothing was claimed"):
        ClaimRangeOperator(task_id="claim", start=DAY, end="2024-05-02", **options).execute(context_of(RUN))

    assert stand.holders() == {}


def test_a_claim_that_allows_sealed_dates_names_them(stand: Stand) -> None:
    SealRangeOperator(task_id="seal", start=DAY).execute(context_of(RUN))
    claiming = ClaimRangeOperator(task_id="claim", start=DAY, end="2024-05-02", on_sealed="allow")

    receipt = claiming.execute(context_of(RUN))

    assert (receipt["sealed"], receipt["claimed"]) == ([DAY], [DAY, "2024-05-02"])


def test_claims_and_seals_need_no_events_folder(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_BACKFILL_DEFAULT", json.dumps({"conn_type": "backfill", "host": stand.db}))

    receipt = ClaimRangeOperator(task_id="claim", start=DAY).execute(context_of(RUN))
    SealRangeOperator(task_id="seal", start="2024-05-02").execute(context_of(RUN))
    ReleaseRangeOperator(task_id="release", claim=receipt).execute(context_of(RUN))

    with pytest.raises(AirflowFailException, match="no folder of events was given"):
        replace()
    assert stand.holders() == {}


# Corrections


def test_no_more_late_dates_are_returned_than_airflow_maps(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "1")
    SealRangeOperator(task_id="seal", start=DAY, end="2024-05-02").execute(context_of(RUN))
    for dt in (DAY, "2024-05-02"):
        stand.write(dt, {"a": 1})

    assert [late["dt"] for late in FindLateOperator(task_id="find").execute(context_of(RUN))] == [DAY]


def test_a_correction_stands_beside_what_was_published(stand: Stand) -> None:
    stand.write(DAY, {"x": 100})
    replace()
    SealRangeOperator(task_id="seal").execute(context_of(RUN))
    stand.write(DAY, {"x": 100, "w": 7})

    asset, context = Asset("backfill://daily"), context_of(RUN)

    receipt = AmendPartitionOperator(task_id="amend", date=DAY, reason="late", outlets=[asset]).execute(context)

    assert (receipt["amount_before"], receipt["amount_after"], receipt["reason"]) == (100, 107, "late")
    assert context["outlet_events"][asset].extra == {"dt": DAY, "orders": 2, "amount": 107, "reason": "late"}
    assert stand.published() == {DAY: (1, 100)}


@pytest.mark.parametrize(
    ("left", "complaint"), [({}, "it holds no orders, but 3 are"), ({"x": 1}, "it holds 1 orders, but 3 are")]
)
def test_a_source_that_lost_its_orders_never_corrects_what_is_right(
    stand: Stand, left: dict[str, int], complaint: str
) -> None:
    stand.write(DAY, {"x": 1, "y": 2, "z": 3})
    replace()
    SealRangeOperator(task_id="seal").execute(context_of(RUN))
    stand.write(DAY, left)

    with pytest.raises(AirflowFailException, match=complaint):
        AmendPartitionOperator(task_id="amend", date=DAY, reason="late").execute(context_of(RUN))
    with pytest.raises(AirflowFailException, match=complaint):
        replace(on_sealed="amend")
    receipt = AmendPartitionOperator(
        task_id="amend", date=DAY, reason="so it is", on_empty="allow", max_shrink=1
    ).execute(context_of(RUN))

    assert (receipt["orders_before"], receipt["orders_after"]) == (3, len(left))


def test_a_partition_that_would_lose_most_of_its_orders_stays(stand: Stand) -> None:
    stand.write(DAY, {"x": 1, "y": 2, "z": 3})
    replace()
    stand.write(DAY, {"x": 1})

    with pytest.raises(AirflowFailException, match="max_shrink says how many may"):
        replace()

    assert stand.published() == {DAY: (3, 6)}
    assert replace(max_shrink=1)["orders"] == 1


def test_a_sealed_date_that_another_holds_gets_no_correction(stand: Stand) -> None:
    stand.write(DAY, {"x": 100})
    SealRangeOperator(task_id="seal").execute(context_of(RUN))
    claim(stand, days(DAY), "anna")

    with pytest.raises(AirflowException, match="2024-05-01 claimed_by:anna; nothing was written"):
        AmendPartitionOperator(task_id="amend", date=DAY, reason="late").execute(context_of(RUN))
    with pytest.raises(AirflowSkipException, match="2024-05-01 claimed_by:anna; nothing was written"):
        replace(on_sealed="amend", on_claimed="skip")
    with pytest.raises(AirflowSkipException, match="2024-05-01 is sealed"):
        replace()
    hers = context_of(Run(conf={"owner": "anna"}))
    AmendPartitionOperator(task_id="amend", date=DAY, reason="late").execute(hers)

    with stand.backfill() as backfill:
        assert backfill.statement(days(DAY))["partitions"][0]["corrections"] == 1
    assert stand.holders() == {DAY: "anna"}


@pytest.mark.parametrize(("reason", "complaint"), [("", "reason is empty"), ("late", "not sealed")])
def test_a_correction_without_a_reason_or_a_seal_fails_for_good(stand: Stand, reason: str, complaint: str) -> None:
    stand.write(DAY, {"x": 100})

    with pytest.raises(AirflowFailException, match=complaint):
        AmendPartitionOperator(task_id="amend", date=DAY, reason=reason).execute(context_of(RUN))


def test_what_came_late_is_found_until_it_is_corrected(stand: Stand) -> None:
    stand.write(DAY, {"x": 100})
    replace()
    SealRangeOperator(task_id="seal").execute(context_of(RUN))
    stand.write(DAY, {"x": 100, "w": 7})

    found = FindLateOperator(task_id="find").execute(context_of(RUN))
    AmendPartitionOperator(task_id="amend", date=DAY, reason="late").execute(context_of(RUN))

    assert [(late["dt"], late["orders_difference"], late["amount_difference"]) for late in found] == [(DAY, 1, 7)]
    assert FindLateOperator(task_id="find").execute(context_of(RUN)) == []


# Stale claims


GONE, ENDED, ALIVE = "Airflow no longer knows its run", "its run has ended", "its run is queued or running"


@pytest.mark.parametrize("run_id", ["scheduled__2024-05-02T00:00:00+00:00", "nightly 7/8", "x"])
@pytest.mark.parametrize(
    ("state", "freed", "why"),
    [
        ("failed", True, ENDED),
        ("success", True, ENDED),
        (None, True, GONE),
        ("running", False, ALIVE),
        ("queued", False, ALIVE),
    ],
)
@pytest.mark.parametrize("kind", [RESERVATION, ATTEMPT])
def test_a_claim_whose_run_has_ended_or_is_gone_is_freed_whatever_its_id_looks_like(
    stand: Stand, run_id: str, kind: str, state: str | None, freed: bool, why: str
) -> None:
    owner = f"daily/{run_id}"
    with stand.backfill() as backfill:
        backfill.take(days(DAY, "2024-05-02"), Caller(owner, "replace"), kind)
    runs = {("daily", run_id): state} if state else {}

    receipt = ReleaseStaleClaimsOperator(task_id="release").execute(context_of(RUN, runs))

    holder = owner if kind == RESERVATION else f"{owner}, replace"
    told = [[DAY, holder, why], ["2024-05-02", holder, why]]
    assert receipt == {"released": told if freed else [], "kept": [] if freed else told}
    assert stand.holders() == ({} if freed else {DAY: owner, "2024-05-02": owner})


@pytest.mark.parametrize(
    ("owner", "state", "freed", "why"),
    [
        ("anna", None, False, "a person reserved it"),
        ("sales/anna", None, False, "a person reserved it"),
        (OWN, None, False, "a person reserved it"),
        (OWN, "failed", True, ENDED),
        (OWN, "running", False, ALIVE),
    ],
)
def test_a_claim_by_the_runner_stays_but_for_one_in_the_name_of_a_run_that_ended(
    stand: Stand, owner: str, state: str | None, freed: bool, why: str
) -> None:
    claim(stand, days(DAY), owner)
    runs = {("daily", RUN.run_id): state} if state else {}

    receipt = ReleaseStaleClaimsOperator(task_id="release").execute(context_of(RUN, runs))

    assert receipt["released" if freed else "kept"] == [[DAY, owner, why]]
    assert stand.holders() == ({} if freed else {DAY: owner})


def test_a_killed_run_within_a_persons_reservation_is_freed_and_the_reservation_stays(stand: Stand) -> None:
    claim(stand, days(DAY), "anna")
    with stand.backfill() as backfill:
        backfill.take(days(DAY), Caller(OWN, "replace", person="anna"), ATTEMPT)

    receipt = ReleaseStaleClaimsOperator(task_id="release").execute(context_of(RUN))

    assert receipt == {
        "released": [[DAY, f"anna, {OWN}, replace", GONE]],
        "kept": [[DAY, "anna", "a person reserved it"]],
    }
    assert stand.holders() == {DAY: "anna"}


def test_what_airflow_tasks_test_claimed_is_freed_though_its_run_never_ends(stand: Stand) -> None:
    run_id = "__airflow_temporary_run_2026-03-01T00:00:00+00:00__"
    with stand.backfill() as backfill:
        backfill.take(days(DAY), Caller(f"daily/{run_id}", "replace", try_number=0), ATTEMPT)

    receipt = ReleaseStaleClaimsOperator(task_id="release").execute(context_of(RUN, {("daily", run_id): "running"}))

    [[dt, _, why]] = receipt["released"]
    assert (dt, why) == (DAY, "`airflow tasks test` made it, and Airflow never ends such a run")
    assert stand.holders() == {}

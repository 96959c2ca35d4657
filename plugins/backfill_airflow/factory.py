"""All DAGs of a dataset, in one line of a DAG file: daily, a range by its form, seal, unseal, amend, late."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from backfill_airflow.compat import DAG, Asset, CronDataIntervalTimetable, Param, task
from backfill_airflow.dataset_operators import UnsealRangeOperator
from backfill_airflow.hook import DEFAULT_CONN_ID
from backfill_airflow.operators import (
    AmendPartitionOperator,
    ClaimRangeOperator,
    FindLateOperator,
    PlanRangeOperator,
    ReleaseRangeOperator,
    ReplacePartitionOperator,
    RunOutcomeOperator,
    SealRangeOperator,
)
from backfill_core.keys import WHOLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backfill_airflow.source import Fill, Fingerprint
    from backfill_core.dataset import Dataset

RETRIES = {
    "retries": 8,
    "retry_delay": timedelta(seconds=15),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=30),
}
START, END, DATE = "{{ params.start }}", "{{ params.end }}", "{{ params.date }}"
KEYS, KEY = "{{ params['keys'] | tojson }}", "{{ [params.key] | tojson }}"
REASON, ALLOW = "{{ params.reason }}", "{{ params.allow | default('') }}"


def dataset_dags(
    dataset: Dataset,
    *,
    select: str | None = None,
    fill: Fill | None = None,
    schedule: Any = "0 0 * * *",
    start_date: datetime = datetime(2020, 1, 1, tzinfo=timezone.utc),
    fingerprint: Fingerprint | None = None,
    dag_id: str | None = None,
    conn_id: str = DEFAULT_CONN_ID,
    default_args: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    **dag_options: Any,
) -> dict[str, Any]:
    """Make the DAGs of a dataset; return them by what they are for. Airflow finds them where this is called.

    `<dag_id>` replaces the run's day; `.range` plans, reserves, replaces and gives back a range by its form; `.seal`
    and `.unseal` declare days as sent, or take that back; `.late` finds sealed days whose source has moved on, each
    day; `.amend` records a correction. Of a dataset without days `<dag_id>` replaces all partitions, and the forms ask
    for keys.

    select, fill: what makes the rows: a query (a text, or a file beside the DAG file), or a function.
    schedule: a cron expression, in the dataset's zone, or a timetable of days.
    fingerprint, options: for each `ReplacePartitionOperator`; see there.
    dag_id: by default the dataset's name.
    default_args, dag_options: for each DAG. An asset `backfill://<dataset>` is told of what was written.
    """
    if select is None and fill is None:
        raise ValueError(f"{dataset.name}: give what makes the rows, a select, or a function, fill")
    name = dag_id or re.sub(r"[^\w.-]", "_", dataset.name)
    if isinstance(schedule, str):
        schedule = CronDataIntervalTimetable(schedule, timezone=dataset.timezone)
    of: dict[str, Any] = {"dataset": dataset, "conn_id": conn_id}
    source: dict[str, Any] = {**of, "select": select, "fill": fill}
    replacing = {
        **source,
        "task_id": "replace",
        "fingerprint": fingerprint,
        "outlets": [Asset(f"backfill://{dataset.name}")],
        **(options or {}),
    }
    has_days = dataset.column.has_days
    which: dict[str, Any] = {"start": START, "end": END} if has_days else {"keys": KEYS}
    one: dict[str, Any] = {"date": DATE} if has_days else {"keys": KEY}
    some, single = (_RANGE, _DATE) if has_days else _keys_of(dataset)
    shared: dict[str, Any] = {
        "start_date": start_date,
        "catchup": False,
        "default_args": {**RETRIES, **(default_args or {})},
        "tags": ["backfill", dataset.name],
        **dag_options,
    }

    def by_hand(verb: str, what: str, params: dict[str, Any]) -> DAG:
        """Begin a DAG that only its form starts."""
        return DAG(dag_id=f"{name}.{verb}", schedule=None, params=params, doc_md=what, **shared)

    with DAG(
        dag_id=name,
        schedule=schedule,
        max_active_runs=1,
        doc_md=f"Every day: replace the day of `{dataset.name}` that is over. Backfills come here too."
        if has_days
        else f"Replace all partitions of `{dataset.name}`, or the one that is the run's partition key.",
        **shared,
    ) as daily:
        ReplacePartitionOperator(**replacing)

    with by_hand(
        "range",
        f"Make a range of `{dataset.name}` again: plan it, reserve all of it, replace it, give it back.",
        {**some, **_OWNER, **_REASON, **_ALLOW, **_ONLY_PLAN},
    ) as a_range:
        plan = PlanRangeOperator(task_id="plan", reason=REASON, fingerprint=fingerprint, **which, **source)
        claim = ClaimRangeOperator(task_id="claim", on_sealed="allow", **which, **of)
        replace = ReplacePartitionOperator(**{"allow": ALLOW, **replacing, **which}, reason=REASON)
        release = ReleaseRangeOperator(task_id="release", claim=claim.output, **of)
        outcome = RunOutcomeOperator(task_id="outcome")
        wanted = task.short_circuit(task_id="more_than_a_plan")(more_than_a_plan)()
        plan >> wanted >> claim >> replace >> release.as_teardown(setups=claim)
        release >> outcome.as_teardown(setups=claim, on_failure_fail_dagrun=True)

    with by_hand(
        "seal",
        f"Declare partitions of `{dataset.name}` as sent: no run changes them any more.",
        {**some, **_REASON},
    ) as seal:
        SealRangeOperator(task_id="seal", reason=REASON, **which, **of)

    with by_hand(
        "unseal",
        f"Take the seals of `{dataset.name}` away. What was sent stays in the history.",
        {**some, **_REASON},
    ) as unseal:
        UnsealRangeOperator(task_id="unseal", reason=REASON, **which, **of)

    with by_hand(
        "amend",
        f"Record a sealed partition's correction of `{dataset.name}` beside what was sent.",
        {**single, **_REASON, **_ALLOW},
    ) as amend:
        AmendPartitionOperator(task_id="amend", reason=REASON, allow=ALLOW, **one, **source)

    with DAG(
        dag_id=f"{name}.late",
        schedule=schedule,
        max_active_runs=1,
        params={"amend": Param(default=False, type="boolean", title="Correct what is late, not only report it")},
        doc_md=f"Every day: find sealed partitions of `{dataset.name}` whose source has moved on.",
        **shared,
    ) as late:
        find = FindLateOperator(task_id="find", **source)
        correct = AmendPartitionOperator.partial(
            task_id="amend",
            reason="late rows, found by {{ run_id }}",
            map_index_template="{{ task.date or task.keys }}",
            **source,
        ).expand(**{"date" if has_days else "keys": find.output.map(key_of)})
        find >> task.short_circuit(task_id="asked_to_amend")(_asked_to_amend)() >> correct

    return {"daily": daily, "range": a_range, "seal": seal, "unseal": unseal, "amend": amend, "late": late}


def key_of(partition: Mapping[str, str]) -> str:
    """Return the key of a planned or a late partition: what a mapped task goes over."""
    return partition["key"]


def more_than_a_plan(params: Mapping[str, bool] | None = None) -> bool:
    """Go on after the plan, unless only that was wanted."""
    return not (params and params.get("only_plan"))


def _asked_to_amend(params: Mapping[str, bool] | None = None) -> bool:
    """Go on only where corrections are wanted."""
    return bool(params and params["amend"])


def _keys_of(dataset: Dataset) -> tuple[dict[str, Param], dict[str, Param]]:
    """Return the form's field for some keys of a dataset without days, and that for one."""
    known = [*dataset.column.values] or [WHOLE]
    only: dict[str, Any] = {"default": WHOLE} if known == [WHOLE] else {}
    some: dict[str, Any] = {"default": known} if only else {}
    listed = Param(type="array", items={"type": "string"}, minItems=1, examples=known, title="Partitions", **some)
    return {"keys": listed}, {"key": Param(type="string", enum=known, title="Partition", **only)}


def _day(title: str, description: str | None = None) -> Param:
    return Param(type="string", format="date", title=title, description=description)


_RANGE = {"start": _day("First day", "Inclusive."), "end": _day("Last day", "Inclusive.")}
_DATE = {"date": _day("Day")}
_REASON = {"reason": Param(type="string", minLength=1, title="Reason", description="Why? It is kept in the history.")}
_ALLOW = {
    "allow": Param(
        default="",
        type="string",
        title="Limits that don't count",
        description="shrink, growth, empty: where a day is right to be that much smaller or larger, or empty.",
    )
}
_ONLY_PLAN = {"only_plan": Param(default=False, type="boolean", title="Only say what would be done")}
_OWNER = {
    "owner": Param(
        default=None,
        type=["null", "string"],
        title="In the name of",
        description="Somebody who reserved the range. Empty: in this run's own name.",
    )
}

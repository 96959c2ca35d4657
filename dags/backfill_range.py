"""Rerun a range of days: plan it, reserve all of it, replace day by day, derive the totals, give it back.

Trigger it with its form. Nothing is written before the whole range is reserved; the plan is in the log of the first
task. If somebody holds a day of the range, `claim` says who and waits, for a day at most.
"""

from datetime import timedelta

from backfill_airflow.compat import DAG, Asset, Param, task
from backfill_airflow.factory import more_than_a_plan
from backfill_airflow.operators import (
    ClaimRangeOperator,
    PlanRangeOperator,
    ReleaseRangeOperator,
    ReplaceRangeOperator,
    RollupOperator,
    RunOutcomeOperator,
    SplitRangeOperator,
)

with DAG(
    dag_id="backfill_range",
    schedule=None,
    default_args={"retries": 8, "retry_delay": timedelta(seconds=15), "retry_exponential_backoff": True},
    params={
        "start": Param(type="string", format="date", title="First day", description="Inclusive."),
        "end": Param(type="string", format="date", title="Last day", description="Inclusive."),
        "owner": Param(
            default=None,
            type=["null", "string"],
            title="In the name of",
            description="Somebody who reserved the range. Empty: in this run's own name.",
        ),
        "reason": Param(type="string", minLength=1, title="Reason", description="Why are these days run again?"),
        "only_plan": Param(default=False, type="boolean", title="Only say what would be done"),
    },
    doc_md=__doc__,
    tags=["backfill"],
):
    plan = PlanRangeOperator(
        task_id="plan", start="{{ params.start }}", end="{{ params.end }}", reason="{{ params.reason }}"
    )
    parts = SplitRangeOperator(task_id="parts", start="{{ params.start }}", end="{{ params.end }}")
    claim = ClaimRangeOperator(task_id="claim", start="{{ params.start }}", end="{{ params.end }}", on_sealed="allow")
    replace = ReplaceRangeOperator.partial(
        task_id="replace",
        outlets=[Asset("backfill://daily")],
        map_index_template="{{ task.start if task.start == task.end else task.start ~ ' to ' ~ task.end }}",
    ).expand_kwargs(parts.output)
    rollup = RollupOperator(task_id="rollup", trigger_rule="none_failed")
    release = ReleaseRangeOperator(task_id="release", claim=claim.output)
    outcome = RunOutcomeOperator(task_id="outcome")

    wanted = task.short_circuit(task_id="more_than_a_plan")(more_than_a_plan)()

    plan >> wanted >> [parts, claim]
    parts >> claim >> replace >> rollup >> release.as_teardown(setups=claim)
    release >> outcome.as_teardown(setups=claim, on_failure_fail_dagrun=True)

"""A range of days by a form, a task a day: plan it, reserve all of it, replace day by day, give it back."""

from shop import orders_daily

from backfill_airflow.compat import DAG, Param
from backfill_airflow.factory import key_of
from backfill_airflow.operators import (
    ClaimRangeOperator,
    PlanRangeOperator,
    ReleaseRangeOperator,
    ReplacePartitionOperator,
    RunOutcomeOperator,
)

SELECT = "sql/orders_daily.sql"

with DAG(
    dag_id="orders_range",
    schedule=None,
    default_args={"retries": 8},
    params={
        "start": Param(type="string", format="date", title="First day", description="Inclusive."),
        "end": Param(type="string", format="date", title="Last day", description="Inclusive."),
        "reason": Param(type="string", minLength=1, title="Reason"),
    },
    doc_md=__doc__,
    tags=["backfill"],
):
    days = {"start": "{{ params.start }}", "end": "{{ params.end }}"}
    plan = PlanRangeOperator(task_id="plan", dataset=orders_daily, select=SELECT, **days)
    claim = ClaimRangeOperator(task_id="claim", dataset=orders_daily, on_sealed="allow", **days)
    replace = ReplacePartitionOperator.partial(
        task_id="replace",
        dataset=orders_daily,
        select=SELECT,
        reason="{{ params.reason }}",
        map_index_template="{{ task.date }}",
    ).expand(date=plan.output.map(key_of))
    release = ReleaseRangeOperator(task_id="release", dataset=orders_daily, claim=claim.output)

    outcome = RunOutcomeOperator(task_id="outcome")

    plan >> claim >> replace >> release.as_teardown(setups=claim)
    release >> outcome.as_teardown(setups=claim, on_failure_fail_dagrun=True)

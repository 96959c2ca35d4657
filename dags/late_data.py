"""Every day: find sealed days whose source has moved on since, and report them; correct them if `amend` is set."""

from __future__ import annotations

from datetime import datetime, timezone

from backfill_airflow.compat import DAG, CronDataIntervalTimetable, Param, task
from backfill_airflow.operators import AmendPartitionOperator, FindLateOperator


def date_of(late: dict[str, str]) -> str:
    """Return the date of a late partition."""
    return late["dt"]


with DAG(
    dag_id="late_data",
    schedule=CronDataIntervalTimetable("0 6 * * *", timezone="UTC"),
    start_date=datetime(2020, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    params={"amend": Param(default=False, type="boolean", title="Correct what is late, not only report it")},
    doc_md=__doc__,
    tags=["backfill"],
):

    @task.short_circuit
    def asked_to_amend(params: dict[str, bool] | None = None) -> bool:
        """Go on only where corrections are wanted."""
        return bool(params and params["amend"])

    find = FindLateOperator(task_id="find")
    amend = AmendPartitionOperator.partial(
        task_id="amend",
        reason="late events, found by {{ run_id }}",
        on_claimed="skip",  # it is found again tomorrow
        map_index_template="{{ task.date }}",
    ).expand(date=find.output.map(date_of))

    find >> asked_to_amend() >> amend

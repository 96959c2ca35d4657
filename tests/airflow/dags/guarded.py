"""Somebody's own task that knows nothing of us, guarded; the ways to wait without a worker slot; a DAG in New York."""

from datetime import datetime, timedelta, timezone

from backfill_airflow.compat import DAG, CronDataIntervalTimetable, task
from backfill_airflow.operators import ClaimRangeOperator, ReleaseRangeOperator, ReplacePartitionOperator
from backfill_airflow.sensors import PartitionFreeSensor

START, END = "{{ dag_run.conf['start'] }}", "{{ dag_run.conf['end'] }}"

with DAG(dag_id="guarded", schedule=None):
    claim = ClaimRangeOperator(task_id="claim", start=START, end=END)
    release = ReleaseRangeOperator(task_id="release", claim=claim.output)

    @task(retries=0)
    def own_work() -> None:
        """Fail, as other people's work does."""
        raise ValueError("the warehouse is on fire")

    claim >> own_work() >> release.as_teardown(setups=claim)

with DAG(dag_id="waiting", schedule=None):
    PartitionFreeSensor(task_id="rescheduled", poke_interval=2, start=START, end=END)
    PartitionFreeSensor(task_id="deferred", deferrable=True, poke_interval=2, start=START, end=END)
    ReplacePartitionOperator(
        task_id="replace",
        date=START,
        on_claimed="defer",
        poll_interval=2,
        defer_timeout=timedelta(minutes=10),
    )

# Airflow loses a deferral that ends within the some five seconds in which it waits for the first process to go.
with DAG(dag_id="impatient", schedule=None):
    ReplacePartitionOperator(
        task_id="replace", date=START, poll_interval=1, defer_timeout=timedelta(seconds=20), retries=3
    )

with DAG(
    dag_id="new_york",
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="America/New_York"),
    start_date=datetime(2020, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    is_paused_upon_creation=True,
):
    ReplacePartitionOperator(task_id="replace")

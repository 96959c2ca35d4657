"""Two guarded tables in one DAG, a replacement in what both reserved, and own work after the inner release."""

from backfill_airflow.compat import DAG, task
from backfill_airflow.hook import BackfillHook
from backfill_airflow.operators import ClaimRangeOperator, ReleaseRangeOperator, ReplacePartitionOperator

DATE = "{{ dag_run.conf['date'] }}"


@task
def own_work() -> dict[str, str | None]:
    """Return who holds each date while it works."""
    with BackfillHook().backfill() as backfill:
        return {row["dt"]: row["claimed_by"] for row in backfill.status()["partitions"]}


with DAG(dag_id="nested", schedule=None):
    orders = ClaimRangeOperator(task_id="claim_orders", start=DATE)
    visits = ClaimRangeOperator(task_id="claim_visits", start=DATE)

    (
        orders
        >> visits
        >> ReplacePartitionOperator(task_id="replace", date=DATE)
        >> ReleaseRangeOperator(task_id="release_visits", claim=visits.output)
        >> own_work()
        >> ReleaseRangeOperator(task_id="release_orders", claim=orders.output)
    )

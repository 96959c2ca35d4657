"""Record a sealed day's correction: what was published, what is right now, and why. What was published stays."""

from backfill_airflow.compat import DAG, Param
from backfill_airflow.operators import AmendPartitionOperator

with DAG(
    dag_id="amend_partition",
    schedule=None,
    params={
        "date": Param(type="string", format="date", title="Day"),
        "reason": Param(type="string", minLength=1, title="Reason", description="Goes into the correction."),
    },
    doc_md=__doc__,
    tags=["backfill"],
):
    AmendPartitionOperator(task_id="amend", date="{{ params.date }}", reason="{{ params.reason }}")

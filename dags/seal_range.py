"""Declare a range of days as sent. No run changes them any more; what comes late is corrected by `amend_partition`."""

from backfill_airflow.compat import DAG, Param
from backfill_airflow.operators import SealRangeOperator

with DAG(
    dag_id="seal_range",
    schedule=None,
    params={
        "start": Param(type="string", format="date", title="First day", description="Inclusive."),
        "end": Param(type="string", format="date", title="Last day", description="Inclusive."),
    },
    doc_md=__doc__,
    tags=["backfill"],
):
    SealRangeOperator(task_id="seal", start="{{ params.start }}", end="{{ params.end }}")

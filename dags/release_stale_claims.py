"""Every ten minutes: free what killed workers left claimed. Runs that are alive and persons keep their claims."""

from datetime import datetime, timezone

from backfill_airflow.compat import DAG
from backfill_airflow.operators import ReleaseStaleClaimsOperator

with DAG(
    dag_id="release_stale_claims",
    schedule="*/10 * * * *",
    start_date=datetime(2020, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["backfill"],
):
    ReleaseStaleClaimsOperator(task_id="release")

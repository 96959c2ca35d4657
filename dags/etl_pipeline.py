"""Load what the generator has published: Kafka → STG → ODS → DDS → marts, and replace the marts' days that moved.

Running it again changes nothing. A day that somebody has claimed is skipped until a later run; a sealed one keeps what
was published, and gets a correction beside it. `full_refresh` types everything again from STG and replaces every day.
Pause this DAG when its run has ended, before the generator is asked for more: it refuses to publish under a load.
"""

from datetime import timedelta

from backfill_airflow.compat import DAG, Param, task
from backfill_airflow.operators import ReleaseStaleClaimsOperator
from clickstream_airflow import stand

with DAG(
    dag_id="etl_pipeline",
    schedule=None,
    max_active_runs=1,
    is_paused_upon_creation=True,
    default_args={
        "retries": 2,
        "retry_delay": timedelta(seconds=15),
        "on_failure_callback": stand.say_why,
        "on_retry_callback": stand.say_why,
    },
    params={
        "full_refresh": Param(
            default=False, type="boolean", title="Full refresh", description="Load everything again from STG."
        )
    },
    doc_md=__doc__,
    tags=["clickstream"],
):
    days = task(stand.days_due)()
    rebuilt = task(map_index_template="{{ task.op_kwargs['day'] }}")(stand.rebuild_day).expand(day=days)

    (
        task(stand.precheck)()
        >> ReleaseStaleClaimsOperator(task_id="release_stale_claims", conn_id=stand.MARTS_CONN_ID)
        >> task(stand.load_stg)()
        >> task(stand.load_ods)()
        >> task(stand.load_dds)()
        >> task(stand.check_integrity)()
        >> days
        >> rebuilt
        >> task(trigger_rule="none_failed")(stand.validate)()
    )

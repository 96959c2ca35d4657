"""The same as `daily_partitions`, with the partition as the run's own key instead of a data interval (Airflow 3.3).

Airflow keeps no two runs of one partition apart here, not even one after the other: the claim alone does.
"""

from datetime import timedelta

from backfill_airflow.compat import DAG, Asset, CronPartitionTimetable
from backfill_airflow.operators import ReplacePartitionOperator, RollupOperator

if CronPartitionTimetable is not None:
    with DAG(
        dag_id="daily_partitions_partitioned",
        schedule=CronPartitionTimetable("0 0 * * *", timezone="UTC", run_offset=-1, key_format="%Y-%m-%d"),
        catchup=False,
        max_active_runs=1,
        default_args={
            "retries": 12,
            "retry_delay": timedelta(seconds=15),
            "retry_exponential_backoff": True,
            "max_retry_delay": timedelta(minutes=30),
        },
        doc_md=__doc__,
        tags=["backfill"],
    ):
        replace = ReplacePartitionOperator(
            task_id="replace", on_no_data="retry", outlets=[Asset("backfill://daily_partitioned")]
        )
        rollup = RollupOperator(task_id="rollup", trigger_rule="none_failed")

        replace >> rollup

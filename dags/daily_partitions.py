"""Every day: replace yesterday's partition, then derive the totals.

The one way in for scheduled runs, for runs by hand, and for backfills:

    airflow backfill create --dag-id daily_partitions --from-date 2026-02-01 --to-date 2026-02-14

Dates that have run already need `--reprocess-behavior completed`. A day without a file is tried for about three hours,
then its run fails.

Another time zone is another `timezone` below; the partition is then that zone's day, and the command needs its offset:
`--from-date 2026-02-01T00:00:00-05:00 --to-date 2026-02-14T23:59:59-05:00`. `--dry-run` lists the runs.
"""

from datetime import datetime, timedelta, timezone

from backfill_airflow.compat import DAG, Asset, CronDataIntervalTimetable
from backfill_airflow.operators import ReplacePartitionOperator, RollupOperator

with DAG(
    dag_id="daily_partitions",
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    start_date=datetime(2020, 1, 1, tzinfo=timezone.utc),
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
    replace = ReplacePartitionOperator(task_id="replace", on_no_data="retry", outlets=[Asset("backfill://daily")])
    rollup = RollupOperator(task_id="rollup", trigger_rule="none_failed")

    replace >> rollup

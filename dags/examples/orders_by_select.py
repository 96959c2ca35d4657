"""A day of a table by a query: the row of each customer, from the orders of that day."""

from datetime import datetime, timezone

from shop import orders_daily

from backfill_airflow.compat import DAG, Asset, CronDataIntervalTimetable
from backfill_airflow.operators import ReplacePartitionOperator

with DAG(
    dag_id="orders_by_select",
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    start_date=datetime(2020, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 8},
    doc_md=__doc__,
    tags=["backfill"],
):
    ReplacePartitionOperator(
        task_id="replace",
        dataset=orders_daily,
        select="sql/orders_daily.sql",
        outlets=[Asset("backfill://shop.orders_daily")],
    )

"""A day of a table by a function: Python here; Spark, dbt or anything that can write into a table does it likewise."""

from datetime import datetime, timezone
from typing import Any

import psycopg
from shop import orders_daily

from backfill_airflow.compat import DAG, BaseHook, CronDataIntervalTimetable
from backfill_airflow.decorators import replace_partition  # @task.replace_partition where the package is installed

with DAG(
    dag_id="orders_by_function",
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    start_date=datetime(2020, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 8},
    doc_md=__doc__,
    tags=["backfill"],
):

    @replace_partition(dataset=orders_daily)
    def load(partition: Any) -> None:
        """Put the rows of `partition.keys` into `partition.staging`; what is there when this returns is published."""
        with psycopg.connect(BaseHook.get_connection("shop").get_uri()) as shop:
            orders = shop.execute(
                "select dt, customer, amount from orders where dt = any (%s::date[])", [partition.keys]
            ).fetchall()
            days: dict[Any, list[int]] = {}
            for dt, customer, amount in orders:
                days.setdefault((dt, customer), []).append(amount)
            rows = [(*of, len(amounts), sum(amounts)) for of, amounts in days.items()]
            shop.cursor().executemany(f"insert into {partition.staging} values (%s, %s, %s, %s)", rows)  # noqa: S608

    load()

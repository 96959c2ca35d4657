"""A dataset's own DAGs, and one whose function waits until a test opens its gate."""

import os
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import psycopg
from shop import orders_daily

from backfill_airflow.compat import DAG, BaseHook, CronDataIntervalTimetable, task
from backfill_airflow.factory import dataset_dags

dataset_dags(
    orders_daily,
    select="sql/orders_daily.sql",
    dag_id="shop",
    default_args={"retry_delay": timedelta(seconds=5)},
    options={"poll_interval": 2},
)

with DAG(
    dag_id="held",
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    start_date=datetime(2100, 1, 1, tzinfo=timezone.utc),
    default_args={"retries": 0},
):
    replace_partition: Any = task.replace_partition  # as the provider registers it

    @replace_partition(dataset=orders_daily)  # type: ignore[untyped-decorator]
    def load(partition: Any, date: str) -> None:
        """Wait for the gate, as long work does; then count the orders as the query does."""
        gate = Path(os.environ["SHOP_GATE"])
        (gate / f"{date} began").touch()
        while not (gate / f"{date} open").exists():
            time.sleep(0.1)  # the test opens it
        with psycopg.connect(BaseHook.get_connection("shop").get_uri()) as shop:
            shop.execute(
                f"insert into {partition.staging} select dt, customer, count(*), sum(amount) from orders"
                " where dt = any (%s::date[]) group by dt, customer",
                [partition.keys],
            )

    load(date="{{ dag_run.conf['date'] }}")

"""Somebody's DAGs behind a replaced partition: scheduled by the plain asset, and by its partitions (Airflow 3.3)."""

from datetime import datetime, timezone
from typing import Any

from backfill_airflow.compat import DAG, Asset, task
from backfill_airflow.operators import ReplacePartitionOperator, SealRangeOperator

try:
    from airflow.sdk import PartitionedAssetTimetable
except ImportError:
    PartitionedAssetTimetable = None  # type: ignore[assignment, misc]

PLAIN, KEYED = Asset("test://plain"), Asset("test://keyed")
DATE = "{{ dag_run.conf['date'] }}"

with DAG(dag_id="producer", schedule=None):
    replace = ReplacePartitionOperator(task_id="replace", date=DATE, on_sealed="amend", outlets=[PLAIN])
    keyed = ReplacePartitionOperator(task_id="keyed", date=DATE, on_sealed="skip", event_key="date", outlets=[KEYED])

    replace >> keyed >> SealRangeOperator(task_id="seal", start=DATE, trigger_rule="none_failed")


@task
def hear(triggering_asset_events: Any = None, triggering_dataset_events: Any = None) -> list[dict[str, Any]]:
    """Return what the events say."""
    heard = triggering_asset_events or triggering_dataset_events
    return [event.extra for events in heard.values() for event in events]


with DAG(dag_id="hears_the_asset", schedule=[PLAIN], start_date=datetime(2020, 1, 1, tzinfo=timezone.utc)):
    hear()

if PartitionedAssetTimetable is not None:
    with DAG(dag_id="hears_its_dates", schedule=PartitionedAssetTimetable(assets=KEYED)):
        hear()

    with DAG(
        dag_id="hears_keyed_runs", schedule=PartitionedAssetTimetable(assets=Asset("backfill://daily_partitioned"))
    ):
        hear()

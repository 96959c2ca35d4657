"""What differs between Airflow 3 and 2.11, in one place. Everything else imports Airflow's names from here."""

from __future__ import annotations

import importlib
import json
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

from airflow.providers.common.compat.sdk import (
    DAG,
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AirflowPlugin,
    AirflowSkipException,
    Asset,
    BaseHook,
    BaseOperator,
    Param,
)
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow.triggers.base import BaseTrigger, TriggerEvent

try:
    from airflow.sdk.exceptions import AirflowTaskTerminated
except ImportError:
    from airflow.exceptions import AirflowTaskTerminated  # type: ignore[no-redef]

try:
    from airflow.sdk import CronPartitionTimetable  # Airflow 3.2 and later
except ImportError:
    CronPartitionTimetable = None  # type: ignore[assignment, misc]

if TYPE_CHECKING:
    from airflow.providers.common.compat.connection import get_async_connection
    from airflow.providers.common.compat.sdk import (
        BaseSensorOperator,
        DecoratedOperator,
        conf,
        task,
        task_decorator_factory,
    )
    from airflow.sdk import Connection as Connection
    from airflow.sdk import Context as Context

_WHEN_ASKED_FOR = {
    "BaseSensorOperator": "airflow.providers.common.compat.sdk",
    "DecoratedOperator": "airflow.providers.common.compat.sdk",
    "conf": "airflow.providers.common.compat.sdk",
    "get_async_connection": "airflow.providers.common.compat.connection",
    "task": "airflow.providers.common.compat.sdk",
    "task_decorator_factory": "airflow.providers.common.compat.sdk",
}
"""What most tasks do without. Each task is a process of its own, and `task` alone would cost it a tenth of a second."""

__all__ = [
    "DAG",
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowPlugin",
    "AirflowSkipException",
    "AirflowTaskTerminated",
    "Asset",
    "BaseHook",
    "BaseOperator",
    "BaseSensorOperator",
    "BaseTrigger",
    "CronDataIntervalTimetable",
    "CronPartitionTimetable",
    "DecoratedOperator",
    "Param",
    "TriggerEvent",
    "conf",
    "failed_before",
    "get_async_connection",
    "has_intervals",
    "is_asset",
    "most_mapped",
    "run_states",
    "stamp_partition",
    "task",
    "task_decorator_factory",
    "timetable_zone",
    "triggerer_is_there",
]


def __getattr__(name: str) -> Any:
    if name not in _WHEN_ASKED_FOR:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_WHEN_ASKED_FOR[name]), name)


def timetable_zone(dag: Any) -> Any:
    """Return the time zone in which the DAG's timetable counts days: a name or a pendulum zone."""
    timetable = _by_the_clock(dag)
    return getattr(timetable, "timezone", None) or getattr(timetable, "_timezone", None) or dag.timezone


def has_intervals(dag: Any) -> bool:
    """Return whether the runs of the DAG's schedule have data intervals, from one time of the schedule to the next."""
    return type(_by_the_clock(dag)).__name__.endswith("DataIntervalTimetable")


def _by_the_clock(dag: Any) -> Any:
    """Return the timetable that knows of times: the one within AssetOrTimeSchedule, the first of several crons."""
    timetable = getattr(dag.timetable, "timetable", dag.timetable)
    several = getattr(timetable, "timetables", None) or getattr(timetable, "_timetables", None)
    return several[0] if several else timetable


def run_states(ti: Any, dag_id: str, run_id: str) -> tuple[bool, bool]:
    """Return whether Airflow knows the DAG run, and whether it is alive: queued or running.

    Airflow 3 is asked through the Task SDK, 2.11 in its metadata database, which its tasks may read.
    """
    if hasattr(ti, "get_dr_count"):
        known = ti.get_dr_count(dag_id=dag_id, run_ids=[run_id]) > 0
        alive = ti.get_dr_count(dag_id=dag_id, run_ids=[run_id], states=["queued", "running"]) > 0
        return known, alive

    from airflow.models.dagrun import DagRun

    runs = DagRun.find(dag_id=dag_id, run_id=run_id)
    return bool(runs), any(run.state in ("queued", "running") for run in runs)


def failed_before(context: Any, task: Any) -> list[str]:
    """Return which tasks before this one have failed in its run, or never came to their turn because of that.

    A mapped task is there once. Asked as in `run_states`.
    """
    ti, run, states = context["ti"], context["dag_run"], ["failed", "upstream_failed"]
    before = sorted(task.get_flat_relative_ids(upstream=True))
    if hasattr(ti, "get_ti_count"):

        def count(task_id: str) -> int:
            return int(ti.get_ti_count(dag_id=run.dag_id, task_ids=[task_id], run_ids=[run.run_id], states=states))

        return [task_id for task_id in before if count(task_id)]

    found = {instance.task_id for instance in run.get_task_instances(state=states)}
    return [task_id for task_id in before if task_id in found]


def most_mapped() -> int:
    """Return over how many values Airflow maps a task at most."""
    from airflow.providers.common.compat.sdk import conf

    return int(conf.getint("core", "max_map_length", fallback=1024))


def triggerer_is_there() -> bool:
    """Return whether a triggerer runs: without one a deferred task would never come back.

    Airflow 3 is asked by its API's public health check, 2.11 in its metadata database.
    """
    if find_spec("airflow.sdk") is None:
        from airflow.jobs.job import most_recent_job

        job = most_recent_job("TriggererJob")
        return job is not None and job.is_alive()

    from airflow.sdk.configuration import conf

    base = conf.get("api", "base_url", fallback="") or "http://localhost:8080"
    server = conf.get("core", "execution_api_server_url", fallback="") or f"{base.rstrip('/')}/execution/"
    try:
        health = f"{server.rstrip('/').removesuffix('/execution')}/api/v2/monitor/health"
        with urlopen(health, timeout=10) as answer:  # noqa: S310  an address of Airflow's own configuration
            return bool(json.load(answer)["triggerer"]["status"] == "healthy")
    except (OSError, ValueError, KeyError, TypeError):
        return False


def is_asset(outlet: object) -> bool:
    """Return whether an outlet is an asset (a dataset in 2.11), not an alias of one."""
    return isinstance(outlet, Asset)


def stamp_partition(event: Any, dt: str) -> None:
    """Give an asset event its partition key, on the lines that have such keys."""
    if hasattr(event, "add_partitions"):
        event.add_partitions(dt)

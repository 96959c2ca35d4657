"""What Airflow loads at its start: the macro that says which partition a run means, and the page of partitions."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from backfill_airflow import page
from backfill_airflow.compat import AirflowPlugin
from backfill_airflow.partition import partition_of


def partition(dag_run: Any, dag: Any) -> str:
    """Return the partition that a run means, YYYY-MM-DD: `{{ macros.backfill.partition(dag_run, dag) }}`."""
    return partition_of(dag_run, dag).isoformat()


HAS_PAGES = find_spec("airflow.api_fastapi") is not None
"""Whether this Airflow can show the page; 2.11 has another UI."""


class BackfillPlugin(AirflowPlugin):
    """Registers the macro, and the page with its API."""

    name = "backfill"
    macros = [partition]  # noqa: RUF012  Airflow's own way
    fastapi_apps = page.api() if HAS_PAGES else []
    react_apps = page.pages() if HAS_PAGES else []

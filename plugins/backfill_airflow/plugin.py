"""What Airflow loads at its start: the macro that says which partition a run means."""

from __future__ import annotations

from typing import Any

from backfill_airflow.compat import AirflowPlugin
from backfill_airflow.partition import partition_of


def partition(dag_run: Any, dag: Any) -> str:
    """Return the partition that a run means, YYYY-MM-DD: `{{ macros.backfill.partition(dag_run, dag) }}`."""
    return partition_of(dag_run, dag).isoformat()


class BackfillPlugin(AirflowPlugin):
    """Registers the macro."""

    name = "backfill"
    macros = [partition]  # noqa: RUF012  Airflow's own way

"""What `pip install` tells Airflow about this library. Imports nothing of Airflow: it is read at every start."""

from __future__ import annotations

from typing import Any

CONNECTION_TYPE = "backfill"

CONNECTION_FORM: dict[str, Any] = {
    "hidden-fields": ["extra"],
    "relabeling": {
        "host": "State store",
        "schema": "Events folder",
        "login": "PostgreSQL user",
        "password": "PostgreSQL password",
        "port": "PostgreSQL port",
    },
    "placeholders": {
        "host": "/srv/backfill/state.db or postgresql://host/database",
        "schema": "/srv/backfill/events; empty for datasets alone",
        "login": "only where the store's URL has none",
        "password": "only where the store's URL has none",
        # Airflow 3.3.2 compares the port it saved, none, with the 0 that its form sends, and refuses the test.
        "port": "0 for SQLite: without a port, Airflow 3.3.2 refuses to test",
    },
}
"""The form of a connection in the UI: Airflow's own fields under names that say what goes in."""


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description, for the entry point `apache_airflow_provider`."""
    return {
        "package-name": "backfill-airflow",
        "name": "Backfill",
        "description": "Rerun past days without counting them twice.",
        "connection-types": [
            {
                "connection-type": CONNECTION_TYPE,
                "hook-class-name": "backfill_airflow.hook.BackfillHook",
                "hook-name": "Backfill store",
                "ui-field-behaviour": CONNECTION_FORM,
            }
        ],
        "task-decorators": [
            {"name": "replace_partition", "class-name": "backfill_airflow.decorators.replace_partition"}
        ],
    }

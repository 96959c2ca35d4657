"""Who else must be at rest before a generator publishes: the load, and the warehouse's staging tables.

A guard is any callable that returns None when all is well, and otherwise a clause that says what isn't.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote, urlencode

from clickstream.errors import ClickstreamError

Guard = Callable[[], "str | None"]

PIPELINE = "etl_pipeline"
STAGING = "stg"


def nothing_known() -> None:
    """Return the guard of a stand that has no such part."""


def airflow_pipeline(url: str, *, token: str | None = None, dag_id: str = PIPELINE) -> Guard:
    """Return a guard that asks Airflow's REST API (v2) whether the DAG is paused and has no run under way.

    `url` is where Airflow's pages are, such as `http://127.0.0.1:8080`.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    def busy() -> str | None:
        dag = _json(f"{url.rstrip('/')}/api/v2/dags/{dag_id}", headers)
        if not dag["is_paused"]:
            return f"{dag_id} is not paused"
        query = urlencode([("state", "running"), ("state", "queued"), ("limit", "1")])
        runs = _json(f"{url.rstrip('/')}/api/v2/dags/{dag_id}/dagRuns?{query}", headers)
        if runs["total_entries"]:
            run = runs["dag_runs"][0]
            return f"{dag_id} is paused, but its run {run['dag_run_id']} is still {run['state']}"
        return None

    return busy


def clickhouse_staging(url: str, *, database: str = STAGING) -> Guard:
    """Return a guard that asks ClickHouse over HTTP whether the staging database holds any row.

    `url` may carry a user and a password, before the host or as the parameters that ClickHouse takes: `/?user=…`.
    """
    query = f"SELECT sum(total_rows) AS total FROM system.tables WHERE database = '{database}' FORMAT JSON"  # noqa: S608
    place, _, parameters = url.partition("?")  # the parameters may have an @ too
    scheme, _, place = place.partition("://")
    login, at, place = place.rpartition("@")
    headers = {"Authorization": f"Basic {b64encode(unquote(login).encode()).decode()}"} if at else {}
    asked = f"{scheme}://{place}?{parameters}{'&' if parameters else ''}{urlencode({'query': query})}"

    def filled() -> str | None:
        rows = int(_json(asked, headers)["data"][0]["total"] or 0)
        return f"the warehouse's {database} holds {rows} rows" if rows else None

    return filled


def _json(url: str, headers: Mapping[str, str]) -> Any:
    shown = url.partition("?")[0]  # what follows may hold a password
    if not url.startswith(("http://", "https://")):
        raise ClickstreamError(f"{shown!r} is not an http address.")
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=dict(headers)), timeout=15) as answer:  # noqa: S310
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise ClickstreamError(f"{shown} answered {error.code} {error.reason}.") from error
    except (OSError, ValueError) as error:
        raise ClickstreamError(f"{shown} can't be asked: {error}.") from error

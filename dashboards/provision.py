#!/usr/bin/env python3
"""Give Superset the marts: a database, a dataset a mart, the charts and one dashboard. Doing it again changes nothing.

It needs nothing but Python, and reads
    SUPERSET_URL            where Superset's pages are [http://127.0.0.1:8088]
    SUPERSET_ADMIN          the user it works as [admin]
    SUPERSET_PASSWORD       that user's password
    SUPERSET_WAREHOUSE_URI  the marts as SQLAlchemy names them [clickhousedb://default@127.0.0.1:8123/dm]
and answers with one JSON object: the ids of what there is now.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from typing import Any
from urllib.parse import quote

DATABASE = "Clickstream marts"
DASHBOARD = "clickstream"
SCHEMA = "dm"
MARTS = ("daily_traffic", "top_pages_daily", "visits_daily", "dq_summary")

Chart = dict[str, Any]


class ProvisionError(Exception):
    """Superset can't be reached, or it refused something; the message says what."""


def total(column: str) -> dict[str, Any]:
    """Return the metric that adds a column up, under a name that is no column's."""
    return {
        "expressionType": "SIMPLE",
        "column": {"column_name": column},
        "aggregate": "SUM",
        "label": f"total {column.replace('_', ' ')}",
    }


def chart(name: str, mart: str, kind: str, columns: list[str], metrics: list[Any], **form: Any) -> Chart:
    """Return a chart: its metrics by its columns, over one mart.

    form: more of what Superset's editor of such a chart asks for, under Superset's own names.
    """
    return {"name": name, "mart": mart, "kind": kind, "columns": columns, "metrics": metrics, "form": form}


def daily(name: str, column: str) -> Chart:
    """Return the bars of a column of `visits_daily`, one a day."""
    axis = {"x_axis": "event_date", "x_axis_time_format": "%d %b", "groupby": [], "show_legend": False}
    return chart(name, "visits_daily", "echarts_timeseries_bar", ["event_date"], [total(column)], **axis)


DOUBTS = ("events", "without_location", "without_device", "without_geo", "faulty_records")

# No chart has a time grain: `event_date` is a date already, and marts have `week` and `month` as columns. A grain whose
# label is its column's name makes ClickHouse filter by the label, and drops the weeks at the edges in silence.
CHARTS = (
    daily("Page views a day", "page_views"),
    daily("Visits a day", "visits"),
    daily("Purchases a day", "purchases"),
    chart(
        "What leads to purchases",
        "daily_traffic",
        "table",
        ["medium", "device"],
        [total("clicks"), total("purchases")],
    ),
    chart("Where visits come from", "daily_traffic", "pie", ["source"], [total("clicks")]),
    chart("Countries and devices", "daily_traffic", "table", ["country", "device"], [total("events"), total("clicks")]),
    chart("Top pages", "top_pages_daily", "table", ["page"], [total("page_views")]),
    chart(
        "Data quality",
        "dq_summary",
        "table",
        ["event_date"],
        [total(name) for name in DOUBTS],
        query_mode="raw",
        all_columns=["event_date", *DOUBTS],
        order_by_cols=[json.dumps(["event_date", False])],
        table_timestamp_format="%Y-%m-%d",
    ),
)


class Superset:
    """Superset's REST API, as one user.

    Raises, from every method: ProvisionError.
    """

    def __init__(self, url: str, user: str, password: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise ProvisionError(f"{url!r} is no address of Superset; write it like http://127.0.0.1:8088.")
        if not password:
            raise ProvisionError("SUPERSET_PASSWORD is not set: it is the password of Superset's admin.")
        self._url = url.rstrip("/")
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        self._headers = {"Referer": self._url}
        login = {"username": user, "password": password, "provider": "db", "refresh": False}
        self._headers["Authorization"] = f"Bearer {self.call('POST', '/security/login', login)['access_token']}"
        self._headers["X-CSRFToken"] = self.call("GET", "/security/csrf_token/")["result"]

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Call the API and return its answer."""
        request = urllib.request.Request(  # noqa: S310 - checked above
            f"{self._url}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers=self._headers if body is None else {**self._headers, "Content-Type": "application/json"},
        )
        try:
            with self._opener.open(request, timeout=120) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                said = error.read().decode(errors="replace")[:500]
            raise ProvisionError(f"Superset refused {method} {path} ({error.code}): {said}") from None
        except OSError as error:
            raise ProvisionError(f"No Superset answers at {self._url}: {error}.") from None

    def ensure(self, kind: str, by: str, value: str, fields: dict[str, Any], fixed: tuple[str, ...] = ()) -> int:
        """Make a thing, or bring the one that has this value to the given fields; return its id.

        fixed: fields that are given once and can't be changed.
        """
        query = f"(filters:!((col:{by},opr:eq,value:'{value}')),page_size:100)"
        found = self.call("GET", f"/{kind}/?q={quote(query)}")["result"]
        if not found:
            return int(self.call("POST", f"/{kind}/", {by: value, **fields})["id"])
        number = int(found[0]["id"])
        self.call("PUT", f"/{kind}/{number}", {name: fields[name] for name in fields if name not in fixed})
        return number


def provision(superset: Superset, warehouse: str) -> dict[str, Any]:
    """Bring Superset to what this file says; return the ids."""
    database = superset.ensure(
        "database", "database_name", DATABASE, {"sqlalchemy_uri": warehouse, "expose_in_sqllab": True}
    )
    datasets = {
        mart: superset.ensure(
            "dataset", "table_name", mart, {"database": database, "schema": SCHEMA}, fixed=("database", "schema")
        )
        for mart in MARTS
    }
    for dataset in datasets.values():
        superset.call("PUT", f"/dataset/{dataset}/refresh")
    fields = {"dashboard_title": "Clickstream", "published": True}
    dashboard = superset.ensure("dashboard", "slug", DASHBOARD, fields)
    charts = {
        wanted["name"]: superset.ensure(
            "chart", "slice_name", wanted["name"], chart_fields(wanted, datasets[wanted["mart"]], dashboard)
        )
        for wanted in CHARTS
    }
    layout = {"position_json": json.dumps(positions(charts)), "json_metadata": json.dumps({"color_scheme": ""})}
    superset.call("PUT", f"/dashboard/{dashboard}", layout)
    return {"database": database, "datasets": datasets, "charts": charts, "dashboard": dashboard}


def chart_fields(wanted: Chart, dataset: int, dashboard: int) -> dict[str, Any]:
    """Return what Superset keeps of a chart: the form it is edited with, and the query that it asks."""
    form = {
        "datasource": f"{dataset}__table",
        "viz_type": wanted["kind"],
        "groupby": wanted["columns"],
        "metrics": wanted["metrics"],
        "metric": wanted["metrics"][0],
        "time_grain_sqla": None,
        "adhoc_filters": [],
        "row_limit": 10_000,
        **wanted["form"],
    }
    query = {
        "columns": wanted["columns"],
        "metrics": wanted["metrics"],
        "orderby": [[wanted["columns"][0], True]],
        "row_limit": 10_000,
    }
    context = {
        "datasource": {"id": dataset, "type": "table"},
        "queries": [query],
        "form_data": form,
        "result_format": "json",
        "result_type": "full",
        "force": True,
    }
    return {
        "datasource_id": dataset,
        "datasource_type": "table",
        "viz_type": wanted["kind"],
        "params": json.dumps(form),
        "query_context": json.dumps(context),
        "dashboards": [dashboard],
    }


def positions(charts: dict[str, int]) -> dict[str, Any]:
    """Return the dashboard's layout: two charts a row."""
    layout: dict[str, Any] = {
        "DASHBOARD_VERSION_KEY": "v2",
        "ROOT_ID": {"type": "ROOT", "id": "ROOT_ID", "children": ["GRID_ID"]},
        "GRID_ID": {"type": "GRID", "id": "GRID_ID", "children": [], "parents": ["ROOT_ID"]},
    }
    names = list(charts)
    for begin in range(0, len(names), 2):
        row = f"ROW-{begin // 2}"
        layout["GRID_ID"]["children"].append(row)
        layout[row] = {
            "type": "ROW",
            "id": row,
            "children": [],
            "parents": ["ROOT_ID", "GRID_ID"],
            "meta": {"background": "BACKGROUND_TRANSPARENT"},
        }
        for name in names[begin : begin + 2]:
            cell = f"CHART-{charts[name]}"
            layout[row]["children"].append(cell)
            layout[cell] = {
                "type": "CHART",
                "id": cell,
                "children": [],
                "parents": ["ROOT_ID", "GRID_ID", row],
                "meta": {"chartId": charts[name], "width": 6, "height": 50, "sliceName": name},
            }
    return layout


def main() -> int:
    """Provision what the environment names; return the exit code."""
    env = os.environ.get
    try:
        superset = Superset(
            env("SUPERSET_URL") or "http://127.0.0.1:8088",
            env("SUPERSET_ADMIN") or "admin",
            env("SUPERSET_PASSWORD") or "",
        )
        answer = provision(superset, env("SUPERSET_WAREHOUSE_URI") or "clickhousedb://default@127.0.0.1:8123/dm")
    except ProvisionError as error:
        print(json.dumps({"error": str(error)}))
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())

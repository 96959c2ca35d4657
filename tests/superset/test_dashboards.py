"""A real Superset, as compose starts it, over the marts of compose's Kafka and warehouse: its charts move with them."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from clickstream import verbs
from clickstream.broker import Broker
from clickstream.etl import Etl
from clickstream.warehouse import Warehouse
from tests.stand.composed import Composed
from tests.stand.history import carry
from tests.stand.served import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

PROVISION = [sys.executable, str(ROOT / "dashboards" / "provision.py")]


class Superset:
    """Compose's Superset with all that it needs, and its REST API."""

    def __init__(self, composed: Composed) -> None:
        self.url = composed.url("8088")
        self.environ = composed.environ("superset-provision")
        login = {"username": "admin", "password": self.environ["SUPERSET_PASSWORD"], "provider": "db"}
        self._headers: dict[str, str] = {}
        token = self._asked("/security/login", json.dumps(login).encode())["access_token"]
        self._headers = {"Authorization": f"Bearer {token}"}

    def provision(self) -> dict[str, Any]:
        """Run the script once more, and return its answer."""
        answer = subprocess.run(PROVISION, env=self.environ, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr
        return dict(json.loads(answer.stdout))

    def shown(self, charts: dict[str, int]) -> dict[str, list[dict[str, Any]]]:
        """What each chart shows, asked as the dashboard asks it."""
        found = {}
        for name, chart in charts.items():
            [result] = self.call(f"/chart/{chart}/data/?force=true")["result"]
            assert result["error"] is None
            found[name] = list(result["data"])
        return found

    def call(self, path: str) -> Any:
        return self._asked(path, None)

    def _asked(self, path: str, body: bytes | None) -> Any:
        headers = {**self._headers, **({"Content-Type": "application/json"} if body else {})}
        request = urllib.request.Request(f"{self.url}/api/v1{path}", body, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composed]:
    with Composed(tmp_path_factory.mktemp("composed")) as composed:
        composed.up("kafka", "superset-provision")
        yield composed


@pytest.fixture(scope="module")
def superset(composed: Composed) -> Superset:
    return Superset(composed)


def test_charts_move_by_exactly_the_day_that_was_made(composed: Composed, superset: Superset) -> None:
    environ = composed.environ("airflow-scheduler")
    broker = Broker(environ["KAFKA_BOOTSTRAP_SERVERS"])
    with Warehouse.opened(environ["CLICKHOUSE_URL"]) as warehouse:
        etl = Etl(warehouse)
        verbs.backfill(verbs.Stand(broker), t0="2026-01-01T00:00:00Z", days=2, visits_a_day=200, seed=7)
        loaded(etl, broker)
        made = superset.provision()
        before = superset.shown(made["charts"])

        published = verbs.next_day(verbs.Stand(broker))["published"]["browser_events"]
        assert loaded(etl, broker) == ["2026-01-03"]
        after = superset.shown(made["charts"])

        events = [line["events"] for line in etl.counts() if line["mart"] == "visits_daily"]
        views = [
            row[0]
            for row in warehouse._client.query("SELECT page_views FROM dm.visits_daily ORDER BY event_date").result_rows
        ]
    assert events[-1] == published
    assert [row["total page views"] for row in before["Page views a day"]] == views[:-1]
    assert [row["total page views"] for row in after["Page views a day"]] == views
    for name in ("Page views a day", "Visits a day", "Data quality"):
        assert (len(before[name]), len(after[name])) == (2, 3)
        assert [row for row in after[name] if row in before[name]] == before[name]
    for name, column, more in (
        ("Countries and devices", "total events", published),
        ("Top pages", "total page views", views[-1]),
    ):
        assert sum(row[column] for row in after[name]) - sum(row[column] for row in before[name]) == more
    for moment in (before, after):
        visits = sum(row["total visits"] for row in moment["Visits a day"])
        assert sum(row["total clicks"] for row in moment["Where visits come from"]) == visits
        purchases = sum(row["total purchases"] for row in moment["Purchases a day"])
        assert sum(row["total purchases"] for row in moment["What leads to purchases"]) == purchases > 0


def loaded(etl: Etl, broker: Broker) -> list[str]:
    """Load what the broker holds into the marts; returns the days that moved."""
    etl.precheck(broker)
    etl.load_stg(broker)
    return carry(etl)


def test_provisioning_again_makes_nothing_twice(superset: Superset) -> None:
    made = superset.provision()

    assert superset.provision() == made
    found = {kind: superset.call(f"/{kind}/")["count"] for kind in ("database", "dataset", "chart", "dashboard")}
    assert found == {"database": 1, "dataset": 4, "chart": 8, "dashboard": 1}
    charts = superset.call(f"/dashboard/{made['dashboard']}/charts")["result"]
    assert {chart["slice_name"] for chart in charts} == set(made["charts"])


def test_what_is_wrong_is_said_in_one_sentence(superset: Superset) -> None:
    environ = {name: value for name, value in superset.environ.items() if name != "SUPERSET_PASSWORD"}

    unset = subprocess.run(PROVISION, env=environ, capture_output=True, text=True, check=False)
    wrong = subprocess.run(
        PROVISION, env={**environ, "SUPERSET_PASSWORD": "no"}, capture_output=True, text=True, check=False
    )
    gone = subprocess.run(
        PROVISION,
        env={**environ, "SUPERSET_PASSWORD": "no", "SUPERSET_URL": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (unset.returncode, wrong.returncode, gone.returncode) == (1, 1, 1)
    assert unset.stderr == "SUPERSET_PASSWORD is not set: it is the password of Superset's admin.\n"
    assert wrong.stderr.startswith("Superset refused POST /security/login (401)")
    assert gone.stderr.startswith("No Superset answers at http://127.0.0.1:9")
    assert json.loads(gone.stdout) == {"error": gone.stderr.strip()}

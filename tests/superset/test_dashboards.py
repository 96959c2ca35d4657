"""A real Superset, made ready by compose's own commands and provisioned over REST: its charts move with the marts."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from clickstream.etl import Etl
from clickstream.kafka import free_port
from clickstream.warehouse import Warehouse
from tests.stand.history import History, load
from tests.stand.served import ROOT, Served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMANDS = ROOT / ".venv-superset" / "bin"
SERVICES = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["services"]
START_SECONDS = 180


class Superset:
    """A Superset of our own, with an admin, in a temporary folder."""

    def __init__(self, home: Path) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self.password = secrets.token_hex(8)
        self.environ = {
            **os.environ,
            "PATH": f"{COMMANDS}:{os.environ['PATH']}",
            "FLASK_APP": "superset",
            "SUPERSET_HOME": str(home),
            "SUPERSET_SECRET_KEY": secrets.token_hex(32),
            "SUPERSET_PASSWORD": self.password,
            "SUPERSET_URL": self.url,
        }
        self._home = home

    def __enter__(self) -> Superset:
        shell, option, script = SERVICES["superset-init"]["command"]
        made = subprocess.run(
            [shell, option, script.replace("$$", "$")],
            env=self.environ,
            cwd=self._home,
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr[-2000:]
        with (self._home / "superset.log").open("wb") as log:
            self._process = subprocess.Popen(
                [COMMANDS / "superset", "run", "-h", "127.0.0.1", "-p", self.url.rpartition(":")[2], "--with-threads"],
                env=self.environ,
                cwd=self._home,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._is_healthy():
            assert self._process.poll() is None, (self._home / "superset.log").read_text()[-2000:]
            assert time.monotonic() < deadline, f"Superset did not start within {START_SECONDS} s"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(60)

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=10):
                return True
        except OSError:
            return False

    def provision(self, warehouse: str) -> dict[str, Any]:
        """Run the script as compose does, and return its answer."""
        address = warehouse.replace("http://", "clickhousedb://default@") + "/dm"
        answer = subprocess.run(
            [sys.executable, str(ROOT / "dashboards" / "provision.py")],
            env={**self.environ, "SUPERSET_WAREHOUSE_URI": address},
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        return dict(json.loads(answer.stdout))

    def data(self, chart: int) -> list[dict[str, Any]]:
        """What a chart shows, asked as the dashboard asks it."""
        [result] = self.call(f"/chart/{chart}/data/?force=true")["result"]
        assert result["error"] is None
        return list(result["data"])

    def call(self, path: str) -> Any:
        login = json.dumps({"username": "admin", "password": self.password, "provider": "db"}).encode()
        headers = {"Content-Type": "application/json"}
        ask = urllib.request.Request(f"{self.url}/api/v1/security/login", login, headers)
        with urllib.request.urlopen(ask, timeout=60) as answer:
            token = json.load(answer)["access_token"]
        asked = urllib.request.Request(f"{self.url}/api/v1{path}", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return json.load(answer)


@pytest.fixture(scope="module")
def superset(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Superset]:
    with Superset(tmp_path_factory.mktemp("superset")) as superset:
        yield superset


def test_charts_show_the_marts_and_move_by_exactly_the_new_day(superset: Superset, tmp_path: Path) -> None:
    history = History("2026-01-01T00:00:00Z")
    with Served(tmp_path) as served, Warehouse.opened(served.url) as warehouse:
        etl = Etl(warehouse)
        load(etl, history.day())
        made = superset.provision(served.url)
        before = {name: superset.data(chart) for name, chart in made["charts"].items()}

        load(etl, history.day())
        after = {name: superset.data(chart) for name, chart in made["charts"].items()}

        views = {line["event_date"]: line["page_views"] for line in etl.counts() if line["mart"] == "visits_daily"}
        first, second = views.values()
        assert [row["total page views"] for row in before["Page views a day"]] == [first]
        assert [row["total page views"] for row in after["Page views a day"]] == [first, second]
        assert after["Page views a day"][0] == before["Page views a day"][0]
        assert after["Visits a day"][0] == before["Visits a day"][0]
        assert after["Data quality"][0] == before["Data quality"][0]
        for name, column in (
            ("Countries and devices", "total events"),
            ("Top pages", "total page views"),
        ):
            assert sum(row[column] for row in before[name]) == first
            assert sum(row[column] for row in after[name]) == first + second
        for moment in (before, after):
            visits = sum(row["total visits"] for row in moment["Visits a day"])
            assert sum(row["total clicks"] for row in moment["Where visits come from"]) == visits

        # Provisioning again makes nothing twice.
        assert superset.provision(served.url) == made
        found = {kind: superset.call(f"/{kind}/")["count"] for kind in ("database", "dataset", "chart", "dashboard")}
        assert found == {"database": 1, "dataset": 4, "chart": 6, "dashboard": 1}
        shown = superset.call(f"/dashboard/{made['dashboard']}/charts")["result"]
        assert {chart["slice_name"] for chart in shown} == set(made["charts"])


def test_what_is_wrong_is_said_in_one_sentence(superset: Superset) -> None:
    script = [sys.executable, str(ROOT / "dashboards" / "provision.py")]
    environ = {name: value for name, value in superset.environ.items() if name != "SUPERSET_PASSWORD"}

    unset = subprocess.run(script, env=environ, capture_output=True, text=True, check=False)
    wrong = subprocess.run(
        script, env={**environ, "SUPERSET_PASSWORD": "no"}, capture_output=True, text=True, check=False
    )
    gone = subprocess.run(
        script,
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

"""An Airflow home of our own, made before Airflow is first imported, and a store for each test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from page_world import World

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tools")]
sys.path.append(str(HERE.parents[1] / "plugins"))  # the stand's tasks, which are in no package

from airflow_stand import ROOT, Stand  # noqa: E402

# `find_spec` imports the package above what it looks for, and Airflow takes its home when it is imported.
HOME = tempfile.mkdtemp(prefix="airflow-home-")
os.environ.update(
    AIRFLOW_HOME=HOME,
    AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__LOGGING__LOGGING_LEVEL="WARNING",
    AIRFLOW__METRICS__TIMER_UNIT_CONSISTENCY="True",  # 2.11 warns of anything else
)

# `make test` runs these tests in the virtual environment of each line, and each end to end test on its line.
if find_spec("airflow") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    # To look for airflow.sdk would import airflow, which reads the home that pytest_configure makes only then.
    of_page = [f"test_page_{of}.py" for of in ("api", "browser", "empty")]
    of_3, of_2 = ["test_end_to_end_3.py", *of_page], ["test_end_to_end_2.py"]
    collect_ignore = of_3 if version("apache-airflow").startswith("2.") else of_2


def pytest_configure(config: pytest.Config) -> None:
    config.add_cleanup(lambda: shutil.rmtree(HOME, ignore_errors=True))


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stand:
    stand = Stand(tmp_path)
    monkeypatch.setenv("AIRFLOW_CONN_BACKFILL_DEFAULT", stand.connection())
    return stand


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """Make Airflow's metadata database, where it looks for connections that no variable names."""
    subprocess.run([Path(sys.executable).parent / "airflow", "db", "migrate"], check=True, capture_output=True)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """An Airflow with the page, and a past to look at."""
    from page_world import page_world

    with page_world(tmp_path_factory.mktemp("page")) as world:
        yield world


@pytest.fixture
def triggerer(airflow_database: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let Airflow say that a triggerer runs: by its health check in 3, by its metadata database in 2.11."""
    if find_spec("airflow.sdk") is None:
        from airflow.jobs.job import Job
        from airflow.utils.session import create_session

        with create_session() as session:
            session.add(Job(job_type="TriggererJob", state="running"))  # type: ignore[no-untyped-call]
        yield
        with create_session() as session:
            session.query(Job).delete()
        return

    with ThreadingHTTPServer(("127.0.0.1", 0), HealthCheck) as server:
        monkeypatch.setenv(
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL", f"http://127.0.0.1:{server.server_port}/execution/"
        )
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield
        server.shutdown()
        thread.join()


class HealthCheck(BaseHTTPRequestHandler):
    """Answers as Airflow 3's health check does."""

    def do_GET(self) -> None:
        found = self.path == "/api/v2/monitor/health"
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(b'{"triggerer": {"status": "healthy"}}')

    def log_message(self, *_: object) -> None:
        """Say nothing."""

"""An Airflow home of our own, made before Airflow is first imported, and a store for each test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tools")]
sys.path.append(str(HERE.parents[1] / "plugins"))  # the stand's tasks, which are in no package

from airflow_stand import ROOT, Stand  # noqa: E402

# `make test` runs these tests in the virtual environment of each line, and each end to end test on its line.
if find_spec("airflow") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    collect_ignore = ["test_end_to_end_2.py" if find_spec("airflow.sdk") else "test_end_to_end_3.py"]


def pytest_configure(config: pytest.Config) -> None:
    home = tempfile.mkdtemp(prefix="airflow-home-")
    config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))
    os.environ.update(
        AIRFLOW_HOME=home,
        AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
        AIRFLOW__LOGGING__LOGGING_LEVEL="WARNING",
        AIRFLOW__METRICS__TIMER_UNIT_CONSISTENCY="True",  # 2.11 warns of anything else
    )


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stand:
    stand = Stand(tmp_path)
    monkeypatch.setenv("AIRFLOW_CONN_BACKFILL_DEFAULT", stand.connection())
    return stand


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """Make Airflow's metadata database, where it looks for connections that no variable names."""
    subprocess.run([Path(sys.executable).parent / "airflow", "db", "migrate"], check=True, capture_output=True)

"""One embedded warehouse for all tests of a run, served as a user serves it, and emptied for each test."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path[:0] = [str(Path(__file__).parents[2] / folder) for folder in ("tools", "plugins")]

# `make test` runs these tests in the virtual environment of the stand.
if find_spec("chdb") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    from clickstream.kafka import VERSION, Kafka
    from clickstream.warehouse import Warehouse
    from tests.stand.served import ROOT, Served

if TYPE_CHECKING:
    from collections.abc import Iterator


def pytest_configure(config: pytest.Config) -> None:
    """Have Airflow, which makes its home where it is imported, make it here."""
    home = os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="airflow-home-")
    config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("warehouse")) as served:
        yield served


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The user's own Kafka, or one that lives as long as the tests."""
    if own := os.environ.get("KAFKA_BOOTSTRAP_SERVERS"):
        yield own
        return
    with Kafka(tmp_path_factory.mktemp("kafka"), ROOT / ".kafka" / VERSION) as kafka:
        yield kafka.servers


@pytest.fixture
def warehouse(served: Served) -> Iterator[Warehouse]:
    with Warehouse.opened(served.url) as warehouse:
        for layer in ("stg", "ods", "dds", "dm", "scratch"):
            warehouse.command(f"DROP DATABASE IF EXISTS {layer}")
        yield warehouse

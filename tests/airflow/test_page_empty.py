"""What the page's API says where there is nothing yet, or an earlier release's ledger; and that it makes nothing."""

from __future__ import annotations

import asyncio
import sqlite3
import warnings
from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from backfill_core import create_store
from backfill_core.ledger import tables
from backfill_core.ledger.opening import open_ledger

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def app() -> Any:
    """The API, asked by an administrator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Airflow's API server imports warns of its own test client
        from airflow.api_fastapi.core_api.security import get_user

        from backfill_airflow.page.app import app
    app.dependency_overrides[get_user] = lambda: SimpleNamespace(get_name=lambda: "root", role="admin")
    return app


@pytest.fixture
def home(airflow_database: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a store."""
    monkeypatch.delenv("AIRFLOW_CONN_BACKFILL_DEFAULT", raising=False)
    monkeypatch.delenv("BACKFILL_DB", raising=False)
    monkeypatch.setenv("BACKFILL_HOME", str(tmp_path))
    return tmp_path


def ask(app: Any, path: str) -> tuple[int, Any]:
    async def answer() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://page") as client:
            return await client.get(path)

    response = asyncio.run(answer())
    return response.status_code, response.json()


def made(home: Path) -> set[str]:
    with closing(sqlite3.connect(home / "state.db")) as store:
        return {name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_without_a_store_it_is_said_how_to_come_to_one(app: Any, home: Path) -> None:
    assert ask(app, "/datasets") == (
        404,
        {"detail": "No connection of the type “Backfill store” leads to a store yet."},
    )
    assert list(home.iterdir()) == []


def test_a_store_without_datasets_is_no_failure_and_stays_as_it_is(app: Any, home: Path) -> None:
    create_store(str(home / "state.db"))
    before = made(home)

    assert ask(app, "/datasets") == (200, {"datasets": [], "failures": []})
    assert ask(app, "/datasets/daily/partitions/2026-02-01")[1]["history"] == []
    assert made(home) == before


def test_a_ledger_of_an_earlier_release_is_said_and_not_changed(
    app: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr("backfill_core.ledger.ledger.VERSIONS", tables.VERSIONS[:1])
        open_ledger(str(home / "state.db")).close()

    [failure] = ask(app, "/datasets")[1]["failures"]

    assert "the ledger's tables are of version 1, and this release needs 2; the next write of any dataset" in failure
    with closing(sqlite3.connect(home / "state.db")) as store:
        assert store.execute("SELECT version FROM ledger_schema").fetchall() == [(1,)]

"""What all tests start from, and the worlds of the store's tests: the same for both databases."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.servers import OwnPostgres, PgBouncer, Postgres
from tests.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def pytest_configure() -> None:
    """Have what the tests start hear all signals, also where a shell's `&` or `nohup` has had some ignored."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture(autouse=True)
def signals_kept() -> Iterator[None]:
    """Put back what the signals did: a command line that runs in the test's own process hears them from then on."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The server that BACKFILL_TEST_POSTGRES names, or else one of our own."""
    named = os.environ.get("BACKFILL_TEST_POSTGRES")
    server = Postgres(named) if named else OwnPostgres()
    yield server
    server.close()


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[OwnPostgres]:
    """A server that the test may stop."""
    server = OwnPostgres()
    yield server
    server.close()


@pytest.fixture(scope="module")
def pgbouncer(postgres: Postgres) -> Iterator[PgBouncer]:
    pooler = PgBouncer(postgres)
    yield pooler
    pooler.close()


@pytest.fixture(params=["sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """An empty store with a folder of events, once for each database."""
    in_file = request.param == "sqlite"
    db = str(tmp_path / "state.db") if in_file else request.getfixturevalue("postgres").new_store()
    with World(db, tmp_path) as made:
        made.init()
        yield made


@pytest.fixture
def postgres_world(postgres: Postgres, tmp_path: Path) -> Iterator[World]:
    """An empty store in PostgreSQL with a folder of events."""
    with World(postgres.new_store(), tmp_path) as made:
        made.init()
        yield made

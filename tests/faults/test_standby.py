"""A commit that waits for a standby that is away: the wait has an end, and says that the outcome is unknown."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from backfill_core import Backfill, StoreError, create_store, open_store
from backfill_core.store import postgres
from tests.servers import OwnPostgres, wait_until
from tests.world import World, day, days

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
WAITING_FOR_LONG = f"{WAITING} AND clock_timestamp() - query_start > '1 second'"


@pytest.fixture
def waiting_world(own_postgres: OwnPostgres, tmp_path: Path) -> Iterator[World]:
    """A store whose server waits for a standby that there isn't."""
    with World(own_postgres.new_store(), tmp_path) as world:
        world.init()
        world.put(day(0), 1)
        _wait_for_a_standby(own_postgres, "somebody")
        yield world
    _wait_for_a_standby(own_postgres, "")


def _wait_for_a_standby(server: OwnPostgres, name: str) -> None:
    server.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
    server.sql("SELECT pg_reload_conf()")
    wait_until(lambda: server.sql("SHOW synchronous_standby_names") == [(name,)], "the server has read its settings")


def test_a_commit_that_no_standby_confirms_ends_and_says_that_it_is_unknown(
    waiting_world: World, own_postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "WAIT_SECONDS", 1)

    with waiting_world.backfill() as backfill, pytest.raises(StoreError) as refused:
        backfill.run(days(1), "a")
    with pytest.raises(StoreError, match="no standby has confirmed it"):
        create_store(own_postgres.new_store())

    assert "it is unknown whether it stays" in str(refused.value)
    assert refused.value.so_far == {"owner": "a", "done": [], "skipped": [], "orders": 0, "amount": 0}
    assert waiting_world.daily() == {day(0): (1, 1, "a")}


def test_a_signal_is_heard_while_a_commit_waits_for_a_standby(waiting_world: World, own_postgres: OwnPostgres) -> None:
    process = waiting_world.start("run", day(0), day(0), "a")
    wait_until(lambda: own_postgres.sql(WAITING), "the commit waits for the standby")

    process.send_signal(signal.SIGTERM)
    code, answer = waiting_world.finish(process)

    assert code == 130
    assert answer["error"].startswith("interrupted by SIGTERM; the state store")
    assert "no standby has confirmed it" in answer["error"]
    assert answer["done"] == []


def test_a_server_that_does_not_even_cancel_is_given_up(
    own_postgres: OwnPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "WAIT_SECONDS", 1)
    monkeypatch.setattr(postgres, "CANCEL_SECONDS", 1)
    db = own_postgres.new_store()
    create_store(db)
    with open_store(db) as store:
        backend = store._connection.info.backend_pid  # type: ignore[attr-defined]
        try:
            with pytest.raises(StoreError, match="lost in the middle of a commit"), store.writing():
                os.kill(backend, signal.SIGSTOP)
        finally:
            os.kill(backend, signal.SIGCONT)


def test_a_commit_that_waits_is_not_cut_short_where_nobody_asks(
    waiting_world: World, own_postgres: OwnPostgres
) -> None:
    with open_store(waiting_world.db) as store:
        backfill = Backfill(store, stop=lambda: False)
        process = waiting_world.start("claim", day(0), day(0), "a")
        wait_until(lambda: own_postgres.sql(WAITING_FOR_LONG) or process.poll() is not None, "the commit waits")

        _wait_for_a_standby(own_postgres, "")
        code, answer = waiting_world.finish(process)

        assert (code, answer["claimed"]) == (0, [day(0)])
        assert backfill.claim(days(1), "b")["denied"] == [[day(0), "a"]]

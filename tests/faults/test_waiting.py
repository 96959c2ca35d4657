"""Who waits for the turn to write: nobody gets it that can't take it, a wait has an end, and a signal is heard."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backfill_core import Backfill, StoreError, create_store, open_store
from backfill_core.store import sqlite
from tests.faults.killing import end_of, start, thaw, wait_until_frozen
from tests.servers import Postgres, wait_until
from tests.world import World, day, days

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from multiprocessing.context import ForkServerProcess


def _freeze() -> bool:
    os.kill(os.getpid(), signal.SIGSTOP)
    return False


def claim_frozen_in_line(db: str, owner: str) -> None:
    """Claim a date, and be stopped each time that the wait for the turn is looked at."""
    with open_store(db) as store:
        Backfill(store, stop=_freeze).claim(days(1), owner)


def claim_frozen_in_turn(db: str, owner: str) -> None:
    with open_store(db) as store, store.writing() as tables:
        tables.claim(days(1), owner)
        _freeze()


def lock_frozen(db: str) -> None:
    """Hold the file as a stranger does, who knows of no line."""
    with closing(sqlite3.connect(db, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        _freeze()


@pytest.fixture
def frozen() -> Iterator[Callable[..., ForkServerProcess]]:
    """Start processes that stop themselves, and wait for that; those that still are in the end are killed."""
    started: list[ForkServerProcess] = []

    def begin(work: Callable[..., Any], *arguments: Any) -> ForkServerProcess:
        started.append(start(work, *arguments))
        wait_until_frozen(started[-1])
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.join()


def test_a_process_that_is_stopped_in_the_line_does_not_get_the_turn(
    tmp_path: Path, frozen: Callable[..., ForkServerProcess]
) -> None:
    with World(str(tmp_path / "state.db"), tmp_path) as world:
        world.init()
        with open_store(world.db) as store, store.writing():
            waiting = frozen(claim_frozen_in_line, world.db, "stopped")

        code, answer = world.run("claim", day(0), day(0), "other")
        thaw(waiting)

        assert (code, answer["claimed"]) == (0, [day(0)])
        assert end_of(waiting) == 0
        assert world.rows("claims") == [(day(0), "other")]


def test_a_wait_for_one_that_is_stopped_in_its_turn_ends_and_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frozen: Callable[..., ForkServerProcess]
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 1)
    db = str(tmp_path / "state.db")
    create_store(db)
    stopped = frozen(claim_frozen_in_turn, db, "stopped")

    with (
        open_store(db) as store,
        pytest.raises(StoreError, match=f"for 1 seconds; now process {stopped.pid} has it, which is stopped"),
    ):
        Backfill(store).claim(days(1), "other")

    with pytest.raises(StoreError, match=f"now process {stopped.pid} has it"):
        create_store(db)
    thaw(stopped)
    assert end_of(stopped) == 0
    with World(db, tmp_path) as world:
        assert world.rows("claims") == [(day(0), "stopped")]


def test_a_wait_for_a_stranger_that_holds_the_file_ends_and_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frozen: Callable[..., ForkServerProcess]
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 1)
    db = str(tmp_path / "state.db")
    create_store(db)
    stranger = frozen(lock_frozen, db)

    with (
        open_store(db) as store,
        pytest.raises(StoreError, match=f"now process {stranger.pid} has it, which is stopped"),
    ):
        Backfill(store).claim(days(1), "other")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_ends_the_wait_and_nothing_was_changed(world: World, number: signal.Signals) -> None:
    world.put(day(0), 1)
    commands = (["claim", day(0), day(0), "a"], ["run", day(0), day(0), "a"], ["rollup"])
    with open_store(world.db) as store, store.writing():
        started = [world.start(*command) for command in commands]
        for process in started:
            wait_until(lambda process=process: _waits(world, process), "it waits for its turn")  # type: ignore[misc]
            process.send_signal(number)
        answers = [world.finish(process) for process in started]

    assert [code for code, _ in answers] == [130] * 3
    assert answers[0][1] == {"error": f"interrupted by {number.name}; stopped before anything was changed"}
    assert (answers[1][1]["done"], answers[1][1]["error"]) == (
        [],
        f"interrupted by {number.name}; what is listed was done",
    )
    assert not any(world.dump().values())


def _waits(world: World, process: subprocess.Popen[bytes]) -> bool:
    """Return whether the process is at the store, which is held, so that it waits now or will in a moment."""
    assert process.poll() is None
    if "://" in world.db:
        waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        return bool(Postgres(world.db.partition("?")[0]).sql(waiting))
    folder = Path(f"/proc/{process.pid}/fd")
    return any(os.path.realpath(entry) == str(world.folder) for entry in folder.iterdir())


def test_a_server_that_cancels_a_wait_is_not_a_stop(postgres_world: World) -> None:
    impatient = f"{postgres_world.db}&options=-c%20statement_timeout%3D200ms"

    with (
        open_store(postgres_world.db) as first,
        first.writing(),
        open_store(impatient) as second,
        pytest.raises(StoreError, match="the server cancelled the statement"),
    ):
        Backfill(second, stop=lambda: False).claim(days(1), "a")

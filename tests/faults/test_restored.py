"""A backup that was copied over a SQLite file, and the write-ahead log that still stands beside it."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from backfill_core import Backfill, StoreError, open_store
from tests.world import CHECKOUT, World, day, days

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = (CHECKOUT / "docs/reliability.md").read_text()
RESTORE = re.findall(r"```sh\n(.*?)```", PAGE[PAGE.index("## Restoring a backup") :], re.DOTALL)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[World]:
    """A store with one claim, and a backup of it from then."""
    with World(str(tmp_path / "state.db"), tmp_path) as world:
        world.init()
        _claim(world, 0)
        with closing(sqlite3.connect(world.db)) as live, closing(sqlite3.connect(tmp_path / "backup.db")) as backup:
            live.backup(backup)
        yield world


def _claim(world: World, number: int) -> None:
    with open_store(world.db) as opened:
        Backfill(opened).claim(days(1, start=number), "a")


def _log(world: World) -> Path:
    return world.folder / "state.db-wal"


def test_a_backup_beside_a_log_that_is_not_its_own_is_told(store: World) -> None:
    for number in range(1, 4):
        _claim(store, number)
    _leave_a_log(store)
    shutil.copy(store.folder / "backup.db", store.db)
    before = _log(store).read_bytes()

    with pytest.raises(StoreError, match="is not of the file beside it"):
        open_store(store.db)
    answers = [store.run("claim", day(9), day(9), "a"), store.run("init")]

    assert [(code, "remove" in answer["error"]) for code, answer in answers] == [(1, True)] * 2
    assert _log(store).read_bytes() == before


def test_a_log_that_is_the_files_own_is_taken_in(store: World) -> None:
    for number in range(1, 4):
        _claim(store, number)
    _leave_a_log(store)

    with open_store(store.db) as first, open_store(store.db) as second:
        for number in range(20, 40):
            Backfill(first if number % 2 else second).claim(days(1, start=number), "c")
            with open_store(store.db):
                pass

    assert [dt for dt, _ in store.rows("claims")] == [day(n) for n in (*range(4), 10, *range(20, 40))]


def test_a_log_that_is_half_way_into_the_file_is_taken_in(store: World) -> None:
    _leave_a_log(store, 5_000)
    log = _log(store).read_bytes()
    frames = [log[at : at + 24 + 4096] for at in range(32, len(log), 24 + 4096)]
    [*_, first_page] = [frame[24:] for frame in frames if frame[:4] == (1).to_bytes(4, "big")]
    with open(store.db, "r+b") as file:  # as a process leaves it that is killed or stopped after the first page
        file.write(first_page)

    with open_store(store.db) as opened:
        assert Backfill(opened).claim(days(1, start=5), "a")["claimed"] == [day(5)]

    assert len(store.rows("claims")) == 5_002


@pytest.mark.parametrize("script", RESTORE)
def test_a_backup_is_restored_as_the_page_says(store: World, script: str) -> None:
    for number in range(1, 4):
        _claim(store, number)
    _leave_a_log(store)

    subprocess.run(["sh", "-ec", script], cwd=store.folder, check=True)

    with open_store(store.db) as opened:
        assert Backfill(opened).claim(days(1, start=5), "a")["claimed"] == [day(5)]
    assert store.rows("claims") == [(day(0), "a"), (day(5), "a")]


def _leave_a_log(world: World, count: int = 1) -> None:
    """Claim the eleventh day and those after it, and have the log stay as after a process that was killed."""
    with open_store(world.db) as opened:
        Backfill(opened).claim(days(count, start=10), "b")
        kept = {name: (world.folder / name).read_bytes() for name in ("state.db", "state.db-wal")}
    for name, content in kept.items():
        (world.folder / name).write_bytes(content)

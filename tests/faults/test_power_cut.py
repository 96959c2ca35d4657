"""A power cut, as far as it can be had without one: a SQLite store is left with what was forced to the disk before."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from backfill_core import BackfillError, create_store, open_store
from backfill_core.contract import main
from backfill_core.store import sqlite
from tests.faults import story
from tests.world import World, day, days

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

COUNT = 3
FULL, NORMAL = 2, 1
"""What `PRAGMA synchronous` says: whether a commit of SQLite waits for the disk, or is left to a later one."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A store with its old results, open elsewhere, so that its log stays."""
    made = World(str(tmp_path / "state.db"), tmp_path)
    create_store(made.db)
    story.begin(made, COUNT)
    with made.backfill():
        yield made


class Disk:
    """Keeps what a disk would have of the store: the file, and the log as it was when it was last forced there."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.before_sync: Callable[[], object] = lambda: None
        self._log = world.folder / "state.db-wal"
        self._file = (world.folder / "state.db").read_bytes()
        self._kept = self._log.read_bytes()
        self._place = world.folder / "after the cut"
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self._sync)

    def _sync(self, descriptor: int) -> None:
        self.before_sync()
        self._fsync(descriptor)
        if os.path.samestat(os.fstat(descriptor), self._log.stat()):
            self._kept = self._log.read_bytes()

    def after_the_cut(self, log: bytes | None = None) -> tuple[int, World]:
        """Return how many days have their new result, those first, and the world; `log` is what was kept of that."""
        shutil.rmtree(self._place, ignore_errors=True)
        self._place.mkdir()
        (self._place / "state.db").write_bytes(self._file)
        (self._place / "state.db-wal").write_bytes(self._kept if log is None else log)
        left = World(str(self._place / "state.db"), self._place)
        return story.days_at_new(left, COUNT), left

    def log(self) -> bytes:
        return self._log.read_bytes()


@pytest.fixture
def disk(world: World, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(world, monkeypatch)


# What was answered is on the disk


def test_what_a_run_answered_is_there_after_a_power_cut(world: World, disk: Disk) -> None:
    answer = story.run(world, COUNT, "new")

    new, left = disk.after_the_cut()
    assert len(answer["done"]) == new == COUNT
    story.check_that_running_again_is_enough(World(left.db, world.folder), COUNT)


def test_what_an_interrupted_run_answered_is_there_after_a_power_cut(world: World, disk: Disk) -> None:
    passed = []

    with world.backfill() as backfill:
        answer = backfill.run(
            days(COUNT), "new", progress=lambda *step: passed.append(step), stop=lambda: len(passed) == 3
        )

    new, _ = disk.after_the_cut()
    assert answer["done"] == [day(0), day(1)]
    assert new == 2


def test_the_receipt_of_a_run_that_failed_is_true_after_a_power_cut(world: World, disk: Disk) -> None:
    def fail_at_the_third(passed: int, _dt: str) -> None:
        if passed == 2:
            raise BackfillError("it can't go on")

    with world.backfill() as backfill, pytest.raises(BackfillError, match="can't go on") as caught:
        backfill.run(days(COUNT), "new", progress=fail_at_the_third)

    new, _ = disk.after_the_cut()
    assert caught.value.so_far is not None
    assert caught.value.so_far["done"] == [day(0), day(1)]
    assert new == 2


def test_a_run_is_forced_to_the_disk_on_its_way_too(world: World, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "SYNC_SECONDS", 0)
    kept = []

    with world.backfill() as backfill:
        backfill.run(days(COUNT), "new", progress=lambda *_: kept.append(disk.after_the_cut()[0]))

    assert kept == [0, 1, 2]


def test_the_runner_answers_after_the_disk_has(
    world: World, disk: Disk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BACKFILL_DB", world.db)
    monkeypatch.setenv("BACKFILL_EVENTS", str(world.events))
    said = []
    disk.before_sync = lambda: said.append(capsys.readouterr().out)

    code = main(["run", day(0), day(COUNT - 1), "new"])

    answer = json.loads(capsys.readouterr().out)
    assert (code, answer["done"]) == (0, list(days(COUNT)))
    assert said
    assert set(said) == {""}
    assert disk.after_the_cut()[0] == COUNT


def test_a_disk_that_fails_is_told_with_a_receipt(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setenv("BACKFILL_DB", world.db)
    monkeypatch.setenv("BACKFILL_EVENTS", str(world.events))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)

        code = main(["run", day(0), day(COUNT - 1), "new"])

    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert code == 1
    assert answer["done"] == list(days(COUNT))
    assert answer["error"] in err
    assert answer["error"] == (
        f"the state store {world.db} can't be forced to the disk: Input/output error; what was done is there for all to"
        " see, but a power cut could take back the last partitions of it, so run again"
    )
    story.check_that_running_again_is_enough(world, COUNT)


# What was not answered yet


def test_any_beginning_of_the_log_gives_whole_partitions(world: World, disk: Disk) -> None:
    """A power cut may leave any part of the write-ahead log behind: each is some moment between two commits."""
    story.run(world, COUNT, "new")
    log = disk.log()

    seen = [disk.after_the_cut(log[:size])[0] for size in [*range(0, len(log), 1021), len(log)]]

    assert len(log) > 5 * 4096
    assert set(seen) == set(range(COUNT + 1))


def test_a_hole_anywhere_in_the_log_gives_whole_partitions(world: World, disk: Disk) -> None:
    """A disk may write what it was not yet forced to in any order."""
    story.run(world, COUNT, "new")
    log = disk.log()

    seen = [disk.after_the_cut(log[:start] + bytes(512) + log[start + 512 :])[0] for start in range(0, len(log), 512)]

    assert set(seen) == set(range(COUNT + 1))


def test_what_was_forced_to_the_disk_has_all_with_it_that_went_before(world: World, disk: Disk) -> None:
    """A claim in the middle of a run: whatever a power cut leaves, the claim is not there without those partitions."""

    def claim_at_the_third(passed: int, _dt: str) -> None:
        if passed == 2:
            with world.backfill() as other:
                other.claim(days(1, start=COUNT), "somebody")

    with world.backfill() as backfill:
        backfill.run(days(COUNT), "new", progress=claim_at_the_third)
    log = disk.log()

    seen = set()
    for size in [*range(0, len(log), 1021), len(log)]:
        new, left = disk.after_the_cut(log[:size])
        seen.add((new, len(left.rows("claims"))))

    assert seen == {(0, 0), (1, 0), (2, 0), (2, 1), (3, 1)}


# What waits for the disk, commit by commit


class Commits:
    """Notes how each writing transaction is to be committed, in the order in which they begin."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.levels: list[int] = []

        class Watched(sqlite3.Connection):
            def execute(connection, statement: str, *parameters: Any) -> sqlite3.Cursor:  # noqa: N805
                if statement == "BEGIN IMMEDIATE":
                    self.levels.extend(super().execute("PRAGMA synchronous").fetchone())
                return super().execute(statement, *parameters)

        connect = sqlite3.connect
        monkeypatch.setattr(
            sqlite3, "connect", lambda *arguments, **options: connect(*arguments, factory=Watched, **options)
        )

    def taken(self) -> list[int]:
        levels, self.levels = self.levels, []
        return levels


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> Commits:
    return Commits(monkeypatch)


def test_only_the_partitions_of_a_run_go_to_the_disk_together(world: World, commits: Commits) -> None:
    with world.backfill() as backfill:
        backfill.run(days(COUNT), "new")
        of_the_run = commits.taken()
        backfill.claim(days(1), "a")
        backfill.release(days(1), "a")
        backfill.seal(days(1))
        backfill.amend(days(1).first, "late")
        backfill.rollup_add(days(1))
        backfill.rollup()

    assert of_the_run == [NORMAL] * COUNT
    assert commits.taken() == [FULL] * 6


def test_after_a_run_that_failed_each_commit_waits_for_the_disk_again(world: World, commits: Commits) -> None:
    def fail(*_: object) -> None:
        raise BackfillError("it can't go on")

    with world.backfill() as backfill:
        with pytest.raises(BackfillError, match="can't go on"):
            backfill.run(days(COUNT), "new", progress=fail)
        backfill.seal(days(1))

    assert commits.taken() == [FULL]


@pytest.mark.parametrize("journal", ["delete", "truncate", "persist"])
def test_without_a_log_each_partition_goes_to_the_disk_by_itself(
    tmp_path: Path, commits: Commits, journal: str
) -> None:
    """A journal that is rolled back is only safe if it is forced to the disk each time."""
    world = World(str(tmp_path / "state.db"), tmp_path)
    create_store(world.db)
    with closing(sqlite3.connect(world.db)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
    story.begin(world, COUNT)
    commits.taken()

    story.run(world, COUNT, "new")

    assert commits.taken() == [FULL] * COUNT
    assert story.days_at_new(world, COUNT) == COUNT


def test_a_log_that_cannot_be_opened_leaves_each_commit_to_sqlite(
    world: World, commits: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def refuse_the_log(path: str, *how: Any) -> int:
        if path.endswith("-wal"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return opened(path, *how)

    monkeypatch.setattr(os, "open", refuse_the_log)

    story.run(world, COUNT, "new")

    assert commits.taken() == [FULL] * COUNT


def test_a_store_behind_a_link_is_forced_to_the_disk_where_it_is(world: World, disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(world.db)

    with open_store(str(tmp_path / "link.db")) as store, store.burst(), store.writing() as tables:
        tables.replace(day(0), *story.NEW, "new")

    assert disk.after_the_cut()[0] == 1

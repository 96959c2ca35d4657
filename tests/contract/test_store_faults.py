"""Stores that are missing, foreign, damaged, read-only or on a full disk: one sentence, and nothing lost."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import pytest

from .grader import PATIENCE, days, obey_file_modes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .grader import Lab

D = "2026-02-01"
EVERY = [
    ["run", D, D, "alice"],
    ["claim", D, D, "alice"],
    ["release", D, D, "alice"],
    ["seal", D, D],
    ["amend", D, "late"],
    ["rollup-add", D, D],
    ["rollup"],
]
WRITING = [
    ["run", D, D, "alice"],
    ["claim", "2026-03-01", "2026-03-02", "alice"],
    ["release", "2026-02-02", "2026-02-02", "bob"],
    ["seal", "2026-03-01", "2026-03-02"],
    ["amend", "2026-02-03", "late"],
    ["rollup-add", D, D],
    ["rollup"],
]
every_command = pytest.mark.parametrize("command", EVERY, ids=lambda command: command[0])
every_writing = pytest.mark.parametrize("command", WRITING, ids=lambda command: command[0])


@pytest.fixture
def busy(lab: Lab) -> Lab:
    """A store in which each writing command finds something to change."""
    lab.write(D, 4)
    lab.write("2026-02-03", 5)
    lab.hold(D, 9, 99)
    lab.ok("claim", "2026-02-02", "2026-02-02", "bob")
    lab.ok("seal", "2026-02-03", "2026-02-03")
    return lab


# Not a store


@every_command
def test_a_directory_is_no_store(bare_lab: Lab, command: list[str]) -> None:
    bare_lab.db.mkdir()

    answer = bare_lab(*command)

    assert answer.code in (1, 3)
    assert str(bare_lab.db) in answer.json["error"]
    assert list(bare_lab.db.iterdir()) == []


GARBAGE = {
    "text": b"this is not a database\n" * 500,
    "a few bytes": b"hello",
    "nulls": bytes(8192),
    "a header only": b"SQLite format 3\x00",
    "a header and garbage": b"SQLite format 3\x00" + b"\xff" * 4096,
}


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.parametrize("command", [["run", D, D, "alice"], ["rollup"], ["init"]], ids=lambda command: command[0])
def test_garbage_is_refused_and_left_as_it_was(bare_lab: Lab, content: bytes, command: list[str]) -> None:
    bare_lab.db.write_bytes(content)

    answer = bare_lab(*command)

    assert answer.code in (1, 3)
    assert str(bare_lab.db) in answer.json["error"]
    assert bare_lab.db.read_bytes() == content


@every_command
def test_a_foreign_database_is_refused_and_left_as_it_was(bare_lab: Lab, command: list[str]) -> None:
    bare_lab.query("CREATE TABLE theirs (a, b)")
    bare_lab.query("INSERT INTO theirs VALUES (1, 2)")
    before = bare_lab.dump()

    answer = bare_lab(*command)

    assert answer.code in (1, 3)
    assert bare_lab.dump() == before


@pytest.mark.parametrize(
    ("table", "command"),
    [
        ("daily", ["run", D, D, "alice"]),
        ("rollup", ["rollup"]),
        ("claims", ["claim", D, D, "alice"]),
        ("seals", ["seal", D, D]),
        ("corrections", ["amend", "2026-02-03", "late"]),
    ],
)
def test_a_store_that_lacks_a_table_is_refused(busy: Lab, table: str, command: list[str]) -> None:
    busy.query(f"DROP TABLE {table}")
    before = busy.dump()

    answer = busy(*command)

    assert answer.code in (1, 3)
    assert busy.dump() == before


def test_a_damaged_store_is_named_and_makes_no_traceback(busy: Lab) -> None:
    size = busy.db.stat().st_size
    with busy.db.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(size - 4096))

    answer = busy("run", D, D, "alice")

    assert answer.code == 1
    assert str(busy.db) in answer.json["error"]
    assert busy.db.stat().st_size == size


def test_a_device_is_no_store(bare_lab: Lab) -> None:
    answer = bare_lab("rollup", env={"BACKFILL_DB": os.devnull})

    assert answer.code in (1, 3)


def test_a_fifo_is_no_store_and_nothing_hangs(bare_lab: Lab) -> None:
    os.mkfifo(bare_lab.db)

    answer = bare_lab("rollup")

    assert answer.code in (1, 3)


# Where `init` can't make one


def test_init_under_a_file_is_refused(bare_lab: Lab) -> None:
    (bare_lab.folder / "file").write_text("x")
    bare_lab.db = bare_lab.folder / "file" / "state.db"

    answer = bare_lab("init")

    assert answer.code == 1
    assert str(bare_lab.folder / "file") in answer.json["error"]


def test_init_on_a_directory_is_refused(bare_lab: Lab) -> None:
    bare_lab.db.mkdir()

    answer = bare_lab("init")

    assert answer.code == 1
    assert list(bare_lab.db.iterdir()) == []


def test_init_leaves_foreign_tables_alone(bare_lab: Lab) -> None:
    bare_lab.query("CREATE TABLE theirs (a, b)")
    bare_lab.query("INSERT INTO theirs VALUES (1, 2)")

    answer = bare_lab("init")

    assert answer.code in (0, 1)
    assert bare_lab.query("SELECT * FROM theirs") == [(1, 2)]


# Modes, which the process to be started obeys even as root


@pytest.fixture(scope="module", autouse=True)
def modes_are_obeyed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Make sure that a process which is to obey file modes does."""
    file = tmp_path_factory.mktemp("modes") / "file"
    file.touch()
    file.chmod(0)
    opened = [sys.executable, "-c", "import sys; open(sys.argv[1])", str(file)]

    refused = subprocess.run(opened, preexec_fn=obey_file_modes, stderr=subprocess.PIPE, check=False)

    assert b"PermissionError" in refused.stderr, "this machine lets processes pass by file modes"


@pytest.fixture
def modes(bare_lab: Lab) -> Iterator[None]:
    """Give the modes back, so that the temporary folder can be cleared."""
    yield
    for path in (bare_lab.folder, bare_lab.events, *bare_lab.folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o700)


@every_writing
def test_a_read_only_store_is_refused_and_nothing_is_lost(busy: Lab, modes: None, command: list[str]) -> None:
    before = busy.dump()
    store = busy.folder / "locked"
    store.mkdir()
    busy.db = busy.db.replace(store / "state.db")
    busy.db.chmod(0o444)
    store.chmod(0o555)

    answer = busy(*command, before=obey_file_modes)

    store.chmod(0o755)
    assert answer.code == 1
    assert str(busy.db) in str(answer.json)
    assert busy.dump() == before


def test_a_store_that_may_not_be_read_is_refused(busy: Lab, modes: None) -> None:
    busy.db.chmod(0)

    answer = busy("run", D, D, "alice", before=obey_file_modes)

    busy.db.chmod(0o644)
    assert answer.code == 1
    assert str(busy.db) in answer.json["error"]
    assert busy.daily == {D: (9, 99, "earlier")}


def test_a_store_in_a_folder_that_may_not_be_entered_is_refused(busy: Lab, modes: None) -> None:
    store = busy.folder / "closed"
    store.mkdir()
    busy.db = busy.db.replace(store / "state.db")
    store.chmod(0)

    answer = busy("run", D, D, "alice", before=obey_file_modes)

    store.chmod(0o755)
    assert answer.code in (1, 3)
    assert busy.daily == {D: (9, 99, "earlier")}


def test_init_in_a_folder_that_may_not_be_written_is_refused(bare_lab: Lab, modes: None) -> None:
    closed = bare_lab.folder / "closed"
    closed.mkdir()
    closed.chmod(0o555)
    bare_lab.db = closed / "deep" / "state.db"

    answer = bare_lab("init", before=obey_file_modes)

    assert answer.code == 1
    assert str(closed) in answer.json["error"]
    assert list(closed.iterdir()) == []


# A full disk


def no_room() -> None:
    """Let the process to be started write next to nothing to any file."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))


@every_writing
def test_a_write_that_fails_is_named_and_loses_nothing(busy: Lab, command: list[str]) -> None:
    before = busy.dump()

    answer = busy(*command, before=no_room)

    assert answer.code == 1
    assert busy.dump() == before
    assert busy(*command).code == 0


def test_init_without_room_is_refused(bare_lab: Lab) -> None:
    answer = bare_lab("init", before=no_room)

    assert answer.code == 1
    assert bare_lab("run", D, D, "alice").code == 3
    bare_lab.ok("init")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)]
    if not shutil.which("mount") or subprocess.run(mount, stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("mounting is not allowed here; the test of a write that fails stands in")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_leaves_whole_partitions(busy: Lab, small_disk: Path) -> None:
    dates = days("2025-01-01", 60)
    shutil.move(busy.db, small_disk / "state.db")
    busy.db = small_disk / "state.db"
    for dt in dates:
        busy.write(dt, 2, 2)
    busy.hold_all(dates, 1, 1)
    fill(small_disk / "ballast")

    answer = busy("run", dates[0], dates[-1], "alice")

    (small_disk / "ballast").unlink()
    assert answer.code == 1
    daily = busy.daily
    done = [dt for dt in dates if daily[dt] == (2, 4, "alice")]
    assert answer.json.get("done", done) == done
    assert {daily[dt] for dt in dates if dt not in done} == {(1, 1, "earlier")}
    assert busy.ok("run", dates[0], dates[-1], "alice")["done"] == dates


def fill(ballast: Path) -> None:
    """Write until there is no room."""
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


# A statement that fails between delete and insert


@pytest.mark.parametrize("event", ["AFTER DELETE", "BEFORE INSERT", "AFTER INSERT"])
def test_a_replace_that_fails_half_way_keeps_the_old_row(busy: Lab, event: str) -> None:
    row = "old" if "DELETE" in event else "new"
    busy.query(f"CREATE TRIGGER fails {event} ON daily WHEN {row}.dt = '{D}' BEGIN SELECT RAISE(FAIL, 'no room'); END")

    answer = busy("run", D, D, "alice")

    assert answer.code == 1
    assert busy.daily == {D: (9, 99, "earlier")}


def test_a_store_that_is_locked_is_waited_for(busy: Lab) -> None:
    with closing(sqlite3.connect(busy.db, timeout=PATIENCE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        process = busy.start("claim", D, D, "alice")
        other.execute("INSERT INTO claims (dt, owner) VALUES (?, 'carol')", (D,))
        other.execute("COMMIT")

    answer = busy.finish(process)

    assert answer.code == 4
    assert answer.json["denied"] == [[D, "carol"]]


def test_a_seal_is_kept_whatever_else_is_in_the_table(lab: Lab) -> None:
    with closing(sqlite3.connect(lab.db)) as connection, connection:
        connection.execute("DROP TABLE seals")
        connection.execute("CREATE TABLE seals (dt)")
        connection.execute("INSERT INTO seals VALUES (NULL)")
    lab.write(D, 1)

    lab.ok("seal", D, D)

    assert D in lab.seals
    assert lab("run", D, D, "alice").json["skipped"] == [[D, "sealed"]]


def test_a_store_in_a_folder_that_is_barred_is_not_called_missing(lab: Lab) -> None:
    lab.db.parent.chmod(0)
    try:
        answer = lab("rollup", before=obey_file_modes)
    finally:
        lab.db.parent.chmod(0o755)

    assert answer.code == 1
    assert "Permission denied" in answer.json["error"]


@pytest.mark.parametrize("db", ["none/../state.db", "deep/er/state.db", "a ? b # c %41/ü.db"])
def test_init_and_the_other_commands_mean_the_same_file(bare_lab: Lab, db: str) -> None:
    env = {"BACKFILL_DB": str(bare_lab.db.parent / db)}

    bare_lab.ok("init", env=env)

    assert bare_lab.ok("rollup", env=env)["order_total"] == 0

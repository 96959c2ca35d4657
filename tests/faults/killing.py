"""Processes that die or freeze at a point of their own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from backfill_core import Backfill, EventFolder, open_store
from tests.servers import PATIENCE, wait_until
from tests.world import days

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date
    from multiprocessing.context import ForkServerProcess

    from backfill_core.counting.facts import Counted, Fingerprint


def start(work: Callable[..., Any], *arguments: Any) -> ForkServerProcess:
    """Start a process that does the work."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process = context.Process(target=work, args=arguments)
    process.start()
    return process


def end_of(process: ForkServerProcess) -> int | None:
    """Wait for a process; return its exit code, negative for the signal that ended it."""
    process.join(PATIENCE)
    return process.exitcode


def run_and_die(db: str, events: str, count: int, owner: str, statement: int, after: bool) -> None:
    """Run so many days, and be killed before the numbered statement is sent, or after it was answered."""
    die_at(statement, after)
    with open_store(db) as store:
        Backfill(store, EventFolder(events)).run(days(count), owner)


def seal_and_die(db: str, events: str, count: int, _owner: str, statement: int, after: bool) -> None:
    die_at(statement, after)
    with open_store(db) as store:
        Backfill(store, EventFolder(events)).seal(days(count))


def claim_and_die(db: str, events: str, count: int, owner: str, statement: int, after: bool) -> None:
    die_at(statement, after)
    with open_store(db) as store:
        Backfill(store, EventFolder(events)).claim(days(count), owner)


def die_at(statement: int, after: bool) -> None:
    """Make the drivers of this process count their statements, and kill it at one."""
    passed = 0

    def counted(send: Callable[[], Any]) -> Any:
        nonlocal passed
        passed += 1
        if passed == statement and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = send()
        if passed == statement and after:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    through(counted)


def through(around: Callable[[Callable[[], Any]], Any]) -> Callable[[], None]:
    """Let every statement of this process's drivers go through a function, which sends it; return what ends that.

    In SQLite, those of connections that are opened from now on.
    """
    connect, execute = sqlite3.connect, psycopg.Cursor.execute

    class Watched(sqlite3.Connection):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            answer: sqlite3.Cursor = around(lambda: sqlite3.Connection.execute(self, *arguments))
            return answer

    def watched(*arguments: Any, **options: Any) -> Any:
        return around(lambda: execute(*arguments, **options))

    def end() -> None:
        sqlite3.connect = connect
        psycopg.Cursor.execute = execute  # type: ignore[method-assign]

    sqlite3.connect = lambda *arguments, **options: connect(*arguments, factory=Watched, **options)  # type: ignore[assignment]
    psycopg.Cursor.execute = watched  # type: ignore[method-assign]
    return end


class Freezing(EventFolder):
    """A folder whose reader is stopped by a signal each time that it has counted, as by a machine that sleeps."""

    def count_as(self, dt: str, found: Fingerprint, stop: Callable[[], bool] | None = None) -> Counted | None:
        counted = super().count_as(dt, found, stop)
        os.kill(os.getpid(), signal.SIGSTOP)
        return counted


def run_frozen(db: str, events: str, count: int, owner: str) -> None:
    with open_store(db) as store:
        Backfill(store, Freezing(events)).run(days(count), owner)


def amend_frozen(db: str, events: str, when: date, reason: str) -> None:
    with open_store(db) as store:
        Backfill(store, Freezing(events)).amend(when, reason)


def froze(process: ForkServerProcess) -> bool:
    """Wait until a process is stopped by a signal, or has ended; return whether it was stopped."""

    def state() -> str:
        if not process.is_alive():
            return "X"
        try:
            return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):  # it has ended since
            return "X"

    wait_until(lambda: state() in "TX", "the process is frozen")
    return state() == "T"


def wait_until_frozen(process: ForkServerProcess) -> None:
    assert froze(process), "the process has ended"


def thaw(process: ForkServerProcess) -> None:
    assert process.pid is not None
    os.kill(process.pid, signal.SIGCONT)

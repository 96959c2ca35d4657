"""A case from the field: a backfill of fourteen days is killed between the delete and the insert of the sixth."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_core import Backfill, DateRange, open_store

if TYPE_CHECKING:
    from backfill_core.store import Store
    from tests.core.sources import Source

ROOT = Path(__file__).parents[2]
DAYS = DateRange.parse("2026-02-01", "2026-02-14")

KILLED_AT_THE_SIXTH_INSERT = """
import os, signal, sys
from backfill_core import Backfill, DateRange, EventFolder, open_store

inserts = 0

def watch(statement):
    global inserts
    inserts += statement.startswith("INSERT INTO daily")
    if inserts == 6:
        os.kill(os.getpid(), signal.SIGKILL)

db, events = sys.argv[1:]
with open_store(db) as store:
    store._connection._connection.set_trace_callback(watch)
    Backfill(store, EventFolder(events)).run(DateRange.parse("2026-02-01", "2026-02-14"), "new")
"""


def amounts(store: Store) -> list[int]:
    with store.reading() as tables:
        return [amount for _, _, amount, _ in tables.published(DAYS)]


def test_a_killed_backfill_leaves_whole_days_and_is_simply_run_again(
    backfill: Backfill, store: Store, source: Source, tmp_path: Path
) -> None:
    for dt in DAYS:
        source.put(dt, 1)
    backfill.run(DAYS, "old")
    for dt in DAYS:
        source.put(dt, 2)
    db, seen, over = str(tmp_path / "state.db"), set(), threading.Event()

    def poll() -> None:
        with open_store(db) as reader:
            while not over.is_set():
                seen.update([(len(found), *found) for found in [amounts(reader)]])

    poller = threading.Thread(target=poll)
    poller.start()
    try:
        killed = subprocess.run(
            [sys.executable, "-c", KILLED_AT_THE_SIXTH_INSERT, db, str(source.folder)], cwd=ROOT, check=False
        )
        left = amounts(store)
        status = backfill.status(DAYS, compare=True)
        plan = backfill.plan(DAYS, "new")
        again = backfill.run(DAYS, "new")
    finally:
        over.set()
        poller.join()

    assert killed.returncode == -signal.SIGKILL
    assert left == [2] * 5 + [1] * 9
    assert status["current"] == 5
    assert (plan["asked"], plan["unchanged"], plan["change"]) == (14, 5, 9)
    assert again["amount"] == sum(amounts(store)) == 28
    assert seen
    assert all(count == 14 and set(found) <= {1, 2} for count, *found in seen)

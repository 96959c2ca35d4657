"""Which datasets the ledgers know, so that one that doesn't answer keeps nobody from the others."""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from backfill_core.errors import BackfillError, NoStoreError
from backfill_core.ledger.opening import look_at_ledger
from backfill_core.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from backfill_core.ledger.ledger import SqlLedger

log = logging.getLogger(__name__)
PATIENCE = 0.5
"""For how many seconds a ledger that answered before is waited for."""
AT_ONCE = 32


class Found(NamedTuple):
    """What a look at a store found: the time zone of each dataset by its name, or why it can't be told."""

    zones: Mapping[str, str]
    failure: Exception | None = None


class Ledgers:
    """What the ledgers know, by the stores that they are in.

    Each question has a store looked at, by one thread at a time. The first who asks waits for it. Later ones wait
    `PATIENCE`, or not at all where the last look found that the store can't be read, and are then told what that found.
    """

    def __init__(self) -> None:
        self._looks: dict[str, Future[Found]] = {}
        self._found: dict[str, Found] = {}
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="ledgers")

    def find(self, db: str) -> Found:
        """Return what is known of the ledger in the store at `db`."""
        with self._lock:
            look = self._looks.get(db)
            if look is None:
                look = self._looks[db] = self._pool.submit(self._look, db)
            last = self._found.get(db)
        if last is None:
            return look.result()
        wait([look], PATIENCE if isinstance(last.failure, NoStoreError | None) else 0)
        return look.result() if look.done() else last

    def _look(self, db: str) -> Found:
        found = _look_at(db)
        with self._lock:
            self._found[db] = found
            del self._looks[db]
        return found


def _look_at(db: str) -> Found:
    try:
        open_store(db).close()
        with looking(db) as ledger:
            return Found({} if ledger is None else ledger.zones())
    except BackfillError as error:
        log.warning("a ledger can't be read: %s", error)
        return Found({}, error)


@contextmanager
def looking(db: str) -> Iterator[SqlLedger | None]:
    """Open the ledger in the store at `db` and change nothing; None where there is none yet."""
    try:
        ledger = look_at_ledger(db)
    except NoStoreError:
        yield None
        return
    with ledger:
        yield ledger

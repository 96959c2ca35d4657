"""Open a ledger: it stands in the database of a store, in tables of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_core.errors import NoStoreError
from backfill_core.ledger.ledger import SqlLedger
from backfill_core.store import create_store

if TYPE_CHECKING:
    from backfill_core.ledger.ledger import Database


def open_ledger(db: str, *, make: bool = True) -> SqlLedger:
    """Open the ledger in the store at `db`, the path of a SQLite file or a postgresql:// URL; close it afterwards.

    The ledger's tables are made where there are none.

    make: make the store, too, where there is none.

    Raises:
        UsageError: `db` is a URL that can't be read, or of another database.
        NoStoreError: there is no store, and none was to be made.
        StoreError: it can't be opened, or its tables can't be made.
    """
    try:
        return SqlLedger(_open(db))
    except NoStoreError:
        if not make:
            raise
        create_store(db)
        return SqlLedger(_open(db))


def look_at_ledger(db: str) -> SqlLedger:
    """Open the ledger in the store at `db` and make nothing, not even tables; close it afterwards.

    Raises:
        NoStoreError: there is no store, or no ledger in it.
        UsageError, StoreError: as `open_ledger`; also where its tables are of an earlier version.
    """
    return SqlLedger(_open(db), make=False)


def _open(db: str) -> Database:
    if "://" in db:
        from backfill_core.ledger.postgres import PostgresDatabase

        return PostgresDatabase(db)
    from backfill_core.ledger.sqlite import SqliteDatabase

    return SqliteDatabase(db)

"""The state store: five tables, in a SQLite file or in a schema of a PostgreSQL database."""

from __future__ import annotations

from backfill_core.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Protocol

    from backfill_core.store.tables import Tables

    class Store(Protocol):
        """An open store. It holds no transaction but inside `reading` and `writing`."""

        def reading(self) -> AbstractContextManager[Tables]:
            """One transaction that sees one moment and changes nothing."""

        def writing(self, stop: Callable[[], bool] | None = None) -> AbstractContextManager[Tables]:
            """One transaction that is alone in writing, undone when it raises.

            It is seen by all when the block ends, and durable then, but in a burst.

            Raises:
                StoreError: others had the turn to write for too long.
                Stopped: `stop`, asked during the wait, answered true; nothing was changed.
            """

        def burst(self) -> AbstractContextManager[None]:
            """Let the transactions of a block become durable together: all of them when it ends, however it does.

            Until then a power cut, and nothing else, may take back the latest of them.

            Raises:
                StoreError: what was committed could not be made durable; also from a transaction in the block.
            """

        def make_ledger(self) -> None:
            """Make the ledger's table where it is missing: for the claims of Airflow's runs, which the runner has not.

            Raises:
                StoreError: the role may not make it; the sentence says what to do.
            """

        def close(self) -> None:
            """Let the store go."""

        def __enter__(self) -> Store: ...

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
        ) -> None: ...


def create_store(db: str) -> list[str]:
    """Make the five tables where they are missing, and leave alone what is there; return their names.

    Raises:
        UsageError: `db` is a URL that can't be read, or of another database.
        NoStoreError: the PostgreSQL database is missing; the tables' schema is made, but not that.
        StoreError: the place can't be written, or holds something else.
    """
    if _is_url(db):
        from backfill_core.store import postgres

        return postgres.create(db)
    from backfill_core.store import sqlite

    return sqlite.create(db)


def open_store(db: str) -> Store:
    """Open the store at `db`, the path of a SQLite file or a postgresql:// URL; use it as a context manager.

    Raises:
        UsageError: `db` is a URL that can't be read, or of another database.
        NoStoreError: there is none; it is not created by asking.
        StoreError: it can't be opened.
    """
    if _is_url(db):
        from backfill_core.store import postgres

        return postgres.PostgresStore(db)
    from backfill_core.store import sqlite

    return sqlite.SqliteStore(db)


def name_of(db: str) -> str:
    """Return `db` as it may be shown: a path as it is, a URL without its password.

    Raises:
        UsageError: `db` is a URL that can't be read, or of another database.
    """
    if _is_url(db):
        from backfill_core.store import postgres

        return postgres.Address(db).name
    return db


def _is_url(db: str) -> bool:
    scheme, mark, _ = db.partition("://")
    if not mark or not scheme.replace("+", "").isalnum():
        return False
    if scheme in ("postgresql", "postgres"):
        return True
    raise UsageError(f"BACKFILL_DB names neither a file nor a postgresql:// URL: it begins with {scheme}://")

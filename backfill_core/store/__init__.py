"""The state store: five tables, in SQLite."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Protocol

    from backfill_core.store.tables import Tables

    class Store(Protocol):
        """An open store. It holds no transaction but inside `reading` and `writing`."""

        def reading(self) -> AbstractContextManager[Tables]:
            """One transaction that sees one moment and changes nothing."""

        def writing(self) -> AbstractContextManager[Tables]:
            """One transaction that is alone in writing, durable when the block ends, undone when it raises."""

        def close(self) -> None:
            """Let the store go."""

        def __enter__(self) -> Store: ...

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
        ) -> None: ...


def create_store(db: str) -> list[str]:
    """Make the five tables where they are missing, and leave alone what is there; return their names.

    Raises:
        StoreError: the place can't be written, or holds something else.
    """
    from backfill_core.store import sqlite

    return sqlite.create(db)


def open_store(db: str) -> Store:
    """Open the store at `db`, the path of a SQLite file; use it as a context manager.

    Raises:
        NoStoreError: there is none; it is not created by asking.
        StoreError: it can't be opened.
    """
    from backfill_core.store import sqlite

    return sqlite.SqliteStore(db)

"""The ledger in the SQLite file of a store. One writer at a time: by the store's own line."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from backfill_core.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backfill_core.ledger.ledger import Execute


class SqliteDatabase(SqliteStore):
    """The file of a store, for the ledger that is in it."""

    locking = ""

    @contextmanager
    def reading(self) -> Iterator[Execute]:  # type: ignore[override]
        """One transaction that sees one moment and changes nothing."""
        with super().reading():
            yield self._connection.execute

    @contextmanager
    def changing(self) -> Iterator[Execute]:
        """One transaction that is alone in writing."""
        with super().writing():
            yield self._connection.execute

    alone = changing

    def rows(self, table: str, names: Sequence[str]) -> str:  # noqa: ARG002  JSON has types enough for SQLite
        """Return what a FROM takes rows of a table's shape from."""
        columns = ", ".join(f"json_extract(value, '$.{name}') AS {name}" for name in names)
        return f"(SELECT {columns} FROM json_each(:rows)) AS r"  # noqa: S608  the names are ours

    def has(self, execute: Execute, table: str) -> bool:
        """Return whether there is a table of that name."""
        return bool(list(execute("SELECT name FROM sqlite_master WHERE name = :table", {"table": table})))

    def now(self, execute: Execute) -> str:
        """Return this machine's clock, which is the file's; SQLite tells no more than milliseconds."""
        [(now,)] = execute("SELECT strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000+00:00'", {})
        return str(now)

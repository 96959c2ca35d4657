"""The ledger in the PostgreSQL schema of a store. Rows are locked, and nothing else: keys don't wait for each other."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.sql import SQL

from backfill_core.errors import StoreError
from backfill_core.store.postgres import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from backfill_core.ledger.ledger import Execute

LOCK_SECONDS = 15
"""How long to wait for a row: shorter than a target's open transaction may stand idle."""
_CHANGE = SQL(
    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL search_path = {schema}, pg_temp;"
    f" SET LOCAL lock_timeout = '{LOCK_SECONDS}s'; SET LOCAL idle_in_transaction_session_timeout = {{idle}};"
    " SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"
)

_DIALECT = {
    "INTEGER": "BIGINT",
    "REAL": "DOUBLE PRECISION",
    " key TEXT": ' key TEXT COLLATE "C"',
}


class PostgresDatabase(PostgresStore):
    """The schema of a store, for the ledger that is in it."""

    locking = " FOR UPDATE"

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._in_line, self._change = self._write, self._address.statement(_CHANGE)

    @contextmanager
    def reading(self) -> Iterator[Execute]:  # type: ignore[override]
        """One transaction that sees one moment and changes nothing."""
        with super().reading():
            yield self._execute

    @contextmanager
    def changing(self) -> Iterator[Execute]:
        """One transaction that waits for the rows that it locks, and for nothing else."""
        self._write = self._change
        with super().writing():
            try:
                yield self._execute
            except psycopg.errors.LockNotAvailable:
                raise StoreError(
                    f"the ledger in {self._address.name} can't be used: another has had a row of it for"
                    f" {LOCK_SECONDS} seconds; what it held is still there, run again"
                ) from None

    @contextmanager
    def alone(self) -> Iterator[Execute]:
        """One transaction in the store's line of writers, to make tables."""
        self._write = self._in_line
        with super().writing():
            yield self._make

    def _make(self, statement: str, parameters: Mapping[str, Any]) -> Iterable[tuple[Any, ...]]:
        """Execute a statement that makes a table in this dialect: 64 bits, and keys in the order of code points."""
        for here, there in _DIALECT.items():
            statement = statement.replace(here, there)
        return self._execute(statement, parameters)

    def rows(self, table: str, names: Sequence[str]) -> str:  # noqa: ARG002  the table says which there are
        """Return what a FROM takes rows of a table's shape from."""
        return f"json_populate_recordset(CAST(NULL AS {table}), :rows) AS r"

    def has(self, execute: Execute, table: str) -> bool:
        """Return whether there is a table of that name."""
        there = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = :schema AND tablename = :table"
        return bool(list(execute(there, {"schema": self._address.schema, "table": table})))

    def now(self, execute: Execute) -> str:
        """Return the server's clock, as it is now, not when the transaction began."""
        [(now,)] = execute("SELECT clock_timestamp() AT TIME ZONE 'UTC'", {})
        return f"{now.isoformat(timespec='microseconds')}+00:00"

"""Open the target of a dataset: which database it is, and what connects to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backfill_core.errors import TargetError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from backfill_core.dataset import Dataset
    from backfill_core.target import Target


def open_target(dataset: Dataset, connect: Callable[[], Any] | None) -> Target:
    """Return the target of a dataset; a place is connected to when it is used, `connect` is asked at once.

    connect: opens a connection, of psycopg, psycopg2, sqlite3 or duckdb; None where the table says where it is.

    Raises:
        UsageError: what the table says is neither a URL of PostgreSQL or DuckDB nor the path of a file.
    """
    where = dataset.table.where
    if connect is None:
        return _by_place(dataset, where)
    first = connect()
    module = type(first).__module__.partition(".")[0]
    if module == "sqlite3":
        from backfill_core.target.sqlite import SqliteTarget

        return SqliteTarget(dataset, connect, first)
    if module in ("psycopg", "psycopg2"):
        from backfill_core.target.postgres import PostgresTarget

        return PostgresTarget(dataset, connect, first)
    if module in ("duckdb", "_duckdb"):
        from backfill_core.target.duckdb import DuckTarget

        return DuckTarget(dataset, connect, first)
    first.close()
    raise UsageError(
        f"{dataset.name}: {where!r} is a connection of {module}; a table has to be in PostgreSQL, SQLite or DuckDB"
    )


def _by_place(dataset: Dataset, where: str) -> Target:
    if where.startswith(("postgresql://", "postgres://")):
        from backfill_core.target.postgres import PostgresTarget

        return PostgresTarget(dataset, lambda: _connect_postgres(dataset.name, where))
    if where.startswith("duckdb://") or where.endswith(".duckdb"):
        from backfill_core.target.duckdb import DuckTarget, connect_duckdb

        path = where.removeprefix("duckdb://")
        return DuckTarget(dataset, lambda: connect_duckdb(dataset.name, path))
    if "://" in where:
        kind = where.partition("://")[0]
        raise UsageError(
            f"{dataset.name}: there is no target for {kind}://; write postgresql://…, duckdb://… or the path of a file"
        )
    from backfill_core.target.sqlite import SqliteTarget, connect_sqlite

    return SqliteTarget(dataset, lambda: connect_sqlite(dataset.name, where))


def _connect_postgres(name: str, url: str) -> Any:
    try:
        import psycopg
    except ImportError as missing:
        raise TargetError(
            f"{name}: a table in PostgreSQL needs psycopg, and it can't be imported"
            f" ({str(missing).splitlines()[0]}); install the extra `postgres`"
        ) from None
    try:
        return psycopg.connect(url, autocommit=True, client_encoding="utf8", connect_timeout=10)
    except psycopg.Error as error:
        said = " ".join(str(error).split())
        raise TargetError(f"{name}: its database can't be reached: {said}") from None

"""A dataset's table by an Airflow connection: through the hook of Airflow's own provider, or by the driver alone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from backfill_airflow.compat import AirflowException, AirflowNotFoundException, BaseHook
from backfill_core import UsageError
from backfill_core.errors import TargetError

if TYPE_CHECKING:
    from backfill_airflow.compat import Connection
    from backfill_core.dataset import Dataset
    from backfill_core.target import Target

POSTGRES, SQLITE, DUCKDB = "postgres", "sqlite", "duckdb"


def names_connection(where: str) -> bool:
    """Return whether a table's `where` is the name of an Airflow connection: neither a URL nor a path."""
    return "://" not in where and "/" not in where and "\\" not in where


def open_table(dataset: Dataset) -> Target:
    """Return a dataset's table as a target; nothing is connected to before it is used.

    Raises:
        UsageError: its table names a connection that isn't there, or that is of another kind of database.
    """
    conn_id = dataset.table.where
    if not names_connection(conn_id):
        return dataset.target()
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise UsageError(
            f"{dataset.name}: there is no connection {conn_id!r}; make it under Admin, Connections, or write a URL, or"
            " a path with a slash, into the dataset's table"
        ) from None
    hook = None if connection.conn_type == DUCKDB else _hook_of(connection)  # no hook waits for the file's one process
    connect = partial(_connect_by, hook, dataset.name) if hook else partial(_connect, connection, dataset.name)
    if connection.conn_type == POSTGRES:
        from backfill_core.target.postgres import PostgresTarget

        return PostgresTarget(dataset, connect)
    if connection.conn_type == SQLITE:
        from backfill_core.target.sqlite import SqliteTarget

        return SqliteTarget(dataset, connect)
    if connection.conn_type == DUCKDB:
        from backfill_core.target.duckdb import DuckTarget

        return DuckTarget(dataset, connect)
    raise UsageError(
        f"{dataset.name}: the connection {conn_id} is of type {connection.conn_type!r}; a table has to be in"
        " PostgreSQL, SQLite or DuckDB"
    )


def _hook_of(connection: Connection) -> Any:
    """Return the hook of Airflow's provider, None where that isn't installed."""
    try:
        return connection.get_hook()  # type: ignore[no-untyped-call]
    except (AirflowException, ImportError):
        return None


def _connect_by(hook: Any, name: str) -> Any:
    try:
        return hook.get_conn()
    except Exception as error:  # noqa: BLE001  whatever its driver raises
        raise TargetError(f"{name}: its database can't be reached: {_one_line(error)}") from None


def _connect(connection: Connection, name: str) -> Any:
    if connection.conn_type == POSTGRES:
        return _connect_postgres(connection, name)
    if not connection.host:
        raise UsageError(f"{name}: the connection {connection.conn_id} names no file (its host)")
    if connection.conn_type == SQLITE:
        from backfill_core.target.sqlite import connect_sqlite

        return connect_sqlite(name, connection.host)
    from backfill_core.target.duckdb import connect_duckdb

    return connect_duckdb(name, connection.host)


def _connect_postgres(connection: Connection, name: str) -> Any:
    try:
        import psycopg
    except ImportError:
        raise TargetError(
            f"{name}: the connection {connection.conn_id} needs apache-airflow-providers-postgres, or psycopg; install"
            " one of them where Airflow's tasks run"
        ) from None
    known = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()}
    fields = {
        "host": connection.host,
        "port": connection.port,
        "user": connection.login,
        "password": connection.password,
        "dbname": connection.schema,
        "connect_timeout": 10,
        **{field: value for field, value in connection.extra_dejson.items() if field in known},
    }
    try:
        return psycopg.connect(
            client_encoding="utf8", **{field: value for field, value in fields.items() if value not in (None, "")}
        )
    except psycopg.Error as error:
        raise TargetError(f"{name}: its database can't be reached: {_one_line(error)}") from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__

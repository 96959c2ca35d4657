"""The way to the warehouse: ClickHouse over HTTP by clickhouse-connect, whether a server's or the embedded one's.

The SQL is in `clickstream/sql`, one file a layer; a query is asked for by its layer and its name in that file.
"""

from __future__ import annotations

import logging
import os
import re
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import clickhouse_connect
from clickhouse_connect.driver.exceptions import ClickHouseError

from clickstream.errors import ClickstreamError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import date

    from clickhouse_connect.driver.client import Client

DEFAULT_URL = "http://127.0.0.1:8123"
LAYERS = ("stg", "ods", "dds", "dm")

logging.getLogger("clickhouse_connect").addHandler(
    logging.NullHandler()
)  # its errors are raised; nobody reads them twice

_SQL = Path(__file__).parent / "sql"
_NAMED = re.compile(r"^-- name: (\w+)\n", re.M)


class WarehouseError(ClickstreamError):
    """The warehouse can't be reached, or it refused a query."""


@cache
def queries(layer: str) -> Mapping[str, str]:
    """Return the queries of a layer by name; several statements stand in one where `;` parts them."""
    _, *parts = _NAMED.split((_SQL / f"{layer}.sql").read_text())
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}


class Warehouse:
    """An open warehouse. Tables are named `layer.table`.

    Raises, from every method: WarehouseError.
    """

    def __init__(self, client: Client, url: str, address: str) -> None:
        self._client = client
        self._given: dict[str, list[str]] = {}
        self._asked = partial(_translated, address)
        self.url = url

    @classmethod
    @contextmanager
    def opened(cls, url: str | None = None) -> Iterator[Warehouse]:
        """Open the warehouse at `url`, by default CLICKHOUSE_URL, for as long as the block lasts.

        A user and a password may stand before the host, or behind it as ClickHouse takes them: `/?user=…&password=…`.
        """
        url = url or os.environ.get("CLICKHOUSE_URL") or DEFAULT_URL
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or (8443 if parts.scheme == "https" else 8123)
        except ValueError:
            host = None
        if host is None or parts.scheme not in ("http", "https"):
            raise WarehouseError(f"CLICKHOUSE_URL is no address of a warehouse; write it like {DEFAULT_URL}.")
        asked = parse_qs(parts.query)
        with _translated(f"{host}:{port}", "the login"):
            client = clickhouse_connect.get_client(
                interface=parts.scheme,
                host=host,
                port=port,
                username=unquote(parts.username or "") or asked.get("user", ["default"])[0],
                password=unquote(parts.password or "") or asked.get("password", [""])[0],
                autogenerate_session_id=False,
                send_receive_timeout=3600,
                dedicated_pool=True,
            )
        try:
            yield cls(client, url, f"{host}:{port}")
        finally:
            client.close()

    def rows(self, layer: str, name: str, **parameters: object) -> list[dict[str, Any]]:
        """Return what a named query gives, a dictionary a row."""
        with self._asked(f"{layer}.{name}"):
            return list(self._client.query(_statement(layer, name), parameters=parameters).named_results())

    def row(self, layer: str, name: str, **parameters: object) -> dict[str, Any]:
        """Return the one row that a named query gives."""
        [row] = self.rows(layer, name, **parameters)
        return row

    def create(self) -> None:
        """Make the layers and their tables where they are missing."""
        for layer in LAYERS:
            for statement in _statements(layer, "create"):
                self.command(statement)

    def command(self, statement: str, **parameters: object) -> None:
        """Run one statement that gives nothing."""
        with self._asked(statement.split("\n")[0][:80]):
            self._client.command(statement, parameters=parameters or None)

    def insert(self, table: str, columns: Sequence[str], values: Sequence[Sequence[object]]) -> None:
        """Insert rows, given column by column, and make sure that all of them arrived."""
        sent = len(values[0])
        with self._asked(f"INSERT INTO {table}"):
            summary = self._client.insert(table, values, column_names=columns, column_oriented=True)
        if summary.written_rows != sent:
            raise WarehouseError(f"{table} took in {summary.written_rows} of {sent} rows.")

    def attach(self, table: str, select: str, **parameters: object) -> int:
        """Add what a select gives to a table without partitions, in one piece; returns the number of rows."""
        portion = f"{table}_portion"
        self._fill(portion, table, select, parameters)
        rows = self._count(portion)
        self.command(f"ALTER TABLE {table} ATTACH PARTITION tuple() FROM {portion}")
        self.command(f"DROP TABLE {portion}")
        return rows

    def stage_day(self, layer: str, name: str, day: date) -> None:
        """Build a day of a mart beside it, from the query that has the mart's name."""
        self._fill(f"{layer}.{beside(name, day)}", f"{layer}.{name}", _statement(layer, name), {"day": day})

    def swap_day(self, layer: str, name: str, day: date) -> None:
        """Put the day that was built beside a mart in the place of what the mart held of it, at once."""
        built = f"{layer}.{beside(name, day)}"
        # A day without rows has no partition to put in the other's place.
        swap = f"REPLACE PARTITION '{day}' FROM {built}" if self._count(built) else f"DROP PARTITION '{day}'"
        self.command(f"ALTER TABLE {layer}.{name} {swap}")
        self.command(f"DROP TABLE {built}")

    def drop_day(self, layer: str, name: str, day: date) -> None:
        """Forget a day that was built beside a mart."""
        self.command(f"DROP TABLE IF EXISTS {layer}.{beside(name, day)}")

    def _fill(self, copy: str, table: str, select: str, parameters: Mapping[str, object]) -> None:
        """Make an empty table like another one and put what the select gives into it."""
        self.command(f"DROP TABLE IF EXISTS {copy}")
        self.command(f"CREATE TABLE {copy} AS {table}")
        columns = ", ".join(self._columns(table))
        self.command(f"INSERT INTO {copy} ({columns})\nSELECT {columns} FROM\n(\n{select}\n)", **parameters)

    def _columns(self, table: str) -> list[str]:
        """Return the columns that an insert gives; the others follow from them."""
        if table not in self._given:
            with self._asked(f"DESCRIBE TABLE {table}"):
                described = self._client.query(f"DESCRIBE TABLE {table}").named_results()
                self._given[table] = [column["name"] for column in described if not column["default_type"]]
        return self._given[table]

    def _count(self, table: str) -> int:
        with self._asked(table):
            return int(self._client.query(f"SELECT count() FROM {table}").first_row[0])  # noqa: S608


def query(layer: str, name: str) -> str:
    """Return the text of a named query that is one statement, without the semicolon."""
    return _statement(layer, name)


def _statement(layer: str, name: str) -> str:
    [statement] = _statements(layer, name)
    return statement


def _statements(layer: str, name: str) -> list[str]:
    parts = re.split(r";\s*(?:\n|$)", queries(layer)[name])
    return [part.strip() for part in parts if re.sub(r"^--.*$", "", part, flags=re.M).strip()]


def beside(name: str, day: date) -> str:
    """Return the name of the table in which a day of a mart is built."""
    return f"{name}_{day:%Y%m%d}"


@contextmanager
def _translated(address: str, what: str) -> Iterator[None]:
    try:
        yield
    except ClickHouseError as error:
        text = " ".join(str(error).split())
        if "Connection refused" in text or "Max retries" in text:
            raise WarehouseError(
                f"No warehouse answers at {address}: start one (`python -m clickstream warehouse`, or the compose "
                "service `clickhouse`), or name yours in CLICKHOUSE_URL."
            ) from error
        raise WarehouseError(f"The warehouse refused {what}: {text[:600]}") from error

"""Tables to guard, the same in each database and by each of the drivers that Airflow's hooks have."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
import psycopg2
import pytest

from backfill_core.conformance import bench as conformance
from backfill_core.dataset import Dataset, SqlTable
from backfill_core.target.statement import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from backfill_core.target import Audited, Target, Write
    from tests.servers import Postgres

SELECT = "SELECT order_id, dt, amount, note FROM {source} WHERE dt >= :start AND dt < :end"


class Bench(conformance.Bench):
    """A database with a table `orders` to guard, and a table `source` that its rows come from."""

    def __init__(self, where: str, connect: Callable[[], Any], schema: str = "") -> None:
        self.where = where
        self.connect = connect
        self.schema = schema
        self.is_sqlite = not schema
        grains = frozenset({"day", "list", "none"})
        self.profile = conformance.Profile(open_publication=not self.is_sqlite, grains=grains)
        self.select, self.everything = self.said(SELECT), self.said("SELECT * FROM {source}")
        self._targets: list[Target] = []

    def name(self, table: str) -> str:
        return f"{quoted(self.schema)}.{quoted(table)}" if self.schema else quoted(table)

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement by a connection of its own; return its rows. `{orders}` is a table's name in SQL."""
        with closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(self.said(statement))
            rows = [tuple(row) for row in cursor.fetchall()] if cursor.description else []
            connection.commit()
            return rows

    def said(self, statement: str) -> str:
        for table in ("orders", "source"):
            statement = statement.replace(f"{{{table}}}", self.name(table))
        return statement

    def make(self, columns: str = "order_id bigint, dt date, amount bigint, note text", after: str = "") -> None:
        """Make both tables, with an index on the key of the first."""
        self.sql(f"CREATE TABLE {{orders}} ({columns}) {after}")
        self.sql(f"CREATE TABLE {{source}} ({columns})")

    def fill(self, table: str, *rows: tuple[Any, ...]) -> None:
        for row in rows:
            values = ", ".join(map(literal, row))
            self.sql(f"INSERT INTO {{{table}}} VALUES ({values})")

    def dataset(self, **said: Any) -> Dataset:
        names = ("day", "key", "values", "kind", "format", "zone", "schema", "table")
        table = {name: said.pop(name) for name in names if name in said}
        name = table.pop("table", "orders")
        where = quoted(name) if self.is_sqlite else f"{quoted(self.schema)}.{quoted(name)}"
        measures = {"orders": "count(*)", "amount": "sum(amount)"}
        return Dataset(
            **{
                "name": "shop.orders",
                "table": SqlTable(self.where, where, **{"day": "dt", **table}),
                "measures": measures,
                **said,
            }
        )

    def target(self, dataset: Dataset | None = None, **said: Any) -> Target:
        made = (dataset or self.dataset(**said)).target(self.connect)
        self._targets.append(made)
        return made

    def orders(self, columns: str = "order_id, dt, amount") -> list[tuple[Any, ...]]:
        rows = self.sql(f"SELECT {columns} FROM {{orders}} ORDER BY order_id, amount")
        return [tuple(str(value) if hasattr(value, "year") else value for value in row) for row in rows]

    def stage(self, staging: str, *rows: tuple[Any, ...]) -> None:
        for row in rows:
            values = ", ".join(map(literal, row))
            self.sql(f"INSERT INTO {staging} VALUES ({values})")

    def is_staged(self, staging: str) -> bool:
        try:
            self.sql(f"SELECT 1 FROM {staging}")
        except (sqlite3.Error, psycopg.Error, psycopg2.Error):
            return False
        return True

    def empty(self, table: str) -> None:
        self.sql(f"DELETE FROM {{{table}}}")

    @contextmanager
    def written(
        self, target: Target, *keys: str, select: str | None = None, **said: Any
    ) -> Iterator[tuple[Write, Audited]]:
        with super().written(target, *keys, select=select and self.said(select), **said) as begun:
            yield begun

    def close(self) -> None:
        for target in self._targets:
            target.close()


def literal(value: object) -> str:
    """Return a value as it stands in SQL."""
    return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"


def connect_file(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=30)


@contextmanager
def postgres_bench(server: Postgres, driver: Any) -> Iterator[Bench]:
    schema = server.new_store().rpartition("=")[2]
    server.sql(f"CREATE SCHEMA {schema}")
    bench = Bench(server.url, partial(driver.connect, server.url), schema)
    yield bench
    bench.close()


@pytest.fixture(params=["psycopg", "psycopg2", "sqlite"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """An empty database, once for each driver."""
    if request.param == "sqlite":
        made = Bench(str(tmp_path / "shop.db"), partial(connect_file, tmp_path / "shop.db"))
        yield made
        made.close()
        return
    driver = psycopg if request.param == "psycopg" else psycopg2
    with postgres_bench(request.getfixturevalue("postgres"), driver) as made:
        yield made


@pytest.fixture(params=["psycopg", "psycopg2"])
def pg(request: pytest.FixtureRequest, postgres: Postgres) -> Iterator[Bench]:
    """A schema of PostgreSQL's, by each of its drivers."""
    with postgres_bench(postgres, psycopg if request.param == "psycopg" else psycopg2) as made:
        yield made


@pytest.fixture
def one_pg(postgres: Postgres) -> Iterator[Bench]:
    """A schema of PostgreSQL's, by one of its drivers."""
    with postgres_bench(postgres, psycopg) as made:
        yield made


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Bench]:
    """A SQLite file."""
    made = Bench(str(tmp_path / "shop.db"), partial(connect_file, tmp_path / "shop.db"))
    yield made
    made.close()

"""The protocol over real tables, in SQLite and PostgreSQL, with a ledger in each."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from backfill_core.dataset import Dataset, SqlTable
from backfill_core.errors import DriftError, SealedError
from backfill_core.guarded import Guarded, Wish, replacing
from backfill_core.ledger.opening import open_ledger
from tests.ledger.conftest import DAY, ME, NEXT, OTHER, THIRD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers import Postgres

    Sql = Callable[[str], list[tuple[object, ...]]]

SELECT = "SELECT dt, id, amount FROM source WHERE dt >= :start AND dt < :end"
TABLES = (
    "CREATE TABLE orders (dt date NOT NULL, id integer, amount integer)",
    "CREATE TABLE source (dt date NOT NULL, id integer, amount integer)",
    f"INSERT INTO source VALUES ('{DAY}', 1, 10), ('{DAY}', 2, 20), ('{NEXT}', 3, 30), ('{THIRD}', 4, 40)",
)


@pytest.fixture(params=["sqlite", "postgres"])
def warehouse(request: pytest.FixtureRequest, tmp_path: object) -> Iterator[tuple[str, Sql]]:
    """A database with a table and its source: where it is, and what runs a statement there."""
    if request.param == "sqlite":
        path = f"{tmp_path}/warehouse.db"

        def in_file(statement: str) -> list[tuple[object, ...]]:
            with closing(sqlite3.connect(path)) as connection, connection:
                return connection.execute(statement).fetchall()

        yield path, in_file
        return
    server: Postgres = request.getfixturevalue("postgres")
    schema = server.new_store().partition("?schema=")[2]
    server.sql(f"CREATE SCHEMA {schema}")

    def in_schema(statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(server.url, options=f"-c search_path={schema}", autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    yield schema, in_schema
    server.sql(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture(params=["sqlite", "postgres"])
def orders(request: pytest.FixtureRequest, tmp_path: object, warehouse: tuple[str, Sql]) -> Iterator[Guarded]:
    place, sql = warehouse
    for statement in TABLES:
        sql(statement)
    if place.endswith(".db"):
        table = SqlTable(place, "orders", day="dt", kind="text", format="%Y-%m-%d")
    else:
        table = SqlTable(request.getfixturevalue("postgres").url, f"{place}.orders", day="dt")
    dataset = Dataset(
        name="shop.orders",
        table=table,
        measures={"orders": "count(*)", "amount": "sum(amount)"},
        unique=("id",),
        digest="always",
    )
    in_file = request.param == "sqlite"
    db = f"{tmp_path}/state.db" if in_file else request.getfixturevalue("postgres").new_store()
    target = dataset.target()
    with open_ledger(db) as ledger:
        yield Guarded(dataset, ledger, target)
    target.close()


def source(schema_or_path: str) -> str:
    """Return the query of the source, with its schema where it is in one."""
    return SELECT if schema_or_path.endswith(".db") else SELECT.replace("source", f"{schema_or_path}.source")


def test_a_day_goes_the_whole_way(orders: Guarded, warehouse: tuple[str, Sql]) -> None:
    place, sql = warehouse
    select = source(place)

    first = orders.write([DAY, NEXT], lambda partition: partition.fill(select), ME, "first load")
    again = orders.write([DAY, NEXT], lambda partition: partition.fill(select), ME)
    orders.seal([DAY], ME, "sent")
    sql("INSERT INTO source VALUES ('2026-02-01', 9, 90), ('2026-02-02', 8, 80)")
    third = orders.write([DAY, NEXT], lambda partition: partition.fill(select), OTHER, "late orders", Wish())
    late = orders.late(lambda partition: partition.fill(select))
    orders.amend(DAY, lambda partition: partition.fill(select), ME, "one came late")

    assert [one["after"] for one in first["published"]] == [
        {"rows": 2, "orders": "2", "amount": "30"},
        {"rows": 1, "orders": "1", "amount": "30"},
    ]
    assert again["quiet"] == [DAY, NEXT]
    assert (third["skipped"], [one["key"] for one in third["published"]]) == ([[DAY, "sealed"]], [NEXT])
    assert [one["key"] for one in late["late"]] == [DAY]
    assert sql("SELECT sum(amount) FROM orders") == [(140,)]
    corrected = [line["corrected"]["amount"] for line in orders.statement()["partitions"]]
    assert corrected == ["120", "110"]


def test_a_staged_write_is_published_when_its_block_ends(orders: Guarded, warehouse: tuple[str, Sql]) -> None:
    _, sql = warehouse

    with orders.replacing([DAY], ME, "by hand") as partition:
        sql(f"INSERT INTO {partition.staging} SELECT * FROM source WHERE dt = '{DAY}'")
        assert sql("SELECT count(*) FROM orders") == [(0,)]

    assert sql("SELECT count(*) FROM orders") == [(2,)]
    orders.seal([DAY], ME)
    with pytest.raises(SealedError), orders.replacing([DAY], ME):
        pytest.fail("the block was run")


def test_what_is_written_past_us_is_found_and_healed_by_adoption(orders: Guarded, warehouse: tuple[str, Sql]) -> None:
    place, sql = warehouse
    select = source(place)
    sql(f"INSERT INTO orders VALUES ('{DAY}', 7, 70)")
    orders.adopt([DAY], ME, "ten years of it")
    sql(f"UPDATE orders SET amount = 71 WHERE dt = '{DAY}'")

    with pytest.raises(DriftError, match="amount was published as 70 and is 71"):
        orders.write([DAY], lambda partition: partition.fill(select), ME)
    orders.adopt([DAY], ME, "71 is right")

    assert orders.drift()["drift"] == {}
    assert [line["what"] for line in orders.history()] == ["adopt", "refused", "adopt"]


def test_a_dead_publication_is_settled_by_what_the_table_holds(
    orders: Guarded, warehouse: tuple[str, Sql], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, sql = warehouse
    select = source(place)
    from backfill_core.protocol import settling

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(settling, "confirm", die)
        with pytest.raises(KeyboardInterrupt):
            orders.write([DAY], lambda partition: partition.fill(select), ME)
    assert orders.status()["partitions"][0]["open"] == ["me, run-1, load"]

    answer = orders.settle(force=True)

    assert answer["settled"] == [[DAY, "confirmed"]]
    assert sql("SELECT sum(amount) FROM orders") == [(30,)]
    assert orders.status()["partitions"][0]["figures"] == {"rows": 2, "orders": "2", "amount": "30"}


def test_by_hand_a_partition_is_replaced_in_one_block(
    orders: Guarded, warehouse: tuple[str, Sql], tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sql = warehouse
    db = f"{tmp_path}/by-hand.db"
    monkeypatch.setenv("BACKFILL_DB", db)

    with replacing(orders.dataset, DAY, NEXT, owner="me", reason="by hand") as partition:
        for key in partition.keys:
            sql(f"INSERT INTO {partition.staging} SELECT * FROM source WHERE dt = '{key}'")

    assert sql("SELECT sum(amount) FROM orders") == [(60,)]
    with open_ledger(db) as ledger:
        assert [(row.key, row.owner, row.reason) for row in ledger.rows("shop.orders")] == [
            (DAY, "me", "by hand"),
            (NEXT, "me", "by hand"),
        ]

"""The DuckDB target: the suite that any target has to pass, and what is DuckDB's own."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from backfill_core.claims import Caller
from backfill_core.conformance import bench as conformance
from backfill_core.conformance.bench import DAY, LEDGER, NEXT, expected
from backfill_core.conformance.suite import *  # noqa: F403
from backfill_core.dataset import Dataset, SqlTable
from backfill_core.errors import ChangedError, FenceTimeoutError, TargetError, UsageError
from backfill_core.guarded import Guarded
from backfill_core.ledger.opening import open_ledger
from backfill_core.target import Fence, duckdb_session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backfill_core.target import Target

SELECT = "SELECT order_id, dt, amount, note FROM source WHERE dt >= :start AND dt < :end"
COLUMNS = "order_id BIGINT, dt DATE, amount BIGINT, note VARCHAR"


class DuckBench(conformance.Bench):
    """A DuckDB file with a table `orders` to guard, and a table `source` that its rows come from."""

    profile = conformance.Profile(grains=frozenset({"day", "list", "none"}))
    select, everything = SELECT, "SELECT * FROM source"

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.open = duckdb.connect(self.path)  # so that the file isn't opened anew by each step of each test

    def close(self) -> None:
        """Let other processes have the file."""
        self.open.close()

    def sql(self, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """Run a statement by a connection of its own; return its rows."""
        with duckdb.connect(self.path) as connection:
            rows: list[tuple[Any, ...]] = connection.execute(statement, parameters).fetchall()
        return rows

    def make(self, columns: str = COLUMNS) -> None:
        for table in ("orders", "source"):
            self.sql(f"CREATE TABLE {table} ({columns})")

    def fill(self, table: str, *rows: tuple[Any, ...]) -> None:
        for row in rows:
            self.sql(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", list(row))

    def empty(self, table: str) -> None:
        self.sql(f"DELETE FROM {table}")

    def orders(self) -> list[tuple[Any, ...]]:
        return self.sql("SELECT order_id, CAST(dt AS VARCHAR), amount FROM orders ORDER BY order_id, amount")

    def stage(self, staging: str, *rows: tuple[Any, ...]) -> None:
        self.fill(staging, *rows)

    def is_staged(self, staging: str) -> bool:
        try:
            self.sql(f"SELECT 1 FROM {staging}")
        except duckdb.CatalogException:
            return False
        return True

    def dataset(self, **said: Any) -> Dataset:
        words = ("day", "key", "values", "kind", "format", "zone", "schema")
        table = {"day": "dt", **{name: said.pop(name) for name in words if name in said}}
        where = SqlTable(f"duckdb://{self.path}", said.pop("table", "orders"), **table)
        measures = {"orders": "count(*)", "amount": "sum(amount)"}
        return Dataset(**{"name": "shop.orders", "table": where, "measures": measures, **said})

    def target(self, dataset: Dataset | None = None, **said: Any) -> Target:
        return (dataset or self.dataset(**said)).target()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[DuckBench]:
    made = DuckBench(tmp_path / "shop.duckdb")
    yield made
    made.close()


def found(bench: DuckBench, **said: Any) -> dict[bool, str]:
    """What `check` says: by whether it refuses, all sentences."""
    findings = bench.target(**said).check()
    return {refuses: "; ".join(one.what for one in findings if one.refuses is refuses) for refuses in (True, False)}


# figures


def test_sums_of_38_digits_and_of_whole_numbers_above_64_bits_are_exact(bench: DuckBench) -> None:
    bench.make("order_id BIGINT, dt DATE, amount DECIMAL(38, 10), note VARCHAR, big BIGINT")
    top = Decimal("1234567890123456789012345678.0123456789")
    bench.fill("orders", (1, DAY, top, "a", 2**63 - 1), (2, DAY, top, "b", 2**63 - 1))

    target = bench.target(measures={"amount": "sum(amount)", "big": "sum(big)", "none": "sum(big) FILTER (big < 0)"})

    assert target.measure([DAY], digest=False)[DAY].measures == {
        "amount": "2469135780246913578024691356.0246913578",
        "big": str(2**64 - 2),
        "none": None,
    }


def test_a_sum_that_does_not_fit_is_a_sentence(bench: DuckBench) -> None:
    bench.make("order_id BIGINT, dt DATE, amount DECIMAL(38, 0), note VARCHAR")
    bench.fill("orders", (1, DAY, Decimal("9" * 38), "a"), (2, DAY, Decimal("9" * 38), "b"))

    with pytest.raises(TargetError, match="a sum has more digits than DuckDB keeps"):
        bench.target().measure([DAY], digest=False)


def test_a_float_is_refused_unless_a_tolerance_is_said(bench: DuckBench) -> None:
    bench.make("order_id BIGINT, dt DATE, amount DOUBLE, note VARCHAR")
    bench.fill("orders", (1, DAY, 0.1, "a"), (2, DAY, 0.2, "b"))

    with pytest.raises(TargetError, match="amount is a float here"):
        bench.target().measure([DAY], digest=False)
    assert "amount is a float" in found(bench)[True]
    said = bench.target(tolerance={"amount": 0.01}).measure([DAY], digest=False)[DAY].measures
    assert float(said["amount"] or 0) == pytest.approx(0.3)


def test_a_digest_tells_other_rows_of_equal_sums_and_not_the_zone_of_a_session(bench: DuckBench) -> None:
    bench.make(
        "order_id BIGINT, dt DATE, amount BIGINT, note VARCHAR, at_ TIMESTAMPTZ, loaded TIMESTAMPTZ DEFAULT now()"
    )
    put = "INSERT INTO orders (order_id, dt, amount, note, at_) VALUES "
    bench.sql(put + "(1, '2026-02-01', 3, 'a', '2026-02-01 10:00+00'), (2, '2026-02-01', 4, 'b', 'infinity')")
    first = bench.target().measure([DAY], digest=True)[DAY].digest
    elsewhere = bench.target(timezone="Asia/Kolkata").measure([DAY], digest=True)[DAY].digest

    bench.sql("DELETE FROM orders")
    bench.sql(put + "(2, '2026-02-01', 4, 'b', 'infinity'), (1, '2026-02-01', 3, 'a', '2026-02-01 15:30+05:30')")
    again = bench.target().measure([DAY], digest=True)[DAY].digest
    bench.sql("UPDATE orders SET amount = 7 - amount")

    assert first == elsewhere == again
    assert bench.target().measure([DAY], digest=True)[DAY].digest != first


# what a day is


@pytest.mark.parametrize(
    ("column", "kind", "own", "neighbours"),
    [
        ("VARCHAR", {"kind": "text", "format": "%Y%m%d"}, ["20260329"], ["20260328", "20260330"]),
        ("INTEGER", {"kind": "integer", "format": "%Y%m%d"}, [20260329], [20260328, 20260330]),
        (
            "TIMESTAMPTZ",
            {"kind": "instant"},
            ["2026-03-28 23:00+00", "2026-03-29 21:59:59.999999+00"],
            ["2026-03-28 22:59:59.999999+00", "2026-03-29 22:00+00"],
        ),
        (
            "TIMESTAMP",
            {"kind": "local"},
            ["2026-03-29 00:00", "2026-03-29 23:59:59.999999"],
            ["2026-03-28 23:59:59.999999", "2026-03-30 00:00"],
        ),
    ],
)
def test_a_day_of_23_hours_is_replaced_whole_and_its_neighbours_never_move(
    bench: DuckBench, column: str, kind: dict[str, Any], own: list[Any], neighbours: list[Any]
) -> None:
    day, zone = "2026-03-29", "Europe/Warsaw"
    bench.make(f"order_id BIGINT, dt {column}, amount BIGINT, note VARCHAR")
    bench.fill("source", *[(number, value, 5, "new") for number, value in enumerate([*own, *neighbours])])
    bench.fill("orders", *[(number, value, 1, "old") for number, value in enumerate([*own, *neighbours])])
    target = bench.target(timezone=zone, **kind)

    assert found(bench, timezone=zone, **kind)[True] == ""
    bench.publish(target, day)

    rows = bench.sql("SELECT note, count(*) FROM orders GROUP BY 1 ORDER BY 1")
    assert rows == [("new", len(own)), ("old", len(neighbours))]
    assert target.keyless() == (0, "")


def test_rows_of_another_day_of_none_and_of_no_day_that_there_is_are_told(bench: DuckBench) -> None:
    bench.make()
    bench.fill("source", (1, DAY, 1, "a"), (2, NEXT, 1, "b"), (3, None, 1, "c"), (4, "infinity", 1, "d"))

    with bench.written(bench.target(), DAY, select=bench.everything) as (_, audited):
        assert (audited.strange, audited.keyless) == ((2, NEXT), (1, "NULL"))
    bench.sql("INSERT INTO orders SELECT * FROM source")
    assert bench.target().keyless()[0] == 2


# who else is there


OLD = "SELECT 1 AS order_id, :key AS dt, 1 AS amount, 'old' AS note"
HOLDER = "import duckdb, sys; held = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"


def test_a_file_that_another_process_has_is_said_with_its_number(
    bench: DuckBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.make()
    bench.close()
    monkeypatch.setattr(duckdb_session, "WAIT_SECONDS", 0.2)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, bench.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        holder.stdout.readline()
        with pytest.raises(FenceTimeoutError, match=f"process {holder.pid} has the DuckDB file open"):
            bench.target().look([DAY])
        holder.stdin.close()
        holder.wait(60)
    assert bench.target().look([DAY]) == {}


def test_what_comes_in_between_audit_and_publication_refuses_it(bench: DuckBench) -> None:
    bench.make()
    bench.fill("source", (1, DAY, 5, "a"))
    target = bench.target()

    with bench.written(target, DAY) as (write, _):
        bench.fill("orders", (9, DAY, 1, "a stranger's"))
        with pytest.raises(ChangedError, match="changed by somebody after it was audited"):
            write.publish(expected(target, DAY), "t" * 32, LEDGER)
    assert bench.orders() == [(9, DAY, 1)]


def test_two_connections_of_one_process_that_change_a_side_row_take_turns(bench: DuckBench) -> None:
    bench.make()
    target = bench.target()
    target.fence({DAY: Fence(1)}, LEDGER, 5)
    with closing(duckdb.connect(bench.path)) as other:
        other.execute("BEGIN TRANSACTION")
        other.execute("UPDATE _bf_partitions SET fence = 7")
        with pytest.raises(FenceTimeoutError, match="another connection of this process"):
            target.fence({DAY: Fence(2)}, LEDGER, 0.1)
        other.execute("COMMIT")

    assert target.fence({DAY: Fence(2)}, LEDGER, 5)[DAY].fence == 7


DYING = """
import os, sys
from backfill_core.claims import Caller
from backfill_core.dataset import Dataset, SqlTable
from backfill_core.guarded import Guarded
from backfill_core.ledger.opening import open_ledger
from backfill_core.target import duckdb_session

path, left = sys.argv[1], int(sys.argv[2])
run = duckdb_session.DuckSession.run

def dying(self, statement, parameters=None):
    global left
    if not statement.lstrip().startswith(("SELECT", "SET")):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)
    return run(self, statement, parameters)

orders = Dataset("shop.orders", SqlTable("duckdb://" + path, "orders", day="dt"), measures={"amount": "sum(amount)"})
target = orders.target()
with open_ledger(path + ".ledger") as ledger:
    duckdb_session.DuckSession.run = dying
    Guarded(orders, ledger, target).write(
        ["2026-02-01"],
        lambda partition: partition.fill("SELECT * FROM source WHERE dt = :key"),
        Caller("shop/" + sys.argv[2], "load", -1, 1),
    )
"""


def test_a_write_that_is_killed_at_any_statement_is_put_right_by_the_next_of_its_owner(bench: DuckBench) -> None:
    bench.make()
    bench.fill("orders", (1, DAY, 1, "old"), (2, NEXT, 2, "old"))
    orders = bench.dataset(measures={"amount": "sum(amount)"})
    with open_ledger(f"{bench.path}.ledger") as ledger, closing(orders.target()) as target:
        Guarded(orders, ledger, target).adopt([DAY, NEXT], Caller("shop/0"), "it is as it should be")
    bench.close()
    seen = set()
    for statement in range(200):
        bench.empty("source")
        bench.fill("source", (statement, DAY, 10 + statement, "new"))
        died = subprocess.run([sys.executable, "-c", DYING, bench.path, str(statement)], check=False, timeout=300)
        day = [row for row in bench.orders() if row[1] == DAY]
        assert len(day) == 1
        if died.returncode == 0:
            break
        assert died.returncode == -9
        seen.add(day[0][2] == 10 + statement)
        with open_ledger(f"{bench.path}.ledger") as ledger, closing(orders.target()) as target:
            guarded = Guarded(orders, ledger, target)
            again = Caller(f"shop/{statement}", "load", -1, 2)
            guarded.write([DAY], lambda partition: partition.fill("SELECT * FROM source WHERE dt = :key"), again)
            [told] = guarded.status(DAY, DAY)["partitions"]
            assert told["figures"] == {"rows": 1, "amount": str(10 + statement)}
            guarded.write([DAY], lambda partition: partition.fill(OLD), again)
    assert seen == {False, True}  # some died before the commit, some after it
    assert [row for row in bench.orders() if row[1] == NEXT] == [(2, NEXT, 2)]
    assert bench.sql(
        "SELECT table_name FROM information_schema.tables WHERE table_name LIKE '\\_bf\\_%' ESCAPE '\\'"
    ) == [("_bf_partitions",)]


# what is asked wrongly


def test_check_names_what_can_not_be_guarded(bench: DuckBench) -> None:
    bench.sql(
        "CREATE TABLE orders (order_id BIGINT PRIMARY KEY, dt TIMESTAMP, amount BIGINT, twice BIGINT AS (amount * 2))"
    )
    bench.sql("CREATE TABLE refunds (order_id BIGINT REFERENCES orders (order_id))")
    bench.sql("CREATE VIEW shown AS SELECT * FROM orders")

    said = found(bench, measures={"twice": "sum(twice)"}, unique=["nothing"])[True]

    for what in (
        "the key column dt is TIMESTAMP, and the dataset says the kind date",
        "unique names a column nothing",
        "twice is generated",
        "refunds refers to the table",
    ):
        assert what in said
    assert "shown is a view" in found(bench, table="shown")[True]
    assert "there is no table gone" in found(bench, table="gone")[True]
    assert "one process has the file at a time" in found(bench, kind="local")[False]
    assert "can't be computed" in found(bench, kind="local", measures={"x": "sum(nothing)"})[True]


@pytest.mark.parametrize(
    ("select", "why"),
    [
        ("SELECT 1; SELECT 2", "more than one statement"),
        ("SELECT order_id, dt, amount, note, 1 AS more FROM source", "a column more, which the table doesn't have"),
        ("SELECT order_id, dt, amount, amount FROM source", "two columns of one name"),
        ("SELECT * FROM source WHERE dt = :day", "only :start, :end and :key"),
        ("SELECT * FROM nowhere", "Table with name nowhere does not exist"),
    ],
)
def test_a_select_that_can_not_be_taken_is_one_sentence(bench: DuckBench, select: str, why: str) -> None:
    bench.make()
    target = bench.target()
    with (
        pytest.raises((TargetError, UsageError), match=why) as refused,
        target.writing([DAY], "a" * 32, staged=False) as write,
    ):
        write.fill(select)
    assert "\n" not in str(refused.value)
    assert not bench.is_staged(write.staging)


def test_capitals_are_not_told_apart_as_duckdb_does(bench: DuckBench) -> None:
    bench.make('"Order_Id" BIGINT, "Dt" DATE, "Amount" BIGINT, note VARCHAR')
    bench.sql("INSERT INTO source VALUES (1, '2026-02-01', 5, 'a')")

    bench.publish(bench.target(), DAY, select="SELECT ORDER_ID, DT, AMOUNT FROM source WHERE dt = :key")

    assert bench.orders() == [(1, DAY, 5)]


def test_values_of_a_list_are_told_apart_as_they_are_where_the_column_would_not(bench: DuckBench) -> None:
    bench.make("order_id BIGINT, country VARCHAR COLLATE NOCASE, amount BIGINT")
    bench.fill("orders", (1, "PL", 5), (2, "pl", 6))
    bench.fill("source", (1, "PL", 7))
    target = bench.target(grain="list", day=None, key="country", values=["PL", "DE"])

    bench.publish(target, "PL", select="SELECT * FROM source WHERE country = :key")

    assert bench.sql("SELECT country, amount FROM orders ORDER BY amount") == [("pl", 6), ("PL", 7)]
    assert target.keyless() == (1, "pl")


def test_a_schema_of_the_files_name_another_for_what_is_ours_and_names_with_quotes(bench: DuckBench) -> None:
    bench.sql("CREATE SCHEMA shop")
    bench.sql("CREATE SCHEMA guard")
    bench.sql('CREATE TABLE shop.shop."or""ders" (order_id BIGINT, dt DATE, amount BIGINT)')
    bench.sql("CREATE TABLE source (order_id BIGINT, dt DATE, amount BIGINT)")
    bench.sql("INSERT INTO source VALUES (1, '2026-02-01', 5)")

    bench.publish(bench.target(table='shop."or""ders"', schema="guard"), DAY, select="SELECT * FROM source")

    assert bench.sql('SELECT amount FROM shop.shop."or""ders"') == [(5,)]
    assert bench.sql("SELECT relation, key FROM guard._bf_partitions") == [('shop.or"ders', DAY)]


def test_a_file_that_is_not_there_or_no_file_of_duckdb_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "text.duckdb").write_text("no database " * 500)
    for name, why in (("gone.duckdb", "there is no DuckDB file at"), ("text.duckdb", "can't be opened")):
        table = SqlTable(str(tmp_path / name), "orders", day="dt")
        with pytest.raises(TargetError, match=why) as refused:
            Dataset("shop.orders", table, measures={}).target().look([DAY])
        assert "\n" not in str(refused.value)


def test_without_the_package_the_sentence_says_what_to_install(
    bench: DuckBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)

    with pytest.raises(TargetError, match="install the extra `duckdb`"):
        bench.target().look([DAY])


def test_a_connection_that_is_given_is_used_and_closed(bench: DuckBench) -> None:
    bench.make()
    given = duckdb.connect(bench.path)
    target = bench.dataset().target(lambda: given)

    assert target.look([DAY]) == {}
    target.close()

    with pytest.raises(duckdb.ConnectionException):
        given.execute("SELECT 1")

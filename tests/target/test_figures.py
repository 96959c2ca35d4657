"""Measures and digests: exact, and the same for the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backfill_core.conformance.bench import DAY, NEXT, orders_on
from backfill_core.errors import TargetError
from backfill_core.target import Expected

if TYPE_CHECKING:
    from tests.target.conftest import Bench

DIGITS = "12345678901234567890123456789012345678"


def digest_of(bench: Bench, **said: Any) -> str:
    found = bench.target(**said).measure([DAY], digest=True)[DAY].digest
    assert found is not None
    return found


def test_decimals_of_38_digits_are_exact(bench: Bench) -> None:
    kind = "text" if bench.is_sqlite else "numeric(38, 0)"
    bench.make(f"order_id bigint, dt date, amount {kind}, note text")
    bench.fill("orders", (1, DAY, DIGITS, ""), (2, DAY, "1", ""))
    total = "decimal_sum(amount)" if bench.is_sqlite else "sum(amount)"

    measured = bench.target(measures={"amount": total}).measure([DAY, NEXT], digest=False)

    assert measured[DAY].measures == {"amount": str(int(DIGITS) + 1)}
    assert measured[NEXT].measures == {"amount": None}


def test_one_value_is_one_text_however_many_digits_it_was_written_with(bench: Bench) -> None:
    kind = "text" if bench.is_sqlite else "numeric"
    bench.make(f"order_id bigint, dt date, amount {kind}, note text")
    bench.fill("orders", (1, DAY, "1.50", ""), (2, DAY, "1.5", ""), (3, NEXT, "-0.00", ""))
    total = "decimal_sum(amount)" if bench.is_sqlite else "sum(amount)"

    measured = bench.target(measures={"amount": total}).measure([DAY, NEXT], digest=False)

    assert [one.measures["amount"] for one in measured.values()] == ["3", "0"]


def test_a_sum_beyond_64_bits_is_exact_or_a_sentence(bench: Bench) -> None:
    bench.make()
    bench.fill("orders", *orders_on(DAY, 2**63 - 1, 2**63 - 1))

    if bench.is_sqlite:
        with pytest.raises(TargetError, match="decimal_sum"):
            bench.target().measure([DAY], digest=False)
    total = "decimal_sum(amount)" if bench.is_sqlite else "sum(amount)"
    measured = bench.target(measures={"amount": total}).measure([DAY], digest=False)

    assert measured[DAY].measures == {"amount": str(2**64 - 2)}


def test_a_float_is_measured_only_with_a_tolerance(bench: Bench) -> None:
    bench.make("order_id bigint, dt date, amount double precision, note text")
    bench.fill("orders", (1, DAY, "0.5", ""), (2, DAY, "0.25", ""))

    with pytest.raises(TargetError, match="amount is a float"):
        bench.target().measure([DAY], digest=False)
    measured = bench.target(tolerance={"amount": 0.001}).measure([DAY], digest=False)

    assert measured[DAY].measures == {"orders": "2", "amount": "0.75"}


def test_a_digest_is_the_same_for_rows_in_another_order_and_under_a_new_column(bench: Bench) -> None:
    bench.make()
    bench.fill("orders", *orders_on(DAY, 1, 2, 3))
    before = digest_of(bench, digest_columns=["order_id", "dt", "amount", "note"])

    bench.sql("DELETE FROM {orders}")
    bench.fill("orders", *reversed(orders_on(DAY, 1, 2, 3)))
    bench.sql("ALTER TABLE {orders} ADD COLUMN loaded_at text DEFAULT 'now'")

    assert digest_of(bench, digest_columns=["order_id", "dt", "amount", "note"]) == before
    assert digest_of(bench) != before


def test_digests_of_other_columns_are_not_comparable(bench: Bench) -> None:
    bench.make()
    bench.fill("orders", *orders_on(DAY, 1))

    one, other = digest_of(bench, digest_columns=["amount"]), digest_of(bench, digest_columns=["note"])

    assert one.rpartition(":")[0] != other.rpartition(":")[0]
    assert "amount" in one


def test_a_digest_is_the_same_at_the_write_and_in_the_table_and_changes_with_no_session(pg: Bench) -> None:
    pg.make(
        "order_id bigint, dt date, amount numeric, note text, at timestamptz, took interval, rate float8, tags text[]"
    )
    pg.sql(
        "INSERT INTO {source} VALUES (1, '2026-02-01', 1.50, 'ż', '2026-02-01 12:00+03', '1 day', 0.1, '{a,\"b c\"}'),"
        " (2, '2026-02-01', 1.5, NULL, NULL, NULL, 'NaN', NULL)"
    )
    target = pg.target()
    with pg.written(target, DAY, select="TABLE {source}", digest=True) as (write, audited):
        write.publish({DAY: Expected(1, None)}, "t", "the ledger")
    role = pg.sql("SELECT current_user")[0][0]

    pg.sql(f"ALTER ROLE {role} SET timezone = 'Asia/Kolkata'")
    try:
        for setting, value in (
            ("datestyle", "SQL, DMY"),
            ("intervalstyle", "sql_standard"),
            ("extra_float_digits", "-3"),
        ):
            pg.sql(f"ALTER ROLE {role} SET {setting} = '{value}'")
        assert digest_of(pg) == audited.partitions[DAY].digest
    finally:
        pg.sql(f"ALTER ROLE {role} RESET ALL")


def test_figures_are_of_what_is_stored_not_of_what_was_sent(pg: Bench) -> None:
    pg.make("order_id bigint, dt date, amount numeric(6, 2), note text")
    pg.sql("ALTER TABLE {source} ALTER amount TYPE numeric")
    pg.fill("source", (1, DAY, "1.005", ""), (2, DAY, "1.005", ""))

    with pg.written(pg.target(), DAY) as (_, audited):
        pass

    assert audited.partitions[DAY].measures["amount"] == "2.02"


def test_a_trigger_that_changes_rows_afterwards_is_in_the_figures(pg: Bench) -> None:
    pg.make()
    pg.fill("source", *orders_on(DAY, 10, 20))
    pg.sql(
        f"CREATE FUNCTION {pg.schema}.more() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" UPDATE {pg.name('orders')} SET amount = amount + 1 WHERE order_id = new.order_id; RETURN NULL; END $$"
    )
    pg.sql(
        f"CREATE CONSTRAINT TRIGGER later AFTER INSERT ON {{orders}} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"
        f" EXECUTE FUNCTION {pg.schema}.more()"
    )
    target = pg.target()

    with pg.written(target, DAY) as (write, audited):
        write.publish({DAY: Expected(1, None)}, "t", "the ledger")

    assert audited.partitions[DAY].measures["amount"] == "32"
    assert target.measure([DAY], digest=False)[DAY].measures["amount"] == "32"


def test_rows_of_another_key_are_found_also_where_a_trigger_makes_up_for_their_number(pg: Bench) -> None:
    pg.make()
    pg.fill("source", (1, DAY, 10, ""), (2, NEXT, 20, ""))
    pg.sql(
        f"CREATE FUNCTION {pg.schema}.another() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF new.order_id = 1 THEN INSERT INTO {pg.name('orders')} VALUES (3, new.dt, 30, ''); END IF;"
        " RETURN NULL; END $$"
    )
    pg.sql(f"CREATE TRIGGER more AFTER INSERT ON {{orders}} FOR EACH ROW EXECUTE FUNCTION {pg.schema}.another()")

    with pg.written(pg.target(), DAY, select="TABLE {source}") as (_, audited):
        pass

    assert audited.strange == (1, NEXT)
    assert audited.partitions[DAY].measures == {"orders": "2", "amount": "40"}

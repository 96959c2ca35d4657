"""What `check` finds about a table, by name, with its cure."""

from __future__ import annotations

import shutil
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from backfill_core.conformance.bench import DAY, orders_on
from backfill_core.errors import TargetError
from tests.target.conftest import Bench

if TYPE_CHECKING:
    from tests.servers import Postgres

PLAIN = "order_id bigint, dt date NOT NULL, amount bigint, note text"


def refusals(bench: Bench, **said: Any) -> list[str]:
    return [f"{finding.what}: {finding.cure}" for finding in bench.target(**said).check() if finding.refuses]


def said(bench: Bench, **dataset: Any) -> str:
    return "\n".join(f"{one.what}: {one.cure}" for one in bench.target(**dataset).check() if not one.refuses)


def test_a_plain_table_with_an_index_passes(bench: Bench) -> None:
    bench.make(PLAIN)
    bench.sql("CREATE INDEX by_day ON {orders} (dt)")

    assert refusals(bench) == []
    assert said(bench) == "" or bench.is_sqlite


def test_a_disk_that_is_nearly_full_is_told(lite: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    lite.make()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1_999))

    [told] = [finding for finding in lite.target().check() if "MB free" in finding.what]

    assert not told.refuses
    assert "make room" in told.cure


def test_check_writes_nothing(bench: Bench) -> None:
    bench.make(PLAIN)

    bench.target().check()

    tables = (
        "sqlite_master WHERE name"
        if bench.is_sqlite
        else f"pg_tables WHERE schemaname = '{bench.schema}' AND tablename"
    )
    assert bench.sql(f"SELECT count(*) FROM {tables} LIKE '%bf%'") == [(0,)]


@pytest.mark.parametrize("action", ["CASCADE", "SET NULL", "SET DEFAULT"])
def test_children_that_a_replacement_would_change_refuse(bench: Bench, action: str) -> None:
    bench.make("order_id bigint PRIMARY KEY, dt date, amount bigint, note text")
    bench.sql(f"CREATE TABLE {bench.name('refunds')} (order_id bigint REFERENCES {{orders}} ON DELETE {action})")

    assert any("refunds" in found and action in found for found in refusals(bench))


def test_children_that_only_look_are_told(bench: Bench) -> None:
    bench.make("order_id bigint PRIMARY KEY, dt date, amount bigint, note text")
    bench.sql(f"CREATE TABLE {bench.name('refunds')} (order_id bigint REFERENCES {{orders}})")

    assert refusals(bench) == []
    assert "refunds refers to the table" in said(bench)


def test_a_missing_index_and_a_key_that_may_be_null_are_told(bench: Bench) -> None:
    bench.make()

    told = said(bench)

    assert "no index begins with the key column dt" in told
    assert "may be NULL" in told


def test_a_view_and_no_table_at_all_refuse(bench: Bench) -> None:
    bench.make()
    bench.sql(f"CREATE VIEW {bench.name('shown')} AS SELECT * FROM {{orders}}")

    assert "a view" in refusals(bench, table="shown")[0]
    assert "there is no table" in refusals(bench, table="Nowhere")[0]


def test_float_measures_refuse_without_a_tolerance(bench: Bench) -> None:
    bench.make("order_id bigint, dt date, amount double precision, note text")

    assert any("amount is a float" in found for found in refusals(bench))
    assert refusals(bench, tolerance={"amount": 0.01}) == []


def test_a_measure_that_cant_be_computed_refuses(bench: Bench) -> None:
    bench.make(PLAIN)

    assert "the measure most can't be computed" in refusals(bench, measures={"most": "max(nothing_like_it)"})[0]


def test_a_column_that_is_not_there_refuses(bench: Bench) -> None:
    bench.make(PLAIN)

    assert "unique names a column Order_Id" in refusals(bench, unique=["Order_Id"])[0]


def test_triggers_and_generated_columns_are_told(bench: Bench) -> None:
    bench.make(f"{PLAIN}, twice bigint GENERATED ALWAYS AS (amount * 2) STORED")
    if bench.is_sqlite:
        bench.sql("CREATE TRIGGER noted AFTER INSERT ON orders BEGIN SELECT 1; END")
    else:
        body = "LANGUAGE plpgsql AS $$ BEGIN RETURN new; END $$"
        bench.sql(f"CREATE FUNCTION {bench.schema}.noting() RETURNS trigger {body}")
        bench.sql(
            f"CREATE TRIGGER noted BEFORE INSERT ON {{orders}} FOR EACH ROW EXECUTE FUNCTION {bench.schema}.noting()"
        )

    told = said(bench)

    assert "the trigger noted" in told
    assert "twice is generated" in told


def test_a_key_of_another_kind_refuses_and_says_which(bench: Bench) -> None:
    bench.make("order_id bigint, dt text, amount bigint, note text")
    bench.fill("orders", (1, "20260201", 5, ""))

    assert "key column dt" in refusals(bench)[0]
    assert refusals(bench, kind="text", format="%Y%m%d") == []


@pytest.mark.parametrize(
    ("made", "name", "sentence"),
    [
        ("CREATE UNLOGGED TABLE {} (dt date NOT NULL, amount bigint)", "odd", "unlogged"),
        ("CREATE MATERIALIZED VIEW {} AS SELECT current_date AS dt, 1 AS amount", "odd", "materialized view"),
        ("CREATE TABLE {} (PRIMARY KEY (order_id)) INHERITS ({orders})", "odd", "inherits"),
    ],
)
def test_tables_that_postgres_keeps_otherwise_refuse(pg: Bench, made: str, name: str, sentence: str) -> None:
    pg.make(PLAIN)
    pg.sql(made.replace("{}", pg.name(name)))

    assert sentence in refusals(pg, table=name)[0]


def test_a_foreign_table_refuses(pg: Bench, postgres: Postgres) -> None:
    postgres.sql("CREATE EXTENSION IF NOT EXISTS file_fdw")
    postgres.sql(f"CREATE SERVER files_{pg.schema} FOREIGN DATA WRAPPER file_fdw")
    pg.sql(f"CREATE FOREIGN TABLE {pg.name('far')} (dt date) SERVER files_{pg.schema} OPTIONS (filename '/dev/null')")
    try:
        assert "a foreign table" in refusals(pg, table="far", measures={})[0]
    finally:
        postgres.sql(f"DROP SERVER files_{pg.schema} CASCADE")


def test_materialized_views_and_identities_are_told_and_rules_refuse(pg: Bench) -> None:
    pg.make(
        "order_id bigint GENERATED ALWAYS AS IDENTITY, dt date NOT NULL, amount bigint,"
        " loaded_at timestamptz DEFAULT now()"
    )
    pg.sql(f"CREATE MATERIALIZED VIEW {pg.name('sums')} AS SELECT dt, sum(amount) FROM {{orders}} GROUP BY dt")
    told = said(pg)
    pg.sql("CREATE RULE quiet AS ON INSERT TO {orders} DO ALSO NOTHING")

    assert "sums shows the table as it was" in told
    assert "order_id is an identity" in told
    assert "loaded_at has a default that changes" in told
    assert "the rule quiet" in refusals(pg)[0]


def test_a_role_is_told_the_least_grants_and_with_them_it_may_write(pg: Bench, postgres: Postgres) -> None:
    pg.make(PLAIN)
    pg.fill("source", *orders_on(DAY, 5))
    role = postgres.new_role()
    as_role = Bench(postgres.url, partial(psycopg.connect, postgres.as_role(role, postgres.url)), pg.schema)

    assert "GRANT USAGE ON SCHEMA" in refusals(as_role)[0]
    pg.sql(f"GRANT USAGE ON SCHEMA {pg.schema} TO {role}")
    missing = refusals(as_role)
    assert f"GRANT SELECT, INSERT, DELETE ON {pg.name('orders')} TO" in missing[0].replace(
        f'"{pg.schema}"', f'"{pg.schema}"'
    )
    assert "GRANT USAGE, CREATE ON SCHEMA" in missing[1]
    pg.sql(f"GRANT SELECT, INSERT, DELETE ON {{orders}} TO {role}")
    pg.sql(f"GRANT SELECT ON {{source}} TO {role}")
    pg.sql(f"GRANT USAGE, CREATE ON SCHEMA {pg.schema} TO {role}")

    assert refusals(as_role) == []
    as_role.publish(as_role.target(), DAY)
    assert pg.orders() == [(1, DAY, 5)]
    as_role.close()


def test_row_level_security_refuses_and_no_hidden_row_is_ever_left_behind(pg: Bench, postgres: Postgres) -> None:
    pg.make(PLAIN)
    role = postgres.new_role()
    pg.sql(f"GRANT USAGE, CREATE ON SCHEMA {pg.schema} TO {role}")
    pg.sql(f"GRANT ALL ON ALL TABLES IN SCHEMA {pg.schema} TO {role}")
    pg.sql("ALTER TABLE {orders} ENABLE ROW LEVEL SECURITY")
    pg.sql("CREATE POLICY part ON {orders} USING (amount > 5)")
    as_role = Bench(postgres.url, partial(psycopg.connect, postgres.as_role(role, postgres.url)), pg.schema)

    assert "row-level security" in refusals(as_role)[0]
    with pytest.raises(TargetError, match="row-level security"):
        as_role.publish(as_role.target(), DAY)
    as_role.close()

"""Key columns of every kind, in zones with days of 23 and 25 hours, and tables with any name."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from backfill_core.conformance.bench import DAY, NEXT, orders_on, rows_of
from backfill_core.keys import keys_between

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.target.conftest import Bench

ZONES = {
    "Europe/Warsaw": ("2026-03-29", "2026-10-25"),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "Atlantic/Azores": ("2026-03-29", "2026-10-25"),
    "Asia/Kolkata": ("2026-03-29", "2026-10-25"),
}
CHANGES = [(zone, day) for zone, days in ZONES.items() for day in days]


def every_half_hour(zone: str, day: str) -> Iterator[datetime]:
    """Instants around a day, from two days before to two days after."""
    noon = datetime.fromisoformat(day).replace(hour=12, tzinfo=ZoneInfo(zone)).astimezone(timezone.utc)
    for half_hours in range(-96, 97):
        yield noon + timedelta(minutes=30 * half_hours)


@pytest.mark.parametrize(("zone", "day"), CHANGES)
def test_instants_are_in_the_day_that_a_clock_of_the_zone_shows(bench: Bench, zone: str, day: str) -> None:
    bench.make(f"order_id bigint, at {'text' if bench.is_sqlite else 'timestamptz'}, amount bigint, note text")
    instants = list(every_half_hour(zone, day))
    shown = [instant.astimezone(ZoneInfo(zone)).date().isoformat() for instant in instants]
    values = ", ".join(
        f"({number}, '{instant:%Y-%m-%d %H:%M:%S}{'' if bench.is_sqlite else '+00'}', 1, '')"
        for number, instant in enumerate(instants)
    )
    bench.sql(f"INSERT INTO {{source}} VALUES {values}")
    target = bench.target(day="at", kind="instant", timezone=zone)
    around = keys_between(*(str(datetime.fromisoformat(day).date() + timedelta(days=days)) for days in (-1, 1)))
    select = "SELECT * FROM {source} WHERE at >= :start AND at < :end"

    with bench.written(target, day, select=select) as (_, one):
        pass
    with bench.written(target, *around, select=select) as (_, three):
        pass

    assert (one.strange, three.strange) == ((0, ""), (0, ""))
    assert rows_of(one.partitions, day) == [shown.count(day)]
    assert rows_of(three.partitions, *around) == [shown.count(key) for key in around]


@pytest.mark.parametrize(("zone", "day"), CHANGES)
def test_local_times_are_in_the_day_that_they_show(bench: Bench, zone: str, day: str) -> None:
    bench.make(f"order_id bigint, at {'text' if bench.is_sqlite else 'timestamp'}, amount bigint, note text")
    for number, at in enumerate(("00:00:00", "01:30:00", "23:59:59.999")):
        bench.fill("source", (number, f"{day} {at}", 1, ""))
    target = bench.target(day="at", kind="local", timezone=zone)
    select = "SELECT * FROM {source} WHERE at >= :start AND at < :end"

    with bench.written(target, day, select=select) as (_, audited):
        pass

    assert rows_of(audited.partitions, day) == [3]
    assert audited.strange == (0, "")


def test_a_local_time_may_be_kept_in_another_zone_than_the_day_is_of(bench: Bench) -> None:
    bench.make(f"order_id bigint, at {'text' if bench.is_sqlite else 'timestamp'}, amount bigint, note text")
    for number, at in enumerate(("2026-01-31 23:00:00", "2026-02-01 22:59:59", "2026-02-01 23:00:00")):
        bench.fill("source", (number, at, 1, ""))
    target = bench.target(day="at", kind="local", zone="UTC", timezone="Europe/Warsaw")

    with bench.written(target, DAY, select="SELECT * FROM {source}") as (_, audited):
        pass

    assert rows_of(audited.partitions, DAY) == [2]
    assert audited.strange[0] == 1


@pytest.mark.parametrize(
    ("kind", "column", "form"),
    [("text", "text", "%d/%m/%Y"), ("text", "text", "%Y%m%d"), ("integer", "integer", "%Y%m%d")],
)
def test_days_written_as_text_or_integers(bench: Bench, kind: str, column: str, form: str) -> None:
    bench.make(f"order_id bigint, dt {column}, amount bigint, note text")
    written = [datetime.fromisoformat(day).strftime(form) for day in (DAY, NEXT)]
    bench.fill("orders", (1, written[0], 1, ""), (2, written[1], 2, ""))
    bench.fill("source", (1, written[0], 10, ""))
    target = bench.target(kind=kind, format=form)

    bench.publish(target, DAY, select="SELECT * FROM {source} WHERE dt = :key")

    assert bench.orders("amount, order_id") == [(10, 1), (2, 2)]
    assert target.keyless() == (0, "")


def test_an_impossible_or_otherwise_written_time_is_in_no_day(lite: Bench) -> None:
    lite.make("order_id bigint, at text, amount bigint, note text")
    lite.fill(
        "source",
        (1, "2026-02-28 12:00:00", 1, ""),
        (2, "2026-02-31 12:00:00", 1, ""),
        (3, "2026-02-28T12:00:00", 1, ""),
    )
    target = lite.target(day="at", kind="instant")

    with lite.written(target, "2026-02-28", select="SELECT * FROM {source}") as (_, audited):
        pass

    assert rows_of(audited.partitions, "2026-02-28") == [1]
    assert audited.strange[0] == 2


def test_a_time_of_no_day_in_the_table_is_neither_measured_nor_replaced(lite: Bench) -> None:
    lite.make("order_id bigint, at text, amount bigint, note text")
    lite.fill("orders", (1, "2026-02-28 12:00:00", 1, ""), (2, "2026-02-31 12:00:00", 2, ""))
    target = lite.target(day="at", kind="instant")

    lite.publish(target, "2026-02-28", select="SELECT * FROM {source}")

    assert lite.orders("amount, order_id") == [(2, 2)]
    assert target.keyless() == (1, "2026-02-31 12:00:00")


NAMES = ['Orders of "today"', "select", "zamówienia_żółć", "注文", "x" * 63, "a'b;--", "50% (new)", "$1", ":key"]


@pytest.mark.parametrize("name", NAMES)
def test_a_table_and_its_columns_may_have_any_name(bench: Bench, name: str) -> None:
    table, column = bench.name(name), bench.name(name).rpartition(".")[2]
    bench.sql(f"CREATE TABLE {table} (order_id bigint, {column} date, amount bigint)")
    bench.sql(f"INSERT INTO {table} VALUES (1, '{DAY}', 1), (2, '{NEXT}', 2)")
    target = bench.target(table=name, day=name, unique=[name, "order_id"])
    bench.make()
    bench.fill("source", *orders_on(DAY, 10))

    bench.publish(target, DAY, select=f"SELECT order_id, dt AS {column}, amount FROM {{source}} WHERE dt = :key")

    assert bench.sql(f"SELECT amount FROM {table} ORDER BY order_id") == [(10,), (2,)]
    digest = target.measure([DAY], digest=True)[DAY].digest
    assert digest is not None
    assert target.check()


def test_a_table_partitioned_by_day_is_written_as_any_other(pg: Bench) -> None:
    pg.make(after="PARTITION BY RANGE (dt)")
    for day, after in ((DAY, NEXT), (NEXT, "2026-02-03")):
        pg.sql(
            f"CREATE TABLE {pg.name(f'orders {day}')} PARTITION OF {{orders}} FOR VALUES FROM ('{day}') TO ('{after}')"
        )
    pg.fill("orders", *orders_on(DAY, 1), *orders_on(NEXT, 2, first=2))
    pg.fill("source", *orders_on(DAY, 10, 20), *orders_on(NEXT, 30, first=3))
    target = pg.target(unique=["order_id"])

    pg.publish(target, DAY)
    pg.publish(target, DAY, NEXT, number=2)

    assert [amount for _, _, amount in pg.orders()] == [10, 20, 30]
    assert not [finding for finding in target.check() if finding.refuses]


def test_identities_are_new_and_generated_columns_are_made(pg: Bench) -> None:
    pg.make(
        "id bigint GENERATED ALWAYS AS IDENTITY, order_id bigint, dt date, amount bigint,"
        " twice bigint GENERATED ALWAYS AS (amount * 2) STORED"
    )
    pg.sql(f"INSERT INTO {{source}} (order_id, dt, amount) VALUES (1, '{DAY}', 5)")
    target = pg.target()
    select = "SELECT order_id, dt, amount FROM {source} WHERE dt = :key"

    pg.publish(target, DAY, select=select)
    first = pg.orders("order_id, amount, twice, id")
    digest = target.measure([DAY], digest=True)[DAY].digest
    pg.publish(target, DAY, select=select, number=2)

    assert first == [(1, 5, 10, 1)]
    assert pg.orders("order_id, amount, twice, id") == [(1, 5, 10, 2)]
    assert target.measure([DAY], digest=True)[DAY].digest == digest


def test_a_select_sees_the_clock_of_the_datasets_zone_whatever_the_session_had(pg: Bench) -> None:
    pg.make()
    pg.sql("ALTER TABLE {source} ADD COLUMN at timestamptz")
    for number, at in enumerate(("2026-01-31 22:59:59+00", "2026-01-31 23:00:00+00", "2026-02-01 22:59:59+00")):
        pg.fill("source", (number, DAY, 1, "", at))
    target = pg.target(timezone="Europe/Warsaw")
    select = "SELECT order_id, at::date AS dt, amount FROM {source} WHERE at::date = :key"

    pg.publish(target, DAY, select=select)

    assert [number for number, _, _ in pg.orders()] == [1, 2]

"""A write: what it measures, when others see it, and what stands in its way."""

from __future__ import annotations

import secrets
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from backfill_core.conformance.bench import DAY, LEDGER, NEXT, orders_on
from backfill_core.errors import ChangedError, TargetError, UsageError
from backfill_core.target import Expected, Fence
from tests.servers import wait_until
from tests.target.conftest import SELECT

if TYPE_CHECKING:
    from backfill_core.target import Audited
    from tests.target.conftest import Bench


def test_the_clock_of_a_key_never_goes_back(bench: Bench) -> None:
    bench.make()
    target = bench.target()
    bench.publish(target, DAY)
    side = f"{bench.schema}._bf_partitions" if bench.schema else "_bf_partitions"
    bench.sql(f"UPDATE {side} SET published_at = '2099-01-01T00:00:00.000000Z'")

    bench.publish(target, DAY)

    assert target.look([DAY])[DAY].published_at == "2099-01-01T00:00:00.000000Z"


def test_two_selects_add_up(bench: Bench) -> None:
    bench.make()
    bench.fill("source", *orders_on(DAY, 10, 20))
    target = bench.target()
    target.fence({DAY: Fence(1)}, LEDGER, 5)

    with target.writing([DAY], secrets.token_hex(16), staged=False) as write:
        write.fill(bench.said(f"{SELECT} AND amount = 10"))
        write.fill(bench.said(f"{SELECT} AND amount = 20"))
        audited = write.audit(digest=False)

    assert audited.partitions[DAY].measures == {"orders": "2", "amount": "30"}


def test_columns_may_come_in_any_order_and_those_left_out_get_their_defaults(bench: Bench) -> None:
    bench.make("order_id bigint, dt date, amount bigint DEFAULT 7, note text")
    bench.fill("source", *orders_on(DAY, 10))
    target = bench.target()

    bench.publish(target, DAY, select="SELECT note, dt, order_id FROM {source} WHERE dt = :key")

    assert bench.orders("order_id, dt, amount, note") == [(1, DAY, 7, "note 1")]


@pytest.mark.parametrize(
    ("select", "sentence"),
    [
        ("SELECT 1 AS strange, dt FROM {source}", "a column strange, which the table doesn't have"),
        ("SELECT dt, dt FROM {source}", "two columns"),
        ("SELECT * FROM {source}; DROP TABLE {source}", "more than one statement"),
        ("  -- nothing\n", "empty"),
        ("SELECT 'open FROM {source}", "never closed"),
        ("SELECT * FROM nowhere_at_all", "nowhere_at_all"),
    ],
)
def test_a_select_that_cant_be_is_refused_in_a_sentence(bench: Bench, select: str, sentence: str) -> None:
    bench.make()
    bench.fill("orders", *orders_on(DAY, 1))

    with (
        pytest.raises((UsageError, TargetError), match=sentence),
        bench.written(bench.target(), DAY, select=select),
    ):
        pass

    assert bench.orders() == [(1, DAY, 1)]
    assert bench.sql("SELECT count(*) FROM {source}") == [(0,)]


def test_the_key_of_several_keys_is_refused(bench: Bench) -> None:
    bench.make()
    target = bench.target()

    with (
        pytest.raises(UsageError, match="use :start and :end"),
        bench.written(target, DAY, NEXT, select="SELECT * FROM {source} WHERE dt = :key"),
    ):
        pass


def test_a_select_may_end_in_a_comment_and_hold_what_looks_like_parameters(bench: Bench) -> None:
    bench.make()
    bench.fill("source", *orders_on(DAY, 10))
    target = bench.target()
    select = "SELECT order_id, dt, amount, '50% :start' AS note /* :end */ FROM {source} WHERE dt = :key; -- :none"

    bench.publish(target, DAY, select=select)

    assert bench.orders("note, amount") == [("50% :start", 10)]


def test_rows_that_a_constraint_refuses_leave_everything_as_it_was(bench: Bench) -> None:
    bench.make("order_id bigint PRIMARY KEY, dt date, amount bigint, note text")
    bench.fill("orders", *orders_on(DAY, 1), *orders_on(NEXT, 2, first=2))
    bench.fill("source", (2, DAY, 10, ""))
    target = bench.target()

    with (
        pytest.raises(TargetError, match=r"(?i)unique.*order"),
        bench.written(target, DAY) as (write, _),
    ):
        write.publish({DAY: Expected(1, None)}, "t", LEDGER)

    assert bench.orders() == [(1, DAY, 1), (2, NEXT, 2)]
    assert target.look([DAY])[DAY].token is None


def test_rows_that_come_or_go_by_hand_between_audit_and_publication_stop_it_in_sqlite(lite: Bench) -> None:
    lite.make()
    lite.fill("orders", *orders_on(DAY, 1, 2))
    lite.fill("source", *orders_on(DAY, 10))
    target = lite.target()

    with lite.written(target, DAY) as (write, _):
        lite.sql("DELETE FROM {orders} WHERE amount = 1")
        with pytest.raises(ChangedError, match="after it was audited"):
            write.publish({DAY: Expected(1, None)}, "t", LEDGER)

    assert [amount for _, _, amount in lite.orders()] == [2]


def test_what_is_still_written_to_a_staged_table_after_the_audit_stops_it_in_sqlite(lite: Bench) -> None:
    lite.make()
    target = lite.target()
    target.fence({DAY: Fence(1)}, LEDGER, 5)

    with target.writing([DAY], secrets.token_hex(16), staged=True) as write:
        lite.sql(f"INSERT INTO {write.staging} (order_id, dt, amount) VALUES (1, '{DAY}', 10)")
        write.audit(digest=False)
        lite.sql(f"UPDATE {write.staging} SET amount = 11")
        with pytest.raises(ChangedError, match="after it was audited"):
            write.publish({DAY: Expected(1, None)}, "t", LEDGER)

    assert lite.orders() == []


def test_an_error_of_the_callers_own_in_the_block_stays_as_it_is(bench: Bench) -> None:
    bench.make()
    target = bench.target()

    with (
        pytest.raises(Exception, match="nowhere_at_all") as raised,
        target.writing([DAY], secrets.token_hex(16), staged=True),
    ):
        bench.sql("SELECT * FROM nowhere_at_all")

    assert not isinstance(raised.value, TargetError)


def test_rows_that_come_by_hand_while_a_write_is_under_way_are_in_none_of_its_figures(pg: Bench) -> None:
    pg.make()
    pg.sql(
        f"CREATE FUNCTION {pg.schema}.slow() RETURNS bigint LANGUAGE sql VOLATILE AS"
        f" 'SELECT pg_advisory_xact_lock(hashtext(''{pg.schema}'')); SELECT 10::bigint'"
    )
    target = pg.target()
    target.fence({DAY: Fence(1)}, LEDGER, 5)
    audits: list[Audited] = []

    def write() -> None:
        with target.writing([DAY], secrets.token_hex(16), staged=False) as writing:
            writing.fill(f"SELECT 1 AS order_id, date '{DAY}' AS dt, {pg.schema}.slow() AS amount")
            audits.append(writing.audit(digest=False))

    with closing(pg.connect()) as gate:
        gate.cursor().execute(f"SELECT pg_advisory_xact_lock(hashtext('{pg.schema}'))")
        writer = threading.Thread(target=write)
        writer.start()
        wait_until(lambda: pg.sql("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"), "it waits")
        pg.fill("orders", *orders_on(DAY, 99, first=9))
        gate.commit()
    writer.join()

    assert audits[0].partitions[DAY].measures == {"orders": "1", "amount": "10"}
    assert audits[0].before[DAY].rows == 0


def test_who_still_writes_to_a_staged_table_after_the_audit_writes_in_vain(pg: Bench) -> None:
    pg.make()
    target = pg.target()
    target.fence({DAY: Fence(1)}, LEDGER, 5)
    row = f"(order_id, dt, amount) VALUES (1, '{DAY}', 10)"

    with target.writing([DAY], secrets.token_hex(16), staged=True) as write:
        pg.sql(f"INSERT INTO {write.staging} {row}")
        write.audit(digest=False)
        with closing(pg.connect()) as late:
            cursor = late.cursor()
            cursor.execute("SET lock_timeout = '100ms'")
            with pytest.raises(Exception, match="lock timeout"):
                cursor.execute(f"INSERT INTO {write.staging} {row}")
        write.publish({DAY: Expected(1, None)}, "t", LEDGER)

    assert [amount for _, _, amount in pg.orders()] == [10]


@pytest.mark.parametrize("column", ["note", "order_id"])
def test_what_is_missing_twice_is_there_twice_and_a_repeat_in_many_columns_is_found(bench: Bench, column: str) -> None:
    bench.make()
    bench.fill("source", (None, DAY, 1, None), (None, DAY, 2, None), (3, DAY, 3, "c"), (3, NEXT, 3, "c"))

    with bench.written(bench.target(unique=[column]), DAY) as (_, one):
        pass
    with bench.written(bench.target(unique=[column]), DAY, NEXT) as (_, two):
        pass
    with bench.written(bench.target(unique=[column, "amount"]), DAY) as (_, both):
        pass

    assert (one.repeated[0], two.repeated[0], both.repeated[0]) == (1, 1, 0)

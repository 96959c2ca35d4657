"""Side rows: fences, seals' marks and adoptions, and who waits for whom."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import psycopg2
import psycopg2.extras
import pytest

from backfill_core.conformance.bench import DAY, LEDGER, orders_on
from backfill_core.dataset import Dataset, SqlTable
from backfill_core.errors import (
    FenceTimeoutError,
    OutcomeUnknownError,
    TargetError,
    UsageError,
)
from backfill_core.target import Expected, Fence, postgres
from tests.servers import wait_until
from tests.target.conftest import Bench

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import Postgres


def test_a_text_that_is_no_day_of_the_calendar_is_no_key(bench: Bench) -> None:
    bench.make("order_id bigint, dt text, amount bigint, note text")
    bench.fill("orders", (1, "20260201", 1, ""), (2, "20260231", 1, ""), (3, "2026-02-01", 1, ""))
    target = bench.target(kind="text", format="%Y%m%d")

    count, example = target.keyless()

    assert count == 2
    assert example in ("20260231", "2026-02-01")


def test_a_fence_that_waited_finds_what_was_published_meanwhile(pg: Bench) -> None:
    pg.make()
    target, found = pg.target(), []

    with pg.written(target, DAY) as (write, _):
        settler = threading.Thread(target=lambda: found.append(target.fence({DAY: Fence(2)}, LEDGER, 60)))
        settler.start()
        wait_until(lambda: _waiting(pg), "the fence waits")
        write.publish({DAY: Expected(1, None)}, "t", LEDGER)
    settler.join()

    assert (found[0][DAY].token, found[0][DAY].fence) == ("t", 2)


def _waiting(pg: Bench) -> bool:
    """Say whether anybody waits for a lock at a table of this test's own."""
    return bool(pg.sql(f"SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{pg.schema}%'"))


def test_a_publication_that_is_not_heard_of_is_taken_back_by_the_server(
    pg: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "IDLE_SECONDS", 1)
    pg.make()
    pg.fill("orders", *orders_on(DAY, 1))
    target = pg.target()

    with pg.written(target, DAY) as (write, _):
        sides = target.fence({DAY: Fence(2)}, LEDGER, 60)  # the server ends the other's transaction meanwhile
        with pytest.raises(TargetError) as refused:
            write.publish({DAY: Expected(1, None)}, "t", LEDGER)

    assert not isinstance(refused.value, OutcomeUnknownError)
    assert (sides[DAY].token, target.look([DAY])[DAY].token) == (None, None)
    assert pg.orders() == [(1, DAY, 1)]


def test_a_connection_that_is_lost_before_the_commit_leaves_everything_as_it_was(pg: Bench) -> None:
    pg.make()
    pg.fill("orders", *orders_on(DAY, 1))
    target = pg.target()

    with pg.written(target, DAY) as (write, _):
        pg.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE state = 'idle in transaction' AND pid IN (SELECT pid FROM pg_locks"
            f" WHERE relation = '{pg.name('orders')}'::regclass)"
        )
        with pytest.raises(TargetError, match="connection") as refused:
            write.publish({DAY: Expected(1, None)}, "t", LEDGER)

    assert not isinstance(refused.value, OutcomeUnknownError)
    assert target.look([DAY])[DAY].token is None
    assert pg.orders() == [(1, DAY, 1)]


def test_a_connection_that_was_lost_between_two_calls_is_made_anew(pg: Bench) -> None:
    pg.make()
    target = pg.target()
    target.fence({DAY: Fence(1)}, LEDGER, 5)

    pg.sql(
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
        f" WHERE state = 'idle' AND query LIKE '%{pg.schema}%' AND pid <> pg_backend_pid()"
    )

    assert target.fence({DAY: Fence(2)}, LEDGER, 5)[DAY].fence == 2


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "sqlite3"])
def test_a_hook_may_have_chosen_rows_that_are_no_tuples(driver: str, postgres: Postgres, tmp_path: Path) -> None:
    schema = postgres.new_store().rpartition("=")[2]
    postgres.sql(f"CREATE SCHEMA {schema}")

    def connect() -> Any:
        if driver == "psycopg":
            return psycopg.connect(postgres.url, row_factory=psycopg.rows.dict_row)
        if driver == "psycopg2":
            return psycopg2.connect(postgres.url, cursor_factory=psycopg2.extras.RealDictCursor)
        made = sqlite3.connect(tmp_path / "shop.db")
        made.row_factory = sqlite3.Row
        return made

    bench = Bench(str(tmp_path / "shop.db"), connect, "" if driver == "sqlite3" else schema)
    bench.make()
    bench.fill("source", *orders_on(DAY, 10))
    target = bench.target()

    bench.publish(target, DAY)

    assert target.measure([DAY], digest=False)[DAY].measures == {"orders": "1", "amount": "10"}
    bench.close()


class _Lost(psycopg.Cursor[Any]):
    """A cursor whose connection is lost as a commit is answered."""

    def execute(self, query: Any, *rest: Any, **more: Any) -> Any:
        done = super().execute(query, *rest, **more)
        if query == "COMMIT" and _Lost.armed:
            _Lost.armed = False
            self.connection.close()
            raise psycopg.OperationalError("the line went dead")
        return done

    armed = False


def test_a_commit_without_an_answer_is_unknown_and_the_side_row_tells(postgres: Postgres) -> None:
    schema = postgres.new_store().rpartition("=")[2]
    postgres.sql(f"CREATE SCHEMA {schema}")
    pg = Bench(postgres.url, lambda: psycopg.connect(postgres.url, cursor_factory=_Lost), schema)
    pg.make()
    pg.fill("source", *orders_on(DAY, 10))
    target = pg.target()

    with pg.written(target, DAY) as (write, _):
        _Lost.armed = True
        with pytest.raises(OutcomeUnknownError, match="not known"):
            write.publish({DAY: Expected(1, None)}, "t", LEDGER)

    assert target.fence({DAY: Fence(2)}, LEDGER, 5)[DAY][:2] == ("t", 2)
    assert pg.orders() == [(1, DAY, 10)]
    pg.close()


def test_who_holds_a_sqlite_file_is_named_as_nobody_can_stop_it(lite: Bench) -> None:
    lite.make()
    target = lite.target()

    with closing(lite.connect()) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(FenceTimeoutError, match="no way to stop it"):
            target.fence({DAY: Fence(1)}, LEDGER, 0.3)

    assert target.fence({DAY: Fence(1)}, LEDGER, 5)[DAY].fence == 1


def test_forty_tables_share_the_side_table_and_keep_apart(bench: Bench) -> None:
    bench.make()
    targets = []
    for number in range(40):
        bench.sql(f"CREATE TABLE {bench.name(f'other_{number}')} (dt date, amount bigint)")
        targets.append(bench.target(table=f"other_{number}"))

    for number, target in enumerate(targets):
        target.fence({DAY: Fence(number + 1)}, LEDGER, 5)

    assert [target.look([DAY])[DAY].fence for target in targets] == list(range(1, 41))


def test_the_first_writers_of_a_schema_make_its_side_table_together(pg: Bench) -> None:
    pg.make()
    targets, found = [pg.target() for _ in range(8)], []
    start = threading.Barrier(len(targets))

    def fence(number: int) -> None:
        start.wait()
        found.append(targets[number].fence({DAY: Fence(number)}, LEDGER, 60)[DAY].fence)

    threads = [threading.Thread(target=fence, args=(number,)) for number in range(len(targets))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == len(targets)
    assert targets[0].look([DAY])[DAY].fence == len(targets) - 1


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("mysql://host/db", "no target for mysql"),
        ("/no/such/file.db", "no SQLite file"),
        ("postgresql://nobody:secret@127.0.0.1:1/none", "can't be reached"),
    ],
)
def test_a_place_that_is_none_is_told_in_a_sentence_without_the_password(where: str, sentence: str) -> None:
    dataset = Dataset("orders", SqlTable(where, "orders", day="dt"), measures={"n": "count(*)"})

    with pytest.raises((TargetError, UsageError), match=sentence) as told:
        dataset.target().look([DAY])

    assert "secret" not in str(told.value)


def test_a_table_is_found_by_its_url_or_path(bench: Bench) -> None:
    bench.make()
    target = bench.dataset().target()

    assert target.fence({DAY: Fence(1)}, LEDGER, 5)[DAY].fence == 1
    target.close()

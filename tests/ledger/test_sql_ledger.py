"""What only the ledgers in a database can get wrong: locks, waits, lost answers, clocks, sizes, versions of tables."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest

from backfill_core.claims import RESERVATION, Claim
from backfill_core.errors import LimitError, NoStoreError, StoreError
from backfill_core.ledger import Counts, KeyRow, statements
from backfill_core.ledger import tables as ledger_tables
from backfill_core.ledger.opening import look_at_ledger, open_ledger
from backfill_core.store import create_store
from backfill_core.target import Measured
from tests.ledger.conftest import DAY, ME, NEXT, THIRD, guarded, put
from tests.model.promises import DATASET
from tests.model.target import SimulatedTarget
from tests.servers import PATIENCE

if TYPE_CHECKING:
    from backfill_core.ledger.ledger import SqlLedger
    from backfill_core.ledger.page import Page
    from tests.servers import PgBouncer, Postgres


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest, tmp_path: object) -> str:
    if request.param == "sqlite":
        return f"{tmp_path}/state.db"
    url: str = request.getfixturevalue("postgres").new_store()
    return url


def claim(page: Page, claim_id: str, key: str = DAY) -> None:
    """Reserve a key if nobody holds it."""
    if not page.claims(key):
        page.claim(Claim(claim_id, key, claim_id, RESERVATION, "", "", -1, 1, ""))


def test_of_many_who_come_at_once_one_holds_the_key(db: str) -> None:
    def come(number: int) -> None:
        with open_ledger(db) as ledger:
            ledger.change("shop", [DAY], lambda page: claim(page, f"claim-{number}"))

    open_ledger(db).close()
    with ThreadPoolExecutor(8) as crowd:
        list(crowd.map(come, range(8)))

    with open_ledger(db) as ledger:
        assert len(ledger.claims("shop")) == 1
        assert ledger.counts()[0].held == 1


def test_numbers_are_given_once_whoever_takes_them_in_whatever_order_of_keys(db: str) -> None:
    def take(page: Page) -> list[int]:
        for key in page.keys:
            page.write(page.row(key)._replace(number=page.row(key).number + 1))
        return [page.row(key).number for key in page.keys]

    def come(number: int) -> list[int]:
        with open_ledger(db) as ledger:
            return [ledger.change("shop", [DAY, NEXT][: 1 + (turn + number) % 2], take)[0] for turn in range(10)]

    open_ledger(db).close()
    with ThreadPoolExecutor(4) as crowd:
        taken = [number for numbers in crowd.map(come, range(4)) for number in numbers]

    assert sorted(taken) == list(range(1, 41))


def test_two_who_make_the_tables_at_once_make_one_ledger(db: str) -> None:
    def come(_: int) -> str:
        with open_ledger(db) as ledger:
            return ledger.change("shop", (), lambda page: page.ledger)

    open_ledger(db).close()
    with ThreadPoolExecutor(4) as crowd:
        ids = set(crowd.map(come, range(4)))

    assert len(ids) == 1


def test_a_transaction_that_raises_keeps_nothing(db: str) -> None:
    def step(page: Page) -> None:
        claim(page, "mine")
        raise ZeroDivisionError

    with open_ledger(db) as ledger:
        with pytest.raises(ZeroDivisionError):
            ledger.change("shop", [DAY], step)

        assert (ledger.claims("shop"), ledger.rows("shop"), ledger.counts()) == ([], [], [])


def test_an_intent_is_never_overwritten(db: str) -> None:
    with open_ledger(db) as ledger:
        guarded(ledger, SimulatedTarget()).write([DAY], put(1), ME)
        token = ledger.history(DATASET.name)[0].token or ""
        [intent] = ledger.find(DATASET.name, token)

        with pytest.raises(StoreError):
            ledger.change(DATASET.name, [DAY], lambda page: page.note(intent))

        assert [one.state for one in ledger.find(DATASET.name, token)] == ["confirmed"]


def test_times_are_the_databases_utc_iso_with_microseconds(db: str) -> None:
    with open_ledger(db) as ledger:
        times = [ledger.change("shop", [DAY], lambda page: page.now) for _ in range(3)]

    assert times == sorted(times)
    assert all(len(moment) == len("2026-02-01T00:00:00.000000+00:00") and moment.endswith("+00:00") for moment in times)


def test_tables_of_a_later_release_are_left_alone(db: str) -> None:
    with open_ledger(db) as ledger, ledger._database.changing() as execute:
        execute(statements.SET_SCHEMA, {"version": 99})

    with pytest.raises(StoreError, match="of version 99, made by a later release"):
        open_ledger(db)


def test_tables_of_the_version_before_are_made_into_this_one(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_ledger(db) as ledger:
        guarded(ledger, SimulatedTarget()).write([DAY], put(1), ME)
        before = ledger.rows(DATASET.name)
    more = (*ledger_tables.VERSIONS, ("ALTER TABLE ledger_keys ADD COLUMN added INTEGER",))
    monkeypatch.setattr("backfill_core.ledger.ledger.VERSIONS", more)

    with open_ledger(db) as ledger:
        with ledger._database.reading() as execute:
            found = list(execute("SELECT added FROM ledger_keys", {})), list(execute(statements.SCHEMA, {}))
        assert (ledger.rows(DATASET.name), found) == (before, ([(None,)], [(len(more),)]))


def test_a_ledger_of_the_first_version_keeps_what_it_knows(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as first:
        first.setattr("backfill_core.ledger.ledger.VERSIONS", ledger_tables.VERSIONS[:1])
        with open_ledger(db) as ledger, ledger._database.changing() as execute:
            execute(
                "INSERT INTO ledger_keys (dataset, key, number, version, seal, seals, token, owner, confirmed_at,"
                " checked_at) VALUES ('shop', '2026-02-01', 1, 1, 0, 0, 't', 'anna', '2026-02-02', '2026-02-03')",
                {},
            )
            execute("INSERT INTO ledger_counts VALUES ('shop', 1, 1, 0, 0, 0, 0, '2026-02-01', '2026-02-02')", {})

    with pytest.raises(StoreError, match="of version 1, and this release needs 2"):
        look_at_ledger(db)
    with open_ledger(db) as ledger:
        [counts] = ledger.counts()

    assert counts == Counts(
        "shop", 1, 1, 0, 0, 0, 0, 0, "2026-02-01", "2026-02-02", "anna", "2026-02-03", "2026-02-01", None
    )


def test_looking_makes_nothing(db: str) -> None:
    with pytest.raises(NoStoreError):
        look_at_ledger(db)
    create_store(db)
    with pytest.raises(NoStoreError, match="no ledger of datasets yet"):
        look_at_ledger(db)
    open_ledger(db).close()

    with look_at_ledger(db) as ledger:
        assert ledger.counts() == []


def test_keys_are_in_the_order_of_code_points(db: str) -> None:
    keys = sorted(["b", "A", "a", "_", "é", "Z", "1"])
    with open_ledger(db) as ledger:
        ledger.change("shop", keys, lambda page: len(page.keys))

        assert [row.key for row in ledger.rows("shop")] == keys


def test_a_pooler_may_give_each_transaction_another_connection(postgres: Postgres, pgbouncer: PgBouncer) -> None:
    db = postgres.new_store()
    open_ledger(db).close()
    target = SimulatedTarget()

    with open_ledger(postgres.through(pgbouncer.port, db)) as one, open_ledger(db) as other:
        guarded(one, target).write([DAY, NEXT], put(1), ME)
        guarded(other, target).write([DAY], put(2), ME)
        guarded(one, target).seal([DAY], ME)

        assert [line.what for line in other.history(DATASET.name, DAY, DAY)] == ["publish", "publish", "seal"]


def test_keys_and_datasets_do_not_wait_for_each_other(postgres: Postgres) -> None:
    db = postgres.new_store()
    locked, done = threading.Event(), threading.Event()

    def hold(page: Page) -> None:
        locked.set()
        assert done.wait(PATIENCE)

    open_ledger(db).close()
    with ThreadPoolExecutor(1) as other, open_ledger(db) as mine, open_ledger(db) as theirs:
        holding = other.submit(theirs.change, "shop", [DAY], hold)
        assert locked.wait(PATIENCE)
        mine.change("shop", [NEXT], lambda page: claim(page, "neighbour", NEXT))
        mine.change("garden", [DAY], lambda page: claim(page, "other dataset"))
        assert not holding.done()
        done.set()
        holding.result(PATIENCE)

        assert len(mine.claims("shop")) == 1


def test_whoever_waits_for_a_row_in_vain_is_told(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    db = postgres.new_store()
    open_ledger(db).close()
    locked, done = threading.Event(), threading.Event()

    def hold(page: Page) -> None:
        locked.set()
        assert done.wait(PATIENCE)

    with ThreadPoolExecutor(1) as other, open_ledger(db) as mine, open_ledger(db) as theirs:
        holding = other.submit(theirs.change, "shop", [DAY], hold)
        assert locked.wait(PATIENCE)
        shorter = mine._database._change.replace(b"'15s'", b"'200ms'")  # type: ignore[attr-defined]
        monkeypatch.setattr(mine._database, "_change", shorter)
        with pytest.raises(StoreError, match="another has had a row of it"):
            mine.change("shop", [DAY], lambda page: claim(page, "mine"))
        done.set()
        holding.result(PATIENCE)

        mine.change("shop", [DAY], lambda page: claim(page, "mine"))


def test_a_connection_that_is_lost_keeps_nothing_and_the_next_call_has_another(postgres: Postgres) -> None:
    with open_ledger(postgres.new_store()) as ledger:

        def cut(page: Page) -> None:
            claim(page, "mine")
            [(pid,)] = ledger._database._execute("SELECT pg_backend_pid()", {})  # type: ignore[attr-defined]
            postgres.sql(f"SELECT pg_terminate_backend({pid})")

        with pytest.raises(StoreError):
            ledger.change("shop", [DAY], cut)

        assert ledger.change("shop", [DAY], lambda page: page.claims(DAY)) == []


def fill(ledger: SqlLedger, dataset: str, days: int) -> None:
    """Put so many published days into a ledger, in bulk."""
    first = date(2016, 1, 1)
    keys = [(first + timedelta(days=number)).isoformat() for number in range(days)]
    figures = Measured(1000, {"orders": "1000", "amount": "123456.78"}, None)

    def step(page: Page) -> None:
        for key in keys:
            page.write(KeyRow(key, 1, f"{dataset}-{key}", figures, None, 1, page.now, page.now, "me", "run", ""))

    ledger.define(dataset, {}, {})
    ledger.change(dataset, keys, step)


def test_the_status_of_ten_years_and_of_many_datasets_is_told_by_a_few_rows(db: str) -> None:
    with open_ledger(db) as ledger:
        fill(ledger, "shop", 3653)
        for number in range(20):
            fill(ledger, f"small-{number}", 3)
        orders = guarded(ledger, SimulatedTarget(), name="shop.others")

        counts = ledger.counts()
        rows = orders.ledger.rows("shop")

    assert (len(rows), rows[-1].key) == (3653, "2025-12-31")
    assert [(one.keys, one.published, one.newest) for one in counts if one.dataset == "shop"] == [
        (3653, 3653, "2025-12-31")
    ]


def test_a_glance_says_the_little_that_it_says_as_the_rows_do(db: str) -> None:
    target = SimulatedTarget()
    with open_ledger(db) as ledger:
        orders = guarded(ledger, target)
        orders.write([DAY, NEXT], put(1, 2), ME)
        orders.seal([DAY], ME)
        orders.late(put(5))
        target.partitions[NEXT] = (9,)
        orders.drift([NEXT])
        with pytest.raises(LimitError):
            orders.write([THIRD], put(), ME)

        told = {glance.key: glance for glance in ledger.glances(DATASET.name)}
        rows = ledger.rows(DATASET.name)

    assert list(told) == [row.key for row in rows] == [DAY, NEXT, THIRD]
    for row in rows:
        glance = told[row.key]
        assert glance[3:7] == (row.published_at, row.owner, row.run, row.seal)
        assert list(map(bool, (glance.is_published, *glance[7:]))) == [
            value is not None for value in (row.token, row.failure, row.drift, row.late)
        ]
        assert glance.measured == ({} if row.measured is None else {**row.measured.measures, "rows": row.measured.rows})
    assert (told[DAY].is_late, told[NEXT].has_drifted, told[THIRD].has_failed) == (True, True, True)

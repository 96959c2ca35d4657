"""What happens beside a write, at each of its steps: a hand in the table, a ledger from an hour ago, a reader."""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from backfill_core.conformance.stepping import At, stepped
from backfill_core.errors import BackfillError, ChangedError, DriftError, StoppedError
from backfill_core.protocol.judging import Wish
from tests.datasets.dying import settle, staged, write
from tests.datasets.shop import BOTH, DAY, OTHER, Shop, one_try

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.datasets.dying import Verb


def meet(shop: Shop, verb: Verb, number: int, act: Callable[[], None]) -> tuple[At, BackfillError | None]:
    """Let something happen before the numbered step of a write."""
    at = At(number, act)
    with shop.open(around=stepped(at)) as orders:
        try:
            verb(shop, orders, one_try(number))
        except BackfillError as error:
            return at, error
    return at, None


# a hand in the table


@pytest.fixture(params=["other sums", "the same sums"])
def by_hand(request: pytest.FixtureRequest) -> str:
    return "amount = amount + 1000" if request.param == "other sums" else "id = id + 1000"


@pytest.mark.parametrize("verb", [write, staged])
def test_what_a_hand_changes_at_any_step_is_refused_or_is_found(shop: Shop, verb: Verb, by_hand: str) -> None:
    refused: set[type[BackfillError]] = set()

    def change() -> None:
        shop.sql(
            f"SET lock_timeout = '50ms'; UPDATE {{orders}} SET {by_hand} WHERE dt = '{DAY}'"
            if shop.schema
            else f"UPDATE {{orders}} SET {by_hand} WHERE dt = '{DAY}'"
        )

    def reach() -> None:
        try:
            change()
        except psycopg.errors.LockNotAvailable:
            change_later.append(change)

    for number in itertools.count():
        shop = shop.of(number + 1)
        change_later: list[Callable[[], None]] = []
        at, error = meet(shop, verb, number, reach)

        for one in change_later:
            one()
        rows = shop.rows()
        if error is not None:
            refused.add(type(error))
            assert rows != shop.expected(number + 1)
        with shop.open() as orders:
            assert list(orders.drift()["drift"]) == ([DAY] if at.happened else [])
            orders.write(BOTH, shop.fill, OTHER, wish=Wish(overwrite=True, always=True))
        assert shop.seen() == number + 1
        shop.check()
        if not at.happened:
            break
    assert DriftError in refused
    assert shop.schema or ChangedError in refused  # PostgreSQL lets the hand wait, or its own transaction fail


# a ledger from an hour ago


class Backup:
    """A copy of a ledger's tables."""

    def __init__(self, db: str) -> None:
        self._db = db
        self._in_file = sqlite3.connect(":memory:")
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        if "://" not in db:
            with closing(sqlite3.connect(db)) as live:
                live.backup(self._in_file)
            return
        with self._server() as server:
            tables = server.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
            for (table,) in tables:
                self._rows[table] = server.execute(f"SELECT * FROM {table}".encode()).fetchall()

    def put_back(self) -> None:
        if not self._rows:
            with closing(sqlite3.connect(self._db)) as live:
                self._in_file.backup(live)
            return
        with self._server() as server, server.transaction():
            for table, rows in self._rows.items():
                server.execute(f"DELETE FROM {table}".encode())
                for row in rows:
                    marks = ", ".join(["%s"] * len(row))
                    server.execute(f"INSERT INTO {table} OVERRIDING SYSTEM VALUE VALUES ({marks})".encode(), row)

    def _server(self) -> psycopg.Connection[Any]:
        url, _, schema = self._db.partition("?schema=")
        return psycopg.connect(url, autocommit=True, options=f"-c search_path={schema}")

    def close(self) -> None:
        self._in_file.close()


@pytest.fixture
def backups() -> Iterator[list[Backup]]:
    made: list[Backup] = []
    yield made
    for one in made:
        one.close()


@pytest.mark.parametrize("says_so", [False, True])
def test_a_ledger_from_an_hour_ago_at_any_step_stops_the_key_until_it_was_looked_at(
    shop: Shop, says_so: bool, backups: list[Backup]
) -> None:
    """A publication was made since; then a write is under way when the backup is put back."""
    for number in itertools.count():
        backups.append(Backup(shop.db))
        with shop.open() as orders:
            write(shop.of(2 * number + 1), orders, OTHER)

        at, _ = meet(shop.of(2 * number + 2), write, number, backups[-1].put_back)

        if not at.happened:
            break
        assert shop.seen() in (2 * number + 1, 2 * number + 2)
        before = shop.rows()
        with shop.open() as orders:
            if says_so:
                orders.restored()
            settle(shop, orders)
            with pytest.raises(StoppedError):
                write(shop.of(0), orders, OTHER)
            assert shop.rows() == before
            if not says_so:
                orders.restored()
            orders.adopt(BOTH, OTHER, "it is from a backup")
        shop.check()
    assert number > 8


# a reader


def test_a_reader_with_an_old_snapshot_sees_the_old_days_and_one_that_polls_sees_whole_ones(shop: Shop) -> None:
    seen: list[int] = []
    place = shop.where

    def connect() -> Any:
        if not shop.schema:
            return sqlite3.connect(place, isolation_level=None)
        return psycopg.connect(place, autocommit=True)

    text = f"SELECT amount FROM {shop.at(shop.name)} WHERE dt <= '{BOTH[-1]}' ORDER BY dt"
    if not shop.schema:
        with closing(connect()) as first:
            first.execute("PRAGMA journal_mode = WAL")  # else a reader keeps the writer waiting
    with closing(connect()) as old:
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ" if shop.schema else "BEGIN")
        before = old.execute(text).fetchall()
        for version in (1, 2):
            with shop.open(around=stepped(lambda _: seen.append(shop.seen()))) as orders:
                write(shop.of(version), orders, one_try(version))
        assert old.execute(text).fetchall() == before
        old.execute("COMMIT")
        assert old.execute(text).fetchall() == [(2,), (2,)]

    assert seen == sorted(seen)
    assert set(seen) == {0, 1, 2}

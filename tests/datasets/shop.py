"""A dataset that every fault interrupts: a ledger and a table, each in a place of its own, known by name alone.

A round gives two days a new result. Their neighbours are a day that was published and one that is sealed.
"""

from __future__ import annotations

import secrets
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from backfill_core.claims import Caller
from backfill_core.dataset import Dataset, SqlTable
from backfill_core.guarded import Guarded
from backfill_core.ledger.opening import open_ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backfill_core.claims import Claim
    from backfill_core.guarded import Partition
    from backfill_core.ledger import Ledger
    from backfill_core.target import Target

DAY, NEXT, NEIGHBOUR, SENT = KEYS = ["2026-02-01", "2026-02-02", "2026-02-03", "2026-02-04"]
BOTH = KEYS[:2]
OTHER = Caller("another", "load")
BEGINNER = Caller("begin", "load")

Rows = list[tuple[str, int, int]]


def nobody(_: Claim) -> bool:
    return False


def all_but_ours(claim: Claim) -> bool:
    """Say that all runs have ended, but the other's."""
    return claim.run != OTHER.run


def one_try(number: int, of: int = 1) -> Caller:
    """Return a try of a numbered run's task."""
    return Caller(f"run-{number}", "load", try_number=of)


def _kept_in(ids: list[str]) -> Callable[[], str]:
    def make() -> str:
        ids.append(secrets.token_hex(16))
        return ids[-1]

    return make


class Shop(NamedTuple):
    """Where a ledger and a warehouse are: a process may be given it.

    schema: of the tables in PostgreSQL, empty in SQLite; name: of the dataset and its table.
    version: of what is written from here: the amount of each order.
    clashes: whether the orders come with the numbers of their neighbours', which `number_orders_once` forbids.
    """

    db: str
    where: str
    schema: str = ""
    name: str = "orders"
    version: int = 0
    clashes: bool = False

    def of(self, version: int) -> Shop:
        """Return the same shop, as a writer of another version sees it."""
        return self._replace(version=version)

    def at(self, table: str) -> str:
        return f"{self.schema}.{table}" if self.schema else table

    def dataset(self, **said: Any) -> Dataset:
        kind: dict[str, Any] = {} if self.schema else {"kind": "text", "format": "%Y-%m-%d"}
        table = SqlTable(self.where, self.at(self.name), day="dt", **kind)
        measures = {"orders": "count(*)", "amount": "sum(amount)"}
        said = {"name": f"shop.{self.name}", "unique": ("id",), "digest": "always", "max_shrink": None, **said}
        return Dataset(table=table, measures=measures, **said)

    @contextmanager
    def open(
        self,
        *,
        stale: Callable[[Claim], bool] = nobody,
        around: Callable[[Ledger, Target], tuple[Any, Any]] | None = None,
        ids: list[str] | None = None,
        wait: float = 0,
        **said: Any,
    ) -> Iterator[Guarded]:
        """The dataset with its ledger and target.

        around: what each call of these goes through. ids: where those that were made are kept.
        """
        dataset = self.dataset(**said)
        target = dataset.target()
        try:
            with open_ledger(self.db) as ledger:
                opened = around(ledger, target) if around else (ledger, target)
                yield Guarded(dataset, *opened, stale=stale, wait=wait, new_id=_kept_in(ids if ids is not None else []))
        finally:
            target.close()

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement by a connection of its own; return its rows. `{orders}` and `{source}` are tables."""
        text = statement.format(orders=self.at(self.name), source=self.at(f"source_{self.name}"))
        if self.schema:
            with psycopg.connect(self.where, autocommit=True) as server:
                cursor = server.execute(text.encode())
                return cursor.fetchall() if cursor.description else []
        with closing(sqlite3.connect(self.where, timeout=60)) as connection, connection:
            return connection.execute(text).fetchall()

    # the story

    @property
    def select(self) -> str:
        return f"{self.source} WHERE dt >= :start AND dt < :end"

    @property
    def source(self) -> str:
        number = "30 - id" if self.clashes else "id"
        return f"SELECT dt, {number} AS id, {self.version} AS amount FROM {self.at(f'source_{self.name}')}"

    def fill(self, partition: Partition) -> None:
        partition.fill(self.select)

    def begin(self, wait: float = 0) -> None:
        """Make the tables, and publish the first version of every day; seal the last."""
        self.sql("CREATE TABLE {orders} (dt date NOT NULL, id integer, amount integer)")
        self.sql("CREATE TABLE {source} (dt date NOT NULL, id integer)")
        for number, key in enumerate(KEYS):
            self.sql(f"INSERT INTO {{source}} VALUES ('{key}', {10 * number})")
        with self.open(wait=wait) as orders:
            orders.write(KEYS, self.fill, BEGINNER)
            orders.seal([SENT], BEGINNER, "sent")

    def number_orders_once(self) -> None:
        """Let the database refuse an order's number that another day has: at the publication, not before it.

        PostgreSQL would tell at the audit already, as every constraint is looked at there. What fails at its COMMIT is
        a trigger of our own side rows.
        """
        if not self.schema:
            self.sql(f"CREATE UNIQUE INDEX one_number_{self.name} ON {{orders}} (id)")
            return
        self.sql(
            f"CREATE FUNCTION {self.at('number_once')}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF EXISTS (SELECT FROM {{orders}} GROUP BY id HAVING count(*) > 1) THEN"
            " RAISE EXCEPTION 'a duplicate number' USING ERRCODE = 'unique_violation'; END IF; RETURN NULL; END $$;"
            f" CREATE CONSTRAINT TRIGGER number_once AFTER UPDATE ON {self.at('_bf_partitions')}"
            f" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {self.at('number_once')}()"
        )

    def rows(self) -> Rows:
        """Return what readers see."""
        return [(str(day), number, amount) for day, number, amount in self.sql("SELECT * FROM {orders} ORDER BY 1, 2")]

    def seen(self) -> int:
        """Return which version readers see: both days have the same, and nothing else ever moves."""
        rows = self.rows()
        version = rows[0][2]
        assert rows == self.expected(version), "a day is not whole, or a neighbour moved"
        return version

    def seen_on(self, key: str) -> int:
        """Return which version readers see on one day."""
        [(amount,)] = self.sql(f"SELECT amount FROM {{orders}} WHERE dt = '{key}'")
        return int(amount)

    @staticmethod
    def expected(version: int) -> Rows:
        return [(key, 10 * number, version if key in BOTH else 0) for number, key in enumerate(KEYS)]

    def staged(self) -> list[str]:
        """Return the names of what attempts left staged."""
        if self.schema:
            found = self.sql(f"SELECT tablename FROM pg_tables WHERE schemaname = '{self.schema}'")
        else:
            found = self.sql("SELECT name FROM sqlite_master")
        return [name for (name,) in found if name.startswith("_bf_") and name != "_bf_partitions"]

    def check(self) -> None:
        """Check that nothing is left of any fault, and that ledger and target are of one mind about every key."""
        with self.open() as orders:
            ledger, name = orders.ledger, orders.dataset.name
            assert not ledger.claims(name), "a claim is left"
            assert not ledger.intents(name), "an intent is left open"
            sides = orders.target.look(KEYS)
            rows = {row.key: row for row in ledger.rows(name)}
            for key in KEYS:
                assert (sides[key].token, sides[key].mark) == (rows[key].token, rows[key].mark), key
            assert orders.drift()["drift"] == {}
            tokens = [(line["key"], line["token"]) for line in orders.history() if line["what"] in ("publish", "adopt")]
            assert len(tokens) == len(set(tokens)), "a publication is in the history twice"
        assert not self.staged()

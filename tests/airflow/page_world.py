"""An Airflow with the page, and a past to look at: a shop with holes, a failure and seals, real ledgers and tables."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import sys
from contextlib import closing, contextmanager, suppress
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from airflow_native import Airflow, native_airflow
from airflow_stand import ROOT
from backfill_core import Backfill, DateRange, EventFolder, create_store, open_store
from backfill_core.claims import Caller
from backfill_core.dataset import Dataset, SqlTable
from backfill_core.errors import LimitError
from backfill_core.guarded import Guarded
from backfill_core.keys import keys_between
from backfill_core.ledger.opening import open_ledger
from gen_events import write_partition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from playwright.sync_api import BrowserContext

    from page_browser import Visitor

ADMIN, EDITOR, VIEWER = "admin", "editor", "viewer"
COUNTRIES, WHOLE, ODD = "shop.revenue", "shop.totals", "it's a/b"
SHOP, LIVELY, ARCHIVE, HOSTILE = "shop.orders_daily", "shop.payments", "archive.days", "<img src=x onerror=alert(1)>"
FIRST, LAST, HOLES, FAILED = "2024-01-15", "2024-06-30", ("2024-03-05", "2024-03-06"), "2024-04-10"
LAB = DateRange.parse("2026-02-01", "2026-02-14")
DAGS = ("backfill_range.py", "seal_range.py", "amend_partition.py")
SELECT = (
    "SELECT dt, count(*) AS orders, sum(amount) AS amount FROM {source} WHERE dt >= :start AND dt < :end GROUP BY dt"
)
SHOP_DAGS = f"""
from backfill_airflow.factory import dataset_dags
from backfill_core.dataset import Dataset, SqlTable


def daily(name, source, dag_id):
    table = SqlTable("SHOP", name.rpartition(".")[2], day="dt")
    dataset = Dataset(name, table, measures={{"orders": "sum(orders)", "amount": "sum(amount)"}})
    select = {SELECT!r}.format(source=source)
    dataset_dags(dataset, select=select, schedule=None, dag_id=dag_id, default_args={{"retries": 0}})


daily("shop.orders_daily", "orders", "shop")
daily("shop.payments", "paid", "shop.payments")
"""
OTHER_DAGS = """
from backfill_airflow.compat import DAG, task
from backfill_airflow.factory import dataset_dags
from backfill_core.dataset import Dataset, SqlTable

lost = Dataset("lost.days", SqlTable("SHOP", "lost", day="dt"), measures={"orders": "count(*)"})
dataset_dags(lost, select="select 1", schedule=None, dag_id="lost", conn_id="nowhere")

sold = {"amount": "sum(amount)"}
by_country = SqlTable("SHOP", "revenue", key="country", values=["PL", "DE", "it's a/b"])
revenue = Dataset("shop.revenue", by_country, grain="list", measures=sold)
dataset_dags(revenue, select="SELECT * FROM sales WHERE country = :key", schedule=None, default_args={"retries": 0})
totals = Dataset("shop.totals", SqlTable("SHOP", "totals"), grain="none", measures=sold)
dataset_dags(totals, select="SELECT * FROM sales", schedule=None, default_args={"retries": 0})

with DAG("plain", schedule=None):
    task(task_id="nothing")(lambda: None)()
"""


class World:
    """The Airflow, and the way in for each of its users."""

    def __init__(self, airflow: Airflow, home: Path, folder: Path) -> None:
        self.airflow = airflow
        self.address = airflow.address
        self.db = str(folder / "state.db")
        self.shop = str(folder / "shop.db")
        self.events = folder / "events"
        made = home / "simple_auth_manager_passwords.json.generated"
        self._passwords: dict[str, str] = json.loads(made.read_text())
        self._tokens: dict[str, str] = {}

    def token(self, user: str) -> str:
        """Log in, and return the token that Airflow's page keeps as a cookie."""
        if user not in self._tokens:
            body = {"username": user, "password": self._passwords[user]}
            self._tokens[user] = self.fetch("POST", "/auth/token", body)[1]["access_token"]
        return self._tokens[user]

    def visit(self, context: BrowserContext, user: str) -> Visitor:
        """Let a user in, with a browser."""
        from page_browser import Visitor

        return Visitor(context, self.address, self.token(user))

    def fetch(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Ask the server; return its status and its answer."""
        request = Request(  # noqa: S310  our own server
            self.address + path,
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json", **(headers or {})},
            method=method,
        )
        try:
            with urlopen(request, timeout=120) as answer:  # noqa: S310  likewise
                return answer.status, _read(answer.read())
        except HTTPError as refusal:
            return refusal.code, _read(refusal.read())

    def ask(self, user: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """Ask the page's API as a script does, with a token; what changes carries our header."""
        own = {"Authorization": f"Bearer {self.token(user)}", "X-Backfill": "script", **headers}
        return self.fetch("GET" if body is None else "POST", f"/backfill/{path}", body, own)

    @contextmanager
    def guarded(self, name: str = SHOP) -> Iterator[Guarded]:
        """Open a dataset beside Airflow."""
        with _guarded(self.db, self.shop, name) as guarded:
            yield guarded


def _read(text: bytes) -> Any:
    try:
        return json.loads(text or b"null")
    except ValueError:
        return text.decode()


@contextmanager
def page_world(folder: Path, *, tidy: bool = False) -> Iterator[World]:
    """Start it; end it with the block.

    tidy: without what only a test wants to see: a ledger that doesn't answer, and a thousand datasets.
    """
    dags = folder / "dags"
    dags.mkdir(parents=True)
    texts = {"shop_dags.py": SHOP_DAGS} if tidy else {"shop_dags.py": SHOP_DAGS, "other_dags.py": OTHER_DAGS}
    for name, text in texts.items():
        (dags / name).write_text(text.replace("SHOP", str(folder / "shop.db")))
    for name in DAGS:
        shutil.copy(ROOT / "dags" / name, dags / name)
    _make_lab(folder)
    _make_shop(folder)
    if not tidy:
        _make_others(folder)
    store = {"conn_type": "backfill", "host": str(folder / "state.db"), "schema": str(folder / "events")}
    environ = {
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{ADMIN}:admin,{EDITOR}:user,{VIEWER}:viewer",
        "AIRFLOW_CONN_BACKFILL_DEFAULT": json.dumps(store),
        "AIRFLOW_CONN_NOWHERE": json.dumps({"conn_type": "backfill", "host": "postgresql://127.0.0.1:1/nothing"}),
    }
    with native_airflow(folder / "home", Path(sys.executable).parent, environ, login=True) as airflow:
        count = len(DAGS) + 12 + (0 if tidy else 19)
        airflow.wait("the DAGs are known", lambda: airflow.rest("GET", "/dags")["total_entries"] == count)
        yield World(airflow, folder / "home", folder)


def _make_lab(folder: Path) -> None:
    (folder / "events").mkdir()
    for number, dt in enumerate(LAB):
        write_partition(str(folder / "events"), dt, 20 + number, 1)
    create_store(str(folder / "state.db"))
    with open_store(str(folder / "state.db")) as store:
        backfill = Backfill(store, EventFolder(str(folder / "events")))
        backfill.run(DateRange.parse("2026-02-01", "2026-02-10"), "daily")
        backfill.seal(DateRange.parse("2026-02-01", "2026-02-02"))


def _make_shop(folder: Path) -> None:
    db, shop = str(folder / "state.db"), str(folder / "shop.db")
    with closing(sqlite3.connect(shop)) as base, base:
        base.execute("PRAGMA journal_mode = WAL")
        for source, table in (("orders", "orders_daily"), ("paid", "payments")):
            base.execute(f"CREATE TABLE {source} (dt TEXT NOT NULL, amount INTEGER NOT NULL)")
            base.execute(f"CREATE TABLE {table} (dt TEXT NOT NULL, orders INTEGER NOT NULL, amount INTEGER NOT NULL)")
        sell(base, "orders", {key: 200 + place % 17 for place, key in enumerate(keys_between(FIRST, LAST))})
        base.execute("CREATE TABLE emptied (dt TEXT NOT NULL, amount INTEGER NOT NULL)")
        _pay(base)
    me = Caller("shop/scheduled__2024-07-01T00:00:00+00:00")
    with _guarded(db, shop, SHOP) as orders:
        orders.write([key for key in keys_between(FIRST, LAST) if key not in HOLES], fill("orders"), me)
        with suppress(LimitError):
            orders.write([FAILED], fill("emptied"), me, "an empty source")
    _live(db, shop)


def _make_others(folder: Path) -> None:
    _sell_abroad(str(folder / "state.db"), str(folder / "shop.db"))
    with open_ledger(str(folder / "state.db")) as ledger:
        _fill(ledger, ARCHIVE, keys_between("1934-11-03", "2026-12-31"))
        _fill(ledger, HOSTILE, ["2024-01-01"])
        for number in range(997):
            ledger.define(f"shop.table_{number:04d}", {"key": {}, "timezone": "UTC", "grain": "day"}, {})


def _sell_abroad(db: str, shop: str) -> None:
    """Make two tables without days: one by country, of which a country was never written, and one that is whole."""
    with closing(sqlite3.connect(shop)) as base, base:
        for table in ("sales", "revenue", "totals"):
            base.execute(f"CREATE TABLE {table} (country TEXT NOT NULL, amount INTEGER NOT NULL)")
        base.executemany("INSERT INTO sales VALUES (?, ?)", [("PL", 5), (ODD, 7), ("DE", 9)])
    measures = {"amount": "sum(amount)"}
    by_country = SqlTable(shop, "revenue", key="country", values=["PL", "DE", ODD])
    revenue = Dataset(COUNTRIES, by_country, grain="list", measures=measures)
    totals = Dataset(WHOLE, SqlTable(shop, "totals"), grain="none", measures=measures)
    with open_ledger(db) as ledger, closing(revenue.target()) as target, closing(totals.target()) as other:
        guarded = Guarded(revenue, ledger, target)
        select = "SELECT * FROM sales WHERE country = :key"
        guarded.write(["PL", ODD], lambda partition: partition.fill(select), Caller("shop.revenue/first"))
        guarded.seal(["PL"], Caller("", person="anna"), "sent")
        Guarded(totals, ledger, other)


def sell(base: sqlite3.Connection, source: str, orders: Mapping[str, int]) -> None:
    """Put orders of 45 each into a source: so many of each day."""
    rows = [(key, 45) for key, number in orders.items() for _ in range(number)]
    base.executemany(f"INSERT INTO {source} VALUES (?, ?)", rows)


def fill(source: str) -> Any:
    """Return what puts the orders of a source into a dataset, as its DAGs do."""
    return lambda partition: partition.fill(SELECT.format(source=source))


@contextmanager
def _guarded(db: str, shop: str, name: str) -> Iterator[Guarded]:
    table = SqlTable(shop, name.rpartition(".")[2], day="dt")
    dataset = Dataset(name, table, measures={"orders": "sum(orders)", "amount": "sum(amount)"})
    with open_ledger(db) as ledger, closing(dataset.target()) as target:
        yield Guarded(dataset, ledger, target)


def _pay(base: sqlite3.Connection) -> None:
    """Let a shop live for three years: a week's rhythm, and a slow walk."""
    chance, level = random.Random(4), 18.0
    for key in keys_between("2024-01-15", "2026-11-30"):
        level += chance.uniform(-0.3, 0.32)
        weekend = date.fromisoformat(key).weekday() > 4
        sell(base, "paid", {key: max(1, int(level * (0.7 if weekend else 1) + chance.uniform(-1, 1)))})


def _live(db: str, shop: str) -> None:
    """Give three years of payments a past: a hole, failures, drift, seals, corrections, late rows, a reservation."""
    chance, keys = random.Random(4), keys_between("2024-01-15", "2026-11-30")
    run = Caller("shop.payments/scheduled__2026-12-01T00:00:00+00:00")
    sealed = [key for key in keys if key < "2026-10-01"]
    holes = {*keys_between("2025-06-09", "2025-06-20"), *chance.sample(keys, 3)}
    late, drifted = chance.sample(sealed, 2), ["2026-10-06", "2026-11-24"]
    with _guarded(db, shop, LIVELY) as payments, closing(sqlite3.connect(shop)) as base:
        payments.write([key for key in keys if key not in holes], fill("paid"), run)
        payments.seal([key for key in sealed if key not in holes], Caller("", person="anna"), "sent to the board")
        for key in chance.sample(sorted({*sealed} - holes - {*late}), 9):
            with base:
                sell(base, "paid", {key: 3})
            payments.amend(key, fill("paid"), Caller("", person="anna"), "3 payments came late")
        with base:
            sell(base, "paid", {key: 1 for key in late if key not in holes})
            base.executemany("UPDATE payments SET amount = amount + 1 WHERE dt = ?", [(key,) for key in drifted])
        payments.late(fill("paid"), max(sealed[0], min(late)), max(late))
        payments.drift(drifted)
        for key in ("2026-10-20", "2026-11-03"):
            with suppress(LimitError):
                payments.write([key], fill("emptied"), run)
        mended = keys_between("2026-11-14", "2026-11-20")
        payments.claim(mended, Caller("", person="anna"), "the source is being mended")


def _fill(ledger: Any, name: str, keys: Sequence[str]) -> None:
    """Enter partitions in bulk, as if they were published; no table is behind them."""
    ledger.define(name, {"key": {}, "timezone": "UTC", "grain": "day"}, {})
    with ledger._database.changing() as execute:
        execute(
            "INSERT INTO ledger_keys (dataset, key, number, token, measured, version, published_at, confirmed_at,"
            ' owner, run, reason, seal, seals) SELECT :name, key, 1, key, \'[1, {"orders": "1"}, null]\', 1, :at,'
            " :at, 'shop', 'shop/scheduled__1', '', 0, 0 FROM json_each(:keys)",
            {"name": name, "keys": json.dumps(dict.fromkeys(keys)), "at": "2024-07-01T03:12:07.000000+00:00"},
        )
        execute(
            "UPDATE ledger_counts SET keys = :count, published = :count, newest = :newest WHERE dataset = :name",
            {"name": name, "count": len(keys), "newest": keys[-1]},
        )


def after(key: str, days: int) -> str:
    """Return the day so many days after another."""
    return (date.fromisoformat(key) + timedelta(days=days)).isoformat()

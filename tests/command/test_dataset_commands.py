"""The command `backfill` on a dataset, as a person types it: a process, its lines or JSON, its exit code."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MODULE = """
from backfill_core.dataset import Dataset, SqlTable

orders_daily = Dataset(
    "shop.orders_daily",
    SqlTable("shop.db", "orders_daily", day="dt"),
    measures={"orders": "count(*)", "amount": "sum(amount)"},
    unique=["order_id"],
    digest="always",
)
"""
SELECT = "select * from orders where dt >= :start and dt < :end"


class Shop:
    """A folder with a table, its source, and a module that defines the dataset; the ledger is in `db`."""

    def __init__(self, folder: Path, db: str = "state.db") -> None:
        self.folder = folder
        self.db = db
        (folder / "shop.py").write_text(MODULE)
        (folder / "orders.sql").write_text(SELECT)
        self.sql("PRAGMA journal_mode = WAL")
        self.sql("CREATE TABLE orders (order_id TEXT, dt TEXT, amount INTEGER)")
        self.sql("CREATE TABLE orders_daily (order_id TEXT, dt TEXT NOT NULL, amount INTEGER)")
        self.sql("CREATE INDEX by_day ON orders_daily (dt)")
        self.sql("INSERT INTO orders VALUES ('a', '2026-02-01', 5), ('b', '2026-02-01', 7), ('c', '2026-02-02', 9)")

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / "shop.db", isolation_level=None)) as connection:
            return connection.execute(statement).fetchall()

    def rows(self) -> list[tuple[Any, ...]]:
        return self.sql("SELECT order_id, dt, amount FROM orders_daily ORDER BY 1")

    def environ(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT), "BACKFILL_DB": self.db, "BACKFILL_DATASETS": "shop.py"}

    def command(self, *words: str, dataset: str = "shop.orders_daily") -> list[str]:
        return [sys.executable, "-m", "backfill_core", *words, *(("--dataset", dataset) if dataset else ())]

    def type(self, *words: str, dataset: str = "shop.orders_daily") -> subprocess.CompletedProcess[str]:
        """Type a command in the folder; nobody is there to be asked."""
        return subprocess.run(
            self.command(*words, dataset=dataset),
            cwd=self.folder,
            env=self.environ(),
            input="",
            capture_output=True,
            text=True,
            check=False,
        )

    def init(self) -> None:
        assert self.type("init", dataset="").returncode == 0

    def answer(self, *words: str, code: int = 0) -> Any:
        """Type a command for a script, and read its JSON."""
        called = self.type(*words, "--json", "--yes")
        assert called.returncode == code, called.stdout + called.stderr
        return json.loads(called.stdout)

    def run(self, first: str, last: str, owner: str = "anna", *more: str, code: int = 0) -> Any:
        return self.answer("run", first, last, owner, "--select", "orders.sql", *more, code=code)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    shop.init()
    return shop


def test_a_run_replaces_each_partition_and_again_changes_nothing(shop: Shop) -> None:
    first = shop.run("2026-02-01", "2026-02-02")
    again = shop.run("2026-02-01", "2026-02-02")

    assert [(one["key"], one["after"]["amount"]) for one in first["done"]] == [
        ("2026-02-01", "12"),
        ("2026-02-02", "9"),
    ]
    assert (again["done"], again["quiet"]) == ([], ["2026-02-01", "2026-02-02"])
    assert shop.rows() == [("a", "2026-02-01", 5), ("b", "2026-02-01", 7), ("c", "2026-02-02", 9)]


def test_a_plan_says_what_a_run_would_do_and_writes_nothing(shop: Shop) -> None:
    with_select = shop.answer("plan", "2026-02-01", "2026-02-03", "anna", "--select", SELECT, code=1)
    without = shop.answer("plan", "2026-02-01", "2026-02-01", "anna")

    assert [one["action"] for one in with_select["partitions"]] == ["change", "change", "refused"]
    assert [one["action"] for one in without["partitions"]] == ["not known"]
    assert shop.rows() == []


def test_a_result_that_is_empty_fails_its_partition_alone_unless_it_is_allowed(shop: Shop) -> None:
    refused = shop.run("2026-02-02", "2026-02-03", code=1)
    allowed = shop.run("2026-02-03", "2026-02-03", "anna", "--allow-empty")

    assert [one["key"] for one in refused["done"]] == ["2026-02-02"]
    assert [key for key, _ in refused["failed"]] == ["2026-02-03"]
    assert [one["key"] for one in allowed["done"]] == ["2026-02-03"]


def test_a_sealed_partition_stays_and_what_comes_late_is_a_correction(shop: Shop) -> None:
    shop.run("2026-02-01", "2026-02-02")
    shop.answer("seal", "2026-02-01", "2026-02-01", "--reason", "sent")
    shop.sql("INSERT INTO orders VALUES ('late', '2026-02-01', 100)")

    run = shop.run("2026-02-01", "2026-02-01", code=5)
    late = shop.answer("late", "--select", SELECT)
    shop.answer("amend", "2026-02-01", "one order came late", "--select", SELECT)
    [line, _] = shop.answer("statement", "2026-02-01", "2026-02-28")["partitions"]
    *_, sealed, amended = shop.answer("history", "2026-02-01", "2026-02-01")["history"]

    assert (sealed["what"], amended["what"], amended["reason"]) == ("seal", "amend", "one order came late")
    assert (amended["before"]["amount"], amended["after"]["amount"]) == ("12", "112")
    assert amended["owner"] == sealed["owner"]
    assert "one order came late" in shop.type("history").stdout
    assert run["skipped"] == [["2026-02-01", "sealed"]]
    assert [one["key"] for one in late["late"]] == ["2026-02-01"]
    assert (line["published"]["amount"], line["corrected"]["amount"]) == ("12", "112")
    assert line["reason"] == "one order came late"
    assert ("late", "2026-02-01", 100) not in shop.rows()


def test_unsealing_needs_a_reason_and_lets_a_run_in_again(shop: Shop) -> None:
    shop.run("2026-02-01", "2026-02-01")
    shop.answer("seal", "2026-02-01", "2026-02-01")
    shop.sql("INSERT INTO orders VALUES ('late', '2026-02-01', 1)")

    without = shop.type("unseal", "2026-02-01", "2026-02-01", " ", "--yes")
    shop.answer("unseal", "2026-02-01", "2026-02-01", "it was sent by mistake")
    run = shop.run("2026-02-01", "2026-02-01")

    assert (without.returncode, "the reason is empty" in without.stderr) == (2, True)
    assert [one["after"]["orders"] for one in run["done"]] == ["3"]


def test_a_claim_keeps_others_out_until_it_is_given_back_by_its_id(shop: Shop) -> None:
    claim = shop.answer("claim", "2026-02-01", "2026-02-02", "anna")
    denied = shop.answer("claim", "2026-02-02", "2026-02-03", "bob", code=4)
    kept_out = shop.run("2026-02-01", "2026-02-01", "bob", code=5)
    hers = shop.run("2026-02-01", "2026-02-01", "anna")
    shop.answer("release", "2026-02-01", "2026-02-02", "anna", "--claim", claim["claim"])

    assert (denied["claimed"], denied["denied"]) == (["2026-02-03"], [["2026-02-02", "anna"]])
    assert kept_out["skipped"] == [["2026-02-01", "claimed_by:anna"]]
    assert [one["key"] for one in hers["done"]] == ["2026-02-01"]
    assert shop.run("2026-02-02", "2026-02-02", "bob")["done"]


def test_what_was_written_past_us_refuses_is_found_and_is_overwritten_in_so_many_words(shop: Shop) -> None:
    shop.run("2026-02-02", "2026-02-02")
    shop.sql("INSERT INTO orders_daily VALUES ('stranger', '2026-02-02', 1)")

    drift = shop.answer("drift", code=1)
    refused = shop.run("2026-02-02", "2026-02-02", code=1)
    healed = shop.run("2026-02-02", "2026-02-02", "anna", "--overwrite")

    assert list(drift["drift"]) == ["2026-02-02"]
    assert "somebody wrote past us" in refused["failed"][0][1]
    assert [one["key"] for one in healed["done"]] == ["2026-02-02"]
    assert shop.answer("drift")["drift"] == {}


def test_a_table_that_is_there_is_adopted_before_it_is_written(shop: Shop) -> None:
    shop.sql("INSERT INTO orders_daily SELECT * FROM orders")

    refused = shop.run("2026-02-01", "2026-02-01", code=1)
    adopted = shop.answer("adopt", "2026-02-01", "2026-02-02", "the old job's")
    run = shop.run("2026-02-01", "2026-02-02")
    history = shop.answer("history")["history"]

    assert "adopt" in refused["failed"][0][1]
    assert [one["key"] for one in adopted["published"]] == ["2026-02-01", "2026-02-02"]
    assert run["quiet"] == ["2026-02-01", "2026-02-02"]
    assert [(line["key"], line["what"]) for line in history if line["what"] != "refused"] == [
        ("2026-02-01", "adopt"),
        ("2026-02-02", "adopt"),
    ]


def test_a_lost_ledger_stops_every_write_until_each_key_was_looked_at(shop: Shop) -> None:
    shop.run("2026-02-01", "2026-02-01")
    for file in shop.folder.glob("state.db*"):
        file.unlink()
    shop.sql("INSERT INTO orders VALUES ('d', '2026-02-01', 1)")

    without = shop.type("status")
    shop.init()
    stopped = shop.run("2026-02-01", "2026-02-01", code=1)

    assert (without.returncode, "make one with `init`" in without.stderr) == (3, True)
    assert "another ledger" in stopped["failed"][0][1]
    assert len(shop.rows()) == 2


def test_the_status_and_the_history_are_lines_that_a_person_reads(shop: Shop) -> None:
    shop.run("2026-02-01", "2026-02-01")
    shop.answer("seal", "2026-02-01", "2026-02-01", "--reason", "sent to the board")

    status, history = shop.type("status"), shop.type("history")

    assert status.stdout.splitlines()[-1].startswith("2026-02-01  rows 2, orders 2, amount 12")
    assert "sealed" in status.stdout.splitlines()[-1]
    assert [word in history.stdout for word in ("published", "sealed", "sent to the board")] == [True] * 3


def test_a_statement_tells_what_readers_saw_at_a_moment(shop: Shop) -> None:
    shop.run("2026-02-01", "2026-02-01")
    [moment] = [one["published_at"] for one in shop.answer("status")["partitions"]]
    shop.sql("INSERT INTO orders VALUES ('d', '2026-02-01', 1)")
    shop.run("2026-02-01", "2026-02-01")

    [then] = shop.answer("statement", "2026-02-01", "2026-02-01", "--as-of", moment)["partitions"]
    [now] = shop.answer("statement", "2026-02-01", "2026-02-01")["partitions"]

    assert (then["published"]["orders"], now["published"]["orders"]) == ("2", "3")


def test_what_writes_says_what_it_is_about_to_do_and_asks(shop: Shop) -> None:
    called = shop.type("run", "2026-02-01", "2026-02-02", "anna", "--select", SELECT)

    assert called.returncode == 2
    assert "About to replace 2026-02-01 to 2026-02-02 of shop.orders_daily, 2 partitions, as anna." in called.stderr
    assert "in a script say --yes" in called.stderr
    assert shop.rows() == []


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("amend", "2026-02-01", "why", "--select", SELECT), 6, "2026-02-01 is not sealed"),
        (("run", "2026-02-01", "2026-02-01", "anna"), 2, "name a query with --select"),
        (("run", "2026-02-02", "2026-02-01", "anna", "--select", SELECT), 2, "ends before it starts"),
        (("run", "2026-02-01", "2026-02-01", "anna", "--select", "no.sql"), 2, "no.sql can't be read"),
        (("run", "2026-02-01", "2026-02-01", " ", "--select", SELECT), 2, "the owner is empty"),
        (("rollup",), 2, "rollup is not for datasets"),
        (("status", "2026-02-01"), 2, "a range has a START and an END"),
    ],
)
def test_a_wrong_call_gets_one_sentence(shop: Shop, words: tuple[str, ...], code: int, sentence: str) -> None:
    called = shop.type(*words, "--yes")

    assert (called.returncode, "Traceback" in called.stderr) == (code, False)
    assert sentence in called.stderr


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        ("1 / 0", "shop.py can't be imported: ZeroDivisionError"),
        ("orders = 1", "shop.py has no dataset 'shop.orders_daily'; it has none"),
        (
            "from backfill_core.dataset import *\nDataset(name='x', table=None, measures={}, digest='often')",
            "digest is 'often'",
        ),
    ],
)
def test_a_module_that_cant_be_used_gets_one_sentence(shop: Shop, module: str, sentence: str) -> None:
    (shop.folder / "shop.py").write_text(module)

    called = shop.type("status")

    assert (called.returncode, "Traceback" in called.stderr) == (2, False)
    assert sentence in called.stderr


def test_what_is_only_for_datasets_says_so_without_one(shop: Shop) -> None:
    called = subprocess.run(
        [sys.executable, "-m", "backfill_core", "history"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert called.returncode == 2
    assert "history is for datasets; name one with --dataset" in called.stderr

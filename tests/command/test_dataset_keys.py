"""The command `backfill` on datasets without days: their partitions are named by `--key`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.command.test_dataset_commands import Shop as DailyShop

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

MODULE = """
from backfill_core.dataset import Dataset, SqlTable

by_country = Dataset(
    "shop.by_country",
    SqlTable("shop.db", "by_country", key="country", values=["PL", "it's a/b", "DE"]),
    grain="list",
    measures={"orders": "count(*)"},
    digest="always",
)
whole = Dataset("shop.whole", SqlTable("shop.db", "whole"), grain="none", measures={"orders": "count(*)"})
daily = Dataset("shop.orders_daily", SqlTable("shop.db", "orders_daily", day="dt"), measures={"orders": "count(*)"})
"""
LISTED, WHOLE, DAILY = "shop.by_country", "shop.whole", "shop.orders_daily"
BY_KEY = "select * from source where country = :key"


class Shop(DailyShop):
    """The same folder, with a table by country and one that is whole."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "shop.py").write_text(MODULE)
        for table in ("by_country", "whole", "source"):
            self.sql(f"CREATE TABLE {table} (order_id TEXT, country TEXT)")
        self.sql("INSERT INTO source VALUES ('a', 'PL'), ('b', 'it''s a/b'), ('c', 'it''s a/b')")
        self.init()

    def of(self, dataset: str, *words: str) -> subprocess.CompletedProcess[str]:
        return self.type(*words, "--yes", dataset=dataset)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_keys_of_a_list_are_run_sealed_and_shown(shop: Shop) -> None:
    run = shop.of(LISTED, "run", "anna", "--key", "PL", "it's a/b", "--select", BY_KEY)
    seal = shop.of(LISTED, "seal", "--key", "it's a/b", "--reason", "sent")
    again = shop.of(LISTED, "run", "anna", "--key=it's a/b", "--select", BY_KEY)
    status = shop.of(LISTED, "status").stdout
    some = shop.of(LISTED, "status", "--key", "PL").stdout
    history = shop.of(LISTED, "history", "--key", "PL").stdout

    assert (run.returncode, seal.returncode, again.returncode) == (0, 0, 5)
    assert "About to replace PL, it's a/b of shop.by_country, 2 partitions, as anna." in run.stderr
    marked = [line.split("  ")[0] for line in status.splitlines() if line[:2] in (". ", "o ", "# ")]
    assert marked == [". missing", "o published", "# sealed", ". 1 missing"]
    assert "it's a/b" not in some + history
    assert "published  by anna" in history


def test_a_correction_and_what_is_late_are_of_keys(shop: Shop) -> None:
    shop.of(LISTED, "run", "anna", "--key", "PL", "--select", BY_KEY)
    shop.of(LISTED, "seal", "--key", "PL")
    shop.sql("INSERT INTO source VALUES ('d', 'PL')")

    late = shop.of(LISTED, "late", "--select", BY_KEY)
    amended = shop.of(LISTED, "amend", "one came late", "--key", "PL", "--select", BY_KEY)
    several = shop.of(LISTED, "amend", "why", "--key", "PL", "DE", "--select", BY_KEY)
    statement = shop.of(LISTED, "statement", "--key", "PL").stdout

    assert "1 of 1 sealed partitions are late" in late.stdout
    assert (amended.returncode, amended.stdout.strip()) == (0, "PL rows 1 -> 2, orders 1 -> 2")
    assert (several.returncode, "2 were named" in several.stderr) == (2, True)
    assert "one came late" in statement


def test_a_whole_table_is_run_and_shown(shop: Shop) -> None:
    run = shop.of(WHOLE, "run", "anna", "--key", "all", "--select", "select * from source")
    status = shop.of(WHOLE, "status").stdout
    empty = shop.of(WHOLE, "run", "anna", "--key", "all", "--select", "select * from source where false")
    drift = shop.of(WHOLE, "drift")

    assert (run.returncode, empty.returncode, drift.returncode) == (0, 1, 0)
    assert "o published  all" in status
    assert "the result is empty, and 3 rows are published" in empty.stdout
    assert shop.sql("SELECT count(*) FROM whole") == [(3,)]


def test_before_anything_was_published_the_whole_list_is_missing(shop: Shop) -> None:
    assert ". 3 missing" in shop.of(LISTED, "status").stdout
    assert ". 1 missing" in shop.of(WHOLE, "status").stdout


def test_days_may_be_named_by_key_too(shop: Shop) -> None:
    select = "select * from orders where dt = :key"
    run = shop.of(DAILY, "run", "anna", "--key", "2026-02-01", "2026-02-02", "--select", select)

    assert run.returncode == 0
    assert len(shop.rows()) == 3


@pytest.mark.parametrize(
    ("dataset", "words", "sentence"),
    [
        (LISTED, ("seal", "2026-02-01", "2026-02-02"), "are no days; name them with --key"),
        (WHOLE, ("status", "2026-02-01", "2026-02-02"), "are no days; name them with --key"),
        (LISTED, ("seal", "--key", "XX"), "there is no key 'XX': the list of country has PL, it's a/b, DE"),
        (WHOLE, ("seal", "--key", "PL"), "there is no key 'PL': the whole table is one partition, 'all'"),
        (DAILY, ("seal", "--key", "PL"), "not a date: 'PL'"),
        (WHOLE, ("run", "a", "--key", "all", "--select", "select * from source where :start < 1"), "leave them out"),
        ("", ("claim", "me", "--key", "PL"), "--key is for datasets"),
        (LISTED, ("run", "--key", "PL"), "the following arguments are required: OWNER"),
    ],
)
def test_a_wrong_call_gets_one_sentence(shop: Shop, dataset: str, words: tuple[str, ...], sentence: str) -> None:
    called = shop.of(dataset, *words)

    assert sentence in called.stderr + called.stdout
    assert called.returncode in (1, 2)
    assert "Traceback" not in called.stderr

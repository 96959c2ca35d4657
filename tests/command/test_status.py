"""`backfill status` and `backfill history`, as a person reads them: over real stores, piped and on a terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from tests.command.terminal import Terminal
from tests.command.test_dataset_commands import ROOT, SELECT, Shop

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STARTS = """
    INSERT INTO orders WITH RECURSIVE day(dt) AS (
        SELECT '2025-11-15' UNION ALL SELECT date(dt, '+1 day') FROM day WHERE dt < '2026-02-28'
    ) SELECT 'of ' || dt, dt, 10 FROM day WHERE dt <> '2026-02-03'
"""
FAKE = "prices\n2026-12-24 12:00:00 UTC  2026-02-01  unsealed   by root\x1b[2K\u202e"


def live(shop: Shop) -> Shop:
    """Let something of everything happen to a shop, from November to March."""
    shop.sql("DELETE FROM orders")
    shop.sql(STARTS)
    shop.run("2025-11-15", "2026-01-10", "anna", "--reason", "first load")
    shop.run("2026-01-13", "2026-02-28", "anna", code=1)  # the third of February has no orders
    shop.answer("seal", "2025-11-15", "2025-12-31", "--reason", "sent to the board", "--owner", "anna")
    shop.sql("INSERT INTO orders VALUES ('late', '2025-12-24', 5)")
    shop.answer("amend", "2025-12-24", "one order came late", "--select", SELECT, "--owner", "bob")
    shop.answer("claim", "2026-03-01", "2026-03-05", "bob")
    shop.sql("INSERT INTO orders_daily VALUES ('stranger', '2026-02-17', 1)")
    shop.answer("drift", code=1)
    return shop


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    db = "state.db" if request.param == "sqlite" else request.getfixturevalue("postgres").new_store()
    made = Shop(tmp_path_factory.mktemp("shop"), db)
    made.init()
    return live(made)


def on_terminal(shop: Shop, *words: str, columns: int = 80, environ: Mapping[str, str] = MappingProxyType({})) -> str:
    """Type a command on a terminal with colours; return all that it shows."""
    terminal = Terminal(columns)
    given = {**shop.environ(), "TERM": "xterm-256color", **environ}
    given = {name: value for name, value in given.items() if name in environ or name != "NO_COLOR"}
    process = terminal.start(shop.command(*words), shop.folder, given, output=True, errors=True)
    shown = terminal.all()
    assert process.wait() == 0, shown
    return shown


def without_colours(text: str) -> str:
    return re.sub(r"\033\[[0-9;]*m", "", text)


def test_a_status_says_first_what_needs_a_person_then_draws_the_days_and_counts_them(shop: Shop) -> None:
    lines = shop.type("status").stdout.splitlines()

    assert lines[0] == "shop.orders_daily"
    assert [line.split()[1:4] for line in lines[3:8]] == [
        ["drifted", "2026-02-17", "1"],
        ["failed", "2026-02-03", "1"],
        ["held", "2026-03-01", "to"],
        ["missing", "2026-01-11", "to"],
        [],
    ]
    assert "1 rows were published, 2 are there" in lines[3]
    assert lines[4].endswith("the result is empty")
    assert lines[5].split()[5:] == ["5", "bob"]
    assert lines[8:15] == [
        "     2025       11         21            2026       11         21",
        "Jan                                      oooooooooo ..oooooooo ooooooooooo",
        "Feb                                      ooXooooooo oooooo!ooo oooooooo",
        "Mar                                      =====",
        "Nov                 ###### ##########",
        "Dec  ########## ########## ###*#######",
        "",
    ]
    assert lines[15:17] == [
        ". 2 missing   o 55 published   # 46 sealed   * 1 corrected   = 5 held",
        "X 1 failed   ! 1 drifted",
    ]


def test_a_status_says_what_was_published_last_and_how_old_what_it_says_of_drift_is(shop: Shop) -> None:
    *_, last, compared = shop.type("status").stdout.splitlines()

    assert re.fullmatch(r"last published: 2026-02-28, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, by anna", last)
    assert re.match(r"compared with the table: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC or later", compared)


def test_a_short_range_is_told_day_by_day_too_and_a_long_one_where_that_is_asked_for(shop: Shop) -> None:
    short = shop.type("status", "2026-02-01", "2026-02-28").stdout.splitlines()
    long = shop.type("status").stdout.splitlines()
    listed = shop.type("status", "--list").stdout.splitlines()

    assert short[-1].startswith("2026-02-28  rows 1, orders 1, amount 10")
    assert [line for line in long if line.startswith("2026-02-28")] == []
    assert len([line for line in listed if re.match(r"\d{4}-\d\d-\d\d  ", line)]) >= 106


def test_a_status_in_json_is_what_it_was(shop: Shop) -> None:
    [row] = shop.answer("status", "2025-12-24", "2025-12-24")["partitions"]

    assert set(row) == {
        "key", "figures", "published_at", "owner", "run", "reason", "sealed", "seals", "corrections", "claimed_by",
        "open", "failure", "failed_at", "checked_at", "drift",
    }  # fmt: skip
    assert (row["sealed"], row["corrections"], row["figures"]["amount"]) == (True, 1, "10")


def test_nothing_asks_the_table(shop: Shop) -> None:
    (shop.folder / "shop.db").rename(shop.folder / "gone.db")
    try:
        status, history = shop.type("status"), shop.type("history")
        asked = shop.type("drift")
    finally:
        for file in shop.folder.glob("shop.db*"):  # who asks makes an empty one
            file.unlink()
        (shop.folder / "gone.db").rename(shop.folder / "shop.db")

    assert (status.returncode, history.returncode, asked.returncode) == (0, 0, 1)
    assert "o 55 published" in status.stdout


def test_colours_are_for_a_terminal_and_say_the_same(shop: Shop) -> None:
    shown = on_terminal(shop, "status")

    assert "\033[36m##########\033[0m" in shown
    assert "\033[1;31m!\033[0m" in shown
    assert without_colours(shown) == shop.type("status").stdout


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_there_are_no_colours_where_they_are_not_wanted_or_not_known(shop: Shop, name: str, value: str) -> None:
    assert on_terminal(shop, "status", environ={name: value}) == shop.type("status").stdout


def test_a_narrow_terminal_has_one_year_after_the_other(shop: Shop) -> None:
    lines = without_colours(on_terminal(shop, "status", columns=60)).splitlines()

    assert lines[8:12] == [
        "     2025       11         21",
        "Nov                 ###### ##########",
        "Dec  ########## ########## ###*#######",
        "",
    ]
    assert ". 2 missing   o 55 published   # 46 sealed   * 1 corrected" in lines


def test_a_terminal_that_is_not_of_utf_8_gets_ascii(shop: Shop) -> None:
    shop.answer("claim", "2026-03-06", "2026-03-06", "Zoë 주문")
    try:
        shown = on_terminal(shop, "status", environ={"PYTHONIOENCODING": "ascii"})
    finally:
        shop.answer("release", "2026-03-06", "2026-03-06", "Zoë 주문")

    assert r"Zo\xeb \uc8fc\ubb38" in shown
    assert shown.isascii()


def test_a_history_is_a_log_with_the_newest_last(shop: Shop) -> None:
    log = shop.type("history").stdout.splitlines()

    pattern = r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC)  (\d{4}-\d\d-\d\d)  (\w+) +by (\w+)(, run \S+)?: .+"
    parts: list[Any] = [re.fullmatch(pattern, line) for line in log]
    assert all(parts)
    times = [part[1] for part in parts]
    assert times == sorted(times)
    done = [part[3] for part in parts]
    assert {word: done.count(word) for word in done} == {"published": 103, "refused": 1, "sealed": 47, "corrected": 1}
    assert done[-1] == "corrected"


def test_a_line_of_the_log_says_who_in_which_run_from_what_to_what_and_why(shop: Shop) -> None:
    published, sealed, corrected = shop.type("history", "2025-12-24", "2025-12-24").stdout.splitlines()
    [refused] = shop.type("history", "2026-02-03", "2026-02-03").stdout.splitlines()

    def told(line: str) -> str:
        return re.sub(r"#[0-9a-f]{8}", "#1", line.split("2025-12-24  ")[-1])

    assert told(published) == (
        'published  by anna, run anna#1: rows 0 -> 1, orders 0 -> 1, amount - -> 10; reason "first load"'
    )
    assert told(sealed) == 'sealed     by anna, run anna#1: rows 1, orders 1, amount 10; reason "sent to the board"'
    assert told(corrected) == (
        'corrected  by bob, run bob#1: rows 1 -> 2, orders 1 -> 2, amount 10 -> 15; reason "one order came late"'
    )
    assert re.search(r"refused    by anna, run anna#\w+: the result is empty$", refused)


def test_what_people_wrote_can_neither_break_a_line_of_the_log_nor_fake_one(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.init()
    shop.run("2026-02-01", "2026-02-01", "an\nna", "--reason", FAKE)
    shop.run("2026-02-03", "2026-02-03", "anna", "--reason", 'it said "no"; reason "\\', code=1)

    [published, refused] = shop.type("history").stdout.splitlines()

    assert r"by an\nna, run an\nna#" in published
    assert r'; reason "prices\n2026-12-24 12:00:00 UTC  2026-02-01  unsealed   by root\x1b[2K\u202e"' in published
    assert refused.endswith(r'; reason "it said \"no\"; reason \"\\"')


def test_the_runners_table_is_drawn_by_what_its_five_tables_know(tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    for day in (1, 2, 3, 5):
        (events / f"dt=2026-02-0{day}.jsonl").write_text(
            f'{{"order_id": "{day}", "dt": "2026-02-0{day}", "amount": 5, "status": "paid"}}\n'
        )
    environ = {**os.environ, "BACKFILL_DB": str(tmp_path / "state.db"), "BACKFILL_EVENTS": str(events)}

    def said(*words: str) -> list[str]:
        called = subprocess.run(
            [sys.executable, "-m", "backfill_core", *words],
            cwd=ROOT, env=environ, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert called.returncode in (0, 1), called.stderr
        return called.stdout.splitlines()

    said("init")
    empty = said("status")
    said("run", "2026-02-01", "2026-02-05", "anna")
    said("seal", "2026-02-01", "2026-02-02")
    said("amend", "2026-02-02", "looked again")
    said("claim", "2026-02-06", "2026-02-06", "bob")
    drawn = said("status")
    (events / "dt=2026-02-03.jsonl").write_text("")
    (events / "dt=2026-02-05.jsonl").write_text("nonsense\n")
    compared = said("status", "--compare")

    assert empty[2] == "nothing was published yet"
    assert next(line for line in drawn if line.startswith("Feb")) == "Feb  #*o.o="
    assert ". 1 missing   o 2 published   # 1 sealed   * 1 corrected   = 1 held" in drawn
    assert next(line for line in compared if line.startswith("Feb")) == "Feb  #*>.X="
    assert [line.split()[1:3] for line in compared[3:5]] == [["failed", "2026-02-05"], ["late", "2026-02-03"]]
    assert "dt=2026-02-05.jsonl:1:" in compared[3]

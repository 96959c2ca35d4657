"""Long work shows how far it has come: on a terminal alone, with an estimate, and nothing of it stays."""

from __future__ import annotations

import io
import re
import signal
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from backfill_core.ledger import OPEN, PUBLISH, Intent
from backfill_core.ledger.opening import open_ledger
from backfill_core.progress import CLEAR, Bar, pieces
from tests.command.terminal import Terminal
from tests.command.test_dataset_commands import SELECT, Shop

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from backfill_core.ledger.page import Page

FIRST, LAST, DAYS = "2026-01-01", "2026-03-31", 90
ALL = (FIRST, LAST)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A shop with an order on each of ninety days, in the table already."""
    shop = Shop(tmp_path)
    shop.init()
    shop.sql("DELETE FROM orders")
    shop.sql(
        f"INSERT INTO orders WITH RECURSIVE day(dt) AS (SELECT '{FIRST}' UNION ALL"
        f" SELECT date(dt, '+1 day') FROM day WHERE dt < '{LAST}') SELECT 'of ' || dt, dt, 10 FROM day"
    )
    shop.sql("INSERT INTO orders_daily SELECT * FROM orders")
    return shop


def shown_by(shop: Shop, *words: str, columns: int = 80) -> tuple[str, str, int]:
    """Type a command whose errors are on a terminal and whose output is piped; return both, and the exit code."""
    terminal = Terminal(columns)
    environ = {**shop.environ(), "TERM": "xterm"}
    process = terminal.start(shop.command(*words, "--yes"), shop.folder, environ, output=False, errors=True)
    shown = terminal.all()
    output, _ = process.communicate()
    return shown, output.decode(), process.returncode


def steps(shown: str) -> list[str]:
    """Return the lines that were there one after the other, where each took the place of the last."""
    return [line for line in shown.split(CLEAR)[1:] if line]


def leave_open(page: Page) -> None:
    """Note what an attempt was about to do that died then."""
    for number, key in enumerate(page.keys):
        page.note(
            Intent(
                token=f"token {number}", key=key, number=1, kind=PUBLISH, state=OPEN, owner="anna", run="anna#1",
                task="", map_index=-1, try_number=1, reason="", before=None, measured=None, fingerprint=None,
                replaced=None, drift=None, version=1, noted_at=page.now,
            )
        )  # fmt: skip


def test_what_works_on_many_keys_shows_how_far_it_has_come_and_nothing_of_it_stays(shop: Shop) -> None:
    shop.answer("status")  # the dataset is known to the ledger from here on
    with open_ledger(str(shop.folder / "state.db")) as ledger:
        ledger.change("shop.orders_daily", [FIRST, "2026-01-02", "2026-01-03"], leave_open)
    assert "3       left unfinished by anna, anna#1; `settle` ends it" in shop.type("status").stdout
    for total, words in (
        (3, ("settle",)),
        (DAYS, ("adopt", *ALL, "the old job's")),
        (DAYS, ("run", *ALL, "anna", "--select", SELECT, "--always")),
        (DAYS, ("drift",)),
        (DAYS, ("seal", *ALL)),
        (DAYS, ("late", "--select", SELECT)),
        (DAYS, ("restored",)),
    ):
        shown, output, code = shown_by(shop, *words)

        moved = [int(found[1]) for line in steps(shown) if (found := re.match(rf"(\d+)/{total}\b", line))]
        assert code == 0, (words, shown, output)
        assert len(set(moved)) >= 2, (words, shown)
        assert moved == sorted(moved), words
        assert moved[-1] == total, words
        assert shown.endswith(CLEAR), words
        assert "/" not in output, words


def test_what_is_adopted_is_measured_twice_so_the_first_time_is_half_of_it(shop: Shop) -> None:
    shown, _, _ = shown_by(shop, "adopt", *ALL, "the old job's")

    assert f"{DAYS // 2 + 1}/{DAYS} {LAST} [{'#' * 15}{'-' * 15}]" in shown


def test_a_terminal_changes_nothing_of_what_is_found(shop: Shop) -> None:
    shop.answer("adopt", *ALL, "the old job's")
    shop.answer("seal", FIRST, "2026-02-28")
    shop.sql("INSERT INTO orders_daily VALUES ('stranger', '2026-03-05', 1), ('stranger', '2026-03-30', 1)")
    shop.sql("INSERT INTO orders VALUES ('late', '2026-01-05', 1), ('late', '2026-02-20', 1)")

    for words, found in ((("drift",), 2), (("late", "--select", SELECT), 2)):
        shown, output, code = shown_by(shop, *words)
        piped = shop.type(*words, "--yes")

        assert (output, code) == (piped.stdout, piped.returncode)
        assert len([line for line in output.splitlines() if line.startswith("2026-")]) == found
        assert steps(shown)


def test_scripts_and_pipes_see_nothing_of_it(shop: Shop) -> None:
    shown, output, _ = shown_by(shop, "run", *ALL, "anna", "--select", SELECT, "--overwrite", "--json")
    piped = shop.type("drift")
    dumb = Terminal()
    process = dumb.start(
        shop.command("drift"), shop.folder, {**shop.environ(), "TERM": "dumb"}, output=False, errors=True
    )

    assert CLEAR not in shown
    assert output.startswith("{")
    assert piped.stderr == ""
    assert dumb.all() == ""
    process.communicate()


def test_who_interrupts_gets_a_clean_terminal_and_is_told_what_was_done(shop: Shop) -> None:
    shop.answer("adopt", *ALL, "the old job's")
    terminal = Terminal()
    command = shop.command("run", *ALL, "anna", "--select", SELECT, "--always", "--yes")
    process = terminal.start(command, shop.folder, {**shop.environ(), "TERM": "xterm"}, output=False, errors=True)

    is_told = False
    for shown in terminal.pieces():
        if f"5/{DAYS} 2026-01-05" in shown and not is_told:
            is_told = True
            process.send_signal(signal.SIGINT)
    output, _ = process.communicate()

    assert process.returncode == 130
    *_, bar, after = shown.split(CLEAR)
    assert f"/{DAYS} 2026-01-" in bar
    assert after.strip() == "python -m backfill_core: interrupted; what is listed was done"
    assert output.decode().splitlines()[1].startswith("2026-01-01  done")
    with closing(sqlite3.connect(shop.folder / "shop.db")) as connection:
        assert connection.execute("SELECT count(*) FROM orders_daily").fetchone() == (DAYS,)


# the line by itself


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Hung(io.StringIO):
    """A terminal that is gone."""

    def write(self, _: str) -> int:
        raise OSError


def test_the_estimate_is_what_is_left_at_the_pace_so_far() -> None:
    clock = Clock()
    bar = Bar(100, clock=clock)

    told = []
    for now, done in ((0.5, 1), (30, 10), (60, 20), (3600, 30)):
        clock.now = now
        bar.to(done, "2026-02-01")
        told.append(bar.line(80).partition("] ")[2] or bar.line(80).rpartition("]")[2])
    clock.now += 1800
    told.append(bar.line(80).partition("] ")[2])  # nothing moved since

    assert told == ["", "about 4 min left", "about 4 min left", "about 2 h 20 min left", "about 1 h 50 min left"]


def test_where_nothing_can_be_estimated_it_says_how_long_it_took_so_far() -> None:
    clock = Clock()
    bar = Bar(clock=clock)

    clock.now = 42

    assert bar.line(80) == "42 s so far"


def test_the_line_never_fills_its_terminal_so_that_it_never_wraps() -> None:
    clock = Clock()
    bar = Bar(33_662, clock=clock)
    clock.now = 500_000
    bar.to(12_345, "2026-02-01")

    for width in range(1, 120):
        line = bar.line(width)

        assert len(line) < width
        assert line.startswith("12346/33662 2026-02-01"[: width - 1])
        assert ("left" in line) == (width >= 47)
        assert ("[" in line) == (width >= 55)


def test_work_goes_on_where_the_terminal_is_gone() -> None:
    with Bar(2, Hung()) as bar:
        bar.to(1, "2026-02-01")

        assert not bar.is_shown


KEYS = [f"{number:04}" for number in range(3650)]


def asked_in(seconds_a_key: float, seconds_a_time: float) -> tuple[list[Sequence[str]], float]:
    """Return the pieces that work takes which costs so much, and how long all of it takes."""
    clock = Clock()
    found = []
    for piece in pieces(KEYS, Bar(1, io.StringIO()), clock):
        found.append(piece)
        clock.now += seconds_a_time + len(piece) * seconds_a_key
    return found, clock.now


@pytest.mark.parametrize("seconds_a_key", [0, 1e-6, 1e-4, 1e-2, 1, 60])
@pytest.mark.parametrize("seconds_a_time", [0, 0.01, 0.3, 10])
def test_pieces_are_all_keys_in_order_and_cost_little_more_than_the_whole(
    seconds_a_key: float, seconds_a_time: float
) -> None:
    found, took = asked_in(seconds_a_key, seconds_a_time)

    assert [key for piece in found for key in piece] == KEYS
    assert all(found)
    at_once = seconds_a_time + len(KEYS) * seconds_a_key
    assert took <= 3 * at_once + 2


def test_a_table_that_is_read_whole_each_time_is_read_three_times() -> None:
    found, took = asked_in(0, 60)

    assert len(found) == 3
    assert took == 180


def test_long_work_moves_often() -> None:
    found, took = asked_in(1, 0.01)

    assert took / len(found) < 120
    assert len(found) > 30


def test_where_nobody_looks_it_is_done_at_once() -> None:
    assert list(pieces(KEYS, Bar(1))) == [KEYS]

"""Several processes at once, and processes that are killed."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from .grader import PATIENCE, days

if TYPE_CHECKING:
    from .conftest import InTheMiddle
    from .grader import Lab


def test_of_two_claimers_one_gets_a_date_and_the_other_is_told_who(lab: Lab) -> None:
    for month in range(1, 13):
        first, last = f"2026-{month:02}-01", f"2026-{month:02}-20"
        dates = days(first, 20)

        both = [lab.start("claim", first, last, owner) for owner in ("alice", "bob")]
        alice, bob = (lab.finish(process) for process in both)

        for mine, theirs, other in ((alice, bob, "bob"), (bob, alice, "alice")):
            assert mine.json["denied"] == [[dt, other] for dt in theirs.json["claimed"]]
            assert mine.code == (4 if mine.json["denied"] else 0)
        assert sorted(alice.json["claimed"] + bob.json["claimed"]) == dates
        assert not set(alice.json["claimed"]) & set(bob.json["claimed"])
        held = dict.fromkeys(alice.json["claimed"], "alice") | dict.fromkeys(bob.json["claimed"], "bob")
        assert {dt: owner for dt, owner in lab.claims.items() if dt in dates} == held


def test_claims_of_ranges_that_overlap_are_atomic(lab: Lab) -> None:
    for year in range(2001, 2007):
        ranges = {
            "a": (f"{year}-01-01", f"{year}-01-20"),
            "b": (f"{year}-01-10", f"{year}-01-30"),
            "c": (f"{year}-01-15", f"{year}-01-15"),
        }

        started = {owner: lab.start("claim", *span, owner) for owner, span in ranges.items()}
        answers = {owner: lab.finish(process) for owner, process in started.items()}

        held = {dt: owner for dt, owner in lab.claims.items() if dt.startswith(str(year))}
        assert list(held) == days(f"{year}-01-01", 30)
        for owner, answer in answers.items():
            assert answer.json["claimed"] == [dt for dt in held if held[dt] == owner]
            assert all(held[dt] == holder for dt, holder in answer.json["denied"])


def test_claiming_and_releasing_at_once_leaves_no_date_with_two_owners_or_a_stranger(lab: Lab) -> None:
    first, last = "2026-01-01", "2026-01-20"
    lab.ok("claim", first, last, "alice")

    started = [
        lab.start("release", first, last, "alice"),
        lab.start("claim", first, last, "bob"),
        lab.start("claim", first, last, "carol"),
    ]
    released, bob, carol = (lab.finish(process) for process in started)

    assert released.json["released"] == days(first, 20)
    held = {"bob": bob.json["claimed"], "carol": carol.json["claimed"]}
    assert lab.claims == {dt: owner for owner, dates in held.items() for dt in dates}


def test_eight_runs_of_the_same_range_leave_one_right_row_a_date(lab: Lab) -> None:
    dates = days("2026-02-20", 20)
    for n, dt in enumerate(dates):
        lab.write(dt, n, n, -1)
    lab.hold_all(dates, 1, 1)

    started = [lab.start("run", dates[0], dates[-1], f"owner-{n}") for n in range(8)]
    answers = [lab.finish(process) for process in started]

    for answer in answers:
        assert answer.code == 0
        assert "locked" not in answer.err
        assert answer.json["done"] == dates
    assert {dt: row[:2] for dt, row in lab.daily.items()} == {dt: (3, 2 * n - 1) for n, dt in enumerate(dates)}


def test_commands_of_every_kind_at_once_are_never_locked_out(lab: Lab) -> None:
    dates = days("2026-02-01", 10)
    for dt in dates:
        lab.write(dt, 5)
    lab.ok("seal", "2026-03-01", "2026-03-01")
    lab.write("2026-03-01", 1)

    started = [
        lab.start("run", dates[0], dates[-1], "alice"),
        lab.start("run", dates[0], dates[-1], "bob"),
        lab.start("claim", "2026-04-01", "2026-04-30", "carol"),
        lab.start("seal", "2026-05-01", "2026-05-31"),
        lab.start("amend", "2026-03-01", "late"),
        lab.start("rollup"),
        lab.start("rollup-add", "2030-01-01", "2030-01-01"),
        lab.start("init"),
    ]
    answers = [lab.finish(process) for process in started]

    assert [answer.code for answer in answers] == [0] * 8
    assert lab.ok("rollup")["amount_total"] == 50
    assert len(lab.claims) == 30
    assert len(lab.seals) == 32
    assert len(lab.corrections) == 1


def test_eight_inits_at_once_make_one_store(bare_lab: Lab) -> None:
    bare_lab.db = bare_lab.folder / "new" / "state.db"

    started = [bare_lab.start("init") for _ in range(8)]
    answers = [bare_lab.finish(process) for process in started]

    assert [answer.code for answer in answers] == [0] * 8
    assert bare_lab.daily == {}


def test_rollup_adds_at_once_lose_nothing(lab: Lab) -> None:
    lab.hold("2026-02-01", 2, 5)

    started = [lab.start("rollup-add", "2026-02-01", "2026-02-01") for _ in range(6)]
    for process in started:
        assert lab.finish(process).code == 0

    assert lab.rollup == {"order_total": 12, "amount_total": 30}


# During a run


@pytest.mark.parametrize(
    ("command", "owner", "reason"),
    [("claim", ["bob"], "claimed_by:bob"), ("seal", [], "sealed")],
    ids=["claim", "seal"],
)
@pytest.mark.parametrize("which", [1, 2], ids=["the date being counted", "a date to come"])
def test_a_claim_or_a_seal_that_comes_in_during_a_run_is_honoured(
    in_the_middle: InTheMiddle, command: str, owner: list[str], reason: str, which: int
) -> None:
    lab, dt = in_the_middle.lab, in_the_middle.dates[which]

    answer = in_the_middle(lambda _: lab.ok(command, dt, dt, *owner))

    assert answer.code == 5
    assert answer.json["skipped"] == [[dt, reason]]
    assert answer.json["done"] == [other for other in in_the_middle.dates if other != dt]
    assert lab.daily[dt] == in_the_middle.earlier


def test_a_run_does_not_wait_for_a_claim(lab: Lab) -> None:
    dates = days("2026-02-01", 3)
    for dt in dates:
        lab.write(dt, 1)
    lab.ok("claim", dates[1], dates[1], "bob")

    answer = lab("run", dates[0], dates[-1], "alice")

    assert answer.code == 5
    assert answer.json["done"] == [dates[0], dates[2]]
    assert lab.claims == {dates[1]: "bob"}


# kill -9


@pytest.mark.parametrize("seed", range(8))
def test_a_killed_run_leaves_whole_partitions_and_a_reader_never_misses_a_date(lab: Lab, seed: int) -> None:
    dates = days("2026-02-01", 14)
    for dt in dates:
        lab.write(dt, *[2] * 500)
    lab.hold_all(dates, 500, 500)
    until = random.Random(seed).randrange(14)
    process = lab.start("run", dates[0], dates[-1], "alice")

    with closing(sqlite3.connect(lab.db, timeout=PATIENCE)) as reader:
        while process.poll() is None:
            replaced = look(reader)
            if replaced >= until:
                process.kill()
    process.wait()

    with closing(sqlite3.connect(lab.db, timeout=PATIENCE)) as reader:
        assert until <= look(reader) <= 14
    answer = lab.ok("run", dates[0], dates[-1], "alice")
    assert answer["done"] == dates
    assert lab.daily == dict.fromkeys(dates, (500, 1000, "alice"))


def look(reader: sqlite3.Connection) -> int:
    """See fourteen whole dates, the new ones first; give the number of new ones."""
    rows = reader.execute("SELECT orders, amount FROM daily ORDER BY dt").fetchall()
    new = rows.count((500, 1000))
    assert rows == [(500, 1000)] * new + [(500, 500)] * (14 - new)
    return new


def test_killed_claims_are_whole(lab: Lab) -> None:
    for year in range(2001, 2005):
        first, last = f"{year}-01-01", f"{year}-12-31"
        process = lab.start("claim", first, last, "alice")
        with closing(sqlite3.connect(lab.db, timeout=PATIENCE)) as reader:
            while process.poll() is None:
                [[held]] = reader.execute("SELECT count(*) FROM claims WHERE dt BETWEEN ? AND ?", (first, last))
                assert held in (0, 365, 366)
                if year % 2 and held:
                    process.kill()
        process.wait()

        answer = lab.ok("claim", first, last, "alice")
        assert len(answer["claimed"]) in (365, 366)

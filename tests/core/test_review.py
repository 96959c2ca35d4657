from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_core import Backfill, DateRange
from backfill_core.contract import COMMANDS
from backfill_core.store import open_store
from tests.core.sources import order

if TYPE_CHECKING:
    from tests.core.sources import Source

ROOT = Path(__file__).parents[2]
FIRST, SECOND, THIRD = "2024-05-01", "2024-05-02", "2024-05-03"
DAYS = DateRange.parse(FIRST, THIRD)


def one(dt: str) -> DateRange:
    return DateRange.parse(dt, dt)


@pytest.fixture
def lived(backfill: Backfill, source: Source) -> Backfill:
    """Three days were run, the second was sealed at 100, then a late order of 7 arrived for it."""
    source.put(FIRST, 10)
    source.put(SECOND, 50, 30, 20)
    source.put(THIRD, 1, 1, 1)
    backfill.run(DAYS, "a")
    backfill.seal(one(SECOND))
    source.put(SECOND, 50, 30, 20, 7)
    return backfill


def test_a_plan_balances_and_the_run_agrees_with_it(lived: Backfill, source: Source) -> None:
    source.put(FIRST, 11)
    source.put(THIRD)
    source.put("2024-05-05", 4)
    source.file("2024-05-06").write_text("nonsense")
    lived.claim(one("2024-05-07"), "b")
    dates = DateRange.parse(FIRST, "2024-05-08")

    plan = lived.plan(dates, "me")
    run = lived.run(dates, "me")

    assert [(p["dt"][-2:], p["action"], p["reason"]) for p in plan["partitions"] if p["action"] != "failed"] == [
        ("01", "change", "moved"),
        ("02", "skipped", "sealed"),
        ("03", "change", "emptied"),
        ("04", "skipped", "no_data"),
        ("05", "change", "new"),
        ("07", "skipped", "claimed_by:b"),
        ("08", "skipped", "no_data"),
    ]
    assert plan["asked"] == 8 == plan["change"] + plan["unchanged"] + plan["skipped"] + plan["failed"]
    assert (plan["orders"], plan["amount"]) == (run["orders"], run["amount"])
    assert [p["dt"] for p in plan["partitions"] if p["action"] in ("change", "unchanged")] == run["done"]
    assert [[p["dt"], p["reason"]] for p in plan["partitions"] if p["action"] == "skipped"] == run["skipped"]
    assert [[p["dt"], p["reason"]] for p in plan["partitions"] if p["action"] == "failed"] == run["failed"]


def test_a_plan_writes_nothing_and_after_the_run_nothing_would_change(lived: Backfill, source: Source) -> None:
    source.put(FIRST, 11)

    assert lived.plan(DAYS, "me") == lived.plan(DAYS, "me")
    lived.run(DAYS, "me")
    again = lived.plan(DAYS, "me")

    assert (again["change"], again["unchanged"], again["skipped"]) == (0, 2, 1)


def test_status_shows_every_date_asked_for(lived: Backfill) -> None:
    lived.claim(one("2024-05-04"), "b")

    rows = {row["dt"]: row for row in lived.status(DateRange.parse(SECOND, "2024-05-05"))["partitions"]}

    assert list(rows) == [SECOND, THIRD, "2024-05-04", "2024-05-05"]
    assert rows[SECOND]["sealed"]
    assert rows[SECOND]["amount"] == 100
    assert rows["2024-05-04"]["claimed_by"] == "b"
    assert rows["2024-05-05"]["amount"] is None


def test_status_without_a_range_shows_every_date_the_store_knows(lived: Backfill) -> None:
    lived.claim(one("2030-01-01"), "b")

    assert [row["dt"] for row in lived.status()["partitions"]] == [FIRST, SECOND, THIRD, "2030-01-01"]


def test_status_counts_the_dates_that_agree_with_their_source(lived: Backfill, source: Source) -> None:
    source.file(THIRD).unlink()

    status = lived.status(DAYS, compare=True)

    assert [row["source"] for row in status["partitions"]] == ["current", "differs", "no_data"]
    assert status["current"] == 1


def test_a_sealed_date_is_late_until_it_is_corrected_and_again_when_its_source_moves(
    lived: Backfill, source: Source
) -> None:
    [late] = lived.late()["late"]
    lived.amend(one(SECOND).first, "late")
    corrected = lived.late()["late"]
    source.put(SECOND, 50)
    [again] = lived.late()["late"]

    assert (late["dt"], late["orders_difference"], late["amount_difference"]) == (SECOND, 1, 7)
    assert corrected == []
    assert (again["amount_known"], again["amount_now"], again["amount_difference"]) == (107, 50, -57)


def test_a_sealed_date_without_a_countable_source_is_told_apart(lived: Backfill, source: Source) -> None:
    lived.seal(DAYS)
    source.file(FIRST).unlink()
    source.file(THIRD).write_text("nonsense")

    answer = lived.late(DAYS)

    assert [row["dt"] for row in answer["late"]] == [SECOND]
    assert answer["no_data"] == [FIRST]
    assert answer["failed"][0][0] == THIRD


def test_a_statement_says_what_was_sent_and_what_is_right(lived: Backfill) -> None:
    lived.amend(one(SECOND).first, "late row")
    lived.amend(one(SECOND).first, "asked again")

    statement = lived.statement(DAYS)

    second = statement["partitions"][1]
    assert (second["amount_published"], second["amount_corrected"], second["corrections"]) == (100, 107, 2)
    assert second["reason"] == "asked again"
    assert (statement["amount_published"], statement["amount_corrected"]) == (113, 120)
    assert (statement["orders_published"], statement["orders_corrected"]) == (7, 8)


def test_a_date_is_late_when_orders_came_that_leave_the_amount_as_it_was(lived: Backfill, source: Source) -> None:
    source.put(SECOND, 50, 30, 20, 5, -5)

    [late] = lived.late()["late"]

    assert (late["dt"], late["orders_difference"], late["amount_difference"]) == (SECOND, 2, 0)


def test_a_date_is_late_when_its_amount_moved_and_the_orders_did_not(lived: Backfill, source: Source) -> None:
    source.put(SECOND, 50, 30, 21)

    [late] = lived.late()["late"]

    assert (late["orders_difference"], late["amount_difference"]) == (0, 1)


def test_a_sealed_date_of_which_nothing_was_published_is_late_with_all_that_it_has(
    backfill: Backfill, source: Source
) -> None:
    source.put(FIRST, 10, 20)
    source.put(SECOND)
    backfill.seal(DateRange.parse(FIRST, SECOND))

    [late] = backfill.late()["late"]

    assert (late["dt"], late["orders_known"], late["amount_known"]) == (FIRST, 0, 0)
    assert (late["orders_difference"], late["amount_difference"]) == (2, 30)


def test_what_was_corrected_and_never_published_stands_beside_nothing(backfill: Backfill, source: Source) -> None:
    source.put(FIRST, 10, 20)
    backfill.seal(one(FIRST))
    backfill.amend(one(FIRST).first, "never sent")

    [line] = backfill.statement(DAYS)["partitions"]

    assert (line["orders_published"], line["amount_published"]) == (0, 0)
    assert (line["orders_corrected"], line["amount_corrected"]) == (2, 30)


def test_a_status_compares_nothing_unasked(lived: Backfill, source: Source) -> None:
    source.file(FIRST).unlink()

    status = lived.status(DAYS)

    assert status["current"] is None
    assert [partition["source"] for partition in status["partitions"]] == [None] * 3


def test_a_plan_has_a_word_for_each_change(backfill: Backfill, source: Source) -> None:
    source.put(FIRST)
    source.put(SECOND, 7)
    backfill.run(DAYS, "a")
    source.put(SECOND)
    source.put(THIRD)

    planned = backfill.plan(DAYS, "a")["partitions"]

    assert [(one["action"], one["reason"]) for one in planned] == [
        ("unchanged", ""),  # no orders stay no orders
        ("change", "emptied"),
        ("change", "new"),
    ]
    assert [(one["orders_before"], one["amount_before"]) for one in planned] == [(0, 0), (1, 7), (None, None)]
    assert [(one["orders_after"], one["amount_after"]) for one in planned] == [(0, 0)] * 3


class Shell:
    """`python -m backfill_core` over one store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {"BACKFILL_DB": str(folder / "state.db"), "BACKFILL_EVENTS": str(folder / "events")}

    def __call__(
        self, *arguments: str, command: tuple[str, ...] = ("-m", "backfill_core")
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command, *arguments],
            env=self.env,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_people_get_a_table_and_a_line_that_balances(lived: Backfill, shell: Shell) -> None:
    shown = shell("plan", FIRST, THIRD, "me").stdout.splitlines()

    assert shown[0] == f"3 partitions, {FIRST} to {THIRD}, as me:"
    assert shown[3].split() == [SECOND, "skipped", "3", "100", "sealed"]
    assert shown[-1] == "3 asked = 0 would change + 2 unchanged + 1 skipped + 0 failed"


def test_programs_get_the_answer(lived: Backfill, shell: Shell) -> None:
    for command, answer in (
        (("plan", FIRST, THIRD, "me"), lived.plan(DAYS, "me")),
        (("status",), lived.status()),
        (("status", FIRST, THIRD, "--compare"), lived.status(DAYS, compare=True)),
        (("late",), lived.late()),
        (("statement", FIRST, THIRD), lived.statement(DAYS)),
    ):
        assert json.loads(shell(*command, "--json").stdout) == answer


def test_an_owner_can_neither_break_a_table_nor_turn_it_around(backfill: Backfill, shell: Shell) -> None:
    backfill.claim(one(FIRST), "two\nlines\u202e")

    shown = shell("status").stdout.splitlines()

    told = [line for line in shown if "two" in line]
    assert [line.split()[0] for line in told] == ["=", FIRST]  # what is to be looked at, and the date's own line
    assert all(line.endswith(r"two\nlines\u202e") for line in told)
    assert "lines" not in "".join(line for line in shown if line not in told)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("plan", "2024-05-01", "nonsense", "me"), 2, "YYYY-MM-DD"),
        (("plan", THIRD, FIRST, "me"), 2, "ends before it starts"),
        (("plan", FIRST, THIRD, " "), 2, "the owner is empty"),
        (("status", FIRST), 2, "a START and an END"),
        (("statement",), 2, "START"),
        ((), 2, "COMMAND"),
    ],
)
def test_a_wrong_call_is_told_in_a_sentence(
    backfill: Backfill, shell: Shell, arguments: tuple[str, ...], code: int, said: str
) -> None:
    told = shell(*arguments)

    assert told.returncode == code
    assert said in told.stderr
    assert "Traceback" not in told.stderr


def test_no_store_is_told_like_the_runner_does(shell: Shell) -> None:
    told = shell("status")

    assert told.returncode == 3
    assert "there is no state store" in told.stderr


def test_a_wrong_setting_is_told_in_a_sentence(backfill: Backfill, shell: Shell) -> None:
    shell.env["BACKFILL_WORKERS"] = "many"

    told = shell("status")

    assert told.returncode == 2
    assert "BACKFILL_WORKERS is 'many'" in told.stderr
    assert "Traceback" not in told.stderr


def test_a_plan_with_a_bad_partition_is_no_success(backfill: Backfill, shell: Shell, source: Source) -> None:
    source.file(FIRST).write_text("nonsense")

    told = shell("plan", FIRST, FIRST, "me")

    assert told.returncode == 1
    assert f"dt={FIRST}.jsonl:1: not a JSON object" in told.stdout


def test_a_value_that_is_no_number_is_told_with_its_date(backfill: Backfill, shell: Shell, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection, connection:
        connection.execute("INSERT INTO daily VALUES (?, '7', 'many', 'somebody')", [FIRST])

    told = shell("status")

    assert told.returncode == 1
    assert f"daily holds no whole numbers for {FIRST}" in told.stderr
    assert "Traceback" not in told.stderr


def test_the_command_has_the_runners_commands_with_the_same_answers_and_codes(shell: Shell, tmp_path: Path) -> None:
    twin = Shell(tmp_path / "twin")
    for folder in (tmp_path, tmp_path / "twin"):
        (folder / "events").mkdir(parents=True)
        (folder / "events" / f"dt={FIRST}.jsonl").write_text(order(FIRST, 5))
        (folder / "events" / f"dt={SECOND}.jsonl").write_text("nonsense")
    calls = (
        ("init",),
        ("run", FIRST, FIRST, "me"),
        ("claim", FIRST, SECOND, "me"),
        ("claim", FIRST, THIRD, "you"),
        ("run", FIRST, THIRD, "you"),
        ("run", FIRST, THIRD, "me"),
        ("seal", FIRST, FIRST),
        ("amend", FIRST, "late"),
        ("amend", SECOND, "never sent"),
        ("release", FIRST, THIRD, "me"),
        ("rollup",),
        ("claim", FIRST, "nonsense", "me"),
    )

    for call in calls:
        ours, runners = shell(*call, "--json"), twin(*call, command=("runner.py",))

        assert ours.returncode == runners.returncode, call
        assert json.loads(ours.stdout) == json.loads(runners.stdout.replace(str(twin.folder), str(shell.folder)))
        assert ("Traceback" in ours.stderr, bool(ours.stderr)) == (False, bool(runners.stderr))
    assert {name for name, *_ in calls} == COMMANDS.keys() - {"rollup-add"}


def test_the_commands_init_makes_the_table_in_which_runs_claim_and_the_runners_does_not(
    shell: Shell, tmp_path: Path
) -> None:
    made = []
    for command in (("runner.py",), ("-m", "backfill_core"), ("-m", "backfill_core")):
        assert shell("init", command=command).returncode == 0
        with open_store(str(tmp_path / "state.db")) as store, store.reading() as tables:
            made.append(tables.has("ledger_claims"))

    assert made == [False, True, True]


def test_an_order_is_shown_in_lines(backfill: Backfill, shell: Shell) -> None:
    backfill.claim(one(SECOND), "you")

    told = shell("claim", FIRST, THIRD, "two\nlines")

    assert told.returncode == 4
    assert told.stdout.splitlines() == [
        r"owner: two\nlines",
        "claimed: 2",
        f"  {FIRST}",
        f"  {THIRD}",
        "denied: 1",
        f"  {SECOND}  you",
    ]

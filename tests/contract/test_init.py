"""`init`, the five tables and where things are."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .grader import TABLES, tables_of

if TYPE_CHECKING:
    from .grader import Lab

AWKWARD = "a b?mode=ro&c#d%41 'quoted' \"ünï\" 🙂"


def test_init_says_where_the_store_is_and_names_its_tables(bare_lab: Lab) -> None:
    answer = bare_lab.ok("init")

    assert answer.keys() == {"db", "tables"}
    assert answer["db"] == str(bare_lab.db)
    assert sorted(answer["tables"]) == sorted(TABLES)


def test_init_makes_exactly_five_tables_with_their_columns_in_order(bare_lab: Lab) -> None:
    bare_lab.ok("init")

    columns = {name: [column[1] for column in info] for name, info in tables_of(bare_lab.db)}
    assert columns == TABLES


def test_daily_has_no_primary_key_and_no_unique_index(lab: Lab) -> None:
    keys = [column for column in lab.query("PRAGMA table_info(daily)") if column[5]]
    unique = [index for index in lab.query("PRAGMA index_list(daily)") if index[2]]

    assert not keys
    assert not unique


def test_the_date_is_the_primary_key_of_claims(lab: Lab) -> None:
    keys = [column[1] for column in lab.query("PRAGMA table_info(claims)") if column[5]]

    assert keys == ["dt"]


def test_init_makes_missing_parent_folders(bare_lab: Lab) -> None:
    bare_lab.db = bare_lab.folder / "deep" / "deeper" / "state.db"

    answer = bare_lab.ok("init")

    assert answer["db"] == str(bare_lab.db)
    assert bare_lab.daily == {}


def test_init_leaves_what_is_there_alone(lab: Lab) -> None:
    lab.write("2026-02-01", 5, -2)
    lab.ok("run", "2026-02-01", "2026-02-01", "alice")
    lab.ok("claim", "2026-02-02", "2026-02-03", "bob")
    lab.ok("seal", "2026-02-01", "2026-02-01")
    lab.ok("amend", "2026-02-01", "late line")
    lab.ok("rollup")
    before = lab.dump()

    lab.ok("init")

    assert lab.dump() == before


def test_init_fills_a_file_that_is_empty(bare_lab: Lab) -> None:
    bare_lab.db.touch()

    bare_lab.ok("init")

    assert dict.fromkeys(name for name, _ in tables_of(bare_lab.db)).keys() == TABLES.keys()


def test_home_moves_the_store_and_the_events(bare_lab: Lab) -> None:
    home = bare_lab.folder
    env: dict[str, str | None] = {"BACKFILL_HOME": str(home), "BACKFILL_DB": None, "BACKFILL_EVENTS": None}
    bare_lab.write("2026-02-01", 5, 6)

    made = bare_lab.ok("init", env=env)
    ran = bare_lab.ok("run", "2026-02-01", "2026-02-01", "alice", env=env)

    assert made["db"] == str(home / "state.db")
    assert (ran["orders"], ran["amount"]) == (2, 11)
    assert bare_lab.daily == {"2026-02-01": (2, 11, "alice")}


@pytest.mark.parametrize("won", ["BACKFILL_DB", "BACKFILL_EVENTS"])
def test_each_variable_wins_over_home(bare_lab: Lab, won: str) -> None:
    other = bare_lab.folder / "other"
    (other / "events").mkdir(parents=True)
    lost = "BACKFILL_EVENTS" if won == "BACKFILL_DB" else "BACKFILL_DB"
    env: dict[str, str | None] = {"BACKFILL_HOME": str(other), lost: None}
    bare_lab.write("2026-02-01", 5)
    (other / "events" / "dt=2026-02-01.jsonl").write_bytes(bare_lab.path("2026-02-01").read_bytes() * 2)

    bare_lab.ok("init", env=env)
    answer = bare_lab.ok("run", "2026-02-01", "2026-02-01", "alice", env=env)

    assert answer["orders"] == (2 if won == "BACKFILL_DB" else 1)
    assert bare_lab.db.exists() == (won == "BACKFILL_DB")
    assert (other / "state.db").exists() == (won == "BACKFILL_EVENTS")


def test_without_variables_the_store_is_in_root_backfill(bare_lab: Lab) -> None:
    nobody = f"nobody-{uuid.uuid4()}"  # so that nothing changes if there is a store
    env = dict.fromkeys(("BACKFILL_HOME", "BACKFILL_DB", "BACKFILL_EVENTS"))

    answer = bare_lab("release", "0001-01-01", "0001-01-01", nobody, env=env)

    if answer.code:
        assert "/root/backfill/state.db" in answer.json["error"]
    else:
        assert Path("/root/backfill/state.db").exists()


def test_awkward_paths_are_taken_as_they_are(bare_lab: Lab) -> None:
    bare_lab.db = bare_lab.folder / AWKWARD / f"{AWKWARD}.db"
    bare_lab.events = bare_lab.folder / f"events {AWKWARD}"
    bare_lab.events.mkdir()
    bare_lab.write("2026-02-01", 7)

    made = bare_lab.ok("init")
    bare_lab.ok("run", "2026-02-01", "2026-02-01", "alice")

    assert made["db"] == str(bare_lab.db)
    assert bare_lab.daily == {"2026-02-01": (1, 7, "alice")}
    assert {path.name for path in bare_lab.folder.iterdir()} == {
        AWKWARD,
        f"events {AWKWARD}",
        "events",
        "elsewhere",
    }


def test_relative_paths_start_where_the_caller_stands(bare_lab: Lab) -> None:
    env: dict[str, str | None] = {"BACKFILL_DB": "here/state.db", "BACKFILL_EVENTS": "../events"}
    bare_lab.write("2026-02-01", 7)

    bare_lab.ok("init", env=env)
    bare_lab.ok("run", "2026-02-01", "2026-02-01", "alice", env=env)

    bare_lab.db = bare_lab.elsewhere / "here" / "state.db"
    assert bare_lab.daily == {"2026-02-01": (1, 7, "alice")}


@pytest.mark.parametrize(
    "options",
    [["-S"], ["-s", "-E"], ["-O"], ["-OO"], ["-X", "dev", "-W", "error"], ["-b", "-b"]],
    ids=" ".join,
)
def test_a_plain_python_is_enough_however_it_is_started(bare_lab: Lab, options: list[str]) -> None:
    bare_lab.write("2026-02-01", 7)

    bare_lab.ok("init", options=options)
    bare_lab.ok("run", "2026-02-01", "2026-02-01", "alice", options=options)
    denied = bare_lab("claim", "2026-02-30", "2026-02-01", "alice", options=options)

    assert bare_lab.daily == {"2026-02-01": (1, 7, "alice")}
    assert denied.code == 2


def test_modules_in_the_callers_folder_are_not_taken(lab: Lab) -> None:
    for name in ("json", "sqlite3", "datetime", "backfill_core"):
        (lab.elsewhere / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")

    answer = lab.ok("rollup")

    assert answer["mode"] == "derive"

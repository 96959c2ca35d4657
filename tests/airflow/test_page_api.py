"""The API behind the page, with real logins on a running Airflow: who may see what, who may change it, and in words."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from airflow_stand import ROOT
from backfill_core.claims import Caller
from page_world import (
    ADMIN,
    ARCHIVE,
    COUNTRIES,
    EDITOR,
    FAILED,
    HOLES,
    HOSTILE,
    LIVELY,
    ODD,
    SHOP,
    VIEWER,
    WHOLE,
    fill,
)

if TYPE_CHECKING:
    from page_world import World

READS = ("datasets", f"datasets/{SHOP}", f"datasets/{SHOP}/partitions/2024-02-01", "partitions.js")
CHANGES = ("claim", "release")
ASKED = {"spans": [["2024-02-01", "2024-02-02"]], "reason": "the source is being mended"}


def seen(world: World, user: str, path: str) -> Any:
    status, answer = world.ask(user, path)
    assert status == 200, answer
    return answer


def by_name(world: World, user: str) -> dict[str, dict[str, Any]]:
    told = seen(world, user, "datasets")
    assert [place.partition(": ")[0] for place in told["failures"]] == ["nowhere"]
    return {one["dataset"]: one for one in told["datasets"]}


@pytest.mark.parametrize("path", READS)
def test_nothing_is_read_without_a_login(world: World, path: str) -> None:
    assert world.fetch("GET", f"/backfill/{path}")[0] == 401
    assert world.fetch("GET", f"/backfill/{path}", headers={"Authorization": "Bearer made-up"})[0] in (401, 403)
    assert world.ask(VIEWER, path)[0] == 200


@pytest.mark.parametrize("verb", CHANGES)
def test_nothing_is_changed_without_a_login_a_permission_or_our_own_header(world: World, verb: str) -> None:
    path = f"datasets/{SHOP}/{verb}"
    before = seen(world, ADMIN, f"datasets/{SHOP}")

    assert world.fetch("POST", f"/backfill/{path}", ASKED, {"X-Backfill": "script"})[0] == 401
    status, answer = world.ask(VIEWER, path, ASKED)
    assert (status, answer["detail"]) == (403, "You may look: only who may edit the DAG shop may change it")
    cookie = {"Cookie": f"_token={world.token(ADMIN)}"}
    status, answer = world.fetch("POST", f"/backfill/{path}", ASKED, cookie)
    assert (status, "X-Backfill" in answer["detail"]) == (403, True)
    assert world.fetch("GET", f"/backfill/{path}", headers=cookie)[0] == 404  # no dataset has that name
    assert seen(world, ADMIN, f"datasets/{SHOP}") == before


def test_an_editor_reserves_and_anybody_sees_who_and_why(world: World) -> None:
    assert world.ask(EDITOR, f"datasets/{SHOP}/claim", ASKED) == (
        200,
        {"words": "2 partitions are reserved in the name of editor"},
    )

    told = seen(world, VIEWER, f"datasets/{SHOP}")
    assert told["holders"] == {key: {"by": "editor", "run": None} for key in ("2024-02-01", "2024-02-02")}
    one = seen(world, VIEWER, f"datasets/{SHOP}/partitions/2024-02-01")
    assert (one["history"][-1]["what"], one["history"][-1]["owner"]) == ("reserved", "editor")
    assert one["history"][-1]["reason"] == ASKED["reason"]
    status, answer = world.ask(ADMIN, f"datasets/{SHOP}/claim", ASKED)
    assert (status, answer["detail"]) == (
        409,
        "2024-02-01 is held by editor, and 1 more are held; nothing was reserved",
    )

    assert world.ask(ADMIN, f"datasets/{SHOP}/release", ASKED)[1] == {"words": "2 partitions are free again"}

    line = seen(world, VIEWER, f"datasets/{SHOP}/partitions/2024-02-01")["history"][-1]
    assert (line["what"], line["owner"], line["said"]) == ("released", "admin", "it was held by editor")
    assert world.ask(ADMIN, f"datasets/{SHOP}/release", ASKED)[0] == 409
    assert seen(world, VIEWER, f"datasets/{SHOP}")["holders"] == {}


def test_the_runners_table_is_one_of_the_datasets(world: World) -> None:
    one = by_name(world, VIEWER)["daily"]
    assert (one["newest"], one["sealed_up_to"], one["published"], one["missing"]) == ("2026-02-10", "2026-02-02", 10, 0)
    assert (one["failed"], one["drifted"], one["late"], one["checked_at"], one["changed"]) == (None,) * 5
    told = seen(world, VIEWER, "datasets/daily")
    assert told["states"] == "3311111111"
    assert told["dags"]["range"] == "backfill_range"
    assert told["dags"]["plan"] == {"dag_id": "backfill_range", "task_id": "plan"}
    assert (told["dags"]["seal"], told["dags"]["amend"], told["dags"]["unseal"]) == (
        "seal_range",
        "amend_partition",
        None,
    )

    asked = {"spans": [["2026-02-12", "2026-02-13"]], "reason": "being mended"}
    assert world.ask(EDITOR, "datasets/daily/claim", asked)[0] == 200
    assert seen(world, VIEWER, "datasets/daily")["states"] == "331111111102" + "2"
    assert world.ask(ADMIN, "datasets/daily/claim", asked)[1]["detail"].startswith("2026-02-12 is held by editor")
    assert world.ask(ADMIN, "datasets/daily/release", asked)[0] == 200

    history = seen(world, VIEWER, "datasets/daily/partitions/2026-02-12")["history"]
    assert [(line["what"], line["owner"], line["reason"]) for line in history] == [
        ("reserved", "editor", "being mended"),
        ("released", "admin", "being mended"),
    ]
    assert "daily" in by_name(world, VIEWER)


def test_a_dataset_is_told_at_a_glance_as_its_ledger_knows_it(world: World) -> None:
    shop, lively = by_name(world, VIEWER)[SHOP], by_name(world, VIEWER)[LIVELY]

    assert (shop["newest"], shop["published"], shop["missing"], shop["failed"]) == ("2024-06-30", 166, 2, 1)
    assert (lively["sealed_up_to"], lively["held"], lively["late"], lively["drifted"]) == ("2026-09-30", 7, 2, 2)
    assert lively["failed"] == 2
    assert {"shop", "shop.range", "shop.late"} < set(shop["dags"])
    assert shop["changed"]["by"].startswith("shop/scheduled__")


def test_each_state_is_told_apart(world: World) -> None:
    told = seen(world, VIEWER, f"datasets/{SHOP}")
    keys = dict(zip(_days(told), told["states"], strict=True))

    assert {key for key, letter in keys.items() if letter == "0"} == set(HOLES)
    assert keys[FAILED] == "5"
    assert set(seen(world, VIEWER, f"datasets/{LIVELY}")["states"]) == set("01234567")
    one = seen(world, VIEWER, f"datasets/{SHOP}/partitions/{FAILED}")
    assert "the result is empty" in one["failure"]
    assert [line["what"] for line in one["history"]] == ["published", "refused"]
    assert one["run"] == {"dag_id": "shop", "run_id": "scheduled__2024-07-01T00:00:00+00:00"}


def test_partitions_that_are_no_days_are_a_list_without_a_first_and_a_newest(world: World) -> None:
    shown = by_name(world, VIEWER)
    for name, published in ((COUNTRIES, 2), (WHOLE, 0)):
        about = [shown[name][what] for what in ("newest", "sealed_up_to", "missing", "published")]
        assert about == [None, None, shown[name]["missing"], published]
        assert shown[name]["missing"] in (None, 0)

    told, whole = seen(world, VIEWER, f"datasets/{COUNTRIES}"), seen(world, VIEWER, f"datasets/{WHOLE}")

    assert (told["grain"], told["keys"], told["states"], told["sealed"]) == ("key", ["PL", ODD], "31", "10")
    assert (told["dags"]["range"], told["dags"]["amend"]) == ("shop.revenue.range", "shop.revenue.amend")
    assert (whole["keys"], whole["states"], whole["dags"]["range"]) == (["all"], "0", "shop.totals.range")


def test_a_key_with_a_slash_is_told_reserved_and_given_back(world: World) -> None:
    one = seen(world, VIEWER, f"datasets/{COUNTRIES}/partitions/{quote(ODD, safe='')}")
    asked = {"spans": [[ODD, ODD]], "reason": "the source is being mended"}

    assert (one["key"], one["figures"]["amount"], [line["what"] for line in one["history"]]) == (
        ODD,
        "7",
        ["published"],
    )
    assert world.ask(EDITOR, f"datasets/{COUNTRIES}/claim", asked)[0] == 200
    assert seen(world, VIEWER, f"datasets/{COUNTRIES}")["holders"] == {ODD: {"by": "editor", "run": None}}
    assert world.ask(EDITOR, f"datasets/{COUNTRIES}/release", asked) == (200, {"words": f"{ODD} is free again"})


@pytest.mark.parametrize(
    ("spans", "words"),
    [
        ([["PL", ODD]], "these keys have no order"),
        ([["XX", "XX"]], "the ledger knows no partition 'XX' of shop.revenue"),
        ([["2024-01-01", "2024-01-31"]], "the ledger knows no partition '2024-01-01'"),
    ],
)
def test_a_key_that_there_is_not_is_refused_in_words(world: World, spans: list[list[str]], words: str) -> None:
    status, answer = world.ask(ADMIN, f"datasets/{COUNTRIES}/claim", {"spans": spans, "reason": "r"})

    assert (status, words in answer["detail"]) == (400, True)
    assert world.ask(ADMIN, f"datasets/{COUNTRIES}/partitions/{spans[0][0]}xx")[0] == 400


def _days(told: dict[str, Any]) -> list[str]:
    from backfill_core.keys import keys_between

    return keys_between(told["first"], told["last"])


def test_of_a_dataset_that_no_dag_writes_only_an_admin_hears(world: World) -> None:
    assert ARCHIVE in by_name(world, ADMIN)
    assert len(by_name(world, ADMIN)) >= 1000
    for user in (EDITOR, VIEWER):
        assert set(by_name(world, user)) == {SHOP, LIVELY, COUNTRIES, WHOLE, "daily"}
        assert world.ask(user, f"datasets/{ARCHIVE}")[0] == 404
        assert world.ask(user, f"datasets/{ARCHIVE}/claim", ASKED)[0] == 404
    assert seen(world, ADMIN, f"datasets/{ARCHIVE}")["why_not"] is None


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"spans": [["2024-02-02", "2024-02-01"]], "reason": "r"}, "a span goes from its first key to its last"),
        ({"spans": [["0001-01-01", "9999-12-31"]], "reason": "r"}, "one request names 40000 keys at most"),
        ({"spans": [["2024-02-30", "2024-03-01"]], "reason": "r"}, "2024-02-30"),
        ({"spans": [], "reason": "r"}, "spans"),
        ({"spans": [["2024-02-01", "2024-02-01"]], "reason": " "}, "reason"),
        ({"spans": [["2024-02-01", "2024-02-01"]]}, "reason: Field required"),
        ({"spans": [["2024-02-01", "2024-02-01"]], "reason": "r", "sql": "drop table"}, "sql"),
        ([], "the body"),
    ],
)
def test_what_can_not_be_read_is_refused_in_words(world: World, asked: object, words: str) -> None:
    status, answer = world.ask(ADMIN, f"datasets/{SHOP}/claim", asked)

    assert (status, isinstance(answer["detail"], str)) == (400, True)
    assert words in answer["detail"]


@pytest.mark.parametrize("name", ["'; DROP TABLE ledger_keys; --", "../../etc/passwd", "a\x00b", "%"])
def test_a_made_up_name_finds_nothing_and_changes_nothing(world: World, name: str) -> None:
    status, answer = world.ask(ADMIN, f"datasets/{quote(name, safe='')}")

    assert status == 404
    assert "Traceback" not in str(answer)
    assert by_name(world, ADMIN)[SHOP]["published"] >= 166


def test_a_hostile_name_is_data(world: World) -> None:
    assert seen(world, ADMIN, f"datasets/{quote(HOSTILE, safe='')}")["dataset"] == HOSTILE


def test_a_ledger_that_can_not_be_reached_is_said_and_hides_no_other(world: World) -> None:
    status, answer = world.ask(VIEWER, "datasets/lost.days")

    assert status == 503
    assert "Traceback" not in answer["detail"]
    assert SHOP in by_name(world, VIEWER)


def test_looking_at_everything_changes_no_row_and_reads_no_table_of_a_user(world: World) -> None:
    with closing(sqlite3.connect(world.shop)) as shop:
        shop.execute("BEGIN EXCLUSIVE")  # whoever looked at the table would wait, and fail

        for path in READS:
            assert world.ask(ADMIN, path)[0] == 200


def test_what_a_range_would_do_is_planned_by_a_task_and_writes_nothing(world: World) -> None:
    from page_plan import plan

    planned = plan(world, "shop.range", "2024-06-29", "2024-06-30")

    assert [(one["key"], one["action"]) for one in planned] == [
        ("2024-06-29", "unchanged"),
        ("2024-06-30", "unchanged"),
    ]
    assert [one["action"] for one in plan(world, "backfill_range", "2026-02-02", "2026-02-11")] == [
        "skipped", *["unchanged"] * 8, "change",
    ]  # fmt: skip
    assert seen(world, VIEWER, "datasets/daily")["last"] == "2026-02-10"


def test_what_another_writes_beside_is_seen_at_the_next_look(world: World) -> None:
    with world.guarded(LIVELY) as payments:
        payments.write(["2025-06-09"], fill("paid"), Caller("by-hand", owner="anna"), "it was forgotten")

    told = seen(world, VIEWER, f"datasets/{LIVELY}/partitions/2025-06-09")

    assert (told["owner"], told["reason"], told["run"]) == ("anna", "it was forgotten", None)


PAGE = (ROOT / "docs" / "page.md").read_text()
SCRIPTS = re.findall(r"```sh\n(.*?)```", PAGE[PAGE.index("## From a script") :], re.DOTALL)


def test_the_commands_of_the_docs_do_what_the_docs_say(world: World) -> None:
    environ = {"PATH": os.environ["PATH"], "AIRFLOW": world.address, "TOKEN": world.token(EDITOR)}

    said = [
        subprocess.run(["sh", "-ec", script], env=environ, check=True, capture_output=True, text=True).stdout
        for script in SCRIPTS
    ]

    assert len(SCRIPTS) == 2
    assert '"dataset":"shop.orders_daily"' in said[0]
    assert "3 partitions are reserved in the name of editor" in said[1]
    assert "3 partitions are free again" in said[1]

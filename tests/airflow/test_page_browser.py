"""The page of partitions in Airflow 3.3, in a real browser: what a person sees and does there, on real ledgers."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from backfill_core.claims import Caller
from backfill_core.keys import keys_between
from gen_events import write_partition
from page_browser import Visitor, chromium
from page_world import (
    ADMIN,
    ARCHIVE,
    COUNTRIES,
    EDITOR,
    FAILED,
    HOSTILE,
    LIVELY,
    ODD,
    SHOP,
    VIEWER,
    WHOLE,
    fill,
    sell,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from page_world import World

RUN = "shop/scheduled__2024-07-01T00:00:00+00:00"


@pytest.fixture
def admin(world: World) -> Iterator[Visitor]:
    with visiting(world, ADMIN) as visitor:
        yield visitor


@pytest.fixture
def editor(world: World) -> Iterator[Visitor]:
    with visiting(world, EDITOR) as visitor:
        yield visitor


@contextmanager
def visiting(world: World, user: str) -> Iterator[Visitor]:
    """Let a user in, with a browser; no error of the page may come up meanwhile."""
    with chromium() as context:
        visitor = world.visit(context, user)
        yield visitor
        assert visitor.faults == []


def order_late(world: World, *keys: str) -> None:
    """Let one more order come in, on each of these days."""
    with closing(sqlite3.connect(world.shop, timeout=60)) as shop, shop:
        sell(shop, "orders", dict.fromkeys(keys, 1))


def test_a_person_finds_the_page_and_reads_a_day(admin: Visitor) -> None:
    admin.find()
    admin.page.get_by_label("Filter by name").fill(SHOP)
    admin.open(SHOP)
    admin.go(SHOP, "2024-02-03")

    admin.says("2024-02-03", "Published", "amount", "History")
    assert re.fullmatch(rf"2024-02-03, Published, [-\d]+ [:\d]+ by {re.escape(RUN)}", admin.cell())
    link = admin.panel.get_by_role("link", name=RUN.partition("/")[2]).first.get_attribute("href") or ""
    assert link.endswith("/dags/shop/runs/scheduled__2024-07-01T00%3A00%3A00%2B00%3A00")


def test_what_needs_a_person_is_first_and_a_thousand_datasets_are_filtered(admin: Visitor) -> None:
    admin.find()
    rows = admin.page.get_by_role("row")

    assert rows.nth(1).get_by_role("link").inner_text() == LIVELY
    for need in ("2 failed", "2 drifted", "2 late"):
        assert need in rows.nth(1).inner_text()
    admin.page.get_by_text("A ledger can't be reached").wait_for()
    admin.page.get_by_label("Filter by name").fill("table_0777")
    admin.page.get_by_text(re.compile(r"1 of 10\d\d datasets")).wait_for()
    admin.page.get_by_role("link", name="shop.table_0777").wait_for()


def test_a_hostile_name_is_shown_and_does_nothing(admin: Visitor) -> None:
    admin.page.on("dialog", lambda dialog: admin.faults.append(dialog.message))
    admin.find()
    admin.page.get_by_label("Filter by name").fill("<img")
    admin.page.get_by_role("link", name=HOSTILE, exact=True).click()

    admin.page.get_by_role("heading", name=HOSTILE).wait_for()
    assert admin.page.locator("main img").count() == 0


def test_the_keyboard_reaches_every_partition_and_chooses_a_range(admin: Visitor) -> None:
    admin.go(SHOP, "2024-03-04")
    admin.grid.focus()

    admin.page.keyboard.press("ArrowDown")
    admin.waits_for_cell("2024-03-05, Missing")
    admin.page.keyboard.press("Shift+ArrowRight")
    admin.waits_for_cell("2024-03-12")
    admin.says("2024-03-05 – 2024-03-12", "8 days")
    admin.page.keyboard.press("Home")
    admin.waits_for_cell("2024-01-15")
    admin.page.keyboard.press("End")
    admin.waits_for_cell("2024-06-30")
    admin.page.keyboard.press("Enter")
    assert admin.panel.evaluate("panel => panel === document.activeElement")


def test_a_range_is_typed_and_narrowed_to_what_is_missing(admin: Visitor) -> None:
    admin.go(SHOP, "2024-03-01")
    admin.panel.get_by_label("To, inclusive").fill("2024-03-31")
    admin.button("Choose").click()
    admin.says("31 days")

    admin.panel.locator("label", has_text="Missing").click()

    admin.says("2 days")
    admin.button("Backfill…").click()
    admin.page.get_by_role("dialog").get_by_text("2024-03-05 – 2024-03-06 (2 days)").wait_for()


def test_partitions_that_are_no_days_are_a_list_that_is_planned_and_made_again(world: World, editor: Visitor) -> None:
    with closing(sqlite3.connect(world.shop, timeout=60)) as shop, shop:
        shop.execute("INSERT INTO sales VALUES (?, 1)", [ODD])
    page = editor.page
    editor.page.goto(f"{world.address}/plugin/partitions?dataset={COUNTRIES}")
    listed = page.get_by_role("region", name=f"Partitions of {COUNTRIES}")

    listed.get_by_role("button", name=ODD).click()
    editor.says(ODD, "Published", "History")
    editor.button("What would a run do now?").click()
    editor.says("1 change")
    said = editor.do("Backfill", "it came late")

    assert f"1 key of {COUNTRIES} again" in said
    editor.says("A run of shop.revenue.range was started", "1 of 1 written by it")
    editor.page.goto(f"{world.address}/plugin/partitions?dataset={WHOLE}")
    page.get_by_role("region", name=f"Partitions of {WHOLE}").get_by_role("button", name="all").wait_for()
    assert editor.violations() == []


def test_what_is_pointed_at_is_described(admin: Visitor) -> None:
    admin.go(SHOP, FAILED)
    admin.page.mouse.move(*admin.spot())

    admin.page.locator("[role=rowgroup]").get_by_text(f"by {RUN}").first.wait_for()
    admin.says("the result is empty, and 1 rows are published")


def test_a_range_is_dragged_planned_and_made_again(world: World, editor: Visitor) -> None:
    days = [f"2024-05-{day:02}" for day in range(6, 11)]
    order_late(world, *days)
    editor.go(SHOP, days[-1])
    end = editor.spot()
    editor.go(SHOP, days[0])

    editor.drag(editor.spot(), end)
    editor.says("2024-05-06 – 2024-05-10", "5 days")
    editor.button("What would a run do now?").click()
    editor.says("5 change")
    said = editor.do("Backfill", "an order came late")

    assert "5 days of shop.orders_daily again" in said
    editor.says("A run of shop.range was started", "manual__", "5 of 5 written by it")
    with world.guarded() as orders:
        world.airflow.wait("all are written", lambda: _reasons(orders, days) == ["an order came late"] * 5)
        assert {row["owner"] for row in orders.status(days[0], days[-1])["partitions"]} == {"editor"}
    editor.go(SHOP, days[2])
    editor.says("an order came late", "editor")


def _reasons(orders: object, days: list[str]) -> list[str]:
    return [row["reason"] for row in orders.status(days[0], days[-1])["partitions"]]  # type: ignore[attr-defined]


def test_a_range_of_the_runners_table_is_made_again(world: World, editor: Visitor) -> None:
    for day in range(3, 11):
        write_partition(str(world.events), f"2026-02-{day:02}", 60, 2)
    editor.go("daily", "2026-02-03", "2026-02-10")

    editor.do("Backfill", "the files were delivered again")

    editor.says("8 of 8 written by it")
    editor.page.get_by_role("button", name="Published 8").wait_for()
    editor.page.get_by_role("button", name="Held").wait_for(state="detached")
    editor.says("60")


def test_a_running_backfill_fills_the_days_one_by_one(world: World, editor: Visitor) -> None:
    days = keys_between("2024-05-13", "2024-05-17")
    order_late(world, *days)
    run = Caller("shop.range/manual__2024-07-02T00:00:00+00:00")
    with world.guarded() as orders:
        claim = orders.claim(days, run)["claim"]
        editor.go(SHOP, days[0], days[-1])

        for left in range(len(days), 0, -1):  # the page looks again by itself
            editor.page.get_by_role("button", name=re.compile(rf"^Held {left}$")).wait_for()
            orders.write([days[-left]], fill("orders"), run)
        orders.release(claim=claim)
    editor.page.get_by_role("button", name="Held").wait_for(state="detached")


def test_what_was_sent_stays_is_refused_and_is_corrected_beside(world: World, editor: Visitor) -> None:
    day = "2024-02-05"
    editor.go(SHOP, day)
    assert editor.button("Amend…").get_attribute("aria-disabled") == "true"
    editor.do("Seal", "sent to the board")
    editor.waits_for_cell("Sealed")
    order_late(world, day)
    editor.go(SHOP, day)
    editor.button("What would a run do now?").click()
    editor.says("1 skipped")
    editor.do("Backfill", "an attempt at what was sent")
    editor.says("A run of shop.range was started", "0 of 1 written by it", f"{day} was left:")

    editor.do("Amend", "an order of that day came late")

    editor.waits_for_cell("Sealed and corrected")
    editor.says("an order of that day came late", "Right", "sent to the board")
    with world.guarded() as orders:
        [line] = orders.statement(day, day)["partitions"]
    assert int(str(line["corrected"]["orders"])) == int(str(line["published"]["orders"])) + 1
    editor.do("Unseal", "it was sent too early")
    editor.waits_for_cell("Published")


def test_a_day_is_reserved_others_are_refused_and_it_is_given_back(world: World, editor: Visitor) -> None:
    day = "2024-06-10"
    editor.go(SHOP, day)
    editor.do("Claim", "I look into it")
    editor.waits_for_cell("Held, held by editor")
    editor.says("reserved", "I look into it")

    with world.guarded() as orders:
        skipped = orders.write([day], lambda _: None, Caller("somebody/else"))["skipped"]
    assert skipped == [[day, "claimed_by:editor"]]

    editor.do("Release", "it is well")
    editor.waits_for_cell("Published")
    editor.says("released", "it is well")


def test_who_may_only_look_is_told_so_and_can_change_nothing(world: World) -> None:
    with chromium() as context:
        viewer = world.visit(context, VIEWER)
        viewer.find()
        viewer.open(SHOP)
        viewer.go(SHOP, "2024-02-03")
        viewer.says("Published", "History")

        viewer.page.get_by_text("You may look: only who may edit the DAG shop may change it").wait_for()
        for verb in ("Backfill", "Seal", "Claim"):
            assert viewer.button(f"{verb}…").get_attribute("aria-disabled") == "true"
        assert viewer.button("What would a run do now?").get_attribute("aria-disabled") == "true"


def test_a_dag_has_a_tab_with_its_dataset_or_one_that_teaches(admin: Visitor) -> None:
    admin.page.goto(f"{admin.address}/dags/plain")
    admin.page.locator("a[href*='/dags/plain/plugin/']").click()  # the tab; in the navigation there is another
    admin.page.get_by_text("This DAG writes no dataset").wait_for()

    admin.page.goto(f"{admin.address}/dags/shop.range")
    admin.page.locator("a[href*='/dags/shop.range/plugin/']").click()
    admin.page.get_by_role("heading", name=SHOP).wait_for()
    admin.grid.wait_for()


def test_a_ledger_that_does_not_answer_is_said_in_words(admin: Visitor) -> None:
    admin.page.goto(f"{admin.address}/plugin/partitions?dataset=lost.days")

    admin.page.get_by_text("The ledger can't be reached").wait_for()


def test_33662_days_are_drawn_as_few_elements_and_the_cursor_reaches_the_first(admin: Visitor) -> None:
    admin.go(ARCHIVE, "2026-12-31")

    assert admin.page.locator("main svg").count() > 92
    assert admin.page.locator("main *").count() < 5_000
    admin.grid.focus()
    admin.page.keyboard.press("Control+Shift+Home")
    admin.waits_for_cell("1934-11-03")
    admin.says("33,662 days")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390], ids=["wide", "phone"])
def test_axe_finds_nothing(world: World, width: int, dark: bool) -> None:
    with chromium(width=width, dark=dark) as context:
        visitor = world.visit(context, ADMIN)
        visitor.find()
        assert visitor.violations() == []
        visitor.go(LIVELY, "2026-11-10", "2026-11-18")
        visitor.says("9 days")
        assert visitor.violations() == []
        visitor.go(SHOP, "2024-03-01", "2024-03-09")
        visitor.says("9 days")
        assert visitor.violations() == []
        visitor.button("Claim…").click()
        visitor.page.get_by_role("dialog").wait_for()
        assert visitor.violations() == []

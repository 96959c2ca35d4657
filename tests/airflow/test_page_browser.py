"""The page of partitions in Airflow 3.3, in a real browser: what a person sees and does there.

What the page asks is answered by `plugins_page/page_answers.py`, from memory: the page is what is looked at here.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_native import Airflow, native_airflow
from airflow_stand import ROOT
from page_browser import Visitor, chromium, passwords, token_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ADMIN, VIEWER = "admin", "viewer"
BUNDLE = ROOT / "plugins" / "backfill_airflow" / "page" / "partitions.js"
DAG = """
from backfill_airflow.compat import DAG, task

with DAG("plain", schedule=None):
    task(task_id="nothing")(lambda: None)()
"""
SHOP = "shop.orders_daily"


class World:
    """A running Airflow with the page."""

    def __init__(self, airflow: Airflow, home: Path) -> None:
        self._airflow = airflow
        self._passwords = passwords(home)

    def visit(self, context: Any, user: str) -> Visitor:
        """Let a user in."""
        address = self._airflow.address
        return Visitor(context, address, token_of(address, user, self._passwords[user]))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    assert BUNDLE.exists(), "the page isn't built; call `make page`"
    folder = tmp_path_factory.mktemp("page")
    (folder / "dags").mkdir()
    (folder / "dags" / "plain.py").write_text(DAG)
    environ = {
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(Path(__file__).parent / "plugins_page"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{ADMIN}:admin,{VIEWER}:viewer",
        "PAGE_BUNDLE": str(BUNDLE),
    }
    with native_airflow(folder / "home", Path(sys.executable).parent, environ, login=True) as airflow:
        airflow.wait("the DAG is known", lambda: airflow.rest("GET", "/dags")["total_entries"])
        yield World(airflow, folder / "home")


@pytest.fixture
def admin(world: World) -> Iterator[Visitor]:
    with chromium() as context:
        visitor = world.visit(context, ADMIN)
        yield visitor
        assert visitor.faults == []


def test_a_person_finds_the_page_and_reads_a_day(admin: Visitor) -> None:
    admin.find()
    admin.open(SHOP)
    admin.go(SHOP, "2024-02-01")

    admin.says("2024-02-01", "Published", "amount", "History")
    assert admin.cell() == "2024-02-01, Published, 2024-07-01 03:12:07 by shop"


def test_what_needs_a_person_is_first_and_a_thousand_datasets_are_filtered(admin: Visitor) -> None:
    admin.find()
    rows = admin.page.get_by_role("row")

    assert rows.nth(1).get_by_role("link").inner_text() == SHOP
    assert "1 failed" in rows.nth(1).inner_text()
    admin.page.get_by_label("Filter by name").fill("table_0777")
    admin.page.get_by_text("1 of 1000 datasets").wait_for()
    admin.page.get_by_role("link", name="shop.table_0777").wait_for()


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


def test_what_is_pointed_at_is_described(admin: Visitor) -> None:
    admin.go(SHOP, "2024-04-10")
    admin.page.mouse.move(*admin.spot())

    admin.page.locator("[role=rowgroup]").get_by_text("2024-07-01 03:12:07 by shop", exact=True).wait_for()
    admin.says("12 rows are repeated")


def test_a_range_is_dragged_planned_and_made_again_before_ones_eyes(admin: Visitor) -> None:
    admin.go(SHOP, "2024-05-10")
    end = admin.spot()
    admin.go(SHOP, "2024-05-06")

    admin.drag(admin.spot(), end)
    admin.says("2024-05-06 – 2024-05-10", "5 days")
    admin.button("What would a run do now?").click()
    admin.says("5 change")
    said = admin.do("Backfill", "an order came late")

    assert "5 days of shop.orders_daily again" in said
    admin.says("backfill was started", "manual__1")
    for left in (4, 3, 2, 1):
        admin.page.get_by_role("button", name=f"Held {left}").wait_for()
    admin.page.get_by_role("button", name="Held").wait_for(state="detached")
    admin.waits_for_cell("Published")


def test_what_was_sent_stays_is_refused_and_is_corrected_beside(admin: Visitor) -> None:
    admin.go(SHOP, "2024-02-05")
    assert admin.button("Amend…").get_attribute("aria-disabled") == "true"
    admin.do("Seal", "sent to the board")
    admin.waits_for_cell("Sealed")
    admin.button("What would a run do now?").click()
    admin.says("1 skipped")

    admin.do("Unseal", "a mistake")
    admin.page.get_by_role("dialog").get_by_text("is being corrected; try again").wait_for()
    admin.page.get_by_role("button", name="Cancel").click()
    admin.do("Amend", "an order of that day came late")

    admin.waits_for_cell("Sealed and corrected")
    admin.says("an order of that day came late", "Right", "301")


def test_who_may_only_look_is_told_so_and_can_change_nothing(world: World) -> None:
    with chromium() as context:
        viewer = world.visit(context, VIEWER)
        viewer.find()
        viewer.open(SHOP)
        viewer.go(SHOP, "2024-02-01")
        viewer.says("Published", "History")

        viewer.page.get_by_text("You may look").wait_for()
        for verb in ("Backfill", "Seal", "Claim"):
            assert viewer.button(f"{verb}…").get_attribute("aria-disabled") == "true"


def test_a_dag_has_a_tab_that_teaches_where_it_writes_no_dataset(admin: Visitor) -> None:
    admin.page.goto(f"{admin.address}/dags/plain")
    admin.page.locator("a[href*='/dags/plain/plugin/']").click()  # the tab; in the navigation there is another

    admin.page.get_by_text("This DAG writes no dataset").wait_for()


def test_a_ledger_that_does_not_answer_is_said_in_words(admin: Visitor) -> None:
    admin.page.goto(f"{admin.address}/plugin/partitions?dataset=unreachable")

    admin.page.get_by_text("The ledger can't be reached").wait_for()
    admin.page.get_by_text("the database that the connection backfill_default names doesn't answer").wait_for()


def test_33662_days_are_drawn_as_few_elements_and_the_cursor_reaches_the_first(admin: Visitor) -> None:
    admin.go("archive.days", "2026-12-31")

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
        visitor.go(SHOP, "2024-03-01", "2024-03-09")
        visitor.says("9 days")
        assert visitor.violations() == []
        visitor.button("Claim…").click()
        visitor.page.get_by_role("dialog").wait_for()
        assert visitor.violations() == []

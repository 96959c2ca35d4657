"""A person at Airflow's page of partitions: Chromium, logged in, and what can be seen and done there by name."""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow_stand import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import BrowserContext, Locator, Page

CHROMIUM = "/usr/bin/chromium"
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""What keeps Chromium from asking the network for anything but the page."""

AXE = ROOT / "page" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
HOSTS_OWN = {"region"}  # Airflow's navigation stands in no landmark


@contextmanager
def chromium(*, width: int = 1440, height: int = 1000, dark: bool = False) -> Iterator[BrowserContext]:
    """Start a browser with an empty profile."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as profile, sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=CHROMIUM,
            args=list(QUIET),
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
        )
        if dark:
            context.add_init_script("localStorage.setItem('theme', 'dark')")
        context.set_default_timeout(180_000)
        yield context
        context.close()


class Visitor:
    """Who looks at the page, in the words of the page."""

    def __init__(self, context: BrowserContext, address: str, token: str) -> None:
        self.address = address
        self.faults: list[str] = []
        context.add_cookies([{"name": "_token", "value": token, "url": address}])
        self.page: Page = context.new_page()
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))

    def find(self) -> None:
        """Come in by the front door, and find the page in the navigation."""
        self.page.goto(self.address)
        self.page.get_by_role("link", name="Partitions").click()
        self.page.get_by_role("heading", name="Partitions").wait_for()

    def open(self, dataset: str) -> None:
        """Open a dataset from the overview."""
        self.page.get_by_role("link", name=dataset, exact=True).click()
        self.grid.wait_for()

    def go(self, dataset: str, first: str, last: str | None = None) -> None:
        """Follow a link to a range of a dataset."""
        path = f"/plugin/partitions?dataset={quote(dataset)}&from={first}&to={last or first}"
        self.page.goto(self.address + path)
        self.grid.wait_for()

    @property
    def grid(self) -> Locator:
        """The calendar."""
        return self.page.get_by_role("grid")

    @property
    def panel(self) -> Locator:
        """What is said of what is chosen."""
        return self.page.get_by_role("region", name="What is chosen")

    def cell(self) -> str:
        """Return what a screen reader says of the cell under the cursor."""
        name = self.grid.get_attribute("aria-activedescendant")
        return self.page.locator(f"[id='{name}']").get_attribute("aria-label") or ""

    def says(self, *texts: str) -> None:
        """Wait until the panel says all of that."""
        for text in texts:
            self.panel.get_by_text(text).first.wait_for()

    def waits_for_cell(self, text: str) -> None:
        """Wait until the cell under the cursor is said to be that."""
        self.page.locator(f"[role=gridcell][aria-label*='{text}']").wait_for(state="attached")

    def drag(self, first: tuple[float, float], last: tuple[float, float]) -> None:
        """Drag from one point of the page to another."""
        self.page.mouse.move(*first)
        self.page.mouse.down()
        self.page.mouse.move(*last, steps=5)
        self.page.mouse.up()

    def spot(self) -> tuple[float, float]:
        """Return where the cursor is drawn."""
        box = self.page.locator("[data-cursor]").bounding_box()
        assert box is not None
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def button(self, name: str) -> Locator:
        """Return a button of the panel."""
        return self.panel.get_by_role("button", name=name, exact=True)

    def do(self, verb: str, reason: str) -> str:
        """Do it, for a reason; return what was said before it was confirmed."""
        self.button(f"{verb}…").click()
        dialog = self.page.get_by_role("dialog")
        dialog.get_by_label("Reason").fill(reason)
        said: str = dialog.inner_text()
        dialog.get_by_role("button", name=verb, exact=True).click()
        return said

    def violations(self) -> list[str]:
        """Return what axe finds against WCAG 2.2 AA and good practice."""
        self.page.evaluate(AXE.read_text())
        found: Any = self.page.evaluate(f"axe.run(document, {{runOnly: {json.dumps(RULES)}}})")
        return [
            f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found["violations"] if one["id"] not in HOSTS_OWN
        ]

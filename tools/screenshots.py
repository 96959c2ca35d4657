#!/usr/bin/env python3
"""The pictures of the page in docs/images: `make screenshots`. Look at each before it is committed."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "airflow")]

from page_browser import Visitor, chromium  # noqa: E402
from page_world import ADMIN, LIVELY, page_world  # noqa: E402

IMAGES = ROOT / "docs" / "images"
PHONE, DESK = (390, 844), (1440, 900)


def main() -> int:
    """Start an Airflow with the page, and draw each picture."""
    with tempfile.TemporaryDirectory() as folder, page_world(Path(folder), tidy=True) as world:
        for name, size, dark, range_ in (
            ("overview", DESK, False, None),
            ("light", DESK, False, ("2026-09-28", "2026-10-22")),
            ("dark", DESK, True, ("2025-12-03", "2025-12-03")),
            ("phone", PHONE, False, ("2026-11-12", "2026-11-12")),
        ):
            with chromium(width=size[0], height=size[1], dark=dark) as context:
                draw(world.visit(context, ADMIN), name, range_)
    return 0


def draw(visitor: Visitor, name: str, range_: tuple[str, str] | None) -> None:
    """Draw one picture."""
    if range_ is None:
        visitor.find()
        visitor.page.get_by_role("link", name=LIVELY).wait_for()
    else:
        visitor.go(LIVELY, *range_)
        visitor.says(range_[0])
        if range_[0] != range_[1]:
            visitor.button("What would a run do now?").click()
            visitor.page.get_by_role("region", name="Plan", exact=True).wait_for()
        else:
            visitor.panel.get_by_text("History").wait_for()
        visitor.page.mouse.move(0, 0)
    visitor.page.screenshot(path=IMAGES / f"page-{name}.png")


if __name__ == "__main__":
    sys.exit(main())

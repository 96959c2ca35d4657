"""How long the page of partitions takes: until it answers, and until a browser has drawn it.

    make bench-page

On an Airflow, a ledger in SQLite and a Chromium of its own: the overview of a thousand datasets, one dataset with three
years, and one with the 33,662 days of ninety-two years. Medians of several looks, each with an empty cache.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(ROOT / "tests" / "airflow")]

from page_browser import chromium  # noqa: E402
from page_world import ADMIN, ARCHIVE, LIVELY, page_world  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from page_browser import Visitor
    from page_world import World

ROUNDS = 7


def main() -> None:
    """Measure and print a table."""
    with tempfile.TemporaryDirectory() as folder, page_world(Path(folder)) as world:
        print("| | the API answers, s | bytes | the page is drawn, s |\n| --- | ---: | ---: | ---: |")
        for name, path, drawn in (
            ("the overview of 1,000 datasets", "datasets", _overview),
            ("a dataset of three years", f"datasets/{LIVELY}", _dataset(LIVELY)),
            ("a dataset of 33,662 days", f"datasets/{ARCHIVE}", _dataset(ARCHIVE)),
        ):
            answered, size = _answered(world, path)
            print(f"| {name} | {answered:.2f} | {size:,} | {_drawn(world, drawn):.2f} |", flush=True)


def _answered(world: World, path: str) -> tuple[float, int]:
    took, size = [], 0
    for _ in range(ROUNDS):
        request = Request(f"{world.address}/backfill/{path}", headers={"Authorization": f"Bearer {world.token(ADMIN)}"})
        began = time.perf_counter()
        with urlopen(request, timeout=60) as answer:
            size = len(answer.read())
        took.append(time.perf_counter() - began)
    return median(took), size


def _drawn(world: World, look: Callable[[Visitor], None]) -> float:
    """From Airflow's own page to the one that is asked for, as somebody who follows a link."""
    took = []
    for _ in range(ROUNDS):
        with chromium() as context:
            visitor = world.visit(context, ADMIN)
            visitor.find()
            visitor.page.get_by_label("Filter by name").wait_for()
            began = time.perf_counter()
            look(visitor)
            took.append(time.perf_counter() - began)
    return median(took)


def _overview(visitor: Visitor) -> None:
    visitor.page.get_by_role("link", name="Dags").first.click()
    visitor.page.get_by_role("heading", name="Partitions").wait_for(state="detached")
    visitor.page.get_by_role("link", name="Partitions").click()
    visitor.page.get_by_role("link", name=LIVELY, exact=True).wait_for()


def _dataset(name: str) -> Callable[[Visitor], None]:
    def look(visitor: Visitor) -> None:
        visitor.page.get_by_label("Filter by name").fill(name)
        visitor.open(name)

    return look


if __name__ == "__main__":
    main()

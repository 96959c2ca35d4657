"""Somebody who looks all the time, with a connection of his own, sees whole partitions only."""

from __future__ import annotations

import itertools
import os
import time

from tests.store.crowd import together
from tests.world import World, day, days

COUNT = 3
SECONDS = 30 if os.environ.get("BACKFILL_FAULTS") == "long" else 2


def replace_or_look(number: int, world: World, seconds: float) -> list[dict[str, tuple[int, int, str]]]:
    """Two replace all days again and again; the others look, and tell each view that differs from the last."""
    end = time.monotonic() + seconds
    views: list[dict[str, tuple[int, int, str]]] = []
    with world.backfill() as backfill:
        for turn in itertools.count():
            if time.monotonic() > end:
                return views
            if number < 2:
                world.put(day(turn % COUNT), *([turn % 50 + 1] * (turn % 7 + 1)))
                backfill.run(days(COUNT), f"owner {number}")
            else:
                view = world.daily()
                if not views or view != views[-1]:
                    views.append(view)
    return views


def test_a_polling_reader_never_sees_a_partition_missing_or_half(world: World) -> None:
    for number in range(COUNT):
        world.put(day(number), number + 1)
    with world.backfill() as backfill:
        backfill.run(days(COUNT), "owner 0")

    answers = together(4, replace_or_look, World(world.db, world.folder), SECONDS)

    views = list(itertools.chain(*answers))
    print(f"{len(views)} different views")
    assert len(views) > 10
    for view in views:
        assert list(view) == list(days(COUNT))
        assert all(amount % orders == 0 and 1 <= amount // orders <= 50 for orders, amount, _ in view.values())

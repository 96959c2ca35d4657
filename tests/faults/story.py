"""The story that every fault interrupts: some days have their old result, and a run is to give them the new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.world import World, day, days

if TYPE_CHECKING:
    from backfill_core.answers import RunAnswer

OLD, NEW = (1, 1), (3, 33)


def begin(world: World, count: int) -> None:
    """Give so many days their old result, and then their new source."""
    for number in range(count):
        world.put(day(number), 1)
    run(world, count, "old")
    for number in range(count):
        world.put(day(number), 11, 22, 0)


def run(world: World, count: int, owner: str) -> RunAnswer:
    with world.backfill() as backfill:
        return backfill.run(days(count), owner)


def days_at_new(world: World, count: int) -> int:
    """Return how many days have their new result; those come first, all others have the old one, none is missing."""
    daily = world.daily()
    assert list(daily) == list(days(count))
    new = sum(daily[day(number)] == (*NEW, "new") for number in range(count))
    assert list(daily.values()) == [(*NEW, "new")] * new + [(*OLD, "old")] * (count - new)
    return new


def check_that_running_again_is_enough(world: World, count: int) -> None:
    answer = run(world, count, "new")

    assert answer["done"] == list(days(count))
    assert days_at_new(world, count) == count

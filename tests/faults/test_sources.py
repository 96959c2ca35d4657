"""A source that changes while it is read, and clocks that go back."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest

from tests.world import World, day, days, lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LONG = lines(day(0), [7] * 1500).replace('": "o', '": "' + "o" * 2000)
"""Several pieces of reading."""


def first_lines(count: int) -> str:
    return "".join(LONG.splitlines(keepends=True)[:count])


def replaced(file: Path) -> None:
    new = file.with_name("new")
    new.write_text(lines(day(0), [1, 2]))
    new.replace(file)


def rewritten(file: Path) -> None:
    file.write_text(lines(day(0), [1, 2, 3]))


def appended(file: Path) -> None:
    with file.open("a") as end:
        end.write(lines(day(0), [5]))


def truncated(file: Path) -> None:
    os.truncate(file, len(first_lines(10)))


def cut(file: Path) -> None:
    os.truncate(file, len(first_lines(10)) - 3)


def deleted(file: Path) -> None:
    file.unlink()


RESULTS: dict[Callable[[Path], None], tuple[int, int] | str] = {
    replaced: (2, 3),
    rewritten: (3, 6),
    appended: (1501, 10_505),
    truncated: (10, 70),
    cut: "not JSON",
    deleted: "no_data",
}


@pytest.mark.parametrize("world", ["sqlite"], indirect=True)  # what is read is the same for both stores
@pytest.mark.parametrize("change", RESULTS, ids=lambda change: change.__name__)
def test_a_source_that_changes_while_it_is_read_is_read_again(world: World, change: Callable[[Path], None]) -> None:
    """The change comes each time that a run asks whether to stop, one after the other: between all pieces."""
    world.put(day(0), 1)
    with world.backfill() as backfill:
        for moment in itertools.count(1):
            world.put(day(0), 1)
            backfill.run(days(1), "old")
            world.file(day(0)).write_text(LONG)
            asked = 0

            def meddle(moment: int = moment) -> bool:
                nonlocal asked
                asked += 1
                if asked == moment:
                    change(world.file(day(0)))
                return False

            answer = backfill.run(days(1), "new", stop=meddle)

            if asked < moment:
                break
            expected = RESULTS[change]
            if isinstance(expected, tuple):
                assert answer["done"] == [day(0)]
                assert world.daily() == {day(0): (*expected, "new")}
            else:
                reasons = answer["skipped"] + answer.get("failed", [])
                assert len(reasons) == 1
                assert expected in reasons[0][1]
                assert world.daily() == {day(0): (1, 1, "old")}
    assert moment > 4, "the run was too short to change its source in the middle"


def test_a_source_that_never_holds_still_is_given_up_in_a_sentence(world: World) -> None:
    world.put(day(0), 1)
    world.put(day(1), 2)

    moments = itertools.count()

    def meddle() -> bool:
        os.utime(world.file(day(0)), (next(moments), 0))
        os.utime(world.file(day(0)), (0, next(moments)))
        return False

    with world.backfill() as backfill:
        answer = backfill.run(days(2), "a", stop=meddle)

    assert answer["done"] == [day(1)]
    assert "keeps changing while it is read" in answer["failed"][0][1]
    assert list(world.daily()) == [day(1)]


@pytest.mark.parametrize("moment", [0, 1, 2**31, 2**33])
def test_a_clock_set_back_hides_no_newer_source(world: World, moment: int) -> None:
    """Times of files are compared for being the same, never for being later; nothing else reads a clock."""
    world.put(day(0), 1)
    with world.backfill() as backfill:
        backfill.run(days(1), "a")
        backfill.seal(days(1, start=1))
        for amount in (2, 3):
            world.put(day(0), amount)
            world.put(day(1), amount)
            os.utime(world.file(day(0)), (moment - amount, moment - amount))
            os.utime(world.file(day(1)), (moment - amount, moment - amount))
            backfill.run(days(2), "a")
            backfill.amend(days(1, start=1).first, f"{amount}")

    assert world.daily() == {day(0): (1, 3, "a")}
    assert [row[5] for row in world.rows("corrections")] == ["2", "3"]


def test_a_clock_set_back_while_a_source_is_read_is_a_change(world: World) -> None:
    world.file(day(0)).write_text(LONG)
    asked = {"undisturbed": 0, "disturbed": 0}

    def ask(which: str) -> bool:
        asked[which] += 1
        if asked["disturbed"] == 2:
            os.utime(world.file(day(0)), (1, 1))
        return False

    with world.backfill() as backfill:
        backfill.run(days(1), "a", stop=lambda: ask("undisturbed"))
        backfill.run(days(1), "a", stop=lambda: ask("disturbed"))

    assert asked["disturbed"] > asked["undisturbed"]
    assert world.daily() == {day(0): (1500, 10_500, "a")}

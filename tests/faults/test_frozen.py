"""A writer that was stopped after its count, as a machine that slept, does no harm when it goes on."""

from __future__ import annotations

from tests.faults.killing import amend_frozen, end_of, run_frozen, start, thaw, wait_until_frozen
from tests.world import World, day, days


def test_a_frozen_writer_leaves_alone_what_was_sealed_meanwhile(world: World) -> None:
    world.put(day(0), 1)
    process = start(run_frozen, world.db, str(world.events), 1, "frozen")
    wait_until_frozen(process)

    with world.backfill() as backfill:
        world.put(day(0), 1, 2)
        backfill.run(days(1), "other")
        backfill.seal(days(1))
    thaw(process)
    wait_until_frozen(process)  # its source is another now, so it has counted again
    thaw(process)

    assert end_of(process) == 0
    assert world.daily() == {day(0): (2, 3, "other")}


def test_a_frozen_writer_never_lands_its_old_count(world: World) -> None:
    world.put(day(0), 1)
    process = start(run_frozen, world.db, str(world.events), 1, "frozen")
    wait_until_frozen(process)

    with world.backfill() as backfill:
        world.put(day(0), 1, 2)
        backfill.run(days(1), "other")
        thaw(process)
        wait_until_frozen(process)  # after another count, that of the newer source
        between = world.daily()
        thaw(process)

    assert end_of(process) == 0
    assert between == {day(0): (2, 3, "other")}
    assert world.daily() == {day(0): (2, 3, "frozen")}


def test_a_frozen_writer_honours_a_claim_that_came_meanwhile(world: World) -> None:
    world.put(day(0), 1)
    process = start(run_frozen, world.db, str(world.events), 1, "frozen")
    wait_until_frozen(process)

    with world.backfill() as backfill:
        backfill.claim(days(1), "other")
    thaw(process)

    assert end_of(process) == 0
    assert world.daily() == {}


def test_a_frozen_amend_never_records_an_old_count(world: World) -> None:
    world.put(day(0), 1)
    with world.backfill() as backfill:
        backfill.run(days(1), "a")
        backfill.seal(days(1))
    process = start(amend_frozen, world.db, str(world.events), days(1).first, "late")
    wait_until_frozen(process)

    world.put(day(0), 1, 2)
    thaw(process)
    wait_until_frozen(process)
    between = world.rows("corrections")
    thaw(process)

    assert end_of(process) == 0
    assert between == []
    assert world.rows("corrections") == [(day(0), 1, 1, 2, 3, "late")]

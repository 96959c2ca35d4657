"""kill -9 at every statement, one after the other, on both stores."""

from __future__ import annotations

import itertools
import signal

import pytest

from tests.faults import story
from tests.faults.killing import claim_and_die, end_of, run_and_die, seal_and_die, start
from tests.world import World, days

COUNT = 3


@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
def test_a_run_killed_at_any_statement_leaves_whole_partitions_and_can_be_run_again(world: World, after: bool) -> None:
    new_before = 0
    for statement in itertools.count(1):
        story.begin(world, COUNT)

        process = start(run_and_die, world.db, str(world.events), COUNT, "new", statement, after)

        if end_of(process) == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        new = story.days_at_new(world, COUNT)
        assert new in (new_before, new_before + 1)  # the further it came, the more is done, one by one
        new_before = new
        story.check_that_running_again_is_enough(world, COUNT)
    print(f"killed at {statement - 1} statements")
    assert statement > 5 * COUNT
    assert new_before >= (COUNT if after else COUNT - 1)


@pytest.mark.parametrize("work", [claim_and_die, seal_and_die])
def test_a_claim_or_a_seal_of_a_range_is_there_whole_or_not_at_all(world: World, work: object) -> None:
    table = "claims" if work is claim_and_die else "seals"
    counts = []
    for statement, after in ((number, after) for number in itertools.count(1) for after in (False, True)):
        process = start(work, world.db, str(world.events), 50, "a", statement, after)  # type: ignore[arg-type]

        if end_of(process) == 0:
            break
        counts.append(len(world.rows(table)))
    assert set(counts) == {0, 50}
    assert counts == sorted(counts)
    assert [row[0] for row in world.rows(table)] == list(days(50))

"""Many processes at once: every answer fits a serial order, and what must never change doesn't."""

from __future__ import annotations

import itertools
import os
import time

import pytest

from tests.store.crowd import (
    DAYS,
    act_at_random,
    claim_a_year,
    correct_a_day,
    look_at_the_end,
    run_a_day,
    start_sources,
    together,
)
from tests.store.history import State, Step, serial_order
from tests.world import World, day, days

PROCESSES = 8
OPERATIONS = 60
SECONDS = 60 if os.environ.get("BACKFILL_FAULTS") == "long" else 0
"""How long random operations go on, at the least: one round in any case."""


def test_sixteen_processes_claim_one_year_and_each_date_goes_to_one(world: World) -> None:
    claimed = together(16, claim_a_year, world.db, str(world.events))

    assert sorted(itertools.chain(*claimed)) == list(days(366))
    assert world.rows("claims") == sorted(
        (dt, f"owner {number}") for number, dates in enumerate(claimed) for dt in dates
    )


def test_eight_processes_replace_one_partition_and_one_row_is_left(world: World) -> None:
    world.put(day(0), 3, 4)

    together(PROCESSES, run_a_day, world.db, str(world.events), 25)

    [(dt, orders, amount, _)] = world.rows("daily")
    assert (dt, orders, amount) == (day(0), 2, 7)


def test_what_a_transaction_read_is_still_so_when_it_writes(world: World) -> None:
    together(PROCESSES, correct_a_day, world.db, 25)

    corrections = world.rows("corrections")
    assert [row[1:5] for row in corrections] == [(n, n, n + 1, n + 1) for n in range(PROCESSES * 25)]


def test_answers_to_random_operations_fit_a_serial_order(world: World) -> None:
    sources = start_sources(world)
    state = State.empty(sources, PROCESSES)
    last, rounds = [], 0
    end = time.monotonic() + SECONDS

    while not rounds or time.monotonic() < end:
        histories = together(PROCESSES, act_at_random, world.db, world.folder, rounds, OPERATIONS)
        histories[0] += look_at_the_end(world)
        order, after = serial_order(histories, state)

        _check_seals_hold(order, state)
        last += [step.answer for step in order if step.what == "amend" and step.answer]
        assert sorted(row[5] for row in world.rows("corrections")) == sorted(answer[4] for answer in last)
        state, rounds = after, rounds + 1

    print(f"{rounds} rounds of {PROCESSES} processes with {OPERATIONS} operations each, {len(last)} corrections")
    _check_invariants(world, state)


def _check_seals_hold(order: list[Step], before: State) -> None:
    """Replay the order: once sealed, a value stays."""
    kept: dict[int, object] = {n: before.daily[n] for n in range(DAYS) if before.sealed[n]}
    for step in order:
        if step.what == "see":
            daily, _, sealed, _, _ = step.answer
            for number in range(DAYS):
                if sealed[number]:
                    assert kept.setdefault(number, daily[number]) == daily[number], step


def _check_invariants(world: World, state: State) -> None:
    sealed = {dt for (dt,) in world.rows("seals")}
    before = world.daily()
    assert {dt for dt, *_ in world.rows("corrections")} <= sealed
    with world.backfill() as backfill:
        for owner in {holder for holder in state.holders if holder}:
            backfill.release(days(DAYS), owner)
        answer = backfill.run(days(DAYS), "the end")
        totals = backfill.rollup()
    daily = world.daily()
    assert {dt for dt, _ in answer["skipped"]} == sealed
    for number, source in enumerate(state.sources):
        dt = day(number)
        assert daily.get(dt) == (before.get(dt) if dt in sealed else (*source, "the end"))
    assert totals["order_total"] == sum(orders for orders, _, _ in daily.values())
    assert totals["amount_total"] == sum(amount for _, amount, _ in daily.values())


# The checker itself


def _steps(*steps: tuple[int, int, int, str, object, object]) -> list[list[Step]]:
    return [[Step(*step) for step in steps if step[0] == process] for process in range(2)]


START = State.empty([(1, 10), (2, 20)], 2)
BOTH = range(2)


@pytest.mark.parametrize(
    "histories",
    [
        pytest.param(
            _steps((0, 0, 9, "claim", (BOTH, "a"), ([0, 1], [])), (1, 1, 8, "claim", (BOTH, "b"), ([0, 1], []))),
            id="two owners of one date",
        ),
        pytest.param(
            _steps(
                (0, 0, 9, "claim", (BOTH, "a"), ([0], [(1, "b")])), (1, 1, 8, "claim", (BOTH, "b"), ([1], [(0, "a")]))
            ),
            id="a claim that is not atomic",
        ),
        pytest.param(
            _steps((0, 0, 1, "seal", range(1), [0]), (1, 2, 3, "look", None, None), (1, 3, 4, "run", (0, "a"), "done")),
            id="a run over a seal",
        ),
        pytest.param(
            _steps((0, 0, 1, "claim", (BOTH, "a"), ([0, 1], [])), (1, 2, 3, "release", (BOTH, "a"), [])),
            id="an answer from the past",
        ),
        pytest.param(
            _steps(
                (0, 0, 1, "put", (0, (5, 50)), None),
                (1, 2, 3, "look", None, None),
                (1, 3, 4, "turn", 0, None),
                (1, 3, 4, "run", (0, "a"), "done"),
                (1, 4, 5, "ran", None, (1, 10)),
            ),
            id="an older count",
        ),
        pytest.param(
            _steps(
                (0, 0, 1, "look", None, None),
                (0, 1, 2, "turn", 0, None),
                (0, 1, 2, "run", (0, "a"), "done"),
                (1, 3, 4, "rollup", None, (0, 0)),
            ),
            id="a lost row",
        ),
    ],
)
def test_the_checker_refuses_what_no_order_explains(histories: list[list[Step]]) -> None:
    with pytest.raises(AssertionError, match="no serial order"):
        serial_order(histories, START)


def test_the_checker_finds_an_order_against_the_clock_of_the_answers() -> None:
    histories = _steps(
        (0, 0, 9, "claim", (BOTH, "a"), ([], [(0, "b"), (1, "b")])),
        (1, 1, 10, "claim", (BOTH, "b"), ([0, 1], [])),
    )

    order, after = serial_order(histories, START)

    assert [step.process for step in order] == [1, 0]
    assert after.holders == ("b", "b")

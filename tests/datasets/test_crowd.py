"""Many processes at once: answers fit a serial order, and what has nothing to do with each other doesn't wait."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from tests.datasets import crowd
from tests.datasets.conftest import make
from tests.datasets.crowd import (
    RULES,
    State,
    act_at_random,
    be_the_same_task,
    begin_and_write_a_share,
    look_at_the_end,
    write_one_day,
)
from tests.datasets.shop import DAY, Shop
from tests.store.crowd import together
from tests.store.history import Step, serial_order

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import Postgres

PROCESSES, OPERATIONS = 4, 15
SECONDS = 60 if os.environ.get("BACKFILL_FAULTS") == "long" else 0
"""How long random operations go on, at the least: one round in any case."""


def test_answers_to_random_operations_on_a_day_fit_a_serial_order(shop: Shop) -> None:
    state, rounds, end = State(0, False, None), 0, time.monotonic() + SECONDS

    while not rounds or time.monotonic() < end:
        histories = together(PROCESSES, act_at_random, shop, rounds, OPERATIONS)
        histories[0].append(look_at_the_end(shop))
        order, state = serial_order(histories, state, RULES)
        rounds += 1

    print(f"{rounds} rounds: {sum(step.answer == 'published' for step in order)} of the last one's writes published")


def test_two_tasks_of_one_run_never_write_a_day_at_once(shop: Shop) -> None:
    told = together(2, be_the_same_task, shop, 10)

    with shop.open() as orders:
        lines = [line for line in orders.history(DAY, DAY) if line["what"] == "publish"]
    assert len(lines) == 1 + sum(answers.count("published") for answers in told)
    assert {answer for answers in told for answer in answers} <= {"published", "kept out"}


def test_two_days_are_written_at_once_and_each_keeps_its_last_version(shop: Shop) -> None:
    assert together(2, write_one_day, shop, 8) == [8, 8]

    assert shop.seen() == 8


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_forty_datasets_at_once_know_nothing_of_each_other(kind: str, postgres: Postgres, tmp_path: Path) -> None:
    first = make(kind, kind, postgres, tmp_path)
    shops = [first._replace(name=f"orders_{number}") for number in range(40)]

    told = together(8, begin_and_write_a_share, shops, 8)

    assert told == [5 * 2 * 2] * 8
    assert {shop.seen() for shop in shops} == {2}
    with first.open() as orders:
        counts = [(one.keys, one.published, one.held) for one in orders.ledger.counts()]
    assert counts == [(4, 4, 0)] * 41
    first.check()
    shops[-1].check()


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([(0, 0, 9, "write", 5, "published"), (1, 10, 11, "see", 0, 0)], id="a lost write"),
        pytest.param([(0, 0, 1, "seal", 0, "done"), (0, 2, 3, "write", 5, "published")], id="a write over a seal"),
        pytest.param([(0, 0, 1, "write", 5, "kept out"), (1, 2, 3, "see", 0, 5)], id="told no, and done"),
        pytest.param([(0, 0, 1, "amend", 5, "done")], id="a correction of what is not sealed"),
    ],
)
def test_the_checker_refuses_what_no_order_explains(history: list[tuple[int, int, int, str, int, object]]) -> None:
    steps = [[Step(*step) for step in history if step[0] == process] for process in range(2)]

    with pytest.raises(AssertionError, match="no serial order"):
        serial_order(steps, State(0, False, None), crowd.RULES)

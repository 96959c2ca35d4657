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


SENT = State(0, True, None)


def refused(steps: list[list[Step]]) -> bool:
    try:
        serial_order(steps, State(0, False, None), crowd.RULES)
    except AssertionError as error:
        assert "no serial order" in str(error)  # noqa: PT017
        return True
    return False


@pytest.mark.parametrize(
    ("fits", "breaks"),
    [
        pytest.param([("write", 5, "published"), ("see", 0, 5)], ("see", 0, 0), id="a write that is lost"),
        pytest.param([("write", 5, "published"), ("write", 6, "published")], ("see", 0, 5), id="an earlier one lasts"),
        pytest.param([("write", 5, "kept out"), ("see", 0, 0)], ("see", 0, 5), id="told no, and written"),
        pytest.param([("see", 0, 0)], ("see", 0, 7), id="what nobody wrote is read"),
        pytest.param([("see", 0, 0)], ("write", 5, "sealed"), id="told sealed, and nobody sealed"),
        pytest.param([("seal", 0, "kept out")], ("write", 5, "sealed"), id="told no, and sealed"),
        pytest.param(
            [("seal", 0, "done"), ("write", 5, "sealed")], ("write", 5, "published"), id="written over a seal"
        ),
        pytest.param([("seal", 0, "done"), ("write", 5, "sealed")], ("see", 0, 5), id="told sealed, and written"),
        pytest.param(
            [("seal", 0, "done"), ("end", None, SENT)], ("end", None, State(0, False, None)), id="a seal lost"
        ),
        pytest.param(
            [("seal", 0, "done"), ("unseal", 0, "done"), ("write", 5, "published")],
            ("end", None, State(5, True, None)),
            id="a seal that came back",
        ),
        pytest.param(
            [("seal", 0, "done"), ("unseal", 0, "kept out"), ("write", 5, "sealed")],
            ("write", 6, "published"),
            id="told that it is still sealed, and it wasn't",
        ),
        pytest.param([("amend", 5, "not sealed")], ("amend", 6, "done"), id="a correction of what is not sealed"),
        pytest.param(
            [("seal", 0, "done"), ("amend", 5, "done")],
            ("amend", 6, "not sealed"),
            id="a seal denied",
        ),
        pytest.param(
            [("seal", 0, "done"), ("amend", 5, "done"), ("end", None, State(0, True, 5))],
            ("end", None, SENT),
            id="a correction that is lost",
        ),
        pytest.param(
            [("seal", 0, "done"), ("amend", 5, "kept out")],
            ("end", None, State(0, True, 5)),
            id="told no, but done",
        ),
    ],
)
def test_the_checker_refuses_what_no_order_explains(
    fits: list[tuple[str, object, object]], breaks: tuple[str, object, object]
) -> None:
    """Of two processes, one after the other; the history is accepted without its last step."""
    steps = [Step(number % 2, 2 * number, 2 * number + 1, *step) for number, step in enumerate([*fits, breaks])]

    assert not refused([steps[:-1][0::2], steps[:-1][1::2]])
    assert refused([steps[0::2], steps[1::2]])


def test_the_checker_lets_what_happened_at_once_be_in_any_order() -> None:
    write, seal = Step(0, 0, 9, "write", 5, "sealed"), Step(1, 1, 8, "seal", 0, "done")

    assert not refused([[write], [seal]])
    assert refused([[write], [seal._replace(began=10, ended=11)]])

"""Which state a partition is in, where several things are true of it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from backfill_core.ledger import Correction, KeyRow
from backfill_core.states import STATES, TO_LOOK_AT, Known, of_date, of_key, state_of
from backfill_core.target import Measured

if TYPE_CHECKING:
    from backfill_core.answers import PartitionStatus
    from backfill_core.states import State

NOTHING = Measured(0, {}, None)


def test_of_all_that_is_true_the_first_state_is_told() -> None:
    for truths in itertools.product((True, False), repeat=len(Known._fields)):
        known = dict(zip(Known._fields, truths, strict=True))
        expected = [state for state in STATES if known.get(state)] or ["missing"]

        assert state_of(Known(**known)) == expected[0]


def test_the_order_is_the_one_that_people_were_told() -> None:
    assert STATES == ("drifted", "failed", "held", "late", "corrected", "sealed", "published", "missing")
    assert set(TO_LOOK_AT) == set(STATES) - {"corrected", "sealed", "published"}


@pytest.mark.parametrize(
    ("row", "held", "seals_of_corrections", "state"),
    [
        ({}, False, [], "missing"),
        ({"number": 3}, False, [], "missing"),  # somebody was here and published nothing
        ({"token": "t"}, False, [], "published"),
        ({"token": "t", "seal": 2, "seals": 2}, False, [], "sealed"),
        ({"token": "t", "seal": 2, "seals": 2}, False, [2], "corrected"),
        ({"token": "t", "seal": 2, "seals": 2}, False, [1], "sealed"),  # that was said of what was sent before
        ({"token": "t", "seal": 0, "seals": 1}, False, [1], "published"),  # unsealed since
        ({"token": "t", "seal": 1, "seals": 1}, True, [1], "held"),
        ({"token": "t", "seal": 1, "seals": 1, "late": "why"}, False, [1], "late"),
        ({"token": "t", "failure": "why"}, True, [], "failed"),
        ({"token": "t", "failure": "why", "drift": "what"}, True, [], "drifted"),
    ],
)
def test_a_key_of_a_dataset(row: dict[str, Any], held: bool, seals_of_corrections: list[int], state: State) -> None:
    corrections = [Correction("k", seal, NOTHING, NOTHING, "", "", "") for seal in seals_of_corrections]

    assert of_key(KeyRow("k", **row), held=held, corrections=corrections) == state


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"orders": None}, "missing"),
        ({"orders": None, "source": "differs"}, "missing"),
        ({"orders": 0}, "published"),
        ({"source": "current"}, "published"),
        ({"source": "no_data"}, "published"),
        ({"source": "differs"}, "late"),
        ({"source": "dt=2026-02-01.jsonl:3: not a JSON object"}, "failed"),
        ({"sealed": True, "source": "differs"}, "late"),
        ({"sealed": True, "source": "differs", "corrections": 1}, "corrected"),  # it is beside what was sent
        ({"sealed": True, "corrections": 1}, "corrected"),
        ({"sealed": True, "corrections": 1, "claimed_by": "anna"}, "held"),
    ],
)
def test_a_date_of_the_runners_table(changes: dict[str, Any], state: State) -> None:
    row: PartitionStatus = {
        "dt": "2026-02-01", "orders": 1, "amount": 2, "owner": "me", "claimed_by": None, "sealed": False,
        "corrections": 0, "source": None,
    }  # fmt: skip

    assert of_date({**row, **changes}) == state  # type: ignore[typeddict-item]

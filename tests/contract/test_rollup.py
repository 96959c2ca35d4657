"""`rollup` derives the totals from the whole of `daily`; `rollup-add` shows what adding does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .grader import LARGEST, SMALLEST

if TYPE_CHECKING:
    from .grader import Lab


@pytest.fixture
def filled(lab: Lab) -> Lab:
    """Three dates in `daily`: 2, 3 and 4 orders, 20, 30 and -5 in amount."""
    for dt, orders, amount in (("2026-01-31", 2, 20), ("2026-02-01", 3, 30), ("2026-02-02", 4, -5)):
        lab.hold(dt, orders, amount)
    return lab


def totals(mode: str, orders: int, amount: int) -> dict[str, object]:
    """The answer of both commands."""
    return {"mode": mode, "order_total": orders, "amount_total": amount}


def test_rollup_derives_both_totals_from_the_whole_of_daily(filled: Lab) -> None:
    answer = filled.ok("rollup")

    assert answer == totals("derive", 9, 45)
    assert filled.rollup == {"order_total": 9, "amount_total": 45}


def test_rollup_of_nothing_is_nought(lab: Lab) -> None:
    answer = lab.ok("rollup")

    assert answer == totals("derive", 0, 0)
    assert lab.rollup == {"order_total": 0, "amount_total": 0}


def test_rollup_again_gives_the_same(filled: Lab) -> None:
    first = filled.ok("rollup")

    again = filled.ok("rollup")

    assert again == first
    assert filled.rollup == {"order_total": 9, "amount_total": 45}


def test_rollup_add_adds_the_range_to_what_is_there(filled: Lab) -> None:
    first = filled.ok("rollup-add", "2026-02-01", "2026-02-02")
    second = filled.ok("rollup-add", "2026-01-31", "2026-01-31")

    assert first == totals("add", 7, 25)
    assert second == totals("add", 9, 45)
    assert filled.rollup == {"order_total": 9, "amount_total": 45}


def test_rollup_add_counts_twice_what_is_added_twice(filled: Lab) -> None:
    filled.ok("rollup-add", "2026-01-31", "2026-02-02")

    answer = filled.ok("rollup-add", "2026-02-01", "2026-02-01")

    assert answer == totals("add", 12, 75)


def test_rollup_overwrites_what_was_added_wrongly(filled: Lab) -> None:
    filled.ok("rollup-add", "2026-01-31", "2026-02-02")
    filled.ok("rollup-add", "2026-01-31", "2026-02-02")

    answer = filled.ok("rollup")

    assert answer == totals("derive", 9, 45)
    assert filled.rollup == {"order_total": 9, "amount_total": 45}


def test_rollup_add_of_dates_without_rows_adds_nothing(filled: Lab) -> None:
    filled.ok("rollup")

    answer = filled.ok("rollup-add", "2030-01-01", "2030-12-31")

    assert answer == totals("add", 9, 45)


def test_rollup_add_on_an_empty_store_is_nought(lab: Lab) -> None:
    answer = lab.ok("rollup-add", "2026-02-01", "2026-02-28")

    assert answer == totals("add", 0, 0)


def test_rollups_leave_daily_alone(filled: Lab) -> None:
    before = filled.daily

    filled.ok("rollup")
    filled.ok("rollup-add", "2026-02-01", "2026-02-02")

    assert filled.daily == before


@pytest.mark.parametrize("amounts", [[LARGEST], [SMALLEST], [LARGEST, 1, -1], [LARGEST, SMALLEST]], ids=repr)
def test_totals_up_to_the_last_of_64_bits_are_exact(lab: Lab, amounts: list[int]) -> None:
    for day, amount in enumerate(amounts, 1):
        lab.hold(f"2026-02-0{day}", 1, amount)

    derived = lab.ok("rollup")
    lab.query("DELETE FROM rollup")
    added = lab.ok("rollup-add", "2026-02-01", "2026-02-09")

    assert derived == totals("derive", len(amounts), sum(amounts))
    assert added == totals("add", len(amounts), sum(amounts))


@pytest.mark.parametrize("amounts", [[LARGEST, 1], [SMALLEST, -1], [LARGEST] * 2, [2**62] * 4], ids=repr)
@pytest.mark.parametrize(
    "command", [["rollup"], ["rollup-add", "2026-02-01", "2026-02-09"]], ids=["rollup", "rollup-add"]
)
def test_a_total_beyond_64_bits_is_refused_and_never_wraps(lab: Lab, amounts: list[int], command: list[str]) -> None:
    lab.hold("2026-02-01", 1, 0)
    lab.ok("rollup")
    lab.query("DELETE FROM daily")
    for day, amount in enumerate(amounts, 1):
        lab.hold(f"2026-02-0{day}", 1, amount)

    answer = lab(*command)

    assert answer.code == 1
    assert answer.json.keys() == {"error"}
    assert lab.rollup == {"order_total": 1, "amount_total": 0}


def test_adding_beyond_64_bits_to_what_is_there_is_refused(lab: Lab) -> None:
    lab.hold("2026-02-01", 1, LARGEST)
    lab.ok("rollup-add", "2026-02-01", "2026-02-01")

    answer = lab("rollup-add", "2026-02-01", "2026-02-01")

    assert answer.code == 1
    assert lab.rollup == {"order_total": 1, "amount_total": LARGEST}


def test_totals_are_stored_as_integers(filled: Lab) -> None:
    filled.ok("rollup")

    kinds = filled.query("SELECT DISTINCT typeof(metric), typeof(value) FROM rollup")

    assert kinds == [("text", "integer")]

"""A publication that the database refuses, as days beside it have the numbers of its orders; with faults around it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from backfill_core.errors import TargetError
from tests.datasets.dying import RECOVERIES, VERBS
from tests.datasets.shop import BOTH, Shop, one_try
from tests.datasets.test_killed import each_way, killed

if TYPE_CHECKING:
    from tests.datasets.test_killed import Die

each_verb = pytest.mark.parametrize(("failing", "verb"), [("refused", "write"), ("refused_staged", "staged")])


@pytest.fixture
def shop(shop: Shop) -> Shop:
    shop.number_orders_once()
    return shop


@pytest.mark.parametrize("at_once", [False, True])
@each_verb
def test_it_leaves_everything_as_it_was_and_says_why(shop: Shop, failing: str, verb: str, at_once: bool) -> None:
    if at_once:
        shop.sql("CREATE UNIQUE INDEX at_once ON {orders} (id)")
    before = shop.rows()

    with shop.open() as orders, pytest.raises(TargetError, match=r"(?i)unique|duplicate"):
        VERBS[failing](shop.of(1), orders, one_try(1))

    assert shop.rows() == before
    with shop.open() as orders:
        assert {line["key"] for line in orders.status()["partitions"] if line["failure"]} == set(BOTH)
    shop.check()
    with shop.open() as orders:
        VERBS[verb](shop.of(1), orders, one_try(1, of=2))
    assert shop.seen() == 1


@each_way
@each_verb
def test_killed_at_any_step_it_leaves_everything_as_it_was_and_the_next_write_works(
    shop: Shop, failing: str, verb: str, die: Die
) -> None:
    for number in itertools.count():
        shop = shop.of(number + 1)
        before = shop.rows()

        more = killed(die, shop, failing, number)

        assert shop.rows() == before
        RECOVERIES[number % 3](shop, VERBS[verb], number)
        assert shop.seen() == number + 1
        shop.check()
        if not more:
            break
    print(f"killed at {number} points")
    assert number > 8

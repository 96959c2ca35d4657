"""A process that a signal stopped at any step of a write, and that goes on when others have been there."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from backfill_core.errors import FenceTimeoutError, HeldError
from tests.datasets.dying import freeze_at_step, settle, write
from tests.datasets.shop import OTHER, Shop, all_but_ours, one_try
from tests.faults.killing import end_of, froze, start, thaw

if TYPE_CHECKING:
    from collections.abc import Callable


def a_later_try(shop: Shop, number: int) -> None:
    with shop.open() as orders:
        write(shop, orders, one_try(number, of=2))


def another_run(shop: Shop, _number: int) -> None:
    with shop.open(stale=all_but_ours) as orders:
        write(shop, orders, OTHER)


def another_run_after_settling(shop: Shop, _number: int) -> None:
    with shop.open() as orders:
        settle(shop, orders)
        write(shop, orders, OTHER)


@pytest.mark.parametrize("rival", [a_later_try, another_run, another_run_after_settling])
def test_a_process_that_slept_never_has_the_last_word(shop: Shop, rival: Callable[[Shop, int], None]) -> None:
    """Inside of its publishing transaction it keeps others out; before it took its keys it may come after them."""
    entered = kept_out = 0
    for number in itertools.count():
        mine, other = shop.of(2 * number + 1), shop.of(2 * number + 2)
        process = start(freeze_at_step, mine, "write", number)
        if not froze(process):
            break
        with shop.open() as orders:
            has_entered = bool(orders.ledger.claims(orders.dataset.name))
        entered += has_entered
        try:
            rival(other, number)
            was_kept_out = False
        except (FenceTimeoutError, HeldError):
            was_kept_out = True
        kept_out += was_kept_out
        thaw(process)
        assert end_of(process) == 0

        if was_kept_out or not has_entered:
            rival(other, number)
        assert shop.seen() == 2 * number + 2
        with shop.open() as orders:
            settle(shop, orders)
        shop.check()
    print(f"stopped at {number} steps, {kept_out} of them where others were kept out")
    assert entered > 6

"""kill -9 at every step of every verb: what comes next puts it right, and readers see whole days throughout.

A death after a step is a death before the next one, as nothing happens in between. In the long run, at every statement
too, of the ledger and of the table.
"""

from __future__ import annotations

import itertools
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from backfill_core.conformance.stepping import At, Died, Dies, stepped
from backfill_core.errors import HeldError
from tests.datasets.dying import RECOVERIES, VERBS, die_at_statement, die_at_step, leave_open, settle, staged
from tests.datasets.shop import BOTH, OTHER, Shop, all_but_ours, one_try
from tests.faults.killing import end_of, start

if TYPE_CHECKING:
    from collections.abc import Callable

    from backfill_core.claims import Caller

    Die = Callable[..., None]

WAYS = [die_at_step, die_at_statement] if os.environ.get("BACKFILL_FAULTS") == "long" else [die_at_step]
each_way = pytest.mark.parametrize("die", WAYS)


def killed(die: Die, shop: Shop, verb: str, number: int, *caller: Caller) -> bool:
    """Return whether there was such a step, or statement, to die at."""
    process = start(die, shop, verb, number, *caller)
    code = end_of(process)
    assert code in (0, -signal.SIGKILL)
    return code != 0


@each_way
@pytest.mark.parametrize("verb", ["write", "staged"])
def test_a_write_killed_at_any_step_is_put_right(shop: Shop, verb: str, die: Die) -> None:
    had_landed = False
    for number in itertools.count():
        shop = shop.of(number + 1)

        if not killed(die, shop, verb, number):
            break
        version = shop.seen()
        recover = RECOVERIES[number % 3]
        recover(shop, VERBS[verb], number)

        landed = version == number + 1
        assert landed or (version == number and not had_landed)  # the further it came, the more is done
        had_landed = landed
        assert shop.seen() == number + 1
        shop.check()
    print(f"killed at {number} points")
    assert had_landed
    assert number > 8


@each_way
def test_an_adoption_killed_at_any_step_is_put_right(shop: Shop, die: Die) -> None:
    for number in itertools.count():
        shop.sql(f"UPDATE {{orders}} SET amount = {number + 1} WHERE dt <= '{BOTH[-1]}'")

        if not killed(die, shop, "adopt", number):
            break
        RECOVERIES[number % 3](shop, VERBS["adopt"], number)

        assert shop.seen() == number + 1
        shop.check()
    print(f"killed at {number} points")
    assert number > 6


@each_way
@pytest.mark.parametrize("verb", ["seal", "unseal"])
def test_a_seal_killed_at_any_step_is_there_on_both_days_or_on_none(shop: Shop, verb: str, die: Die) -> None:
    for number in itertools.count():
        with shop.open() as orders:
            (orders.unseal if verb == "seal" else orders.seal)(BOTH, OTHER, "to begin with")
        rows = shop.rows()

        more = killed(die, shop, verb, number)
        with shop.open(stale=all_but_ours) as orders:
            if number % 2:
                settle(shop, orders)
                assert not orders.ledger.claims(orders.dataset.name)
            answer = orders.write(BOTH, shop.fill, OTHER)

            assert answer["skipped"] in ([], [[key, "sealed"] for key in BOTH])
            assert shop.rows() == rows
        shop.check()
        if not more:
            break
    print(f"killed at {number} points")
    assert number > 4


@each_way
def test_an_unseal_killed_at_any_step_is_told_as_held_until_somebody_says_that_it_died(shop: Shop, die: Die) -> None:
    told = set()
    for number in itertools.count():
        with shop.open() as orders:
            orders.seal(BOTH, OTHER, "to begin with")

        more = killed(die, shop, "unseal", number)
        with shop.open() as orders:
            held = bool(orders.ledger.claims(orders.dataset.name))
            planned = {one["reason"] for one in orders.plan(BOTH, OTHER)["partitions"] if one["action"] == "skipped"}
            reasons = {why for _, why in orders.write(BOTH, shop.fill, OTHER)["skipped"]}
            assert planned == reasons
            told |= reasons
            if held:
                assert reasons == {f"claimed_by:run-{number}, load"}
                with pytest.raises(HeldError, match="`settle`"), orders.replacing(BOTH, OTHER):
                    pass
            settle(shop, orders)
            orders.unseal(BOTH, OTHER, "once more")
            assert orders.write(BOTH, shop.fill, OTHER)["skipped"] == []
        shop.check()
        if not more:
            break
    assert len(told) > 2  # sealed, and held by several


@pytest.mark.parametrize("heir", ["settle", "write"])
@pytest.mark.parametrize("died_at", ["write.audit", "write.publish"])
def test_what_a_dead_write_staged_is_found_when_its_heir_dies_at_any_step(shop: Shop, died_at: str, heir: str) -> None:
    """The heir is a person who settles, or the next try of the task; the heir's heir is a person who settles."""
    steps = At(-1, lambda: None)
    with shop.open(around=stepped(steps)) as orders:
        staged(shop.of(1), orders, OTHER)

    for number in itertools.count():
        shop = shop.of(number + 2)
        assert killed(die_at_step, shop, "staged", steps.names.index(died_at), one_try(number))
        assert shop.staged()
        dies = Dies(number)

        with suppress(Died), shop.open(around=stepped(dies)) as orders:
            VERBS[heir](shop, orders, one_try(number, of=2))
        with shop.open() as orders:
            settle(shop, orders)

        shop.check()
        if not dies.happened or dies.names[number] == "write.begin":  # the heir's own
            break
    print(f"died at {number} points")
    assert number > 1


@each_way
@pytest.mark.parametrize("published", [False, True], ids=["before the publication", "after the publication"])
def test_settling_killed_at_any_step_goes_on_where_it_was(shop: Shop, published: bool, die: Die) -> None:
    for number in itertools.count():
        shop = shop.of(number + 1)
        leave_open(shop, number, published=published)
        version = shop.seen()
        assert version == number + published

        more = killed(die, shop, "settle", number)
        RECOVERIES[number % 3](shop, VERBS["write"], number)

        assert shop.seen() == number + 1
        shop.check()
        if not more:
            break
    print(f"killed at {number} points")
    assert number > 2

"""An error or a Ctrl-C at every step of a write: the claim goes back, or the intents say what is to be settled."""

from __future__ import annotations

import itertools
import sqlite3

import psycopg
import psycopg2
import pytest

from backfill_core.conformance.stepping import At, stepped
from tests.datasets.dying import VERBS, settle
from tests.datasets.shop import BOTH, OTHER, Shop, one_try


@pytest.mark.parametrize("verb", ["write", "staged", "adopt"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_write_that_breaks_off_at_any_step_leaves_no_claim_behind(
    shop: Shop, verb: str, error: type[BaseException]
) -> None:
    def break_off() -> None:
        raise error

    for number in itertools.count():
        shop = shop.of(number + 1)
        if verb == "adopt":
            shop.sql(f"UPDATE {{orders}} SET amount = {number + 1} WHERE dt <= '2026-02-02'")
        at = At(number, break_off)

        with shop.open(around=stepped(at)) as orders:
            try:
                VERBS[verb](shop, orders, one_try(number))
            except error:
                opened = orders.ledger.intents(orders.dataset.name)
                held = orders.ledger.claims(orders.dataset.name)
                assert {claim.id for claim in held} == {intent.token for intent in opened}
        if not at.happened:
            break
        with shop.open() as orders:
            settle(shop, orders)
            VERBS[verb](shop, orders, OTHER)
        assert shop.seen() == number + 1
        shop.check()
    print(f"broke off at {number} steps")
    assert number > 5


@pytest.mark.parametrize(
    "error",
    [
        sqlite3.OperationalError("no such table: mine"),
        psycopg.errors.UndefinedTable("mine is not there"),
        psycopg2.OperationalError("mine went away"),
    ],
)
def test_an_error_of_the_users_own_driver_comes_out_as_it_is(shop: Shop, error: Exception) -> None:
    before = shop.rows()

    with shop.open() as orders:
        with pytest.raises(type(error)) as raised, orders.replacing(BOTH, OTHER):
            raise error
        [failure] = {line["failure"] for line in orders.status(*BOTH)["partitions"]}

    assert raised.value is error
    assert failure == str(error)
    assert shop.rows() == before

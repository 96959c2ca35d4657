"""Sets of keys: the ledger takes as many statements for a set as for one key, and so does a table in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backfill_core.claims import Caller
from tests.datasets.shop import KEYS, OTHER, Shop
from tests.faults.killing import through

if TYPE_CHECKING:
    from collections.abc import Callable


def statements(shop: Shop, act: Callable[[Any], object]) -> int:
    """Return how many statements something takes."""
    sent = 0

    def count(send: Callable[[], Any]) -> Any:
        nonlocal sent
        sent += 1
        return send()

    end = through(count)
    try:
        with shop.open() as orders:
            before = sent
            act(orders)
            return sent - before
    finally:
        end()


def test_a_set_takes_as_many_statements_of_the_ledger_as_one_key(shop: Shop) -> None:
    def reserve_and_release(keys: list[str]) -> int:
        def act(orders: Any) -> None:
            made = orders.claim(keys, Caller("", person="anna"))
            assert made["claimed"] == orders.release(claim=made["claim"])["released"] == keys

        return statements(shop, act)

    assert reserve_and_release(KEYS) == reserve_and_release(KEYS[:1])


def test_a_set_is_written_by_as_many_statements_as_one_key(shop: Shop) -> None:
    def write(keys: list[str], version: int) -> int:
        return statements(shop, lambda orders: orders.write(keys, shop.of(version).fill, OTHER))

    many, one = write(KEYS[:3], 1), write(KEYS[:1], 2)

    assert [shop.seen_on(key) for key in KEYS[:3]] == [2, 1, 1]
    assert many == one or not shop.schema  # in SQLite a key's rows are moved by statements of its own

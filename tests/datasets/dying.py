"""Verbs of a dataset, done by processes that die at a step or a statement of theirs; and what puts it right again."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from backfill_core.conformance.stepping import At, Died, stepped
from backfill_core.errors import BackfillError, TargetError
from tests.datasets.shop import BOTH, OTHER, Shop, all_but_ours, one_try
from tests.faults.killing import die_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from backfill_core.answers import WriteAnswer
    from backfill_core.claims import Caller
    from backfill_core.guarded import Guarded

    Verb = Callable[[Shop, Guarded, Caller], object]


def write(shop: Shop, orders: Guarded, caller: Caller) -> WriteAnswer:
    return orders.write(BOTH, shop.fill, caller)


def staged(shop: Shop, orders: Guarded, caller: Caller) -> None:
    with orders.replacing(BOTH, caller) as partition:
        shop.sql(f"INSERT INTO {partition.staging} {shop.source} WHERE dt <= '{BOTH[-1]}'")


def refused(shop: Shop, orders: Guarded, caller: Caller) -> object:
    """Write what the database refuses at the publication, as another day has the numbers."""
    return write(shop._replace(clashes=True), orders, caller)


def refused_staged(shop: Shop, orders: Guarded, caller: Caller) -> None:
    staged(shop._replace(clashes=True), orders, caller)


def adopt(shop: Shop, orders: Guarded, caller: Caller) -> WriteAnswer:
    return orders.adopt(BOTH, caller, "it is right")


def seal(shop: Shop, orders: Guarded, caller: Caller) -> object:
    return orders.seal(BOTH, caller, "sent")


def unseal(shop: Shop, orders: Guarded, caller: Caller) -> object:
    return orders.unseal(BOTH, caller, "it was wrong")


def settle(_shop: Shop, orders: Guarded, _caller: Caller = OTHER) -> object:
    return orders.settle(force=True)


VERBS: dict[str, Verb] = {
    one.__name__: one for one in (write, staged, refused, refused_staged, adopt, seal, unseal, settle)
}


def die_at_step(shop: Shop, verb: str, number: int, caller: Caller | None = None) -> None:
    """Be killed before the numbered step, from 0; or after the last one."""
    at = At(number, lambda: os.kill(os.getpid(), signal.SIGKILL))
    with shop.open(around=stepped(at)) as orders:
        with suppress(TargetError):
            VERBS[verb](shop, orders, caller or one_try(number))
        at.after_all()


def freeze_at_step(shop: Shop, verb: str, number: int) -> None:
    """Be stopped by a signal before the numbered step, from 0, until somebody lets it go on."""
    at = At(number, lambda: os.kill(os.getpid(), signal.SIGSTOP))
    with shop.open(around=stepped(at)) as orders, suppress(BackfillError):
        VERBS[verb](shop, orders, one_try(number))


def die_at_statement(shop: Shop, verb: str, number: int, caller: Caller | None = None) -> None:
    """Be killed before the numbered statement, from 0, is sent."""
    die_at(number + 1, after=False)
    with shop.open() as orders, suppress(TargetError):
        VERBS[verb](shop, orders, caller or one_try(number))


# what puts it right


def by_a_later_try(shop: Shop, verb: Verb, number: int) -> None:
    with shop.open() as orders:
        verb(shop, orders, one_try(number, of=2))


def by_another_once_it_is_stale(shop: Shop, verb: Verb, _number: int) -> None:
    with shop.open(stale=all_but_ours) as orders:
        verb(shop, orders, OTHER)


def by_settling_first(shop: Shop, verb: Verb, _number: int) -> None:
    """Nothing but the outcome is found out by it; so readers see what they saw."""
    before = shop.rows()
    with shop.open() as orders:
        settle(shop, orders)
        assert (orders.ledger.claims(orders.dataset.name), orders.ledger.intents(orders.dataset.name)) == ([], [])
        assert shop.rows() == before
        verb(shop, orders, OTHER)


RECOVERIES = [by_a_later_try, by_another_once_it_is_stale, by_settling_first]


# dying without a process


class DiesAtPublication:
    """An act that lets an attempt get as far as the publication, or as the next step after it."""

    def __init__(self, *, published: bool) -> None:
        self._published, self._last = published, ""

    def __call__(self, name: str) -> None:
        if self._last == "dead" or (self._last if self._published else name) == "write.publish":
            self._last = "dead"
            raise Died
        self._last = name


def leave_open(shop: Shop, number: int, *, published: bool) -> None:
    """Leave the intents of a write open: before its publication, or after it."""
    with suppress(Died), shop.open(around=stepped(DiesAtPublication(published=published))) as orders:
        write(shop, orders, one_try(number))

"""A write that stands still at any statement, inside a transaction too, while others go on; then it wakes up.

Whoever finished meanwhile has the last word: what readers saw then, they see after the sleeper has gone on.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.sql import SQL

from backfill_core.conformance.stepping import stepped
from backfill_core.errors import (
    BackfillError,
    DriftError,
    FenceTimeoutError,
    HeldError,
    OutcomeUnknownError,
    StoreError,
)
from backfill_core.ledger import postgres as postgres_ledger
from backfill_core.store import sqlite as sqlite_store
from tests.datasets.dying import refused, seal, settle, staged, unseal, write
from tests.datasets.shop import BOTH, OTHER, Shop, all_but_ours, one_try
from tests.faults.killing import through

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.datasets.dying import Verb

    Rival = Callable[[Shop, int], object]

LONG = os.environ.get("BACKFILL_FAULTS") == "long"
KEPT_OUT = (FenceTimeoutError, HeldError, StoreError)
"""What others hear of a sleeper inside of a transaction."""


def a_later_try(shop: Shop, number: int) -> object:
    with shop.open() as orders:
        return write(shop, orders, one_try(number, of=2))["skipped"]


def another_run(shop: Shop, _number: int) -> None:
    with shop.open(stale=all_but_ours) as orders:
        assert not write(shop, orders, OTHER)["skipped"]


def a_sealer(shop: Shop, _number: int) -> None:
    with shop.open() as orders:
        settle(shop, orders)
        seal(shop, orders, OTHER)


def a_sealer_who_thought_better_of_it(shop: Shop, number: int) -> None:
    a_sealer(shop, number)
    with shop.open() as orders:
        unseal(shop, orders, OTHER)


def a_settler(shop: Shop, _number: int) -> None:
    with shop.open() as orders:
        settle(shop, orders)


def an_unsealer(shop: Shop, _number: int) -> None:
    with shop.open() as orders:
        settle(shop, orders)
        unseal(shop, orders, OTHER)


def a_writer(shop: Shop, _number: int) -> object:
    """Write, where it isn't sealed; return what was left out: whoever is left out has had no word."""
    with shop.open(stale=all_but_ours) as orders:
        return write(shop, orders, OTHER)["skipped"]


WRITERS: list[Rival] = [a_later_try, another_run, a_sealer, a_sealer_who_thought_better_of_it, a_settler]
SEALERS: list[Rival] = [a_later_try, a_writer, a_sealer, an_unsealer, a_sealer_who_thought_better_of_it, a_settler]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let others give up soon: the sleeper is in the same process, so they would wait in vain."""
    monkeypatch.setattr(sqlite_store, "BUSY_SECONDS", 0.02)
    soon = postgres_ledger._CHANGE.as_string(None).replace(f"'{postgres_ledger.LOCK_SECONDS}s'", "'20ms'")
    monkeypatch.setattr(postgres_ledger, "_CHANGE", SQL(soon))


class Sleeper:
    """What every statement goes through: before the numbered one, from 0, a rival comes."""

    def __init__(self, number: int, rival: Callable[[], None]) -> None:
        self.statements = 0
        self.seen: Any = None
        self.was_met, self.kept_out = False, False
        self._number, self._rival = number, rival

    def __call__(self, send: Callable[[], Any]) -> Any:
        if not self.was_met and self.statements == self._number:
            self.was_met = True
            try:
                self._rival()
            except KEPT_OUT:
                self.kept_out = True
        self.statements += not self.was_met
        return send()


def has_taken_its_keys(shop: Shop, ids: list[str]) -> bool:
    """Return whether an attempt has entered: one that comes later may write after whom it slept through."""
    with shop.open() as orders:
        ledger, name = orders.ledger, orders.dataset.name
        return any(ledger.find(name, one) or one in {claim.id for claim in ledger.claims(name)} for one in ids[:1])


def in_force(shop: Shop) -> tuple[object, object]:
    """Return what readers see, and what is sealed for them."""
    with shop.open() as orders:
        return shop.rows(), {key: side.mark for key, side in orders.target.look(BOTH).items()}


def meet(shop: Shop, verb: Verb, number: int, rival: Rival, *, by_step: bool = False) -> bool:
    """Let a rival meet a verb at a numbered statement, or step; return whether there was such a one.

    seen: what was there when the rival was through, where the sleeper had taken its keys before.
    """
    seen: list[object] = []
    ids: list[str] = []

    def come() -> None:
        has_entered = has_taken_its_keys(shop, ids)
        left_out = rival(shop.of(2 * number + 2), number)
        if has_entered and not left_out:
            seen.append(in_force(shop))

    sleeper, answer = Sleeper(number, come), None
    error: Exception | None = None
    end = through(sleeper if not by_step else lambda send: send())
    try:
        with shop.open(ids=ids, around=stepped(lambda _: sleeper(lambda: None)) if by_step else None) as orders:
            answer = verb(shop.of(2 * number + 1), orders, one_try(number))
    except (BackfillError, psycopg.Error, sqlite3.Error) as caught:  # a driver's: what it was to fill has been swept
        error = caught
    finally:
        end()

    shop.seen()
    assert seen in ([], [in_force(shop)]), "the sleeper had the last word"
    if sleeper.kept_out:
        rival(shop.of(2 * number + 2), number)
    with shop.open() as orders:
        settle(shop, orders)
        done = {line["token"] for line in orders.history()}
        unseal(shop, orders, OTHER)
    if isinstance(answer, dict) and any(answer.get(what) for what in ("published", "new", "unsealed")):
        assert ids[0] in done, "it was told that it did it"
    if error and not isinstance(error, (OutcomeUnknownError, StoreError)):
        assert done.isdisjoint(ids), f"it was told {error!r}"
        assert not isinstance(error, DriftError), "nobody wrote past us"
    shop.check()
    return sleeper.was_met


def meet_everywhere(
    shop: Shop, verb: Verb, rivals: list[Rival], before: Verb | None = None, *, by_step: bool = False
) -> int:
    """Let each statement, or step, of a verb be met by one of the rivals, in the long run by all; count them.

    before: what is done before the verb, each time.
    """
    for number in itertools.count():
        met = []
        for at, rival in enumerate(rivals):
            if LONG or at == number % len(rivals):
                if before is not None:
                    with shop.open() as orders:
                        before(shop, orders, OTHER)
                met.append(meet(shop, verb, number, rival, by_step=by_step))
        if not any(met):
            break
    print(f"met at {number} {'steps' if by_step else 'statements'}")
    return number


@pytest.mark.parametrize(
    "verb", [write, staged] if LONG else [write]
)  # staged: minutes, as the sleeper holds its table
def test_a_sleeper_has_never_the_last_word(shop: Shop, verb: Verb) -> None:
    assert meet_everywhere(shop, verb, WRITERS) > 50


def test_one_whose_publication_is_refused_has_never_the_last_word(shop: Shop) -> None:
    shop.number_orders_once()

    assert meet_everywhere(shop, refused, WRITERS, by_step=not LONG) > 8


@pytest.mark.parametrize(("verb", "before"), [(seal, None), (unseal, seal)])
def test_a_sleeper_over_a_seal_has_never_the_last_word(shop: Shop, verb: Verb, before: Verb | None) -> None:
    assert meet_everywhere(shop, verb, SEALERS, before) > 20

"""The connection to the ledger cut at every message of a write and of a seal; the next try puts it right."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from backfill_core.errors import BackfillError
from backfill_core.ledger.opening import open_ledger
from tests.faults.proxy import LOSE_ANSWER, LOSE_REQUEST, PASS, Proxy
from tests.ledger.conftest import DAY, ME, NEXT, guarded, put
from tests.model.target import SimulatedTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backfill_core.guarded import Guarded
    from tests.servers import OwnPostgres

RETRY = ME._replace(try_number=2)


@pytest.fixture
def proxy(own_postgres: OwnPostgres) -> Iterator[Proxy]:
    made = Proxy(own_postgres.port)
    yield made
    made.close()


def write(orders: Guarded) -> None:
    orders.write([DAY, NEXT], put(2), ME)


def seal(orders: Guarded) -> None:
    orders.seal([DAY, NEXT], ME)


def retry_write(orders: Guarded) -> None:
    orders.write([DAY, NEXT], put(2), RETRY)


def retry_seal(orders: Guarded) -> None:
    orders.settle(force=True)
    orders.seal([DAY, NEXT], RETRY)


@pytest.mark.parametrize("what", [LOSE_REQUEST, LOSE_ANSWER])
@pytest.mark.parametrize(("act", "again"), [(write, retry_write), (seal, retry_seal)])
def test_a_cut_at_any_message_leaves_what_the_next_try_puts_right(
    own_postgres: OwnPostgres,
    proxy: Proxy,
    what: str,
    act: Callable[[Guarded], None],
    again: Callable[[Guarded], None],
) -> None:
    own_postgres.make_sure_it_runs()
    db = own_postgres.new_store()
    number = 0
    while True:
        number += 1
        target = SimulatedTarget()
        name = f"shop.orders-{number}"
        with open_ledger(db) as ledger:
            guarded(ledger, target, name=name).write([DAY, NEXT], put(1), ME._replace(task="before"))
        with open_ledger(own_postgres.through(proxy.port, db)) as ledger:
            orders = guarded(ledger, target, name=name)
            proxy.reset(lambda request, _, at=number: what if request == at else PASS)  # type: ignore[misc]
            with suppress(BackfillError):
                act(orders)
            cuts = proxy.cuts
            proxy.reset(lambda *_: PASS)

            again(orders)

            check(orders, target)
        if not cuts:
            break
    assert number > 20, "the messages of the call were cut"


def check(orders: Guarded, target: SimulatedTarget) -> None:
    """Ledger and target agree, each publication is remembered once, and nothing is left over."""
    ledger, name = orders.ledger, orders.dataset.name
    for row in ledger.rows(name):
        side = target.sides[row.key]
        assert (row.token, row.mark) == (side.token, side.mark)
        lines = [line.token for line in ledger.history(name, row.key, row.key) if line.what == "publish"]
        assert lines[-1] == row.token
        assert len(lines) == len(set(lines))
    assert (ledger.intents(name), ledger.claims(name)) == ([], [])
    assert (target.locks, target.staged) == ({}, {})

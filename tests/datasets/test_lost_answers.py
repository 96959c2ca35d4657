"""The connection to the table's database cut at every message; what comes next finds out, and nothing is done twice."""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg
import pytest

from backfill_core.errors import BackfillError
from tests.datasets.conftest import make
from tests.datasets.dying import RECOVERIES, VERBS
from tests.datasets.shop import BOTH, OTHER, one_try
from tests.faults.proxy import LOSE_ANSWER, LOSE_REQUEST, PASS, Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers import OwnPostgres

WRITES = ["write", "staged", *(["adopt"] if os.environ.get("BACKFILL_FAULTS") == "long" else [])]
each_loss = pytest.mark.parametrize("what", [LOSE_REQUEST, LOSE_ANSWER])


@pytest.fixture
def proxy(own_postgres: OwnPostgres) -> Iterator[Proxy]:
    made = Proxy(own_postgres.port)
    yield made
    made.close()


@each_loss
@pytest.mark.parametrize("verb", WRITES)
def test_a_write_whose_table_is_cut_off_at_any_message_is_put_right(
    own_postgres: OwnPostgres, proxy: Proxy, verb: str, what: str, tmp_path: Path
) -> None:
    shop = make("sqlite", "postgres", own_postgres, tmp_path)
    far = shop._replace(where=own_postgres.through(proxy.port, f"{shop.where}?connect_timeout=60"))
    published = 0
    for number in itertools.count(1):
        shop, far = shop.of(number), far.of(number)
        if verb == "adopt":
            shop.sql(f"UPDATE {{orders}} SET amount = {number} WHERE dt <= '{BOTH[-1]}'")

        proxy.reset(lambda request, _, at=number: what if request == at else PASS)  # type: ignore[misc]
        with suppress(BackfillError, psycopg.Error), far.open() as orders:  # the driver's: of what the caller fills
            VERBS[verb](far, orders, one_try(number))
        cuts = proxy.cuts
        proxy.reset(lambda *_: PASS)

        published += shop.seen() == number
        RECOVERIES[number % 3](shop, VERBS[verb], number)
        assert shop.seen() == number
        shop.check()
        if not cuts:
            break
    print(f"cut at {number - 1} messages")
    assert number > 15
    assert published > 1, "no answer was lost after the commit"


@each_loss
def test_a_seal_whose_table_is_cut_off_at_any_message_is_there_on_both_days_or_on_none(
    own_postgres: OwnPostgres, proxy: Proxy, what: str, tmp_path: Path
) -> None:
    shop = make("sqlite", "postgres", own_postgres, tmp_path)
    far = shop._replace(where=own_postgres.through(proxy.port, f"{shop.where}?connect_timeout=60"))
    for number, verb in ((number, verb) for number in itertools.count(1) for verb in ("seal", "unseal")):
        proxy.reset(lambda request, _, at=number: what if request == at else PASS)  # type: ignore[misc]
        with suppress(BackfillError), far.open() as orders:
            VERBS[verb](far, orders, one_try(number))
        cuts = proxy.cuts
        proxy.reset(lambda *_: PASS)

        with shop.open() as orders:
            orders.settle(force=True)
            sealed = [line["key"] for line in orders.status(*BOTH)["partitions"] if line["sealed"]]
            assert sealed in ([], BOTH)
        shop.check()
        with shop.open() as orders:
            VERBS[verb](shop, orders, OTHER)
        shop.check()
        if verb == "unseal" and not cuts:
            break
    print(f"cut at {number - 1} messages")
    assert number > 5

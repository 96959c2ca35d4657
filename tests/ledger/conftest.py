"""One suite for every ledger: in memory, SQLite, PostgreSQL. So the model's ledger is what it stands for."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from backfill_core.claims import Caller
from backfill_core.guarded import Guarded
from backfill_core.ledger.opening import open_ledger
from tests.model.ledger import SimulatedLedger
from tests.model.promises import DATASET
from tests.model.target import SimulatedTarget, SimulatedWrite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from backfill_core.guarded import Partition
    from backfill_core.ledger import Ledger

ME = Caller("run-1", "load", person="me", owner="me")
OTHER = Caller("run-2", "load", person="other", owner="other")
DAY, NEXT, THIRD = "2026-02-01", "2026-02-02", "2026-02-03"


def put(*amounts: int) -> Callable[[Partition], None]:
    """Return what fills each partition of a write with these amounts."""

    def fill(partition: Partition) -> None:
        assert isinstance(partition.write, SimulatedWrite)
        partition.write.put(dict.fromkeys(partition.keys, amounts))

    return fill


@pytest.fixture(params=["simulated", "sqlite", "postgres"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a ledger may be made; nothing for one in memory."""
    if request.param == "simulated":
        return ""
    if request.param == "sqlite":
        return str(tmp_path / "state.db")
    url: str = request.getfixturevalue("postgres").new_store()
    return url


@pytest.fixture
def ledger(db: str) -> Iterator[Ledger]:
    if not db:
        clock = itertools.count()
        yield SimulatedLedger(lambda: f"2026-02-01T00:00:{next(clock):09.6f}+00:00")
        return
    with open_ledger(db) as opened:
        yield opened


@pytest.fixture
def target() -> SimulatedTarget:
    return SimulatedTarget()


@pytest.fixture
def orders(ledger: Ledger, target: SimulatedTarget) -> Guarded:
    return guarded(ledger, target)


def guarded(ledger: Ledger, target: SimulatedTarget, **changes: Any) -> Guarded:
    """Return the dataset of these tests, with some of its fields changed."""
    return Guarded(replace(DATASET, **changes), ledger, target, wait=0)

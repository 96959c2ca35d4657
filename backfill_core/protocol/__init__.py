"""One protocol for any table: take, stage, audit, intent, publish, confirm; and settle: fence, look, close.

Plain code over a ledger and a target, which share no transaction. Nothing in the ledger publishes: the target's one
commit does. What dies in between leaves an open intent, and the target says what became of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from backfill_core.claims import Claim
    from backfill_core.dataset import Dataset
    from backfill_core.ledger import KeyRow, Ledger
    from backfill_core.target import Side, Target


class Place(NamedTuple):
    """A dataset with its ledger and its target, and what a call of the protocol needs besides.

    version: of the dataset's definition.
    new_id: makes tokens, marks and claims' ids: 128 random bits, never the same twice.
    stale: says whether the run or try of a claim has ended. Never by time; without Airflow only a person says so.
    wait: for how many seconds a fence waits for a publication that is just under way.
    """

    dataset: Dataset
    version: int
    ledger: Ledger
    target: Target
    new_id: Callable[[], str]
    stale: Callable[[Claim], bool]
    wait: float

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.dataset.name


def next_number(row: KeyRow, side: Side | None) -> int:
    """Return one more than the ledger and the target know: a ledger from a backup may know too little."""
    return max(row.number, side.fence if side else 0) + 1

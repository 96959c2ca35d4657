"""What the suite needs of whoever wrote a target: a place with a table, rows by hand, and what the target can't do."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from backfill_core.target import Expected, Fence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from backfill_core.dataset import Dataset
    from backfill_core.target import Audited, Target, Write

LEDGER = "the ledger"
DAY, NEXT, THIRD, FOURTH = "2026-02-01", "2026-02-02", "2026-02-03", "2026-02-04"

Row = tuple[Any, ...]


class Profile(NamedTuple):
    """What a target can do; what it can't is not tested, and said.

    atomic_sets: the keys of a write are published in one commit.
    digest: rows are hashed, so that other rows of equal sums are found.
    open_publication: a write is one open transaction from its audit on, that a fence waits for, and that refuses a
        second write of the key; else the rows are staged, and published by a short call.
    grains: what a partition may be: a `day`; `list`, a value of a list; `none`, the whole table.
    """

    atomic_sets: bool = True
    digest: bool = True
    open_publication: bool = False
    grains: frozenset[str] = frozenset({"day"})


class Bench(ABC):
    """An empty place with a table `orders` to guard, and a table `source` that its rows come from.

    Both have order_id (a number), dt (the day, which is the key), amount (a number), and note (a text).

    profile: what the target can do.
    select: what `fill` takes for the rows of the write's own days in `source`; everything: for all of its rows.
    """

    profile: Profile = Profile()
    select: str
    everything: str

    @abstractmethod
    def make(self) -> None:
        """Make both tables, empty."""

    @abstractmethod
    def fill(self, table: str, *rows: Row) -> None:
        """Add rows to one of the tables, past the target. A day is text, `2026-02-01`, or None."""

    @abstractmethod
    def empty(self, table: str) -> None:
        """Take all rows away from one of the tables, past the target."""

    @abstractmethod
    def orders(self) -> list[Row]:
        """Return what a reader sees of `orders` now: number, day as text, amount; in that order."""

    @abstractmethod
    def stage(self, staging: str, *rows: Row) -> None:
        """Add rows to what a write is to be filled by, as a program of the user's own would."""

    @abstractmethod
    def is_staged(self, staging: str) -> bool:
        """Return whether there is such a thing."""

    @abstractmethod
    def dataset(self, **said: Any) -> Dataset:
        """Return the dataset; its measures are `orders`, the number of rows, and `amount`, their sum.

        Where the profile has more grains than a day, `said` has `grain`, `day` (None) and of a list `key` and `values`.
        """

    @abstractmethod
    def target(self, dataset: Dataset | None = None, **said: Any) -> Target:
        """Return the target of a dataset; each may have connections of its own."""

    # made of these

    @contextmanager
    def written(
        self, target: Target, *keys: str, select: str | None = None, number: int = 1, digest: bool = False
    ) -> Iterator[tuple[Write, Audited]]:
        """A write that was filled and audited; its token is the write's own."""
        target.fence({key: Fence(number) for key in keys}, LEDGER, 5)
        with target.writing(keys, secrets.token_hex(16), staged=False) as write:
            write.fill(select or self.select)
            yield write, write.audit(digest=digest)

    def publish(self, target: Target, *keys: str, select: str | None = None, number: int = 1) -> str:
        """Publish keys, whatever is published there; return the token."""
        token = secrets.token_hex(16)
        target.fence({key: Fence(number) for key in keys}, LEDGER, 5)
        there = expected(target, *keys, number=number)
        with self.written(target, *keys, select=select, number=number) as (write, _):
            write.publish(there, token, LEDGER)
        return token


def expected(target: Target, *keys: str, number: int = 1) -> Mapping[str, Expected]:
    """Say that keys be as they are just now."""
    return {key: Expected(number, side.token, side.mark) for key, side in target.look(keys).items()}


def rows_of(found: Mapping[str, Any], *keys: str) -> list[int]:
    """Return how many rows each key has, of what was measured."""
    return [found[key].rows for key in keys]


def orders_on(day: str | None, *amounts: int, first: int = 1) -> list[Row]:
    """Return orders of a day with these amounts, numbered from `first`."""
    return [(number, day, amount, f"note {number}") for number, amount in enumerate(amounts, start=first)]

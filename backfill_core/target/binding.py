"""How a query is given the keys of a write: for which of them it is run at once, and which parameters it may have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_core.errors import UsageError
from backfill_core.target.statement import parameters

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from backfill_core.keys import Bounds, KeyColumn

NAMES = ("start", "end", "key")


def runs_of(select: str, dialect: str, column: KeyColumn, keys: Iterable[str]) -> list[tuple[str, ...]]:
    """Return what a query is run for, once each: gapless spans of days, or each key of a list.

    A query over a list that has no `:key` says by itself which keys it is about: it is run once.
    """
    runs = column.spans(keys)
    if column.has_days or "key" in parameters(select, dialect, NAMES):
        return runs
    return [tuple(key for run in runs for key in run)]


def asked_of(
    select: str, dialect: str, name: str, column: KeyColumn, runs: Sequence[Sequence[str]], bounds: Bounds
) -> frozenset[str]:
    """Return which of its parameters a query has, to be bound for one of these runs.

    name: of the dataset. bounds: those of the run.

    Raises:
        UsageError: it asks for one that there can't be.
    """
    asked = parameters(select, dialect, NAMES)
    if "key" in asked and column.has_days and sum(map(len, runs)) > 1:
        raise UsageError(f"{name}: :key is for a write of one key, this is of several; use :start and :end")
    if asked - {"key"} and bounds.start is None:
        raise UsageError(f"{name}: {column.why_no_bounds}")
    return asked

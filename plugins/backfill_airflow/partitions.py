"""What a store of partitions can do, for the operators: the runner's `daily`, or a dataset, each with its source.

The two have receipts of their own, which go out as they are; here is what the operators need to know of both.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from backfill_core.guard import MAX_SHRINK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Protocol

    from backfill_airflow.compat import Context
    from backfill_airflow.source import Source
    from backfill_airflow.stale import RunStates
    from backfill_core.claims import Caller
    from backfill_core.dataset import Dataset
    from backfill_core.protocol.judging import Wish

    Keys = Sequence[object] | str

    class Partitions(Protocol):
        """A table's partitions; ranges of keys are inclusive, each key is text, `2026-02-01`."""

        def keys_of(
            self, context: Context, first: object = None, last: object = None, keys: Keys | None = None
        ) -> list[str]:
            """Return the keys that an operator was given; by default the one that its run means."""

        def replace(
            self, keys: Sequence[str], caller: Caller, reason: str, wish: Wish, stop: Callable[[], bool]
        ) -> Written:
            """Put what the source says into the place of what is published, but for keys that have to be left alone."""

        def plan(self, keys: Sequence[str], caller: Caller, wish: Wish) -> Planned:
            """Tell what `replace` would do, and write nothing."""

        def denied(self, keys: Sequence[str], caller: Caller, kind: str) -> dict[str, str]:
            """Return who would keep the caller out now, by key."""

        def claim(self, keys: Sequence[str], caller: Caller) -> dict[str, Any]:
            """Reserve all of the keys, or raise DeniedError; return the receipt, with the claim's id as `claim`."""

        def release(
            self,
            caller: Caller,
            *,
            claim: str | None = None,
            keys: Sequence[str] | None = None,
            task: str | None = None,
            person: str = "",
        ) -> list[str]:
            """Give back the claim of an id; else what the caller's run, or one task of it, reserved.

            person: whose own reservation to end too.
            """

        def sealed(self, keys: Sequence[str]) -> list[str]:
            """Return those of the keys that are sealed."""

        def seal(self, keys: Sequence[str], caller: Caller, reason: str) -> Mapping[str, Any]:
            """Declare the partitions as sent."""

        def amend(
            self, key: str, caller: Caller, reason: str, wish: Wish, *, if_late: bool = False
        ) -> Corrected | None:
            """Write the sealed partition's correction down beside it; if asked to, only where its source has moved."""

        def late(self) -> Late:
            """Find the sealed partitions whose source has moved on."""

        def free_stale(self, states: RunStates) -> dict[str, list[list[str]]]:
            """Free the claims whose run or try has ended; return [key, holder, why] of the `released` and `kept`."""


class DeniedError(Exception):
    """Somebody else holds keys: their holders, by key."""

    def __init__(self, denied: Mapping[str, str]) -> None:
        super().__init__(who_holds(denied))
        self.denied = denied


class Written(NamedTuple):
    """What came of a write.

    receipt: the core's answer.
    measures: by key, what this run has given to readers, to be announced.
    said: what to log, a line a partition.
    sealed, missing: keys that were left alone, as they are sealed, or as they have no source.
    denied: by key, who kept us out. lost: by key, who holds it now instead of us.
    failed: by key, what is wrong with its source.
    """

    receipt: Mapping[str, Any]
    measures: Mapping[str, Mapping[str, Any]]
    said: Sequence[str]
    sealed: Sequence[str] = ()
    missing: Sequence[str] = ()
    denied: Mapping[str, str] = {}
    lost: Mapping[str, str] = {}
    failed: Mapping[str, str] = {}


class Planned(NamedTuple):
    """A write, told beforehand: the planned partitions, and lines for the log."""

    receipt: list[Any]
    said: Sequence[str]


class Corrected(NamedTuple):
    """A correction: the core's answer, and what is right now, to be announced."""

    receipt: Mapping[str, Any]
    key: str
    measures: Mapping[str, Any]
    reason: str


class Late(NamedTuple):
    """What came late: the core's answer, lines for the log, and warnings."""

    receipt: list[Any]
    said: Sequence[str]
    warnings: Sequence[str] = ()


@contextmanager
def opened_partitions(
    conn_id: str,
    context: Context,
    dataset: Dataset | None = None,
    source: Source | None = None,
    max_shrink: float = MAX_SHRINK,
) -> Iterator[Partitions]:
    """Open the partitions of a dataset, or without one the runner's `daily`, for as long as the block lasts.

    source: of the dataset; `daily` has its events. max_shrink: of `daily`; a dataset has its own.
    """
    if dataset is None:
        from backfill_airflow.daily import Daily
        from backfill_airflow.hook import BackfillHook

        with BackfillHook(conn_id).backfill() as backfill:
            yield Daily(backfill, max_shrink)
    else:
        from backfill_airflow.datasets import DatasetPartitions, opened_dataset

        with opened_dataset(conn_id, dataset, context["ti"]) as guarded:
            yield DatasetPartitions(guarded, source)


def who_holds(denied: Mapping[str, str]) -> str:
    """Say of each key that was denied who holds it."""
    return ", ".join(f"{key} claimed_by:{holder}" for key, holder in denied.items())

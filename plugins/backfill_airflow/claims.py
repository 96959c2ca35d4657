"""The claim of one try, from before its first look to after its last write."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from backfill_core import BackfillError
from backfill_core.claims import ATTEMPT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backfill_core import Backfill, DateRange
    from backfill_core.attempts import Taken
    from backfill_core.claims import Caller


@contextmanager
def attempt(backfill: Backfill, dates: DateRange, caller: Caller) -> Iterator[Taken]:
    """Claim the range for a try to write it while the block runs, and give that claim back in any case.

    Where somebody keeps the caller out, the block runs without a claim: see `Taken.denied`.
    """
    taken = backfill.take(dates, caller, ATTEMPT)
    try:
        yield taken
    except BaseException:
        with suppress(BackfillError):  # the first error is the one to tell
            _give_back(backfill, taken)
        raise
    _give_back(backfill, taken)


def _give_back(backfill: Backfill, taken: Taken) -> None:
    if taken.claim is not None:
        backfill.give_back(taken.claim)

"""What can go wrong, and the exit code of each.

    BackfillError            1  something failed; what was there before still is
    ├── UsageError           2  the call itself is wrong
    ├── NoStoreError         3  no state store where one was named
    ├── StoreError           1  the store can't be read or written
    ├── SourceError          1  the events can't be read
    │   └── PartitionError   1  one partition's file breaks the shape, or can't be read
    ├── ClaimLostError       5  the claim that was to cover a write is gone
    ├── NotSealedError       6  a correction was asked for a date that was never sent
    └── Stopped              1  the caller asked it to stop (the runner answers a signal with 130)

The message of an error is the sentence that a user reads: where, what, and what to do.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class BackfillError(Exception):
    """The root: every error that this library raises on purpose."""

    exit_code = 1

    so_far: Mapping[str, object] | None = None
    """The receipt of what was done before the error, where a call had done something."""


class UsageError(BackfillError):
    """The call itself is wrong: a bad date, a range that ends before it starts, an empty owner."""

    exit_code = 2


class NoStoreError(BackfillError):
    """There is no state store at the place that was named."""

    exit_code = 3


class StoreError(BackfillError):
    """The state store can't be read or written; what it held, it still holds."""


class SourceError(BackfillError):
    """The source of the partitions can't be read."""


class PartitionError(SourceError):
    """One partition can't be counted; the message starts with `file:` or `file:line:`."""


class ClaimLostError(BackfillError):
    """The claim that was to cover a write is gone; nothing was written."""

    exit_code = 5


class NotSealedError(BackfillError):
    """A correction was asked for a date that is not sealed: run it again instead."""

    exit_code = 6


class Stopped(BackfillError):  # noqa: N818  a request that was heard, not an error
    """The caller's `stop` answered true before there was a result; nothing was changed."""

    def __init__(self) -> None:
        super().__init__("stopped before anything was changed")

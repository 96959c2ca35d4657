"""What can go wrong, and the exit code of each.

    BackfillError            1  something failed; what was there before still is
    ├── UsageError           2  the call itself is wrong
    ├── NoStoreError         3  no state store where one was named
    ├── StoreError           1  the store can't be read or written
    │   └── AnswerLostError  1  no answer to a commit, so it is unknown whether the change was kept
    ├── SourceError          1  the events can't be read
    │   └── PartitionError   1  one partition's file breaks the shape, or can't be read
    ├── TargetError          1  a dataset's table, or its database, can't be read or written
    │   ├── FencedError      1  the attempt was overtaken, or the key is not as it expected; nothing happened
    │   ├── ChangedError     1  what is to be published is not what was audited; nothing happened
    │   ├── FenceTimeoutError    1  a publication was still under way
    │   └── OutcomeUnknownError  1  no answer to a commit in the target; only `settle` can tell
    ├── RefusedError         1  a write was refused, and everything is as it was
    │   ├── StoppedError     1  the target holds a token or a mark that the ledger doesn't know
    │   ├── HeldError        5  somebody else holds the key
    │   ├── SealedError      5  the key is sealed
    │   ├── OvertakenError   1  a later attempt took the key over
    │   ├── NotAdoptedError  1  the table holds rows that nobody of ours published
    │   ├── DriftError       1  the table was written past us
    │   ├── AuditError       1  rows of another key, of none, or repeats
    │   └── LimitError       1  empty, or smaller or larger by more than a limit
    ├── ClaimLostError       5  the claim that was to cover a write is gone
    ├── NotSealedError       6  a correction was asked for a date that was never sent
    └── Stopped              1  the caller asked it to stop (the runner answers a signal with 130)

The message of an error is the sentence that a user reads: where, what, and what to do.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from backfill_core.target import Side


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


class AnswerLostError(StoreError):
    """There was no answer to a commit, so it is unknown whether the last change was kept."""


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


class TargetError(BackfillError):
    """A dataset's table, or the database that it is in, can't be read or written."""


class FencedError(TargetError):
    """The attempt was overtaken, or token, mark or ledger of a key are not as it expected; nothing happened.

    sides: the side rows as they were found, by key.
    """

    def __init__(self, sentence: str, sides: Mapping[str, Side] | None = None) -> None:
        super().__init__(sentence)
        self.sides = sides or {}


class ChangedError(TargetError):
    """What goes, or what came in, is not what was audited; nothing happened."""


class FenceTimeoutError(TargetError):
    """A publication was still under way when the time to wait for it was over; nothing happened."""


class OutcomeUnknownError(TargetError):
    """There was no answer to a commit in the target; `settle` finds out what became of it."""


class RefusedError(BackfillError):
    """A write was refused; the partitions are as they were, and the claim was given back."""


class StoppedError(RefusedError):
    """The target holds a token or a mark that the ledger doesn't know: one of the two is from a backup."""


class HeldError(RefusedError):
    """Somebody else holds the key."""

    exit_code = 5


class SealedError(RefusedError):
    """The key is sealed."""

    exit_code = 5


class OvertakenError(RefusedError):
    """A later attempt took the key over, or the claim was given back meanwhile."""


class NotAdoptedError(RefusedError):
    """The table holds rows there that nobody of ours published: adopt them, or overwrite them in so many words."""


class DriftError(RefusedError):
    """The table holds something else than what was published last: somebody wrote past us."""


class AuditError(RefusedError):
    """The result has rows of another key, of none, or repeats of what must be unique."""


class LimitError(RefusedError):
    """The result is empty, or smaller or larger than what is published by more than a limit."""

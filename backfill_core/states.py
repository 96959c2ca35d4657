"""What state a partition is in: of all that is known of it, the one thing that a person should see first.

For a calendar, a page, a count: whoever shows partitions asks here, so that all say the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backfill_core.answers import PartitionStatus
    from backfill_core.ledger import Correction, KeyRow

State = Literal["drifted", "failed", "held", "late", "corrected", "sealed", "published", "missing"]

STATES: tuple[State, ...] = ("drifted", "failed", "held", "late", "corrected", "sealed", "published", "missing")
"""All states; where several are true of a partition, it is in the first."""

TO_LOOK_AT: tuple[State, ...] = ("drifted", "failed", "late", "held", "missing")
"""The states in which a partition may need a person, the most pressing first."""


class Known(NamedTuple):
    """What is known of a partition.

    drifted: when it was last compared, the table held something else than what was published.
    failed: the last attempt at it was refused or broke, and it was not published since.
    held: somebody holds it, or an attempt at it was never ended.
    late: its source was compared, and has moved on since it was sent, corrected or published.
    corrected: it is sealed, and what is right is written beside what was sent under that seal.
    """

    drifted: bool = False
    failed: bool = False
    held: bool = False
    late: bool = False
    corrected: bool = False
    sealed: bool = False
    published: bool = False


def state_of(known: Known) -> State:
    """Return the state of a partition of which this is known."""
    return STATES[known.index(True)] if True in known else "missing"


def of_key(row: KeyRow, *, held: bool, corrections: Sequence[Correction]) -> State:
    """Return the state of a dataset's key.

    held: whether there is a claim or an open intent there. corrections: all of the key's.
    """
    return state_of(
        Known(
            drifted=row.drift is not None,
            failed=row.failure is not None,
            held=held,
            late=row.late is not None,
            corrected=row.seal > 0 and any(one.seal == row.seal for one in corrections),
            sealed=row.seal > 0,
            published=row.token is not None,
        )
    )


SAID_OF_A_SOURCE = (None, "current", "differs", "no_data")


def of_date(row: PartitionStatus) -> State:
    """Return the state of a date of the runner's `daily`, whose tables keep neither failures nor drift.

    Where its source was compared, that may have failed, or found the date late.
    """
    published, corrected = row["orders"] is not None, row["sealed"] and row["corrections"] > 0
    return state_of(
        Known(
            failed=row["source"] not in SAID_OF_A_SOURCE,
            held=row["claimed_by"] is not None,
            late=published and row["source"] == "differs" and not corrected,
            corrected=corrected,
            sealed=row["sealed"],
            published=published,
        )
    )

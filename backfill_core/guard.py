"""What must not be written: a date that is to be left alone, a number that no database keeps."""

from __future__ import annotations

from backfill_core.errors import UsageError

LOST = "claim_lost:"
"""How the reason begins of a write whose claim is gone; who holds the date now follows, nothing for nobody."""
MAX_SHRINK = 0.5
"""The share of its orders that a partition may lose unasked, where somebody looks after that: half of them."""


def reason_to_skip(sealed: bool, holder: str | None, owner: str) -> str | None:
    """Return why this owner must leave a date alone, None if it need not. A seal goes before a claim."""
    if sealed:
        return "sealed"
    if holder not in (None, owner):
        return f"claimed_by:{holder}"
    return None


def check_share(share: float) -> float:
    """Return the share of its orders that a partition may lose, as given: from 0, none, to 1, all.

    Raises:
        UsageError: it is no such share.
    """
    if not 0 <= share <= 1:
        raise UsageError(f"max_shrink is {share}; it is a share of the orders, from 0 to 1")
    return share


def claim_lost(dt: str, holder: str) -> str:
    """Say that a write's claim is gone, and who holds the date now: an empty text for nobody."""
    return (
        f"{dt}: the claim of this try is gone; it was given back or taken over, or the reservation above it was given"
        f" back. {holder or 'Nobody'} holds the date now; nothing was written"
    )


def fits_64_bits(number: int) -> bool:
    """Return whether a database can keep the number as an integer."""
    return -(2**63) <= number < 2**63

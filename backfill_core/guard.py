"""What must not be written: a date that is to be left alone, a number that no database keeps."""

from __future__ import annotations


def reason_to_skip(sealed: bool, holder: str | None, owner: str) -> str | None:
    """Return why this owner must leave a date alone, None if it need not. A seal goes before a claim."""
    if sealed:
        return "sealed"
    if holder not in (None, owner):
        return f"claimed_by:{holder}"
    return None


def fits_64_bits(number: int) -> bool:
    """Return whether a database can keep the number as an integer."""
    return -(2**63) <= number < 2**63

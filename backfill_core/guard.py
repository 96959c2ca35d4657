"""When a date must be left alone."""

from __future__ import annotations


def reason_to_skip(sealed: bool, holder: str | None, owner: str) -> str | None:
    """Return why this owner must leave a date alone, None if it need not. A seal goes before a claim."""
    if sealed:
        return "sealed"
    if holder not in (None, owner):
        return f"claimed_by:{holder}"
    return None

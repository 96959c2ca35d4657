"""What the targets say alike of side rows, and how what they stage is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from backfill_core.target import Expected, Side


def staging_name(token: str) -> str:
    """Return the name of what an attempt stages: short enough that no database cuts it."""
    return f"_bf_{token[:20]}"


def why_fenced(side: Side | None, expected: Expected, ledgers: Collection[str]) -> str:
    """Say what stands in the way of an attempt at a key."""
    if side is None:
        return "has no side row"
    if side.ledger not in ledgers:
        return f"was last written under another ledger, {side.ledger}"
    if side.fence > expected.number:
        return "was taken over by a later attempt"
    if side.mark != expected.mark:
        return "is sealed" if side.mark else "is not sealed any more"
    holds = "what somebody else published" if side.token else "nothing of ours"
    return f"holds {holds} where {'another publication' if expected.token else 'nothing of ours'} was expected"

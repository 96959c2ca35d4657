"""What the targets say alike of side rows, and how what they stage is called.

The rules of side rows stand here as plain code, for a target that reads and keeps all of them in one commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_core.errors import FencedError
from backfill_core.target import Side

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from backfill_core.target import Expected, Fence


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


def raise_fences(
    sides: dict[str, Side], fences: Mapping[str, Fence], ledger: str, former: Collection[str] = ()
) -> dict[str, Side]:
    """Do what `Target.fence` does to the side rows that there are; return those of the keys.

    Raises:
        FencedError: a key was last written under another ledger; what was changed here must not be kept.
    """
    for key, fence in fences.items():
        side = sides.get(key, Side(None, 0, None, None, None))
        if side.ledger not in (None, ledger, *former):
            raise FencedError(f"{key} was last written under another ledger, {side.ledger}", {key: side})
        sides[key] = side._replace(fence=max(side.fence, fence.number), ledger=ledger)
    return {key: sides[key] for key in fences}


def set_marks(
    sides: dict[str, Side], mark: str | None, expected: Mapping[str, Expected], ledger: str
) -> frozenset[str]:
    """Do what `Target.mark` does to the side rows that there are; return the keys where it was done."""
    done = frozenset(
        key
        for key, one in expected.items()
        if any(_is_as_expected(sides.get(key), there, {ledger}) for there in (one, one._replace(mark=mark)))
    )
    for key in done:
        sides[key] = sides[key]._replace(mark=mark, fence=expected[key].number)
    return done


def set_tokens(
    sides: dict[str, Side], expected: Mapping[str, Expected], token: str, ledger: str, former: Collection[str], now: str
) -> dict[str, str]:
    """Set the token that `publish`, or `adopt`, puts beside the rows; return `published_at` by key.

    former: ids that the ledger had before, which may stand there where rows are adopted.
    now: the target's clock, UTC, ISO, with microseconds; a key's never goes back.

    Raises:
        FencedError: a side row is not as expected; what was changed here must not be kept.
    """
    ledgers = {ledger, *former}
    for key, one in expected.items():
        side = sides.get(key)
        if side is None or not _is_as_expected(side, one, ledgers):
            raise FencedError(f"{key} {why_fenced(side, one, ledgers)}", dict(sides))
        sides[key] = Side(token, one.number, one.mark, ledger, max(now, side.published_at or ""))
    return {key: sides[key].published_at or now for key in expected}


def _is_as_expected(side: Side | None, one: Expected, ledgers: Collection[str]) -> bool:
    return (
        side is not None
        and (side.token, side.mark) == (one.token, one.mark)
        and side.fence <= one.number
        and side.ledger in ledgers
    )

"""Reserve keys, and give reservations back. The ledger alone is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from backfill_core.claims import ATTEMPT, RESERVATION, Claim, enter
from backfill_core.errors import AnswerLostError
from backfill_core.ledger import CLAIM, RELEASE, Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from backfill_core.claims import Caller
    from backfill_core.ledger import KeyRow, Ledger
    from backfill_core.ledger.page import Page
    from backfill_core.protocol import Place


class Reserved(NamedTuple):
    """A reservation: its id, the keys that it holds, and pairs of a key and who holds it instead."""

    claim: str
    keys: list[str]
    denied: list[tuple[str, str]]


def reserve(
    ledger: Ledger,
    dataset: str,
    claim_id: str,
    keys: Iterable[str],
    caller: Caller,
    reason: str = "",
    *,
    whole: bool = False,
) -> Reserved:
    """Reserve the keys that nobody else holds, under one id.

    reason: where there is one, the history has it.
    whole: all of them, or none where one is denied.
    """
    keys = sorted(set(keys))

    def step(page: Page) -> Reserved:
        made = Reserved(claim_id, [], [])
        entries = {key: enter(page.claims(key), caller, RESERVATION) for key in keys}
        made.denied.extend((key, entry.held_by.holder) for key, entry in entries.items() if entry.held_by is not None)
        if whole and made.denied:
            return made
        for key, entry in entries.items():
            if any(claim.id == claim_id for claim in page.claims(key)):
                made.keys.append(key)
                continue
            if entry.held_by is not None:
                continue
            page.claim(
                Claim(
                    claim_id,
                    key,
                    entry.owner,
                    RESERVATION,
                    caller.run,
                    caller.task,
                    caller.map_index,
                    caller.try_number,
                    entry.beneath,
                )
            )
            for claim in entry.overtaken:
                page.free(claim.id, [key])
            if reason:
                page.enter(line(page, key, CLAIM, entry.owner, reason, run=caller.run))
            made.keys.append(key)
        return made

    try:
        return ledger.change(dataset, keys, step)
    except AnswerLostError:  # what was kept of it is seen by its id
        return ledger.change(dataset, keys, step)


def release(
    ledger: Ledger, dataset: str, keys: Iterable[str], claims: Iterable[str], by: str = "", reason: str = ""
) -> list[str]:
    """Give claims back at the keys, by their ids; return the keys where one was.

    An attempt's intent that is open stays so: the next attempt at the key settles it.

    by, reason: who says so, and why; where there is a reason, the history has it, and whose claim it was.
    """
    keys = sorted(set(keys))
    ids = sorted(set(claims))

    def step(page: Page) -> list[str]:
        if reason:
            for claim in page.all_claims():
                if claim.id in ids and claim.key in keys:
                    page.enter(line(page, claim.key, RELEASE, by, reason, said=f"it was held by {claim.holder}"))
        return sorted({key for claim_id in ids for key in page.free(claim_id, keys)})

    try:
        return ledger.change(dataset, keys, step)
    except AnswerLostError:
        return ledger.change(dataset, keys, step)


def line(page: Page, key: str, what: str, owner: str, reason: str, *, run: str = "", said: str | None = None) -> Entry:
    """Return the line of a history that says who reserved a key or gave it back, and why."""
    row = page.row(key)
    return Entry(
        key, what, row.number, None, None, owner, run, "", reason, None, page.now, None, None, None, said, row.version
    )  # fmt: skip


def kept_out(place: Place, rows: Mapping[str, KeyRow], caller: Caller) -> dict[str, str]:
    """Return why a write by this caller would leave keys out now, by key: `sealed`, `claimed_by:…`."""
    keys = sorted(rows)
    claims: dict[str, list[Claim]] = {}
    for claim in place.ledger.claims(place.name, keys[0], keys[-1]):
        claims.setdefault(claim.key, []).append(claim)
    found = {}
    for key, row in rows.items():
        on_it = claims.get(key, ())
        unseal = next((claim for claim in on_it if claim.kind == ATTEMPT), None) if row.seal else None
        held_by = unseal or enter(on_it, caller, ATTEMPT).held_by
        if row.seal and not unseal:
            found[key] = "sealed"
        elif held_by is not None:
            found[key] = f"claimed_by:{held_by.holder}"
    return found

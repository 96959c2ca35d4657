"""Settle: find out what became of an intent. Fence, then look, then confirm or withdraw."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from backfill_core.errors import OutcomeUnknownError, StoppedError, TargetError
from backfill_core.ledger import ADOPT, CONFIRMED, OPEN, PUBLISH, SEAL, UNSEAL, WITHDRAWN, Entry, SealRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from backfill_core.claims import Claim
    from backfill_core.ledger import Intent
    from backfill_core.ledger.page import Page
    from backfill_core.protocol import Place
    from backfill_core.target import Side


class Open(NamedTuple):
    """An open intent, and the claim that it still stands under, if it does."""

    intent: Intent
    claim: Claim | None


def open_intents(page: Page, keys: Iterable[str]) -> list[Open]:
    """Return the open intents of the keys, with their claims."""
    return [
        Open(intent, next((claim for claim in page.claims(intent.key) if claim.id == intent.claim), None))
        for intent in page.open(keys)
    ]


def settle(place: Place, token: str, above: Mapping[str, int] | None = None) -> dict[str, str]:
    """Settle the open intents of a token, all its keys together; return the state of each.

    Fence first: after that the answer can't change any more. It does nothing where an intent is no longer open, never
    changes a token, and never ends another's publication.

    above: by key, the number of the attempt that overtakes.

    Raises:
        TargetError: the target can't be asked, or a publication was still under way; the intents stay open.
    """
    ledger, former, intents = place.ledger.change(
        place.name, (), lambda page: (page.ledger, page.former, page.intents(token)), token
    )
    numbers = {
        intent.key: max(intent.number + 1, (above or {}).get(intent.key, 0))
        for intent in intents
        if intent.state == OPEN
    }
    if not numbers:
        return {intent.key: intent.state for intent in intents}
    sides = fence_and_look(place, numbers, ledger, former)
    keys = sorted({intent.key for intent in intents})
    return place.ledger.change(place.name, keys, lambda page: close(page, token, sides), token)


def fence_and_look(
    place: Place, numbers: Mapping[str, int], ledger: str, former: frozenset[str]
) -> Mapping[str, Side]:
    """Let nothing below the numbers publish any more, then see what the target holds."""
    return place.target.fence(numbers, ledger, place.wait, former=former)


def settle_own(place: Place, token: str, why: Exception) -> dict[str, str]:
    """Settle an attempt of one's own that got no answer; until its fence is in, the outcome is unknown.

    Raises:
        OutcomeUnknownError: it could not be settled now.
    """
    try:
        return settle(place, token)
    except Exception as error:
        raise OutcomeUnknownError(
            f"{place.name}: it is unknown whether the write took place ({why}), and the target can't be asked now"
            f" ({error}); the next try finds out, and so does `settle`"
        ) from error


def close(page: Page, token: str, sides: Mapping[str, Side]) -> dict[str, str]:
    """Confirm or withdraw each open intent of the token, by what the target holds; give the claim back with the last.

    An intent that is no longer open stays as it is. Return the state of each.
    """
    for intent in page.intents(token):
        if intent.state == OPEN and intent.key in sides:
            close_one(page, intent, sides[intent.key])
    states = {intent.key: intent.state for intent in page.intents(token)}
    if OPEN not in states.values():
        for claim in {intent.claim for intent in page.intents(token)}:
            page.free(claim, list(states))
    return states


def close_one(page: Page, intent: Intent, side: Side) -> None:
    """Confirm or withdraw one open intent."""
    if has_landed(intent, side):
        page.close(intent, CONFIRMED)
        _record(page, intent, side)
    else:
        page.close(intent, WITHDRAWN)


def has_landed(intent: Intent, side: Side) -> bool:
    """Return whether what the intent announced is what the target holds."""
    if intent.kind == SEAL:
        return side.mark == intent.token
    if intent.kind == UNSEAL:
        return side.mark != intent.was
    return side.token == intent.token


def confirm(place: Place, token: str, sides: Mapping[str, Side]) -> dict[str, str]:
    """Confirm what was published under a token, once: by hand of the attempt or of a settler, whoever comes first.

    sides: what the target's answer said; a key that is not there did not happen.

    Raises:
        StoppedError: the ledger knows of no such intent, or of one that was withdrawn: it is from a backup.
    """
    states = place.ledger.change(place.name, sorted(sides), lambda page: close(page, token, sides), token)
    for key, side in sides.items():
        if side.token == token and states.get(key) != CONFIRMED:
            raise StoppedError(
                f"{place.name}: {key} was published, but the ledger knows nothing of it; it was put back from a backup"
                " meanwhile. Say so with `restored`, then `adopt` the key"
            )
    return states


def _record(page: Page, intent: Intent, side: Side) -> None:
    row = page.row(intent.key)
    published_at = None
    if intent.kind in (PUBLISH, ADOPT):
        published_at = side.published_at
        row = row._replace(
            token=intent.token,
            measured=intent.measured,
            fingerprint=intent.fingerprint,
            version=intent.version,
            published_at=published_at,
            confirmed_at=page.now,
            owner=intent.owner,
            run=intent.run,
            reason=intent.reason,
            failure=None,
            failed_at=None,
            checked_at=page.now,
            drift=None,
        )
    elif intent.kind == SEAL:
        row = row._replace(seal=row.seals + 1, seals=row.seals + 1, mark=intent.token)
        page.seal(
            SealRow(
                intent.key, row.seal, intent.token, row.token or "", row.measured, page.now, intent.owner, intent.reason
            )
        )
    else:
        page.unseal(intent.key, row.seal, intent.owner, intent.reason)
        row = row._replace(seal=0, mark=None)
    page.write(row)
    page.enter(
        Entry(
            key=intent.key,
            what=intent.kind,
            number=intent.number,
            token=intent.token,
            before=intent.before,
            owner=intent.owner,
            run=intent.run,
            task=intent.task,
            reason=intent.reason,
            published_at=published_at,
            at=page.now,
            seconds=_seconds(intent.noted_at, page.now),
            measured=intent.measured,
            replaced=intent.replaced,
            said=intent.drift,
            version=intent.version,
        )
    )


def _seconds(since: str, until: str) -> float:
    return round((datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds(), 6)


def withdraw(place: Place, token: str) -> None:
    """Withdraw an attempt's own intents, of which the target said that nothing happened."""

    def step(page: Page) -> None:
        for intent in page.intents(token):
            if intent.state == OPEN:
                page.close(intent, WITHDRAWN)

    keys = [intent.key for intent in place.ledger.find(place.name, token)]
    place.ledger.change(place.name, sorted(keys), step, token)


__all__ = ["TargetError", "close", "confirm", "open_intents", "settle", "settle_own", "withdraw"]

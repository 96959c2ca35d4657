"""Settle: find out what became of an intent. Fence, then look, then confirm or withdraw."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from backfill_core.claims import ATTEMPT
from backfill_core.errors import AnswerLostError, BackfillError, StoreError
from backfill_core.ledger import ADOPT, CONFIRMED, OPEN, PUBLISH, SEAL, UNSEAL, WITHDRAWN, Entry, SealRow, Unsealed
from backfill_core.protocol.reserving import release
from backfill_core.target import Fence, Side

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from backfill_core.ledger import Intent
    from backfill_core.ledger.page import Page
    from backfill_core.protocol import Place


NOTHING = Side(None, 0, "", None, None)
"""What a target holds where it answered that nothing happened: neither the token, nor a mark, nor none."""


def settle(place: Place, token: str, above: Mapping[str, int] | None = None) -> dict[str, str]:
    """Settle the open intents of a token, all its keys together; return the state of each.

    Fence first: after that the answer can't change any more. It does nothing where an intent is no longer open, never
    changes a token, and never ends another's publication.

    above: by key, the number of the attempt that overtakes.

    Raises:
        TargetError: the target can't be asked, or a publication was still under way; the intents stay open.
    """
    ledger, former, intents = place.ledger.change(
        place.name, (), lambda page: (page.ledger, page.former, page.intents(token)), token=token
    )
    fences = {
        intent.key: Fence(max(intent.number + 1, (above or {}).get(intent.key, 0)), token, intent.measured)
        for intent in intents
        if intent.state == OPEN
    }
    if not fences:
        return {intent.key: intent.state for intent in intents}
    sides = fence_and_look(place, fences, ledger, former)
    with suppress(BackfillError):  # nothing depends on it; before the claim goes, by which the tables would be found
        place.target.sweep([token])
    keys = sorted({intent.key for intent in intents})
    return place.ledger.change(place.name, keys, lambda page: close(page, token, sides), token=token)


class Found(NamedTuple):
    """What settling the dead found: pairs of a key and a state; of a key and who is at work there; keys freed."""

    settled: list[tuple[str, str]]
    open: list[tuple[str, str]]
    released: list[str]


def settle_dead(place: Place, keys: set[str] | None, *, force: bool) -> Found:
    """Settle what is open, at the keys or all, where its claim is gone or stale; free claims that are stale.

    force: a person says that all attempts there are dead.
    """
    claims = [claim for claim in place.ledger.claims(place.name) if keys is None or claim.key in keys]
    opened = [intent for intent in place.ledger.intents(place.name) if keys is None or intent.key in keys]
    alive = {claim.id for claim in claims if not ((force and claim.kind == ATTEMPT) or place.stale(claim))}
    found = Found([], [(intent.key, intent.holder) for intent in opened if intent.token in alive], [])
    for token in sorted({intent.token for intent in opened} - alive):
        found.settled.extend(sorted(settle(place, token).items()))
    dead = [claim for claim in claims if claim.id not in alive]
    if dead:
        with suppress(BackfillError):
            place.target.sweep(sorted({claim.id for claim in dead if claim.kind == ATTEMPT}))
        freed = release(place.ledger, place.name, {claim.key for claim in dead}, {claim.id for claim in dead})
        found.released.extend(freed)
    return found


def fence_and_look(
    place: Place, fences: Mapping[str, Fence], ledger: str, former: frozenset[str]
) -> Mapping[str, Side]:
    """Let nothing below the fences publish any more, then see what the target holds."""
    return place.target.fence(fences, ledger, place.wait, former=former)


def close(page: Page, token: str, sides: Mapping[str, Side]) -> dict[str, str]:
    """Confirm or withdraw each open intent of the token, by what the target holds; give the claim back with the last.

    An intent that is no longer open stays as it is. Return the state of each.
    """
    for intent in page.intents(token):
        if intent.state == OPEN and intent.key in sides:
            close_one(page, intent, sides[intent.key])
    states = {intent.key: intent.state for intent in page.intents(token)}
    if OPEN not in states.values():
        page.free(token, page.keys)
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
        return side.mark is None
    return side.token == intent.token


def confirm(place: Place, token: str, done: Mapping[str, Side], failed: Iterable[str] = ()) -> dict[str, str]:
    """Confirm what the target's answer said, once: by hand of the attempt or of a settler, whoever comes first.

    done: by key, what the target holds now; failed: keys at which nothing happened.

    Raises:
        StoreError: the ledger knows of no such intent, or of one that was withdrawn: it is from a backup.
    """
    sides = {**dict.fromkeys(failed, NOTHING), **done}

    def step(page: Page) -> dict[str, str]:
        return close(page, token, sides)

    try:
        states = place.ledger.change(place.name, sorted(sides), step, token=token)
    except AnswerLostError:  # it does nothing where it was done
        states = place.ledger.change(place.name, sorted(sides), step, token=token)
    for key in done:
        if states.get(key) != CONFIRMED:
            raise StoreError(
                f"{place.name}: {key} was changed in the target, but the ledger knows nothing of it: it was put back"
                " from a backup meanwhile. Say so with `restored`, then `adopt` the key"
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
        page.unseal(Unsealed(intent.key, row.seal, page.now, intent.owner, intent.reason))
        row = row._replace(seal=0, mark=None, compared_at=None, late=None)
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

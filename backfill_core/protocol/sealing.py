"""Seal, unseal and amend: what was sent stays what it was, and what comes late is written beside it."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from backfill_core.claims import ALONE, ATTEMPT, Claim
from backfill_core.errors import (
    AnswerLostError,
    BackfillError,
    DriftError,
    FencedError,
    HeldError,
    NotAdoptedError,
    NotSealedError,
    OutcomeUnknownError,
    OvertakenError,
    StoppedError,
    TargetError,
)
from backfill_core.ledger import AMEND, OPEN, SEAL, UNSEAL, WITHDRAWN, Correction, Entry, Intent
from backfill_core.protocol import judging, settling
from backfill_core.target import Expected, Fence, Side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from backfill_core.claims import Caller
    from backfill_core.ledger import KeyRow
    from backfill_core.ledger.page import Page
    from backfill_core.protocol import Place
    from backfill_core.target import Measured


def seal(place: Place, keys: Iterable[str], caller: Caller, reason: str) -> list[str]:
    """Seal the keys: note it, set the mark where the target holds what is published, confirm. Return the new ones.

    Sealing again is success. A mark that the ledger doesn't know is taken over: the ledger was put back from a backup.

    Raises:
        HeldError: somebody is writing one of the keys; nothing was sealed.
        NotAdoptedError: nothing was published there.
        DriftError: the target holds something else than what was published.
        StoppedError: the target holds another token than the ledger knows.
    """
    keys = sorted(set(keys))
    clear_open_intents(place, keys)
    figures = _measured(place, keys)
    mark = place.new_id()

    def note(page: Page) -> list[str]:
        unsealed = [key for key in keys if not page.row(key).seal]
        for key in unsealed:
            row = page.row(key)
            if row.token is None:
                raise NotAdoptedError(
                    f"{place.name}: nothing was published at {key}, so there is nothing to seal; publish or `adopt` it"
                )
            token, measured = figures.get(key, (row.token, row.measured))
            if token != row.token:
                raise _published_meanwhile(place, key)
            note_one(place, page, mark, SEAL, key, caller, reason, measured)
        return unsealed

    return _carry_out(place, keys, mark, SEAL, note)


def unseal(place: Place, keys: Iterable[str], caller: Caller, reason: str) -> list[str]:
    """Take the seal away: note it, take the mark away in the target, confirm. Return the keys that were sealed.

    Raises:
        HeldError: somebody is changing one of the keys.
    """
    keys = sorted(set(keys))
    clear_open_intents(place, keys)
    token = place.new_id()

    def note(page: Page) -> list[str]:
        sealed = [key for key in keys if page.row(key).seal]
        for key in sealed:
            note_one(place, page, token, UNSEAL, key, caller, reason, page.row(key).measured)
        return sealed

    return _carry_out(place, keys, token, UNSEAL, note)


def amend(place: Place, key: str, after: Measured, seal_version: int, caller: Caller, reason: str) -> Correction:
    """Write down what is right of a sealed key, beside what was sent. What was sent, and the table, stay as they are.

    seal_version: of the seal that was on it when `after` was measured.

    Raises:
        NotSealedError: it is not sealed: publish it again instead.
        HeldError: somebody is changing its seal.
    """
    clear_open_intents(place, [key])

    def step(page: Page) -> Correction:
        row = page.row(key)
        refuse_open_intents(place, page, [key])
        if not row.seal or row.measured is None:
            raise NotSealedError(f"{place.name}: {key} is not sealed, so there is nothing to correct; write it again")
        if row.seal != seal_version:
            raise OvertakenError(f"{place.name}: {key} was sealed anew meanwhile; nothing was recorded, run again")
        correction = Correction(key, row.seal, row.measured, after, reason, _owner(caller), page.now)
        page.correct(correction)
        page.write(row._replace(compared_at=page.now, late=None))
        page.enter(
            Entry(
                key, AMEND, row.number, None, row.token, correction.owner, caller.run, caller.task, reason, None,
                page.now, None, after, row.measured, None, row.version,
            )
        )  # fmt: skip
        return correction

    return place.ledger.change(place.name, [key], step)


def clear_open_intents(place: Place, keys: Sequence[str]) -> None:
    """Settle what is open at the keys where its holder is gone or stale.

    Raises:
        HeldError: it is not; the sentence has the holder's name.
    """

    def step(page: Page) -> list[tuple[Intent, Claim | None]]:
        claims = {(claim.key, claim.id): claim for key in keys for claim in page.claims(key)}
        return [(intent, claims.get((intent.key, intent.token))) for intent in page.open(keys)]

    found = place.ledger.change(place.name, keys, step)
    for intent, claim in found:
        if claim is not None and not place.stale(claim):
            raise _held(place, intent)
    for token in sorted({intent.token for intent, _ in found}):
        settling.settle(place, token)


def refuse_open_intents(place: Place, page: Page, keys: Sequence[str]) -> None:
    """Let nothing be sealed, unsealed or amended while somebody is publishing: what is sealed is what a reader saw.

    Raises:
        HeldError: an intent is open.
    """
    for intent in page.open(keys):
        raise _held(place, intent)


def _held(place: Place, intent: Intent) -> HeldError:
    return HeldError(
        f"{place.name}: {intent.key} is being changed by {intent.holder}; wait for that, or, if it is dead, `settle` it"
    )


def note_one(
    place: Place,
    page: Page,
    token: str,
    kind: str,
    key: str,
    caller: Caller,
    reason: str,
    measured: Measured | None,
) -> None:
    """Note the intent to seal or unseal a key, under a number and a claim of its own."""
    refuse_open_intents(place, page, [key])
    row = page.row(key)
    number = row.number + 1
    page.write(row._replace(number=number))
    owner = _owner(caller)
    page.claim(
        Claim(token, key, owner, ATTEMPT, caller.run, caller.task, caller.map_index, caller.try_number, ALONE), number
    )
    page.note(
        Intent(
            token=token,
            key=key,
            number=number,
            kind=kind,
            state=OPEN,
            owner=owner,
            run=caller.run,
            task=caller.task,
            map_index=caller.map_index,
            try_number=caller.try_number,
            reason=reason,
            before=row.token,
            measured=measured,
            fingerprint=row.fingerprint,
            replaced=None,
            drift=None,
            version=row.version,
            noted_at=page.now,
        )
    )


def _owner(caller: Caller) -> str:
    return caller.owner or caller.person or caller.run


def _measured(place: Place, keys: list[str]) -> dict[str, tuple[str, Measured]]:
    """Measure what is to be sealed, unless it goes without digests; return the token that it was published under, too.

    Raises:
        DriftError: it is not what was published.
        OvertakenError: it is what was published meanwhile.
    """
    rows = place.ledger.change(place.name, keys, lambda page: [page.row(key) for key in keys])
    rows = [row for row in rows if row.token is not None and not row.seal]
    if place.dataset.digest == "never" or not rows:
        return {}
    held = place.target.measure([row.key for row in rows], digest=True)
    for row in rows:
        if drift := judging.drift_of(place.dataset, place.version, row, held[row.key]):
            if place.ledger.change(place.name, [row.key], partial(_is_moving, row=row)):
                raise _published_meanwhile(place, row.key)
            raise DriftError(
                f"{place.name}: {row.key}: somebody wrote past us: {drift}; `adopt` it or write it again, then seal it"
            )
    return {row.key: (row.token or "", held[row.key]) for row in rows}


def _is_moving(page: Page, row: KeyRow) -> bool:
    return page.row(row.key).token != row.token or bool(page.open([row.key]))


def _published_meanwhile(place: Place, key: str) -> OvertakenError:
    return OvertakenError(f"{place.name}: {key} was published meanwhile; nothing was sealed, run again")


def _carry_out(place: Place, keys: list[str], token: str, kind: str, note: Callable[[Page], list[str]]) -> list[str]:
    """Note, read back, set the mark or take it away, confirm."""
    with suppress(AnswerLostError):  # whether it was kept is what is read back
        if not place.ledger.change(place.name, keys, note):
            return []
    intents, ledger, former = place.ledger.change(
        place.name, keys, lambda page: (page.intents(token), page.ledger, page.former), token=token
    )
    intents = [intent for intent in intents if intent.state == OPEN]
    if not intents:
        raise OvertakenError(f"{place.name}: the ledger gave no answer; nothing was changed, run again")
    try:
        done, seen = mark(place, token, kind, intents, ledger, former)
    except OutcomeUnknownError as error:
        _settle_own(place, token, error)
    except BackfillError:
        with suppress(BackfillError):  # else `settle` finds that nothing happened
            _withdraw(place, token, intents)
        raise
    else:
        settling.confirm(place, token, done, [one.key for one in intents if one.key not in done])
        _refuse_rest(place, [intent for intent in intents if intent.key not in done], seen)
    return [intent.key for intent in intents]


def _refuse_rest(place: Place, intents: Sequence[Intent], seen: Mapping[str, Side]) -> None:
    """Say why the mark was not changed at some keys."""
    for intent in intents:
        side = seen[intent.key]
        if intent.kind == SEAL and side.fence <= intent.number and side.token != intent.before:
            raise StoppedError(
                f"{place.name}: {intent.key}: the target holds another publication than the last one that the ledger"
                " knows: one of the two was put back from a backup. Look at the rows, then `adopt` the key"
            )
        raise OvertakenError(f"{place.name}: {intent.key}: another came in between; nothing was changed, run again")


def mark(
    place: Place, token: str, kind: str, intents: Sequence[Intent], ledger: str, former: frozenset[str]
) -> tuple[dict[str, Side], Mapping[str, Side]]:
    """Fence the keys, then set the mark or take it away; return the side rows where that was done, and all as before.

    A seal demands that the target holds what the ledger says is published. An unseal takes away any mark: it has a
    reason, and it is the way out where the two are not of one mind.
    """
    fences = {intent.key: Fence(intent.number) for intent in intents}
    try:
        seen = place.target.fence(fences, ledger, place.wait, former=former)
    except FencedError as error:
        raise StoppedError(str(error)) from error
    expected = {
        intent.key: Expected(
            intent.number, intent.before if kind == SEAL else seen[intent.key].token, seen[intent.key].mark
        )
        for intent in intents
    }
    wanted = token if kind == SEAL else None
    done = place.target.mark(wanted, expected, ledger, place.wait)
    return {key: seen[key]._replace(mark=wanted) for key in done}, seen


def _settle_own(place: Place, token: str, why: Exception) -> None:
    """Find out what became of a mark to which there was no answer.

    Raises:
        OutcomeUnknownError: that can't be told now.
        TargetError: it was not changed.
    """
    try:
        states = settling.settle(place, token)
    except BackfillError as error:
        raise OutcomeUnknownError(
            f"{place.name}: it is unknown whether the seal's mark was changed ({why}), and that can't be found out now"
            f" ({error}); `settle` finds out"
        ) from error
    if not states:
        raise OutcomeUnknownError(f"{place.name}: the ledger was put back from a backup meanwhile; look at the seals")
    if WITHDRAWN in states.values():
        raise TargetError(f"{place.name}: nothing was changed, as the target gave no answer ({why}); run again")


def _withdraw(place: Place, token: str, intents: Sequence[Intent]) -> None:
    def step(page: Page) -> None:
        for intent in page.intents(token):
            if intent.state == OPEN:
                page.close(intent, WITHDRAWN)
        page.free(token, page.keys)

    place.ledger.change(place.name, [intent.key for intent in intents], step, token=token)

"""A write of a set of keys, from the take to its confirmation; and an adoption, which is one without rows of its own."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from backfill_core.claims import holds
from backfill_core.errors import (
    AnswerLostError,
    BackfillError,
    OutcomeUnknownError,
    OvertakenError,
    SealedError,
    StoppedError,
    TargetError,
)
from backfill_core.ledger import ADOPT, CONFIRMED, OPEN, PUBLISH, Intent
from backfill_core.protocol import judging, settling, taking
from backfill_core.target import Side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from backfill_core.claims import Caller
    from backfill_core.ledger.page import Page
    from backfill_core.protocol import Place
    from backfill_core.protocol.judging import Verdict, Wish
    from backfill_core.protocol.taking import Attempt
    from backfill_core.target import Audited, Measured, Write


class Written(NamedTuple):
    """What a write did.

    published: by key, when readers got it, by the target's clock; quiet: keys whose result was there already.
    """

    attempt: Attempt
    published: Mapping[str, str]
    quiet: frozenset[str]
    audited: Audited | None


class Plan(NamedTuple):
    """What an attempt is about to publish, by key: figures, what they take the place of, and the token there now."""

    kind: str
    measured: Mapping[str, Measured]
    replaced: Mapping[str, Measured]
    before: Mapping[str, str | None]
    drift: Mapping[str, str]
    fingerprints: Mapping[str, str]
    quiet: frozenset[str] = frozenset()


def write(
    place: Place,
    keys: Iterable[str],
    fill: Callable[[Write, Attempt], None],
    caller: Caller,
    reason: str,
    wish: Wish,
    *,
    staged: bool = False,
    fingerprints: Mapping[str, str] | None = None,
) -> Written:
    """Replace the partitions of the keys by what `fill` puts into the write, whole, or leave them as they are.

    Raises:
        RefusedError: nothing was published, and the claim was given back.
        OutcomeUnknownError: only `settle`, or the next try, can tell what became of it.
        TargetError, StoreError: the target or the ledger failed; the sentence says whether anything was published.
    """
    attempt = taking.take(place, keys, caller, reason)
    if not attempt.numbers:
        return Written(attempt, {}, frozenset(), None)
    try:
        with place.target.writing(attempt.keys, attempt.token, staged=staged) as writing:
            fill(writing, attempt)
            audited = writing.audit()
            verdict = judging.judge(place.dataset, place.version, attempt.rows, audited, wish)
            if verdict.refusal is not None:
                _give_back(place, attempt, verdict.failures)
                raise verdict.refusal
            plan = _plan(attempt, audited, verdict, fingerprints or {})
            if len(verdict.quiet) == len(attempt.numbers):
                _leave_quiet(place, attempt, plan)
                return Written(attempt, {}, verdict.quiet, audited)
            intend(place, attempt, plan)
            published = _publish(place, attempt, plan, lambda: _publish_rows(writing, attempt, plan))
    except _Settled as settled:
        raise settled.error from settled.error.__cause__
    except BaseException as error:
        _give_back_quietly(place, attempt, error)
        raise
    return Written(attempt, published, verdict.quiet, audited)


def adopt(place: Place, keys: Iterable[str], caller: Caller, reason: str) -> Written:
    """Take on what the target holds as it is: measured, and entered as published. Raises: as `write`."""
    attempt = taking.take(place, keys, caller, reason, adopting=True)
    if not attempt.numbers:
        return Written(attempt, {}, frozenset(), None)
    try:
        measured = place.target.measure(attempt.keys)
        before = {key: row.token for key, row in attempt.rows.items()}
        plan = Plan(ADOPT, measured, measured, before, {}, {})
        intend(place, attempt, plan)
        tokens = {key: side.token if (side := attempt.sides.get(key)) else None for key in attempt.numbers}
        published = _publish(
            place,
            attempt,
            plan,
            lambda: place.target.adopt(
                attempt.token, attempt.numbers, tokens, attempt.ledger, former=attempt.former
            ),
        )
    except _Settled as settled:
        raise settled.error from settled.error.__cause__
    except BaseException as error:
        _give_back_quietly(place, attempt, error)
        raise
    return Written(attempt, published, frozenset(), None)


class _Settled(Exception):  # noqa: N818  it carries an error past the place where a claim is given back
    """What became of the intents is known or not for us to say; the claim is no longer ours to give back."""

    def __init__(self, error: BackfillError) -> None:
        self.error = error


def _plan(attempt: Attempt, audited: Audited, verdict: Verdict, fingerprints: Mapping[str, str]) -> Plan:
    loud = [key for key in attempt.numbers if key not in verdict.quiet]
    return Plan(
        PUBLISH,
        {key: audited.partitions[key] for key in loud},
        {key: audited.before[key] for key in loud},
        {key: attempt.rows[key].token for key in loud},
        verdict.drift,
        fingerprints,
        verdict.quiet,
    )


def intend(place: Place, attempt: Attempt, plan: Plan) -> None:
    """Note in the ledger what is about to be published, after another look; and read it back.

    Raises:
        OvertakenError, SealedError, StoppedError: the keys are no longer as they were taken; nothing was noted.
        StoreError: the ledger failed; nothing is going to be published.
    """
    keys = attempt.keys
    with suppress(AnswerLostError):  # whether it was kept is what is read back
        place.ledger.change(place.name, keys, lambda page: note(place, page, attempt, plan), attempt.token)
    read_back(place, attempt, plan)


def note(place: Place, page: Page, attempt: Attempt, plan: Plan) -> None:
    """Note the intents, if the keys are still as they were taken."""
    for key in plan.measured:
        look_again(place, page, attempt, key, plan.before[key])
        page.note(
            Intent(
                token=attempt.token,
                key=key,
                number=attempt.numbers[key],
                kind=plan.kind,
                state=OPEN,
                claim=attempt.claim,
                owner=attempt.owners[key],
                run=attempt.caller.run,
                task=attempt.caller.task,
                try_number=attempt.caller.try_number,
                reason=attempt.reason,
                before=plan.before[key],
                was=None,
                measured=plan.measured[key],
                fingerprint=plan.fingerprints.get(key),
                replaced=plan.replaced[key],
                drift=plan.drift.get(key),
                version=place.version,
                noted_at=page.now,
            )
        )
    _leave(page, attempt, plan)


def look_again(place: Place, page: Page, attempt: Attempt, key: str, before: str | None) -> None:
    """Refuse to go on where a seal, another attempt, a release or a backup came in between."""
    row = page.row(key)
    if page.ledger != attempt.ledger:
        raise StoppedError(f"{place.name}: the ledger was put back from a backup meanwhile; nothing was published")
    if row.seal:
        raise SealedError(f"{place.name}: {key} was sealed meanwhile; nothing was published")
    if not holds(page.claims(key), attempt.claim) or row.number != attempt.numbers[key]:
        raise OvertakenError(
            f"{place.name}: {key} was taken over by another attempt, or its claim was given back; nothing was published"
        )
    if opened := page.open([key]):
        raise OvertakenError(f"{place.name}: {key} is being changed by {opened[0].holder}; nothing was published")
    if row.token != before:
        raise StoppedError(f"{place.name}: {key} was published by another meanwhile; nothing was published")


def read_back(place: Place, attempt: Attempt, plan: Plan) -> None:
    """Go on only where the ledger holds the intents: the answer to the commit may have been lost.

    It waits for the rows' locks, so a commit that is still under way is over by then.
    """
    found = place.ledger.change(
        place.name, attempt.keys, lambda page: {one.key: one.state for one in page.intents(attempt.token)}, attempt.token
    )
    for key in plan.measured:
        if found.get(key) != OPEN:
            raise OvertakenError(
                f"{place.name}: the ledger doesn't hold what {key} is about to become; nothing was published, run again"
            )


def _publish(
    place: Place, attempt: Attempt, plan: Plan, commit: Callable[[], Mapping[str, str]]
) -> Mapping[str, str]:
    """Commit in the target, then confirm in the ledger; settle oneself where there is no answer."""
    try:
        published = commit()
    except TargetError as error:
        if not isinstance(error, OutcomeUnknownError):
            _withdraw(place, attempt, plan, error)
            raise
        published = _settle_own(place, attempt, error)
    except Exception as error:  # noqa: BLE001  whatever it is, it may have come after the commit
        published = _settle_own(place, attempt, error)
    except BaseException as error:  # a signal in the middle of it: the next try settles it
        raise _unknown(place, attempt, error) from error
    _confirm(place, attempt, plan, published)
    return published


def _publish_rows(writing: Write, attempt: Attempt, plan: Plan) -> Mapping[str, str]:
    numbers = {key: attempt.numbers[key] for key in plan.measured}
    return writing.publish(numbers, plan.before, attempt.token, attempt.ledger)


def _withdraw(place: Place, attempt: Attempt, plan: Plan, error: BackfillError) -> None:
    try:
        settling.withdraw(place, attempt.token)
        _give_back(place, attempt, dict.fromkeys(plan.measured, str(error)))
    except BackfillError:
        raise _Settled(error) from None  # the intents stay open; the next try finds that nothing happened


def _settle_own(place: Place, attempt: Attempt, why: Exception) -> Mapping[str, str]:
    """Return when readers got it, where it turns out that it was published.

    Raises:
        OutcomeUnknownError: that can't be told now.
        TargetError: it was not published, and never will be.
    """
    try:
        states = settling.settle_own(place, attempt.token, why)
    except OutcomeUnknownError as error:
        raise _Settled(error) from error
    if CONFIRMED not in states.values():
        raise _Settled(
            TargetError(f"{place.name}: nothing was published, as the target gave no answer ({why}); run again")
        ) from why
    with suppress(BackfillError):
        sides = place.target.look([key for key, state in states.items() if state == CONFIRMED])
        return {key: side.published_at or "" for key, side in sides.items() if side.token == attempt.token}
    return {}


def _confirm(place: Place, attempt: Attempt, plan: Plan, published: Mapping[str, str]) -> None:
    sides = {
        key: Side(attempt.token, attempt.numbers[key], None, attempt.ledger, published[key])
        if key in published
        else Side(None, 0, None, None, None)
        for key in plan.measured
    }
    try:
        settling.confirm(place, attempt.token, sides)
    except AnswerLostError:
        try:
            settling.confirm(place, attempt.token, sides)
        except BackfillError as error:
            raise _Settled(error) from error
    except BackfillError as error:
        raise _Settled(error) from error

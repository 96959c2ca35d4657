"""A write of a set of keys, from the take to its confirmation; and an adoption, a write without rows of its own."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from backfill_core.claims import holds
from backfill_core.errors import (
    AnswerLostError,
    BackfillError,
    OutcomeUnknownError,
    OvertakenError,
    SealedError,
    StoppedError,
    StoreError,
    TargetError,
)
from backfill_core.ledger import ADOPT, CONFIRMED, OPEN, PUBLISH, WITHDRAWN, Intent
from backfill_core.protocol import judging, settling, taking
from backfill_core.target import Expected, Side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from backfill_core.claims import Caller
    from backfill_core.ledger.page import Page
    from backfill_core.protocol import Place
    from backfill_core.protocol.judging import Verdict, Wish
    from backfill_core.protocol.taking import Attempt
    from backfill_core.target import Audited, Measured, Write


class Writing:
    """An attempt's write while it is under way, and what it did.

    published: by key, when readers got it, by the target's clock; quiet: keys whose result was there already.
    audited: what was measured; None before.
    """

    def __init__(self, attempt: Attempt, write: Write | None = None) -> None:
        self.attempt = attempt
        self.write = write
        self.published: Mapping[str, str] = {}
        self.quiet: frozenset[str] = frozenset()
        self.audited: Audited | None = None


class Plan(NamedTuple):
    """What an attempt is about to publish, by key.

    measured, replaced: the figures, and those that they take the place of.
    before: the token that the ledger says is published; there: what the target has to hold at the commit.
    """

    kind: str
    measured: Mapping[str, Measured]
    replaced: Mapping[str, Measured]
    before: Mapping[str, str | None]
    there: Mapping[str, Expected]
    drift: Mapping[str, str]
    fingerprints: Mapping[str, str]
    quiet: frozenset[str] = frozenset()


@contextmanager
def publishing(
    place: Place, attempt: Attempt, wish: Wish, *, staged: bool = False, fingerprints: Mapping[str, str] | None = None
) -> Iterator[Writing]:
    """Replace the partitions of an attempt by what the block puts into its write, whole, or leave them as they are.

    Raises:
        RefusedError: nothing was published, and the claim was given back.
        OutcomeUnknownError: only `settle`, or the next try, can tell what became of it.
        TargetError, StoreError: the target or the ledger failed; the sentence says whether anything was published.
    """
    with _ending(place, attempt):
        with place.target.writing(attempt.keys, attempt.token, staged=staged) as write:
            writing = Writing(attempt, write)
            yield writing
            writing.audited = write.audit(digest=place.dataset.digest == "always")
            verdict = judging.judge(place.dataset, place.version, attempt.rows, writing.audited, wish)
            plan = _plan(attempt, writing.audited, verdict, fingerprints or {})
            if verdict.refusal is None and plan.measured:
                intend(place, attempt, plan)
                writing.published = _publish(
                    place, attempt, plan, lambda: write.publish(plan.there, attempt.token, attempt.ledger)
                )
        # What was staged is gone before the claim is: it is by the claim that it would be found.
        _refuse(place, attempt, verdict)
        writing.quiet = verdict.quiet
        if plan.measured:
            _confirm(place, attempt, plan, writing.published)
        else:
            place.ledger.change(place.name, attempt.keys, partial(_leave, attempt=attempt, plan=plan))


def adopt(place: Place, keys: Iterable[str], caller: Caller, reason: str) -> Writing:
    """Take on what the target holds as it is: measured, and entered as published.

    Raises: as `publishing`.
    """
    writing = Writing(taking.take(place, keys, caller, reason, adopting=True))
    attempt = writing.attempt
    if not attempt.numbers:
        return writing
    with _ending(place, attempt):
        plan = _plan_adoption(place, attempt)
        intend(place, attempt, plan)
        writing.published = _publish(
            place,
            attempt,
            plan,
            lambda: place.target.adopt(attempt.token, plan.there, plan.measured, attempt.ledger, former=attempt.former),
        )
        _confirm(place, attempt, plan, writing.published)
    return writing


@contextmanager
def _ending(place: Place, attempt: Attempt) -> Iterator[None]:
    """Give the claim back where the block fails, with the intents that nothing came of; the first error is told."""
    try:
        yield
    except _Settled as settled:
        raise settled.error from settled.error.__cause__
    except _NothingHappened as nothing:
        failures = dict.fromkeys(attempt.keys, str(nothing.error))
        with suppress(BackfillError):  # else the intents stay open, and the next try finds that nothing happened
            place.ledger.change(
                place.name, attempt.keys, lambda page: withdraw(page, attempt, failures), token=attempt.token
            )
        raise nothing.error from nothing.error.__cause__
    except BaseException as error:
        with suppress(Exception):
            failures = dict.fromkeys(attempt.keys, str(error) or type(error).__name__)
            taking.give_back(place, attempt.token, attempt.keys, failures, attempt)
        raise


class _Settled(Exception):  # noqa: N818  it carries an error past the place where a claim is given back
    """What became of the intents is known or not for us to say; the claim is no longer ours to give back."""

    def __init__(self, error: BackfillError) -> None:
        self.error = error


class _NothingHappened(Exception):  # noqa: N818  likewise
    """The target said that nothing happened: the intents are withdrawn once what was staged is gone."""

    def __init__(self, error: TargetError) -> None:
        self.error = error


def _refuse(place: Place, attempt: Attempt, verdict: Verdict) -> None:
    """Give the claim back and raise what the verdict says; what an overtaken attempt saw is no verdict."""
    if verdict.refusal is None:
        return
    freed = taking.give_back(place, attempt.token, attempt.keys, verdict.failures, attempt)
    if len(freed) < len(attempt.keys):
        overtaken = f"{place.name}: {_shown(attempt.keys)} was taken over by a later attempt; nothing was published"
        raise _Settled(OvertakenError(overtaken))
    raise _Settled(verdict.refusal)


def _plan(attempt: Attempt, audited: Audited, verdict: Verdict, fingerprints: Mapping[str, str]) -> Plan:
    loud = [key for key in attempt.numbers if key not in verdict.quiet]
    return Plan(
        PUBLISH,
        {key: audited.partitions[key] for key in loud},
        {key: audited.before[key] for key in loud},
        {key: attempt.rows[key].token for key in loud},
        {key: Expected(attempt.numbers[key], attempt.rows[key].token) for key in loud},
        verdict.drift,
        fingerprints,
        verdict.quiet,
    )


def _plan_adoption(place: Place, attempt: Attempt) -> Plan:
    measured = place.target.measure(attempt.keys, digest=place.dataset.digest == "always")
    return Plan(
        ADOPT,
        measured,
        {},
        {key: row.token for key, row in attempt.rows.items()},
        {key: Expected(attempt.numbers[key], side.token, side.mark) for key, side in attempt.sides.items()},
        {},
        {},
    )


def intend(place: Place, attempt: Attempt, plan: Plan) -> None:
    """Note in the ledger what is about to be published, after another look; and read it back.

    Raises:
        OvertakenError, SealedError, StoppedError: the keys are no longer as they were taken; nothing was noted.
        StoreError: the ledger failed; nothing is going to be published.
    """
    keys = attempt.keys
    with suppress(AnswerLostError):  # whether it was kept is what is read back
        place.ledger.change(place.name, keys, lambda page: note(place, page, attempt, plan))
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
                owner=attempt.owners[key],
                run=attempt.caller.run,
                task=attempt.caller.task,
                map_index=attempt.caller.map_index,
                try_number=attempt.caller.try_number,
                reason=attempt.reason,
                before=plan.before[key],
                measured=plan.measured[key],
                fingerprint=plan.fingerprints.get(key),
                replaced=plan.replaced.get(key),
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
    if not holds(page.claims(key), attempt.token) or row.number != attempt.numbers[key]:
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
        place.name,
        attempt.keys,
        lambda page: {intent.key: intent.state for intent in page.intents(attempt.token)},
        token=attempt.token,
    )
    for key in plan.measured:
        if key not in found:
            raise StoreError(f"{place.name}: the ledger gave no answer and kept nothing of {key}; run again")
        if found[key] != OPEN:
            raise OvertakenError(f"{place.name}: {key} was taken over by another attempt; nothing was published")


def _publish(place: Place, attempt: Attempt, plan: Plan, commit: Callable[[], Mapping[str, str]]) -> Mapping[str, str]:
    """Commit in the target; settle oneself where there is no answer. Return when readers got it."""
    try:
        return commit()
    except OutcomeUnknownError as error:
        return _settle_own(place, attempt, plan, error)
    except TargetError as error:
        raise _NothingHappened(error) from error


def withdraw(page: Page, attempt: Attempt, failures: Mapping[str, str]) -> None:
    """Withdraw an attempt's own intents, of which the target said that nothing happened."""
    for intent in page.intents(attempt.token):
        if intent.state == OPEN:
            page.close(intent, WITHDRAWN)
    for key in page.free(attempt.token, attempt.keys):
        taking.note_failure(page, key, failures[key], attempt)


def _settle_own(place: Place, attempt: Attempt, plan: Plan, why: Exception) -> Mapping[str, str]:
    """Settle one's own attempt, which got no answer; until its fence is in, the outcome is unknown.

    Return when readers got it, where it turns out that it was published.

    Raises:
        _Settled: with an OutcomeUnknownError, or with a TargetError where it was not published, and never will be.
    """
    try:
        published = _find_out(place, attempt, plan)
    except BackfillError as error:
        unknown = OutcomeUnknownError(
            f"{place.name}: it is unknown whether {_shown(plan.measured)} was published ({why}), and that can't be"
            f" found out now ({error}); the next try finds out, and so does `settle`"
        )
        raise _Settled(unknown) from error
    if not published:
        failed = TargetError(
            f"{place.name}: {_shown(plan.measured)} was not published, nothing moved ({why}); run again"
        )
        raise _Settled(failed) from why
    return published


def _find_out(place: Place, attempt: Attempt, plan: Plan) -> Mapping[str, str]:
    states = settling.settle(place, attempt.token)
    confirmed = [key for key, state in states.items() if state == CONFIRMED]
    published = _when_published(place, attempt, confirmed) if confirmed else {}
    if missing := (plan.measured.keys() - states.keys()) | (set(confirmed) - published.keys()):
        raise StoreError(f"the ledger knows nothing of {_shown(missing)} any more: it was put back from a backup")
    return published


def _when_published(place: Place, attempt: Attempt, keys: list[str]) -> Mapping[str, str]:
    return {
        entry.key: entry.published_at or entry.at
        for key in keys
        for entry in place.ledger.history(place.name, key, key)
        if entry.token == attempt.token
    }


def _shown(keys: Iterable[str]) -> str:
    first, *more = sorted(keys)
    return f"{first} (and {len(more)} more)" if more else first


def _confirm(place: Place, attempt: Attempt, plan: Plan, published: Mapping[str, str]) -> None:
    done = {key: Side(attempt.token, attempt.numbers[key], None, attempt.ledger, at) for key, at in published.items()}
    try:
        settling.confirm(place, attempt.token, done, [key for key in plan.measured if key not in done])
    except BackfillError as error:
        raise _Settled(error) from error


def _leave(page: Page, attempt: Attempt, plan: Plan) -> None:
    """Give the claim back at the quiet keys, and note that what they hold was seen to be what was published."""
    for key in page.free(attempt.token, plan.quiet):
        row = page.row(key)
        page.write(
            row._replace(
                checked_at=page.now,
                drift=None,
                failure=None,
                failed_at=None,
                fingerprint=plan.fingerprints.get(key, row.fingerprint),
            )
        )

"""Take: an attempt enters the keys of its write, and gives its claim back."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from backfill_core.claims import ALONE, ATTEMPT, Claim, enter
from backfill_core.errors import AnswerLostError, BackfillError, FencedError, OvertakenError, StoppedError
from backfill_core.ledger import REFUSED, Entry
from backfill_core.protocol import next_number, settling
from backfill_core.protocol.reserving import release
from backfill_core.target import Fence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from backfill_core.claims import Caller
    from backfill_core.ledger import Intent, KeyRow
    from backfill_core.ledger.page import Page
    from backfill_core.protocol import Place
    from backfill_core.target import Side


class Attempt(NamedTuple):
    """One try to write a set of keys: one token for all of them, which is the id of its claim too, and a number each.

    owners: by key, in whose name it entered.
    rows, sides: what ledger and target said of the keys once it had entered; of one mind, unless it adopts.
    left_out: pairs of a key and why it is left alone: `sealed`, `claimed_by:…`.
    ledger, former: the ledger's id, and those that it had before.
    """

    token: str
    caller: Caller
    reason: str
    numbers: Mapping[str, int]
    owners: Mapping[str, str]
    rows: Mapping[str, KeyRow]
    sides: Mapping[str, Side]
    left_out: Sequence[tuple[str, str]]
    ledger: str
    former: frozenset[str]

    @property
    def keys(self) -> list[str]:
        """The keys that it entered, in order."""
        return list(self.numbers)


class _Entered(NamedTuple):
    """What came of a look at the keys.

    open: tokens of what has to be settled before the attempt goes on.
    gone: claims of attempts that were overtaken, or are stale; they have ended, and are there until what they staged
        is swept, as it is by the claim that it would be found.
    unjudged, unlocked, unfinished: what has to be found out first, and then the keys are looked at again: claims of
        which it is not known whether they are stale; keys to be locked as well; tokens of unseals that died.
    """

    numbers: dict[str, int]
    owners: dict[str, str]
    rows: dict[str, KeyRow]
    sealed: list[str]
    left_out: list[tuple[str, str]]
    open: set[str]
    gone: set[Claim]
    unjudged: list[Claim]
    unlocked: set[str]
    unfinished: set[str]
    ledger: str
    former: frozenset[str]

    @property
    def has_to_ask(self) -> bool:
        """Whether something has to be found out first."""
        return bool(self.unjudged or self.unlocked or self.unfinished)


def take(place: Place, keys: Iterable[str], caller: Caller, reason: str, *, adopting: bool = False) -> Attempt:
    """Enter the keys that are neither sealed nor held by another, and settle what earlier attempts left open there.

    The numbers are taken first, so that every open intent of a lower number can be settled before anything goes on.

    adopting: don't stop at a token that the ledger doesn't know: it is what is to be adopted.

    Raises:
        StoppedError: the target holds a token or a mark that the ledger doesn't know; the claim was given back.
        OvertakenError: a later try of the task was here already; likewise.
        TargetError: the target can't be asked, or an earlier publication is still under way; likewise.
    """
    keys = sorted(set(keys))
    token = place.new_id()
    looked = place.target.look(keys)
    try:
        entered = _enter_when_judged(place, keys, looked, caller, token)
        settle_open(place, entered)
        sides = _fence_own(place, entered, adopting=adopting)
        _sweep_gone(place, entered)
        rows = _agreed(place, entered, {**looked, **sides}, adopting=adopting)
    except BaseException:
        with suppress(Exception):  # the first error is the one to tell
            give_back(place, token, keys)
        raise
    return Attempt(
        token, caller, reason, entered.numbers, entered.owners, rows, sides, entered.left_out, entered.ledger,
        entered.former,
    )  # fmt: skip


def _enter_when_judged(
    place: Place, keys: list[str], looked: Mapping[str, Side], caller: Caller, token: str
) -> _Entered:
    """Enter; but first ask about each claim that keeps us out whether it is stale, outside of any transaction.

    An earlier try of the same task ends on all of its keys, so these are locked, too. An unseal that died is settled:
    only then is it known whether the key is sealed.
    """
    judged: dict[str, bool] = {}
    locked = set(keys)
    while True:
        entered = place.ledger.change(
            place.name,
            sorted(locked),
            lambda page: _enter(page, keys, looked, caller, token, judged),
            caller=caller,
        )
        if not entered.has_to_ask:
            return entered
        locked |= entered.unlocked
        for unseal in sorted(entered.unfinished):
            settling.settle(place, unseal)
        for held in entered.unjudged:
            judged[held.id] = place.stale(held)


def _enter(
    page: Page, keys: list[str], looked: Mapping[str, Side], caller: Caller, token: str, judged: Mapping[str, bool]
) -> _Entered:
    earlier = [claim for claim in page.all_claims() if _is_earlier_try(claim, caller)]
    answer = _Entered(
        {}, {}, {key: page.row(key) for key in keys}, [], [], set(), set(), [], set(), set(), page.ledger, page.former
    )  # fmt: skip
    answer.unlocked.update({claim.key for claim in earlier} - set(page.keys))
    entries, left_out = {}, {}
    for key in keys:
        if page.row(key).seal:
            left_out[key] = _why_sealed(page, key, caller, judged, answer)
            continue
        stale = [held for held in page.claims(key) if judged.get(held.id)]
        entry = enter([held for held in page.claims(key) if held not in stale], caller, ATTEMPT)
        entries[key] = entry, stale
        if entry.held_by is not None:
            left_out[key] = f"claimed_by:{entry.held_by.holder}"
        doubtful = (entry.held_by, _later_try(page, key, caller))
        answer.unjudged.extend(claim for claim in doubtful if claim is not None and claim.id not in judged)
    if answer.has_to_ask:
        return answer
    refuse_earlier_try(page, entries, caller, judged)
    for claim in earlier:
        page.end(claim)
    answer.gone.update(earlier)
    for key, (entry, stale) in entries.items():
        if entry.held_by is not None:
            continue
        number = next_number(page.row(key), looked.get(key))
        page.write(page.row(key)._replace(number=number))
        for claim in stale:
            if claim.kind == ATTEMPT:
                page.end(claim)
            else:
                page.free(claim.id, [key])
        page.claim(_claim(token, key, caller, entry.owner, entry.beneath), number)
        answer.numbers[key], answer.owners[key], answer.rows[key] = number, entry.owner, page.row(key)
        answer.gone.update(claim for claim in stale if claim.kind == ATTEMPT)
    answer.left_out.extend(left_out.items())
    answer.open.update(opened_before(page, answer))
    return answer


def _why_sealed(page: Page, key: str, caller: Caller, judged: Mapping[str, bool], answer: _Entered) -> str:
    """Say why a sealed key is left alone: it is held while somebody takes the seal away, unless that one has died."""
    opened = page.open([key])
    if not opened:
        answer.sealed.append(key)
        return "sealed"
    unseal = opened[0]
    claim = next((claim for claim in page.claims(key) if claim.id == unseal.token), None)
    if claim is None or judged.get(claim.id) or _is_earlier_try(claim, caller):
        answer.unfinished.add(unseal.token)
    elif claim.id not in judged:
        answer.unjudged.append(claim)
    return f"claimed_by:{unseal.holder}"


def opened_before(page: Page, entered: _Entered) -> set[str]:
    """Return the tokens of the open intents that have to be settled before this attempt may go on."""
    gone = {claim.id for claim in entered.gone}
    theirs = [intent.token for intent in page.open(page.keys) if intent.token in gone]
    return {*theirs, *(intent.token for intent in page.open(entered.numbers))}


def refuse_earlier_try(page: Page, keys: Iterable[str], caller: Caller, judged: Mapping[str, bool]) -> None:
    """Refuse a try of a task where a later one was before, also when that is gone: it may have slept since.

    Raises:
        OvertakenError: a later one was; unless that is known to be stale, as the run was deleted and made again.
    """
    for key in keys:
        later = _later_try(page, key, caller)
        if later is not None and not judged.get(later.id):
            raise OvertakenError(
                f"{key} was taken by try {later.try_number} of {later.holder}; this is try {caller.try_number}, which"
                " comes too late. Nothing was published"
            )


def _later_try(page: Page, key: str, caller: Caller) -> Claim | None:
    latest: Intent | None = page.latest.get(key)
    if latest is None or latest.try_number <= caller.try_number:
        return None
    return Claim(
        latest.token, key, latest.owner, ATTEMPT, latest.run, latest.task, latest.map_index, latest.try_number, ALONE
    )


def _is_earlier_try(claim: Claim, caller: Caller) -> bool:
    return (
        bool(caller.run)
        and claim.kind == ATTEMPT
        and (claim.run, claim.task, claim.map_index) == (caller.run, caller.task, caller.map_index)
        and claim.try_number <= caller.try_number
    )


def _claim(token: str, key: str, caller: Caller, owner: str, beneath: str) -> Claim:
    return Claim(
        token, key, owner, ATTEMPT, caller.run, caller.task, caller.map_index, caller.try_number, beneath
    )  # fmt: skip


def settle_open(place: Place, entered: _Entered) -> None:
    """Settle what earlier attempts left open at the keys that were entered."""
    for token in sorted(entered.open):
        settling.settle(place, token, entered.numbers)


def _sweep_gone(place: Place, entered: _Entered) -> None:
    """Sweep what was staged by those that were overtaken, then give their claims back."""
    if entered.gone:
        ids = sorted({claim.id for claim in entered.gone})
        with suppress(BackfillError):
            place.target.sweep(ids)
        release(place.ledger, place.name, {claim.key for claim in entered.gone}, ids)


def _fence_own(place: Place, entered: _Entered, *, adopting: bool) -> Mapping[str, Side]:
    """Raise the keys' fences to the attempt's own numbers: earlier ones publish no more, and side rows are there."""
    if not entered.numbers:
        return {}
    fences = {key: Fence(number) for key, number in entered.numbers.items()}
    former = entered.former if adopting else frozenset()
    try:
        sides = place.target.fence(fences, entered.ledger, place.wait, former=former)
    except FencedError as error:
        key = next(iter([*error.sides, *entered.numbers]))
        raise StoppedError(f"{place.name}: {key}: {OTHER_LEDGER}") from error
    for key, side in sides.items():
        if side.fence > entered.numbers[key]:
            raise OvertakenError(f"{place.name}: {key} was taken over by a later attempt; nothing was published")
    return sides


def _agreed(place: Place, entered: _Entered, sides: Mapping[str, Side], *, adopting: bool) -> dict[str, KeyRow]:
    """Return the entered keys' rows, once ledger and target are seen to be of one mind about them.

    A sealed key that is left out is looked at as well: a token that the ledger doesn't know goes before a seal.
    """
    watched = [*entered.numbers, *entered.sealed]
    rows = entered.rows
    if entered.open or any(disagreement(rows[key], sides.get(key), entered.ledger) for key in watched):
        sides = place.target.look(watched)  # what was looked up before the entry may be older than it
        rows, moving = place.ledger.change(
            place.name,
            sorted(watched),
            lambda page: ({key: page.row(key) for key in watched}, {one.key for one in page.open(watched)}),
        )
        for key in watched:
            if rows[key].number != entered.rows[key].number or (key in entered.sealed and key in moving):
                if key in entered.numbers:
                    raise OvertakenError(f"{place.name}: {key} was taken over by another attempt, or a seal; run again")
                continue
            why = disagreement(rows[key], sides.get(key), entered.ledger)
            if why and not (adopting and key in entered.numbers):
                raise StoppedError(f"{place.name}: {key}: {why}")
    return {key: rows[key] for key in entered.numbers}


OTHER_LEDGER = (
    "the table was written last under another ledger, or under this one before it was put back from a backup;"
    " `restored` looks at each key"
)


def disagreement(row: KeyRow, side: Side | None, ledger: str) -> str | None:
    """Say what the target holds that the ledger doesn't know; None where they are of one mind."""
    token, mark = (side.token, side.mark) if side else (None, None)
    if side is not None and side.ledger not in (None, ledger):
        return OTHER_LEDGER
    if token != row.token and token is None:
        return (
            "the ledger says that something was published, but the target has no token of it: it was put back from a"
            " backup, or its side rows are gone. Look at the rows, then `adopt` the key"
        )
    if token != row.token:
        return (
            "the target holds another publication than the last one that the ledger knows: one of the two was put back"
            " from a backup. Look at the rows, then `adopt` the key"
        )
    if mark is not None and mark != row.mark:
        return (
            "the target has the mark of a seal that the ledger doesn't know: the ledger was put back from a backup."
            " `seal` the key again"
        )
    return None


def give_back(
    place: Place,
    claim: str,
    keys: Iterable[str],
    failures: Mapping[str, str] | None = None,
    attempt: Attempt | None = None,
) -> list[str]:
    """Give a claim back by its id, and note why nothing was published, where something went wrong.

    A key that has an intent open under the claim keeps it. Where the reason can't be noted, the claim goes back
    without it. Return the keys where the claim was given back.
    """

    def step(page: Page, failures: Mapping[str, str]) -> list[str]:
        busy = {intent.key for intent in page.open(page.keys) if intent.token == claim}
        freed = page.free(claim, [key for key in page.keys if key not in busy])
        for key in freed:
            if key in failures:
                note_failure(page, key, failures[key], attempt)
        return freed

    try:
        return place.ledger.change(place.name, sorted(keys), lambda page: step(page, failures or {}))
    except AnswerLostError:
        raise
    except Exception:
        if not failures:
            raise
        return place.ledger.change(place.name, sorted(keys), lambda page: step(page, {}))


def note_failure(page: Page, key: str, sentence: str, attempt: Attempt | None) -> None:
    """Keep why a key was not published: missing, empty and failed are three things."""
    row = page.row(key)
    page.write(row._replace(failure=sentence, failed_at=page.now))
    if attempt is not None:
        page.enter(
            Entry(
                key, REFUSED, attempt.numbers[key], None, row.token, attempt.owners[key], attempt.caller.run,
                attempt.caller.task, attempt.reason, None, page.now, None, None, row.measured, sentence, row.version,
            )
        )  # fmt: skip

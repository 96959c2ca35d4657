"""Take: an attempt enters the keys of its write, and gives its claim back."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from backfill_core.claims import ATTEMPT, Claim, enter
from backfill_core.errors import BackfillError, HeldError, OvertakenError, SealedError, StoppedError
from backfill_core.ledger import REFUSED, Entry
from backfill_core.protocol import next_number, settling

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from backfill_core.claims import Caller
    from backfill_core.ledger import KeyRow
    from backfill_core.ledger.page import Page
    from backfill_core.protocol import Place
    from backfill_core.target import Side


class Attempt(NamedTuple):
    """One try to write a set of keys: one token and one claim for all of them, a number for each.

    rows, sides: what ledger and target said of the keys once it had entered; of one mind, unless it adopts.
    left_out: pairs of a key and why it is left alone: `sealed`, `claimed_by:…`.
    ledger, former: the ledger's id, and those that it had before.
    """

    token: str
    claim: str
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
    numbers: dict[str, int]
    owners: dict[str, str]
    rows: dict[str, KeyRow]
    left_out: list[tuple[str, str]]
    open: list[settling.Open]
    unjudged: list[Claim]
    ledger: str
    former: frozenset[str]


def take(place: Place, keys: Iterable[str], caller: Caller, reason: str, *, adopting: bool = False) -> Attempt:
    """Enter the keys that are neither sealed nor held by another, and settle what earlier attempts left open there.

    The numbers are taken first, so that every open intent of a lower number can be settled before anything goes on.

    adopting: do not stop at a token that the ledger doesn't know: it is what is to be adopted.

    Raises:
        StoppedError: the target holds a token or a mark that the ledger doesn't know; the claim was given back.
        TargetError: the target can't be asked, or an earlier publication is still under way; likewise.
    """
    keys = sorted(set(keys))
    token, claim = place.new_id(), place.new_id()
    sides = place.target.look(keys)
    try:
        entered = _enter_judging(place, keys, sides, caller, claim)
        for opened in sorted({item.intent.token for item in entered.open}):
            settling.settle(place, opened, entered.numbers)
        rows, sides = _agreed(place, keys, entered, sides, adopting=adopting)
    except BackfillError:
        with suppress(BackfillError):  # the first error is the one to tell
            give_back(place, claim, keys)
        raise
    return Attempt(
        token, claim, caller, reason, entered.numbers, entered.owners, rows, sides, entered.left_out,
        entered.ledger, entered.former,
    )  # fmt: skip


def _enter_judging(
    place: Place, keys: list[str], sides: Mapping[str, Side], caller: Caller, claim: str
) -> _Entered:
    """Enter; but ask about each claim that keeps us out whether it is stale, outside of the ledger's transaction."""
    judged: dict[str, bool] = {}
    while True:
        entered = place.ledger.change(place.name, keys, lambda page: _enter(page, keys, sides, caller, claim, judged))
        if not entered.unjudged:
            return entered
        for held in entered.unjudged:
            judged[held.id] = place.stale(held)


def _enter(
    page: Page, keys: list[str], sides: Mapping[str, Side], caller: Caller, claim: str, judged: Mapping[str, bool]
) -> _Entered:
    answer = _Entered({}, {}, {key: page.row(key) for key in keys}, [], [], [], page.ledger, page.former)
    entries = {}
    for key in keys:
        claims = page.claims(key)
        stale = [held for held in claims if judged.get(held.id)]
        entry = enter([held for held in claims if held not in stale], caller, ATTEMPT)
        entries[key] = (entry, stale)
        if entry.held_by is not None and entry.held_by.id not in judged and not page.row(key).seal:
            answer.unjudged.append(entry.held_by)
    if answer.unjudged:
        return answer
    for key, (entry, stale) in entries.items():
        if page.row(key).seal:
            answer.left_out.append((key, "sealed"))
        elif entry.held_by is not None:
            answer.left_out.append((key, f"claimed_by:{entry.held_by.holder}"))
        else:
            number = next_number(page.row(key), sides.get(key))
            page.write(page.row(key)._replace(number=number))
            for gone in (*entry.overtaken, *stale):
                page.free(gone.id, [key])
            page.claim(
                Claim(
                    claim, key, entry.owner, ATTEMPT, caller.run, caller.task, caller.map_index, caller.try_number,
                    entry.beneath,
                ),
                number,
            )  # fmt: skip
            answer.numbers[key], answer.owners[key], answer.rows[key] = number, entry.owner, page.row(key)
    answer.open.extend(settling.open_intents(page, answer.numbers))
    return answer


def _agreed(
    place: Place, keys: list[str], entered: _Entered, sides: Mapping[str, Side], *, adopting: bool
) -> tuple[dict[str, KeyRow], dict[str, Side]]:
    """Return the entered keys' rows and side rows, once ledger and target are seen to be of one mind.

    What was looked up before the entry may be older than it; so a difference counts only if it is there afterwards.
    """
    sealed = [key for key, why in entered.left_out if why == "sealed"]
    doubtful = [
        key for key in (*entered.numbers, *sealed)
        if disagreement(entered.rows[key], sides.get(key), entered.ledger)
    ]  # fmt: skip
    rows, seen = dict(entered.rows), dict(sides)
    if entered.open or doubtful:
        seen = dict(place.target.look(keys))
        rows, busy = place.ledger.change(
            place.name, keys, lambda page: ({key: page.row(key) for key in keys}, {one.key for one in page.open(keys)})
        )
        for key in (*entered.numbers, *sealed):
            if rows[key].number != entered.rows[key].number or (key in sealed and key in busy):
                if key in sealed:  # it moves just now; nothing of it is ours
                    continue
                raise OvertakenError(f"{place.name}: {key} was taken over by another attempt, or a seal; run again")
            if (why := disagreement(rows[key], seen.get(key), entered.ledger)) and not (adopting and key not in sealed):
                raise StoppedError(f"{place.name}: {key}: {why}")
    return {key: rows[key] for key in entered.numbers}, {key: seen[key] for key in entered.numbers if key in seen}


def disagreement(row: KeyRow, side: Side | None, ledger: str) -> str | None:
    """Say what the target holds that the ledger doesn't know; None where they are of one mind."""
    token, mark = (side.token, side.mark) if side else (None, None)
    if side is not None and side.ledger not in (None, ledger):
        return (
            "the table was written last under another ledger, or under this one before it was put back from a backup;"
            " `restored` looks at each key"
        )
    if token != row.token:
        if token is None:
            return (
                "the ledger says that something was published, but the target has no token of it; it was restored from"
                " a backup, or its side rows are gone. Look at the rows, then `adopt` the key"
            )
        return (
            "the target holds a publication that is not the one the ledger knows as the last; one of the two was put"
            " back from a backup. Look at the rows, then `adopt` the key"
        )
    if mark != row.mark and mark is not None:
        return (
            "the target has the mark of a seal that the ledger doesn't know; the ledger was put back from a backup."
            " `seal` the key again"
        )
    return None


def give_back(
    place: Place, claim: str, keys: Sequence[str], failures: Mapping[str, str] | None = None, attempt: Attempt | None = None
) -> None:
    """Give a claim back by its id, and note why nothing was published, where something went wrong.

    A key that has an intent open under the claim keeps it.
    """

    def step(page: Page) -> None:
        busy = {intent.key for intent in page.open(keys) if intent.claim == claim}
        for key in page.free(claim, [key for key in keys if key not in busy]):
            if failures and key in failures:
                note_failure(page, key, failures[key], attempt)

    place.ledger.change(place.name, sorted(keys), step)


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


__all__ = ["Attempt", "HeldError", "SealedError", "give_back", "take"]

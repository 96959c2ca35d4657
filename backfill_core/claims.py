"""Who may enter a key: the rules of claims, once, for the runner's `daily` and for every dataset.

Three things are kept apart. An *owner* is a name: a run, or a person. A *claim* has an id of its own; it is given back
by that id, and a key is free when no claim is left on it. An *attempt* is one try to write; it holds a claim too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RESERVATION, ATTEMPT = "reservation", "attempt"
ALONE, BENEATH_RUN, BENEATH_PERSON = "", "run", "person"


class Caller(NamedTuple):
    """Who comes to a key.

    run: the run, `dag_id/run_id` in Airflow, elsewhere an id of the process's own; empty for a person who reserves.
    task, map_index, try_number: which try of which task of the run; a later try overtakes an earlier one.
    person: in whose name the run comes, or who reserves; empty for a run that comes for itself.
    owner: the name that it claims under where it enters beneath no reservation; empty for the run's, else the person's.
    """

    run: str
    task: str = ""
    map_index: int = -1
    try_number: int = 1
    person: str = ""
    owner: str = ""


class Claim(NamedTuple):
    """A claim on one key, as the ledger keeps it.

    id: random, shared by the keys that were claimed together.
    kind: RESERVATION, or ATTEMPT.
    run: whose claim it is; empty for a person's own reservation.
    beneath: beneath whose reservation it was entered: BENEATH_RUN, BENEATH_PERSON, or ALONE.
    ended: true for one that lost what it was entered beneath: it keeps others out until it is given back, and holds
        nothing any more.
    """

    id: str
    key: str
    owner: str
    kind: str
    run: str
    task: str
    map_index: int
    try_number: int
    beneath: str
    ended: bool = False

    @property
    def holder(self) -> str:
        """Say who holds the key: the owner, and the run and task that came in that name."""
        task = self.task if self.map_index < 0 else f"{self.task}[{self.map_index}]"
        run = self.run if self.run != self.owner else ""
        return ", ".join(filter(None, (self.owner, run, task if self.kind == ATTEMPT else "")))


class Entry(NamedTuple):
    """What the rules say to a caller at one key.

    held_by: the claim that keeps the caller out; None if it may enter.
    owner: in whose name it enters: that of the reservation it enters beneath, else its own.
    beneath: beneath whose reservation it enters.
    overtaken: the claims of earlier tries of the same task; they end with the entry, on all of their keys.
    """

    held_by: Claim | None
    owner: str
    beneath: str
    overtaken: tuple[Claim, ...]


def enter(claims: Sequence[Claim], caller: Caller, kind: str) -> Entry:
    """Decide whether a caller may reserve a key, or write it, beside the claims that are on it.

    Others keep it out. A person's reservation lets in the runs that come in that name, and a run's own reservation lets
    in its tasks; of attempts there is one at a time, but a later try of the same task takes an earlier one's place.
    A message that is delivered twice is the same try twice: the second takes over.

    Raises:
        ValueError: an attempt that is no run's.
    """
    if kind == ATTEMPT and not caller.run:
        raise ValueError("an attempt has a run")
    names = {caller.run, caller.person, *(claim.owner for claim in claims if claim.run and claim.run == caller.run)}
    reservations, overtaken = [], []
    for claim in claims:
        if not _is_callers_own(claim, caller, names):
            return Entry(claim, "", ALONE, ())
        if claim.kind == kind and _is_same_task(claim, caller):
            if claim.try_number > caller.try_number:
                return Entry(claim, "", ALONE, ())
            overtaken.append(claim)
        elif claim.kind == RESERVATION:
            reservations.append(claim)
        elif kind == ATTEMPT:
            return Entry(claim, "", ALONE, ())
    above = [claim for claim in reservations if not claim.ended and (kind == ATTEMPT or not claim.run)]
    if not (above and caller.run):
        return Entry(None, caller.owner or caller.run or caller.person, ALONE, tuple(overtaken))
    nearest = max(above, key=lambda claim: bool(claim.run))  # a run's own reservation goes before a person's
    return Entry(None, nearest.owner, BENEATH_RUN if nearest.run else BENEATH_PERSON, tuple(overtaken))


def holds(claims: Iterable[Claim], claim_id: str) -> bool:
    """Return whether a claim still holds its key: it is there, not ended, and so is what it was entered beneath."""
    claims = list(claims)
    own = next((claim for claim in claims if claim.id == claim_id), None)
    return own is not None and _stands(own, claims)


def orphans(claims: Iterable[Claim]) -> list[Claim]:
    """Return the claims that lost what they were entered beneath: they end, so that no new reservation revives them."""
    claims = list(claims)
    return [claim for claim in claims if not claim.ended and not _stands(claim, claims)]


def _stands(claim: Claim, claims: list[Claim]) -> bool:
    if claim.ended or claim.beneath == ALONE:
        return not claim.ended
    run = claim.run if claim.beneath == BENEATH_RUN else ""
    above = (
        other
        for other in claims
        if other.kind == RESERVATION and other.id != claim.id and (other.owner, other.run) == (claim.owner, run)
    )
    return any(_stands(other, claims) for other in above)


def _is_callers_own(claim: Claim, caller: Caller, names: set[str]) -> bool:
    if claim.run and caller.run:
        return claim.run == caller.run
    return claim.owner in names - {""}


def _is_same_task(claim: Claim, caller: Caller) -> bool:
    return bool(caller.run) and (claim.run, claim.task, claim.map_index) == (caller.run, caller.task, caller.map_index)

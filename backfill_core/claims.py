"""Who may enter a key: the rules of claims, once, for the runner's `daily` and for every dataset.

Three things are kept apart. An *owner* is a name: a run, or a person. A *claim* has an id of its own; it is given back
by that id, and a key is free when no claim is left on it. An *attempt* is one try to write; it holds a claim too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

RESERVATION, ATTEMPT = "reservation", "attempt"


class Caller(NamedTuple):
    """Who comes to a key.

    run: the run, `dag_id/run_id` in Airflow, elsewhere an id of the process's own; empty for a person who reserves.
    task, map_index, try_number: which try of which task of the run; a later try overtakes an earlier one.
    person: in whose name the run comes, or who reserves; empty for a run that comes for itself.
    """

    run: str
    task: str = ""
    map_index: int = -1
    try_number: int = 1
    person: str = ""


class Claim(NamedTuple):
    """A claim on one key, as the ledger keeps it.

    id: random, shared by the keys that were claimed together.
    kind: RESERVATION, or ATTEMPT.
    beneath: true for an attempt that entered beneath a reservation: it holds no longer than one of its owner's stands.
    """

    id: str
    key: str
    owner: str
    kind: str
    run: str
    task: str
    map_index: int
    try_number: int
    beneath: bool

    @property
    def holder(self) -> str:
        """Say who holds the key: the owner, and the run and task that came in that name."""
        inside = self.run if self.run != self.owner else ""
        return ", ".join(filter(None, (self.owner, inside, self.task if self.kind == ATTEMPT else "")))


class Entry(NamedTuple):
    """What the rules say to a caller at one key.

    held_by: the claim that keeps the caller out; None if it may enter.
    owner: in whose name it enters: that of the reservation it enters beneath, else a run's own, or the person's.
    beneath: whether it enters beneath a reservation.
    overtaken: the claims of earlier tries of the same task, which end with the entry.
    """

    held_by: Claim | None
    owner: str
    beneath: bool
    overtaken: tuple[Claim, ...]


def enter(claims: Iterable[Claim], caller: Caller, kind: str) -> Entry:
    """Decide whether a caller may reserve a key, or write it, beside the claims that are on it.

    Others keep it out. A person's reservation lets in the runs that come in that name, and a run's own reservation lets
    in its tasks; of attempts there is one at a time, but a later try of the same task takes an earlier one's place.
    """
    reservations, overtaken = [], []
    for claim in claims:
        if not _is_callers_own(claim, caller):
            return Entry(claim, "", False, ())
        if _is_same_task(claim, caller) and claim.kind == kind:
            if claim.try_number > caller.try_number:
                return Entry(claim, "", False, ())
            overtaken.append(claim)
        elif claim.kind == RESERVATION:
            reservations.append(claim)
        elif kind == ATTEMPT:
            return Entry(claim, "", False, ())
    owner = reservations[0].owner if reservations else caller.run or caller.person
    return Entry(None, owner, bool(reservations), tuple(overtaken))


def holds(claims: Iterable[Claim], claim_id: str) -> bool:
    """Return whether a claim still holds its key: it is there, and so is a reservation that it entered beneath."""
    claims = list(claims)
    own = next((claim for claim in claims if claim.id == claim_id), None)
    if own is None:
        return False
    return not own.beneath or any(
        claim.kind == RESERVATION and claim.owner == own.owner and claim.id != own.id for claim in claims
    )


def _is_callers_own(claim: Claim, caller: Caller) -> bool:
    if claim.run and caller.run:
        return claim.run == caller.run
    return bool(caller.person) and claim.owner == caller.person


def _is_same_task(claim: Claim, caller: Caller) -> bool:
    return (claim.run, claim.task, claim.map_index) == (caller.run, caller.task, caller.map_index)

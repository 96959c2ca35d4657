"""What Airflow's runs do with claims: take, give back, look; each is one transaction of the store (docs/adr/0008).

The rules are in `backfill_core.claims`, the rows in `backfill_core.ledger.daily`.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, NamedTuple

from backfill_core.claims import RESERVATION
from backfill_core.partition import EVER, DateRange

if TYPE_CHECKING:
    from backfill_core.claims import Caller, Claim
    from backfill_core.store import Store


class Taken(NamedTuple):
    """What came of asking for a range: all of it, or nothing.

    claim: the id to give it back by; None where somebody keeps the caller out.
    owners: by date, in whose name it was taken.
    denied: by date, who keeps the caller out.
    """

    claim: str | None
    owners: dict[str, str]
    denied: dict[str, str]


def take(store: Store, dates: DateRange, caller: Caller, kind: str) -> Taken:
    """Claim every date of the range for the caller, or none if the rules deny it one; see `claims.enter`."""
    with store.writing() as tables:
        claims = tables.run_claims()
        if denied := claims.denied(dates, caller, kind):
            return Taken(None, {}, denied)
        if claims.is_there:
            claim_id = secrets.token_hex(16)
            return Taken(claim_id, claims.enter(claim_id, dates, caller, kind), {})
    store.make_ledger()
    return take(store, dates, caller, kind)


def give_back(store: Store, claim_id: str, dates: DateRange = EVER) -> list[str]:
    """End a claim in the range, and no other; return the dates that it still held."""
    with store.writing() as tables:
        return tables.run_claims().give_back(claim_id, dates)


def give_back_reserved(
    store: Store, dates: DateRange, run: str, *, task: str | None = None, person: str = ""
) -> list[str]:
    """End what a run reserved in the range; return the dates that were given back.

    task: only what this task of it reserved.
    person: whose own reservation to end too. What another run reserved is no person's, whatever its name.
    """
    released: set[str] = set()
    with store.writing() as tables:
        claims = tables.run_claims()
        for claim in [claim for on_date in claims.on(dates).values() for claim in on_date]:
            day = DateRange.parse(claim.key, claim.key)
            if claim.id and claim.kind == RESERVATION and claim.run == run and task in (None, claim.task):
                released.update(claims.give_back(claim.id, day))
            elif not claim.id and task is None and claim.owner in (run, person):
                tables.release(day, claim.owner)
                released.add(claim.key)
    return sorted(released)


def denied(store: Store, dates: DateRange, caller: Caller, kind: str) -> dict[str, str]:
    """Return who would keep the caller out now, by date."""
    with store.reading() as tables:
        return tables.run_claims().denied(dates, caller, kind)


def standing(store: Store) -> list[Claim]:
    """Return every claim that holds a date, in date order; one by the runner has no run and no id."""
    with store.reading() as tables:
        return [claim for on_date in tables.run_claims().on(EVER).values() for claim in on_date]

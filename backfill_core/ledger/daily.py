"""The claims of runs on the runner's `daily`, inside one transaction of the store (docs/adr/0008).

A row in `claims` says that a date is held, and in whose name. The rows here say by which claims. They count only while
`claims` names their owner, so that the runner, which knows nothing of them, can give a date away.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from backfill_core.claims import ALONE, ATTEMPT, RESERVATION, Claim, enter, holds, orphans
from backfill_core.ledger import sql
from backfill_core.partition import EVER, DateRange
from backfill_core.store.sql import CLAIMS, INSERT_CLAIMS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backfill_core.claims import Caller, Entry
    from backfill_core.store.tables import Execute


class RunClaims:
    """The claims on `daily` in one transaction, which it neither begins nor commits.

    is_there: whether the ledger's table is. Without it there are only claims by the runner, which are persons'.
    """

    def __init__(self, execute: Execute, *, is_there: bool) -> None:
        self._execute = execute
        self.is_there = is_there

    def on(self, dates: DateRange) -> dict[str, list[Claim]]:
        """Return the claims on each date of the range that is held."""
        if not self.is_there:
            return {dt: [_reservation(dt, owner)] for dt, owner in self._execute(CLAIMS, _bounds(dates))}
        found: dict[str, list[Claim]] = {}
        for dt, owner, claim_id, kind, run, task, map_index, try_number, beneath, ended in self._execute(
            sql.CLAIMS_ON_DAILY, _bounds(dates)
        ):
            claims = found.setdefault(dt, [])
            # Who entered in another's name entered beneath that one's reservation; else it made the row by itself.
            if claim_id is None or (not claims and run != owner):
                claims.append(_reservation(dt, owner))
            if claim_id is not None:
                claims.append(
                    Claim(claim_id, dt, owner, kind, run, task, map_index, try_number, beneath, ended=bool(ended))
                )
        return found

    def ask(self, dates: DateRange, caller: Caller, kind: str) -> dict[str, Entry]:
        """Ask the rules about each date. A claim by the runner in the name of the caller's run keeps it out of none.

        A run claims in its own name here, whatever `caller.owner` says: by that name its rows are told from a person's.
        """
        found, caller = self.on(dates), caller._replace(owner="")
        return {
            dt: enter([claim for claim in found.get(dt, ()) if claim.id or claim.owner != caller.run], caller, kind)
            for dt in dates
        }

    def denied(self, dates: DateRange, caller: Caller, kind: str) -> dict[str, str]:
        """Return who keeps the caller out of each date that it may not enter."""
        entries = self.ask(dates, caller, kind)
        return {dt: entry.held_by.holder for dt, entry in entries.items() if entry.held_by is not None}

    def enter(self, claim_id: str, dates: DateRange, caller: Caller, kind: str) -> dict[str, str]:
        """Write down one claim on all dates of the range, which nobody denies; return in whose name, by date.

        What it overtakes ends, on all dates of that.

        Raises:
            ValueError: the caller is no run: a person reserves by a row in `claims` alone, as the runner makes it.
        """
        if not caller.run:
            raise ValueError("a run claims; a person reserves with `claim`")
        entries = self.ask(dates, caller, kind)
        overtaken = {claim.id for entry in entries.values() for claim in entry.overtaken}
        left = [dt for claim in overtaken for dt in self._leave(claim, EVER)]
        self._execute(sql.FORGET_ON_DAILY, _bounds(dates))
        by_entry: dict[tuple[str, str], list[str]] = {}
        for dt, entry in entries.items():
            by_entry.setdefault((entry.owner, entry.beneath), []).append(dt)
        claim = {"id": claim_id, "kind": kind, **caller._asdict()}
        for (owner, beneath), dts in by_entry.items():
            self._execute(INSERT_CLAIMS, {"dts": _as_keys(dts), "owner": owner})
            self._execute(sql.ENTER_DAILY, claim | {"dts": _as_keys(dts), "owner": owner, "beneath": beneath})
        self._end_orphans(left)
        return {dt: entry.owner for dt, entry in entries.items()}

    def give_back(self, claim_id: str, dates: DateRange = EVER) -> list[str]:
        """End one claim in the range; return the dates that it still held. A date is free when no claim is left on it.

        What entered beneath it ends too, and keeps others out until it is given back. A person's reservation stays.
        """
        left = self._leave(claim_id, dates)
        self._end_orphans(left)
        return left

    def _leave(self, claim_id: str, dates: DateRange) -> list[str]:
        if not self.is_there:
            return []
        this = _bounds(dates) | {"id": claim_id}
        held = list(self._execute(sql.HELD_ON_DAILY, this))
        self._execute(sql.LEAVE_DAILY, this)
        if in_own_name := {dt: run for dt, owner, run in held if owner == run}:
            [run] = set(in_own_name.values())
            self._execute(sql.FREE_DAILY, {"dts": _as_keys(in_own_name), "owner": run})
        return [dt for dt, _, _ in held]

    def _end_orphans(self, dts: list[str]) -> None:
        if not dts:
            return
        for dt, claims in self.on(DateRange.parse(min(dts), max(dts))).items():
            for claim in orphans(claims):
                self._execute(sql.END_ON_DAILY, {"dt": dt, "id": claim.id})

    def lost(self, dt: str, claim_id: str) -> str | None:
        """Return None while the claim still holds the date; else who does now, an empty text for nobody."""
        claims = self.on(DateRange.parse(dt, dt)).get(dt, [])
        if holds(claims, claim_id):
            return None
        others = [claim for claim in claims if claim.id != claim_id]
        tries = [f"{claim.holder}, try {claim.try_number}" for claim in others if claim.kind == ATTEMPT]
        return next(iter([*tries, *(claim.holder for claim in others)]), "")


def _reservation(dt: str, owner: str) -> Claim:
    """Return what a row in `claims` is by itself: the reservation of whoever the runner was told."""
    return Claim("", dt, owner, RESERVATION, "", "", -1, 1, ALONE)


def _bounds(dates: DateRange) -> dict[str, str]:
    return {"first": dates.first.isoformat(), "last": dates.last.isoformat()}


def _as_keys(dts: Iterable[str]) -> str:
    return json.dumps(dict.fromkeys(dts))

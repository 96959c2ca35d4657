"""Some keys' rows of a ledger inside one transaction: what they say, and what is written on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_core.claims import orphans
from backfill_core.ledger import OPEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TypeVar

    from backfill_core.claims import Claim
    from backfill_core.ledger import Correction, Entry, Intent, KeyRow, SealRow, Unsealed

    OfKey = TypeVar("OfKey", Claim, Intent)


class Page:
    """The locked rows of some keys. What is written on it, the ledger keeps when the transaction ends, or not at all.

    ledger, former: the ledger's id, and those that it had before.
    now: the database's clock, read after the rows were locked; UTC, ISO, with microseconds.
    rows, claims, intents: what there is; claims also of the caller's task on keys that are not locked.
    latest: by key, the intent of the latest try of the caller's task.
    """

    def __init__(
        self,
        ledger: str,
        former: frozenset[str],
        now: str,
        rows: Iterable[KeyRow],
        claims: Iterable[Claim],
        intents: Iterable[Intent],
        latest: Mapping[str, Intent],
    ) -> None:
        self.ledger = ledger
        self.former = former
        self.now = now
        self.latest = latest
        self.before = {row.key: row for row in rows}
        self._rows = dict(self.before)
        self._claims = _by_key(claims)
        self._intents = _by_key(intents)
        self.held_before = self.held()
        self.claimed: list[tuple[Claim, int]] = []
        self.freed: list[tuple[str, str]] = []
        self._overtaken: list[Claim] = []
        self.noted: list[Intent] = []
        self.closed: list[tuple[Intent, str]] = []
        self.entries: list[Entry] = []
        self.seals: list[SealRow] = []
        self.unseals: list[Unsealed] = []
        self.corrections: list[Correction] = []

    # what is there

    @property
    def keys(self) -> list[str]:
        """The keys whose rows are locked, in order."""
        return list(self._rows)

    def row(self, key: str) -> KeyRow:
        """Return what the ledger says of a key."""
        return self._rows[key]

    def claims(self, key: str) -> list[Claim]:
        """Return the claims on a key."""
        return list(self._claims.get(key, ()))

    def all_claims(self) -> list[Claim]:
        """Return the claims on the keys, and those of the caller's task on other keys."""
        return [claim for claims in self._claims.values() for claim in claims]

    def open(self, keys: Iterable[str]) -> list[Intent]:
        """Return the open intents of the keys."""
        return [intent for key in keys for intent in self._intents.get(key, ()) if intent.state == OPEN]

    def intents(self, token: str) -> list[Intent]:
        """Return all intents of the token that the page was opened for."""
        return [intent for intents in self._intents.values() for intent in intents if intent.token == token]

    # what is written

    def write(self, row: KeyRow) -> None:
        """Put a row in the place of the key's."""
        self._rows[row.key] = row

    def claim(self, claim: Claim, number: int = 0) -> None:
        """Add a claim; an attempt's with its number."""
        self._claims.setdefault(claim.key, []).append(claim)
        self.claimed.append((claim, number))

    def free(self, claim_id: str, keys: Iterable[str]) -> list[str]:
        """Give a claim back at these keys, by its id; return the keys where it was."""
        gone = [key for key in keys if any(claim.id == claim_id for claim in self._claims.get(key, ()))]
        for key in gone:
            self._claims[key] = [claim for claim in self._claims[key] if claim.id != claim_id]
        self.freed += [(key, claim_id) for key in gone]
        return gone

    def end(self, claim: Claim) -> None:
        """Let a claim hold nothing any more; it is there until it is given back."""
        held = self._claims[claim.key]
        held[held.index(claim)] = claim._replace(ended=True)
        self._overtaken.append(claim)

    def note(self, intent: Intent) -> None:
        """Add an intent."""
        self._intents.setdefault(intent.key, []).append(intent)
        self.noted.append(intent)

    def close(self, intent: Intent, state: str) -> None:
        """Confirm or withdraw an open intent."""
        held = self._intents[intent.key]
        held[held.index(intent)] = intent._replace(state=state)
        self.closed.append((intent, state))

    def enter(self, entry: Entry) -> None:
        """Add a line to the history."""
        self.entries.append(entry)

    def seal(self, seal: SealRow) -> None:
        """Add a version of a seal."""
        self.seals.append(seal)

    def unseal(self, unsealed: Unsealed) -> None:
        """Write beside a version of a seal when, by whom and why it was taken away."""
        self.unseals.append(unsealed)

    def correct(self, correction: Correction) -> None:
        """Add a correction."""
        self.corrections.append(correction)

    # what is to be kept

    def changed(self) -> list[KeyRow]:
        """Return the rows that are not as they were."""
        return [row for key, row in self._rows.items() if self.before[key] != row]

    def ended(self) -> list[Claim]:
        """Return the claims that end: which were overtaken, or lost what they were entered beneath."""
        freed = sorted({key for key, _ in self.freed})
        return [*self._overtaken, *(claim for key in freed for claim in orphans(self.claims(key)))]

    def held(self) -> set[str]:
        """Return the keys that somebody holds now."""
        return {key for key, claims in self._claims.items() if claims}


def _by_key(rows: Iterable[OfKey]) -> dict[str, list[OfKey]]:
    found: dict[str, list[OfKey]] = {}
    for row in rows:
        found.setdefault(row.key, []).append(row)
    return found

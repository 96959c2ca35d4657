"""Some keys' rows of a ledger inside one transaction: what they say, and what is written on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_core.ledger import OPEN, KeyRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from backfill_core.claims import Claim
    from backfill_core.ledger import Correction, Entry, Intent, SealRow


class Page:
    """The locked rows of some keys. What is written on it, the ledger keeps when the transaction ends, or not at all.

    ledger, former: the ledger's id, and those that it had before.
    now: the database's clock, read after the rows were locked; UTC, ISO, with microseconds.
    """

    def __init__(
        self,
        ledger: str,
        former: frozenset[str],
        now: str,
        rows: Iterable[KeyRow],
        claims: Iterable[Claim],
        intents: Iterable[Intent],
    ) -> None:
        self.ledger = ledger
        self.former = former
        self.now = now
        self._rows = {row.key: row for row in rows}
        self._claims = list(claims)
        self._intents = list(intents)
        self.before = dict(self._rows)
        self.held_before = {claim.key for claim in self._claims}
        self.claimed: list[tuple[Claim, int]] = []
        self.freed: list[tuple[str, str]] = []
        self.noted: list[Intent] = []
        self.closed: list[tuple[Intent, str]] = []
        self.entries: list[Entry] = []
        self.seals: list[SealRow] = []
        self.unseals: list[SealRow] = []
        self.corrections: list[Correction] = []

    # what is there

    def row(self, key: str) -> KeyRow:
        """Return what the ledger says of a key."""
        return self._rows[key]

    def claims(self, key: str) -> list[Claim]:
        """Return the claims on a key."""
        return [claim for claim in self._claims if claim.key == key]

    def open(self, keys: Iterable[str]) -> list[Intent]:
        """Return the open intents of the keys."""
        wanted = set(keys)
        return [intent for intent in self._intents if intent.state == OPEN and intent.key in wanted]

    def intents(self, token: str) -> list[Intent]:
        """Return all intents of the token that the page was opened for."""
        return [intent for intent in self._intents if intent.token == token]

    def changed(self) -> list[KeyRow]:
        """Return the rows that are not as they were."""
        return [row for key, row in self._rows.items() if self.before[key] != row]

    def held(self) -> set[str]:
        """Return the keys that somebody holds now."""
        return {claim.key for claim in self._claims}

    # what is written

    def write(self, row: KeyRow) -> None:
        """Put a row in the place of the key's."""
        self._rows[row.key] = row

    def claim(self, claim: Claim, number: int = 0) -> None:
        """Add a claim; an attempt's with its number."""
        self._claims.append(claim)
        self.claimed.append((claim, number))

    def free(self, claim: str, keys: Sequence[str]) -> list[str]:
        """Give a claim back at these keys, by its id; return the keys where it was."""
        gone = [held.key for held in self._claims if held.id == claim and held.key in keys]
        self._claims = [held for held in self._claims if not (held.id == claim and held.key in gone)]
        self.freed += [(key, claim) for key in gone]
        return gone

    def note(self, intent: Intent) -> None:
        """Add an intent."""
        self._intents.append(intent)
        self.noted.append(intent)

    def close(self, intent: Intent, state: str) -> None:
        """Confirm or withdraw an open intent."""
        self._intents = [held._replace(state=state) if held is intent else held for held in self._intents]
        self.closed.append((intent, state))

    def enter(self, entry: Entry) -> None:
        """Add a line to the history."""
        self.entries.append(entry)

    def seal(self, seal: SealRow) -> None:
        """Add a version of a seal."""
        self.seals.append(seal)

    def unseal(self, key: str, version: int, owner: str, why: str) -> None:
        """Write beside a version of a seal when, by whom and why it was taken away."""
        from backfill_core.ledger import SealRow

        self.unseals.append(SealRow(key, version, "", "", None, "", "", "", self.now, owner, why))

    def correct(self, correction: Correction) -> None:
        """Add a correction."""
        self.corrections.append(correction)

"""A ledger in memory: the same promises as the SQL ones, held to them by the same tests (tests/ledger)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backfill_core.errors import UsageError
from backfill_core.ledger import ADOPT, OPEN, PUBLISH, Counts, KeyRow
from backfill_core.ledger.page import Page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import TypeVar

    from backfill_core.claims import Caller, Claim
    from backfill_core.ledger import Correction, Entry, Intent, SealRow

    T = TypeVar("T")


class SimulatedLedger:
    """All rows in dicts, by dataset and key."""

    def __init__(self, now: Callable[[], str] = lambda: "2026-02-01T00:00:00.000000+00:00") -> None:
        self.now = now
        self.ids: tuple[str, ...] = ("ledger-1",)
        self.definitions: dict[str, list[tuple[Any, Any]]] = {}
        self.key_rows: dict[tuple[str, str], KeyRow] = {}
        self.all_claims: dict[tuple[str, str, str], Claim] = {}
        self.all_intents: dict[tuple[str, str, str], Intent] = {}
        self.entries: list[tuple[str, Entry]] = []
        self.all_seals: dict[tuple[str, str, int], SealRow] = {}
        self.all_corrections: list[tuple[str, Correction]] = []

    seen: int | None = None
    """A digest of the content, once it was needed; a copy starts without."""

    def copy(self) -> SimulatedLedger:
        """Return another that is as this one is now."""
        made = type(self)(self.now)
        for name, value in vars(self).items():
            if name != "seen":
                setattr(made, name, value.copy() if isinstance(value, (dict, list)) else value)
        return made

    def content(self) -> tuple[object, ...]:
        """Return all that it holds, to compare and to hash."""
        return (
            self.ids,
            sorted(self.key_rows.items()),
            sorted(self.all_claims.items()),
            sorted(self.all_intents.items(), key=lambda item: item[0]),
            self.entries,
            sorted(self.all_seals.items()),
            self.all_corrections,
        )

    def change(
        self,
        dataset: str,
        keys: Sequence[str],
        step: Callable[[Page], T],
        *,
        token: str = "",
        caller: Caller | None = None,
    ) -> T:
        page = self.load(dataset, keys, token, caller)
        answer = step(page)
        self.keep(dataset, page)
        return answer

    def load(self, dataset: str, keys: Sequence[str], token: str, caller: Caller | None) -> Page:
        assert list(keys) == sorted(keys), "rows are locked in key order"
        task = caller and (caller.run, caller.task, caller.map_index)
        of_task = [
            intent
            for (name, _, key), intent in self.all_intents.items()
            if name == dataset and key in keys and task == (intent.run, intent.task, intent.map_index)
        ]
        return Page(
            self.ids[-1],
            frozenset(self.ids[:-1]),
            self.now(),
            [self.key_rows.get((dataset, key), KeyRow(key)) for key in keys],
            [
                claim
                for (name, key, _), claim in self.all_claims.items()
                if name == dataset
                and (key in keys or (task and task[0] and task == (claim.run, claim.task, claim.map_index)))
            ],
            [
                intent
                for (name, its_token, key), intent in self.all_intents.items()
                if name == dataset and (its_token == token or (key in keys and intent.state == OPEN))
            ],
            {intent.key: intent for intent in sorted(of_task, key=lambda intent: intent.try_number)},
        )

    def keep(self, dataset: str, page: Page) -> None:
        for key in page.keys:
            self.key_rows[dataset, key] = page.row(key)
        for key, claim_id in page.freed:
            self.all_claims.pop((dataset, key, claim_id), None)
        for claim, _ in page.claimed:
            self.all_claims[dataset, claim.key, claim.id] = claim
        for claim in page.ended():
            self.all_claims[dataset, claim.key, claim.id] = claim._replace(ended=True)
        self.keep_intents(dataset, page)
        self.entries += [(dataset, entry) for entry in page.entries]
        for seal in page.seals:
            self.all_seals[dataset, seal.key, seal.version] = seal
        for key, version, at, by, why in page.unseals:
            place = (dataset, key, version)
            self.all_seals[place] = self.all_seals[place]._replace(unsealed_at=at, unsealed_by=by, unsealed_why=why)
        self.all_corrections += [(dataset, correction) for correction in page.corrections]

    def keep_intents(self, dataset: str, page: Page) -> None:
        for intent in page.noted:
            place = (dataset, intent.token, intent.key)
            assert place not in self.all_intents, "an intent is never overwritten"
            self.all_intents[place] = intent
        for intent, state in page.closed:
            self.all_intents[dataset, intent.token, intent.key] = intent._replace(state=state)

    def define(self, dataset: str, fixed: Mapping[str, Any], measures: Mapping[str, Any]) -> int:
        versions = self.definitions.setdefault(dataset, [])
        if versions and versions[-1][0] != fixed:
            raise UsageError(f"{dataset} is defined otherwise")
        if not versions or versions[-1][1] != measures:
            self.definitions[dataset] = [*versions, (dict(fixed), dict(measures))]
        return len(self.definitions[dataset])

    def renew(self) -> str:
        self.ids = (*self.ids, f"ledger-{len(self.ids) + 1}")
        return self.ids[-1]

    def rows(self, dataset: str, first: str = "", last: str = "") -> Sequence[KeyRow]:
        return [row for (name, key), row in sorted(self.key_rows.items()) if name == dataset and _in(key, first, last)]

    def claims(self, dataset: str, first: str = "", last: str = "") -> Sequence[Claim]:
        return [
            claim
            for (name, key, _), claim in sorted(self.all_claims.items())
            if name == dataset and _in(key, first, last)
        ]

    def intents(self, dataset: str, first: str = "", last: str = "") -> Sequence[Intent]:
        found = [
            intent
            for (name, _, key), intent in self.all_intents.items()
            if name == dataset and intent.state == OPEN and _in(key, first, last)
        ]
        return sorted(found, key=lambda intent: (intent.key, intent.number))

    def find(self, dataset: str, token: str) -> Sequence[Intent]:
        return [one for (name, its_token, _), one in self.all_intents.items() if (name, its_token) == (dataset, token)]

    def history(self, dataset: str, first: str = "", last: str = "") -> Sequence[Entry]:
        found = [entry for name, entry in self.entries if name == dataset and _in(entry.key, first, last)]
        return sorted(found, key=lambda entry: entry.key)

    def as_of(self, dataset: str, moment: str, first: str = "", last: str = "") -> Sequence[Entry]:
        seen = {
            entry.key: entry
            for entry in self.history(dataset, first, last)
            if entry.what in (PUBLISH, ADOPT) and (entry.published_at or "") <= moment
        }
        return list(seen.values())

    def seals(self, dataset: str, first: str = "", last: str = "") -> Sequence[SealRow]:
        return [
            seal for (name, key, _), seal in sorted(self.all_seals.items()) if name == dataset and _in(key, first, last)
        ]

    def corrections(self, dataset: str, first: str = "", last: str = "") -> Sequence[Correction]:
        found = [one for name, one in self.all_corrections if name == dataset and _in(one.key, first, last)]
        return sorted(found, key=lambda correction: correction.key)

    def counts(self) -> Sequence[Counts]:
        names = sorted({*self.definitions, *(name for name, _ in self.key_rows)})
        return [self._counts_of(name) for name in names]

    def _counts_of(self, dataset: str) -> Counts:
        rows = self.rows(dataset)
        published = [row for row in rows if row.token is not None]
        latest = max(published, key=lambda row: row.confirmed_at or "", default=None)
        return Counts(
            dataset=dataset,
            keys=len(rows),
            published=len(published),
            held=len({claim.key for claim in self.claims(dataset)}),
            sealed=sum(row.seal > 0 for row in rows),
            failed=sum(row.failure is not None for row in rows),
            drifted=sum(row.drift is not None for row in rows),
            late=sum(row.late is not None for row in rows),
            newest=max((row.key for row in published), default=None),
            latest_at=latest and latest.confirmed_at,
            latest_by=latest and latest.owner,
            checked_at=max((at for row in rows for at in (row.checked_at, row.compared_at) if at), default=None),
            oldest=min((row.key for row in published), default=None),
            sealed_up_to=max((row.key for row in rows if row.seal), default=None),
        )

    def forget(self, dataset: str, before: str) -> int:
        last = {entry.key: entry for name, entry in self.entries if name == dataset and entry.what in (PUBLISH, ADOPT)}
        kept = [
            (name, entry)
            for name, entry in self.entries
            if name != dataset or entry.at >= before or entry is last.get(entry.key)
        ]
        gone = len(self.entries) - len(kept)
        self.entries = kept
        return gone

    def close(self) -> None:
        pass

    def __enter__(self) -> SimulatedLedger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


def _in(key: str, first: str, last: str) -> bool:
    return (not first or first <= key) and (not last or key <= last)

"""What can be told of a dataset without changing it: plan, status, history, statement, late."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from backfill_core import states
from backfill_core.protocol import judging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, TypeVar

    from backfill_core import answers
    from backfill_core.claims import Claim
    from backfill_core.dataset import Dataset
    from backfill_core.ledger import Correction, Entry, Intent, KeyRow, Ledger, SealRow
    from backfill_core.protocol.judging import Wish
    from backfill_core.target import Audited, Measured

    OfKey = TypeVar("OfKey", Claim, Correction, Intent, SealRow)


def plan(
    dataset: Dataset,
    version: int,
    rows: Mapping[str, KeyRow],
    left_out: Mapping[str, str],
    unchanged: Sequence[str],
    audited: Audited | None,
    wish: Wish,
) -> answers.DatasetPlan:
    """Tell what a write would do, by what is published and what would come; `audited` is None where nothing tells."""
    partitions: list[answers.PlannedKey] = []
    failures: Mapping[str, str] = {}
    if audited is not None:
        failures = judging.judge(
            dataset, version, {key: rows[key] for key in audited.partitions}, audited, wish
        ).failures
    for key, row in rows.items():
        before = figures(row.measured)
        if key in left_out:
            partitions.append(_planned(key, "skipped", left_out[key], before, None))
        elif key in unchanged:
            partitions.append(_planned(key, "unchanged", "its source is as it was", before, before))
        elif audited is None:
            partitions.append(_planned(key, "not known", "nothing makes its rows beforehand", before, None))
        else:
            partitions.append(_plan_key(dataset, version, row, audited, failures.get(key)))
    count = [one["action"] for one in partitions].count
    return {
        "dataset": dataset.name,
        "asked": len(partitions),
        "change": count("change"),
        "unchanged": count("unchanged"),
        "skipped": count("skipped"),
        "refused": count("refused"),
        "unknown": count("not known"),
        "partitions": partitions,
    }


def _plan_key(dataset: Dataset, version: int, row: KeyRow, audited: Audited, failure: str | None) -> answers.PlannedKey:
    before, after = figures(audited.before[row.key]), figures(audited.partitions[row.key])
    if failure is not None:
        return _planned(row.key, "refused", failure, before, after)
    if row.token is None:
        return _planned(row.key, "change", "new", before, after)
    if differs(dataset, version, row, audited.partitions[row.key]):
        return _planned(row.key, "change", "moved", before, after)
    return _planned(row.key, "unchanged", "the figures are those that are published", before, after)


def _planned(
    key: str,
    action: answers.Action,
    reason: str,
    before: answers.Figures | None,
    after: answers.Figures | None,
) -> answers.PlannedKey:
    return {"key": key, "action": action, "reason": reason, "before": before, "after": after}


def differs(dataset: Dataset, version: int, row: KeyRow, measured: Measured) -> bool:
    """Return whether figures are others than those that were published."""
    return judging.drift_of(dataset, version, row, measured) is not None


class Only:
    """What a ledger says of some keys alone, between whose first and last there may be others."""

    def __init__(self, ledger: Ledger, keys: Iterable[str]) -> None:
        self._ledger, self._keys = ledger, frozenset(keys)

    def __getattr__(self, name: str) -> Callable[..., list[Any]]:
        read = getattr(self._ledger, name)

        def of_keys(*asked: Any) -> list[Any]:
            return [one for one in read(*asked) if one.key in self._keys]

        return of_keys


class Seen(NamedTuple):
    """All that the ledger says of one key now: its row, who holds it, whose attempts are open, its corrections."""

    row: KeyRow
    claimed_by: Sequence[str]
    open: Sequence[str]
    corrections: Sequence[Correction]

    @property
    def state(self) -> states.State:
        """The state that the key is in; see `backfill_core.states`."""
        return states.of_key(self.row, held=bool(self.claimed_by or self.open), corrections=self.corrections)


def look(ledger: Ledger, dataset: str, first: str, last: str) -> list[Seen]:
    """Return what the ledger says of each key from `first` to `last`, or of all that it knows, in key order."""
    claims = _by_key(ledger.claims(dataset, first, last))
    intents = _by_key(ledger.intents(dataset, first, last))
    corrections = _by_key(ledger.corrections(dataset, first, last))
    return [
        Seen(
            row,
            [claim.holder for claim in claims.get(row.key, ())],
            [intent.holder for intent in intents.get(row.key, ())],
            corrections.get(row.key, ()),
        )
        for row in ledger.rows(dataset, first, last)
    ]


def status(ledger: Ledger, dataset: str, first: str, last: str) -> answers.DatasetStatus:
    """Tell what the ledger says of the keys."""
    return status_of(dataset, look(ledger, dataset, first, last))


def status_of(dataset: str, seen: Iterable[Seen]) -> answers.DatasetStatus:
    """Put what was seen into an answer."""
    return {
        "dataset": dataset,
        "partitions": [
            {
                "key": row.key,
                "figures": figures(row.measured),
                "published_at": row.published_at,
                "owner": row.owner,
                "run": row.run,
                "reason": row.reason,
                "sealed": row.seal > 0,
                "seals": row.seals,
                "corrections": len(corrections),
                "claimed_by": list(claimed_by),
                "open": list(opened),
                "failure": row.failure,
                "failed_at": row.failed_at,
                "checked_at": row.checked_at,
                "drift": row.drift,
            }
            for row, claimed_by, opened, corrections in seen
        ],
    }


def history(ledger: Ledger, dataset: str, first: str, last: str) -> list[answers.HistoryLine]:
    """Tell what happened to the keys, each key's oldest line first."""
    return [
        {
            "key": line.key,
            "what": line.what,
            "token": line.token,
            "number": line.number,
            "owner": line.owner,
            "run": line.run,
            "task": line.task,
            "reason": line.reason,
            "published_at": line.published_at,
            "at": line.at,
            "seconds": line.seconds,
            "before": figures(line.replaced),
            "after": figures(line.measured),
            "said": line.said,
        }
        for line in ledger.history(dataset, first, last)
    ]


def statement(ledger: Ledger, dataset: str, first: str, last: str, as_of: str | None) -> answers.DatasetStatement:
    """Tell what was sent and what is right; with a moment, what readers saw then and what was said of it by then."""
    corrections = _by_key(ledger.corrections(dataset, first, last))
    seals = _by_key(ledger.seals(dataset, first, last))
    lines: list[answers.DatasetStatementLine] = []
    for key, published_at, measured in _published(ledger, dataset, first, last, as_of):
        at = as_of or "9"
        of_key = [seal for seal in seals.get(key, []) if seal.sealed_at <= at and (seal.unsealed_at or "~") > at]
        said = [one for one in corrections.get(key, ()) if one.at <= at and of_key and one.seal == of_key[-1].version]
        lines.append(
            {
                "key": key,
                "sealed": bool(of_key),
                "published_at": published_at,
                "published": figures(measured) or {},
                "corrections": len(said),
                "corrected": figures(said[-1].after if said else measured) or {},
                "reason": said[-1].reason if said else None,
            }
        )
    return {"dataset": dataset, "as_of": as_of, "partitions": lines}


def _published(
    ledger: Ledger, dataset: str, first: str, last: str, as_of: str | None
) -> Iterable[tuple[str, str | None, Measured | None]]:
    if as_of is None:
        return [(row.key, row.published_at, row.measured) for row in ledger.rows(dataset, first, last) if row.token]
    lines: Sequence[Entry] = ledger.as_of(dataset, as_of, first, last)
    return [(line.key, line.published_at, line.measured) for line in lines]


def late(
    ledger: Ledger,
    dataset: Dataset,
    rows: Sequence[KeyRow],
    measure: Callable[[list[str]], Mapping[str, Measured]],
) -> answers.DatasetLate:
    """Find the keys, all sealed, of which the source doesn't agree any more with what was sent or last corrected."""
    found: list[answers.LateKey] = []
    if rows:
        now = measure([row.key for row in rows])
        corrections = _by_key(ledger.corrections(dataset.name, rows[0].key, rows[-1].key))
        for row in rows:
            said = last_said(row, corrections.get(row.key, ()))
            if judging.drift_of(dataset, row.version, said, now[row.key]):
                found.append({"key": row.key, "known": figures(said.measured), "now": figures(now[row.key])})
    return {"dataset": dataset.name, "checked": len(rows), "late": found}


def moved(one: answers.LateKey) -> str:
    """Say how a sealed key's source differs from what was said."""
    known, now = one["known"] or {}, one["now"] or {}
    words = [f"{name} was {known.get(name)}, is {value}" for name, value in now.items() if known.get(name) != value]
    return "; ".join(words) or "the figures are those that were said, but the rows are others"


def last_said(row: KeyRow, corrections: Sequence[Correction]) -> KeyRow:
    """Return a sealed key's row with what is right by the last correction under its seal, else with what was sent."""
    said = [one.after for one in corrections if one.seal == row.seal]
    return row._replace(measured=said[-1]) if said else row


def figures(measured: Measured | None) -> answers.Figures | None:
    """Return rows and measures as they go out; None where there is nothing."""
    return None if measured is None else {"rows": measured.rows, **measured.measures}


def _by_key(rows: Sequence[OfKey]) -> dict[str, list[OfKey]]:
    found: dict[str, list[OfKey]] = {}
    for one in rows:
        found.setdefault(one.key, []).append(one)
    return found

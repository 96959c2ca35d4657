"""What the page shows of a dataset, from its ledger alone; of the runner's `daily`, from its five tables.

Nothing here looks at a user's table. What isn't known is None.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from backfill_core.dataset_review import figures
from backfill_core.errors import UsageError
from backfill_core.keys import DAY, NONE, WHOLE, find_zone, keys_between
from backfill_core.ledger import KeyRow
from backfill_core.log_lines import DONE
from backfill_core.partition import EVER, DateRange, parse_date
from backfill_core.states import Known, state_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from backfill_core.claims import Claim
    from backfill_core.ledger import Correction, Counts, Entry, Glance
    from backfill_core.ledger.ledger import SqlLedger
    from backfill_core.states import State
    from backfill_core.store import Store

    Told = dict[str, Any]

DIGITS: dict[State, str] = {
    "missing": "0",
    "published": "1",
    "held": "2",
    "sealed": "3",
    "corrected": "4",
    "failed": "5",
    "drifted": "6",
    "late": "7",
}
MISSING = DIGITS["missing"]
T = TypeVar("T")


class Columns:
    """What the calendar shows of partitions, each thing in a list of its own, as the page takes it.

    Kept so from the start: an object a partition costs a ledger of a hundred years half a second, in a server that
    holds much else.
    """

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.digits: list[str] = []
        self.sealed: list[str] = []
        self.at: list[str | None] = []
        self.by: list[str | None] = []
        self.runs: list[str | None] = []
        self.figures: dict[str, list[str | None]] = {}

    def add(
        self,
        key: str,
        known: Known,
        figures: Mapping[str, str | int | None],
        at: str | None,
        by: str | None,
        run: str | None,
    ) -> None:
        """Add a partition; its key comes after those that are there."""
        for name in figures.keys() - self.figures.keys():
            self.figures[name] = [None] * len(self.keys)
        for name, column in self.figures.items():
            value = figures.get(name)
            column.append(None if value is None else str(value))
        self.keys.append(key)
        self.digits.append(DIGITS[state_of(known)])
        self.sealed.append("1" if known.sealed else "0")
        self.at.append(at)
        self.by.append(by)
        self.runs.append(run)

    def told(self, timezone: str, grain: str, *, until_yesterday: bool) -> Told:
        """Tell them; of a dataset of days each day from the first to the last, or to the last day that is over."""
        keys, of_days = self.keys, grain == DAY
        if of_days:
            ends = {keys[0], keys[-1]} if keys else set()
            if until_yesterday:
                ends.add(yesterday(timezone))
            keys = keys_between(min(ends), max(ends)) if ends else []
        places = None if keys == self.keys else {key: place for place, key in enumerate(keys)}

        def spread(column: list[T], nothing: T) -> list[T]:
            if places is None:
                return column
            made = [nothing] * len(keys)
            for key, value in zip(self.keys, column, strict=True):
                made[places[key]] = value
            return made

        owners, by = _numbered(spread(self.by, None))
        names, runs = _numbered(spread(self.runs, None))
        return {
            "grain": DAY if of_days else "key",
            "timezone": timezone,
            "first": keys[0] if keys else "",
            "last": keys[-1] if keys else "",
            "keys": None if keys and of_days else keys,
            "states": "".join(spread(self.digits, MISSING)),
            "sealed": "".join(spread(self.sealed, "0")),
            "measures": list(self.figures),
            "figures": {name: spread(column, None) for name, column in self.figures.items()},
            "published_at": spread(self.at, None),
            "writers": by,
            "by": owners,
            "written_in": runs,
            "runs": names,
        }


def _numbered(column: Iterable[str | None]) -> tuple[list[str], list[int]]:
    """Return what there is in a column, and of each entry its place there; -1 for none."""
    places: dict[str, int] = {}
    numbers = [-1 if one is None else places.setdefault(one, len(places)) for one in column]
    return list(places), numbers


def is_held(row: Glance, claims: Iterable[Claim]) -> bool:
    """Return whether somebody is at a partition, or has still to come to it: not the run that has just written it."""
    return any(not claim.run or claim.run != row.run for claim in claims)


def run_of(text: str | None) -> Told | None:
    """Return the Airflow run that a ledger's `dag/run` names; None for a run of anything else."""
    dag_id, slash, run_id = (text or "").partition("/")
    return {"dag_id": dag_id, "run_id": run_id} if slash and dag_id and run_id else None


def yesterday(timezone: str) -> str:
    """Return the last day that is over in a zone."""
    return (datetime.now(find_zone(timezone)).date() - timedelta(days=1)).isoformat()


def days_of(first: str | None, last: str | None) -> int | None:
    """Return how many days there are between two, inclusive; None where they are no days."""
    try:
        return (parse_date(last or "") - parse_date(first or "")).days + 1
    except UsageError:
        return None


# datasets


def overview(counts: Counts, until: str | None = None) -> Told:
    """Tell of a dataset at a glance; its holes are those from its first partition to its last, or until a later day."""
    days = days_of(counts.oldest, max(counts.newest or "", until or ""))
    has_order = days is not None or counts.oldest is None  # keys that are no days have none
    return {
        "newest": counts.newest if has_order else None,
        "sealed_up_to": counts.sealed_up_to if has_order else None,
        "published": counts.published,
        "missing": None if days is None else days - counts.published,
        "held": counts.held,
        "failed": counts.failed,
        "late": counts.late,
        "drifted": counts.drifted,
        "checked_at": counts.checked_at,
        "changed": counts.latest_at and {"at": counts.latest_at, "by": counts.latest_by},
    }


UNWRITTEN: Told = {
    "newest": None,
    "sealed_up_to": None,
    "published": 0,
    "missing": 0,
    "held": 0,
    "failed": 0,
    "late": 0,
    "drifted": 0,
    "checked_at": None,
    "changed": None,
}
"""A dataset that a DAG writes, and that the ledger knows nothing of yet."""
UNUSED: Told = {**dict.fromkeys(UNWRITTEN), "published": 0, "held": 0}
"""The runner's table where nobody uses it."""


def dataset(ledger: SqlLedger | None, name: str, *, until_yesterday: bool) -> Told:
    """Tell all partitions of a dataset, from its first key to its last, or to the last day that is over.

    ledger: None where there is none yet.
    until_yesterday: a schedule writes it, so a day that is over and isn't there is missing.
    """
    fixed = (ledger.definition(name) if ledger else None) or {}
    timezone, grain = fixed.get("timezone", "UTC"), fixed.get("grain", DAY)
    claims, corrections = (ledger.claims(name), ledger.corrections(name)) if ledger else ([], [])
    held: dict[str, list[Claim]] = {}
    for claim in claims:
        held.setdefault(claim.key, []).append(claim)
    corrected = {(one.key, one.seal) for one in corrections}
    columns = Columns()
    for row in ledger.glances(name) if ledger else ():
        known = Known(
            drifted=row.has_drifted,
            failed=row.has_failed,
            held=row.key in held and is_held(row, held[row.key]),
            late=row.is_late,
            corrected=row.seal > 0 and (row.key, row.seal) in corrected,
            sealed=row.seal > 0,
            published=row.is_published,
        )
        if True in known:
            columns.add(row.key, known, row.measured, row.published_at, row.owner, row.run)
    if grain == NONE and not columns.keys:
        columns.add(WHOLE, Known(), {}, None, None, None)
    told = columns.told(timezone, grain, until_yesterday=until_yesterday)
    return {
        **told,
        "holders": {claim.key: {"by": claim.holder, "run": run_of(claim.run)} for claim in claims},
        "corrections": [{"key": one.key, "at": one.at, "right": figures(one.after)} for one in corrections],
    }


def partition(ledger: SqlLedger, name: str, key: str) -> Told:
    """Tell one partition with its history."""
    row = next(iter(ledger.rows(name, key, key)), KeyRow(key))
    return {
        "key": key,
        "figures": figures(row.measured),
        "published_at": row.published_at,
        "owner": row.owner,
        "reason": row.reason,
        "run": run_of(row.run),
        "sealed": row.seal > 0,
        "holders": [_holder(claim) for claim in ledger.claims(name, key, key)],
        "failure": row.failure,
        "failed_at": row.failed_at,
        "drift": row.drift,
        "checked_at": row.checked_at,
        "late": row.late,
        "compared_at": row.compared_at,
        "corrections": [_correction(one) for one in ledger.corrections(name, key, key)],
        "history": [line(one) for one in ledger.history(name, key, key)],
    }


def _holder(claim: Claim) -> Told:
    return {"by": claim.holder, "claim": claim.id, "run": run_of(claim.run)}


def _correction(one: Correction) -> Told:
    return {
        "at": one.at,
        "by": one.owner,
        "reason": one.reason,
        "before": figures(one.before),
        "after": figures(one.after),
    }


def line(one: Entry) -> Told:
    """Tell one line of a history."""
    return {
        "what": DONE.get(one.what, one.what),
        "at": one.at,
        "owner": one.owner,
        "run": run_of(one.run),
        "reason": one.reason,
        "before": figures(one.replaced),
        "after": figures(one.measured),
        "said": one.said,
    }


# the runner's `daily`


class Daily(NamedTuple):
    """What the five tables know: by date what is published (orders, amount, owner), who holds it, what is sealed."""

    published: Mapping[str, tuple[int, int, str]]
    holders: Mapping[str, str]
    claims: Mapping[str, list[Claim]]
    sealed: Collection[str]
    corrections: Sequence[tuple[str, int, int, int, int, str]]

    @classmethod
    def read(cls, store: Store, dates: DateRange = EVER) -> Daily:
        """Read them in one transaction."""
        with store.reading() as tables:
            return cls(
                {dt: (orders, amount, owner) for dt, orders, amount, owner in tables.published(dates)},
                tables.holders(dates),
                tables.run_claims().on(dates),
                tables.sealed(dates),
                list(tables.corrections(dates)),
            )

    def overview(self, until: str | None = None) -> Told:
        """Tell of it at a glance; of failures, drift, lateness and times the five tables know nothing."""
        days = days_of(min(self.published, default=None), max((*self.published, until or "")))
        return {
            **dict.fromkeys(UNWRITTEN),
            "newest": max(self.published, default=None),
            "sealed_up_to": max(self.sealed, default=None),
            "published": len(self.published),
            "missing": None if days is None else days - len(self.published),
            "held": len(self.holders),
        }

    def told(self, *, until_yesterday: bool) -> Told:
        """Tell all dates."""
        corrected = {dt for dt, *_ in self.corrections}
        columns = Columns()
        columns.figures = {"orders": [], "amount": []}
        for dt in sorted({*self.published, *self.holders, *self.sealed}):
            found, holder = self.published.get(dt), self.holders.get(dt)
            has_just_written = found is not None and found[2] == holder and run_of(holder) is not None
            known = Known(
                held=holder is not None and not has_just_written,
                corrected=dt in corrected and dt in self.sealed,
                sealed=dt in self.sealed,
                published=found is not None,
            )
            sums = {} if found is None else {"orders": found[0], "amount": found[1]}
            by = found and found[2]
            columns.add(dt, known, sums, None, by, by)
        told = columns.told("UTC", DAY, until_yesterday=until_yesterday)
        return {
            **told,
            "holders": {dt: {"by": by, "run": run_of(by)} for dt, by in self.holders.items()},
            "corrections": [
                {"key": dt, "at": "", "right": {"orders": str(orders), "amount": str(amount)}}
                for dt, _, _, orders, amount, _ in self.corrections
            ],
        }

    def partition(self, key: str, history: Iterable[Entry]) -> Told:
        """Tell one date. history: what the ledger knows of it: who reserved it and gave it back, and why."""
        found = self.published.get(key)
        claims = self.claims.get(key, [])
        return {
            "key": key,
            "figures": found and {"orders": str(found[0]), "amount": str(found[1])},
            "published_at": None,
            "owner": found and found[2],
            "reason": None,
            "run": run_of(found[2]) if found else None,
            "sealed": key in self.sealed,
            "holders": [_holder(claim) for claim in claims],
            **dict.fromkeys(("failure", "failed_at", "drift", "checked_at", "late", "compared_at")),
            "corrections": [
                {
                    "at": "",
                    "by": "",
                    "reason": reason,
                    "before": {"orders": str(before[0]), "amount": str(before[1])},
                    "after": {"orders": str(after[0]), "amount": str(after[1])},
                }
                for _, *before, after_orders, after_amount, reason in self.corrections
                if (after := (after_orders, after_amount))
            ],
            "history": [line(one) for one in history],
        }

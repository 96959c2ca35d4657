"""Judge: may what was staged take the place of what is published? Plain rules over figures, no database.

The order in which refusals win: rows not adopted, drift, audit, limits. (An unknown token and a seal come before these:
they stop an attempt when it takes its keys.)
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, NamedTuple

from backfill_core.errors import AuditError, DriftError, LimitError, NotAdoptedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from backfill_core.dataset import Dataset
    from backfill_core.errors import RefusedError
    from backfill_core.ledger import KeyRow
    from backfill_core.target import Audited, Measured

EMPTY, SHRINK, GROWTH = "empty", "shrink", "growth"


class Wish(NamedTuple):
    """What a caller allows in one write, in so many words.

    overwrite: take the place of rows that nobody of ours published, and of drift.
    always: publish a result that is equal to what the target holds, too.
    allow: of EMPTY, SHRINK and GROWTH, those limits that don't count this time.
    """

    overwrite: bool = False
    always: bool = False
    allow: frozenset[str] = frozenset()


class Verdict(NamedTuple):
    """What becomes of a write.

    refusal: the error to raise, None where nothing stands in the way; `failures` says why by key.
    quiet: keys whose result is what the target holds already.
    drift: by key, what the target held instead of what was published, where that is overwritten.
    """

    refusal: RefusedError | None
    failures: Mapping[str, str]
    quiet: frozenset[str]
    drift: Mapping[str, str]


def judge(
    dataset: Dataset,
    version: int,
    rows: Mapping[str, KeyRow],
    audited: Audited,
    wish: Wish = Wish(),  # noqa: B008
) -> Verdict:
    """Decide about a write of the keys in `rows`, by what is published and what was measured."""
    drift = {}
    for key, row in rows.items():
        found = drift_of(dataset, version, row, audited.before[key])
        if found:
            drift[key] = found
    unknown = {key for key, row in rows.items() if row.token is None and audited.before[key].rows}
    refused = (
        _not_adopted(dataset, audited, unknown, wish)
        or _drifted(dataset, drift, wish)
        or _broken(dataset, rows, audited)
        or _beyond_limits(dataset, rows, audited, wish)
    )
    if refused:
        return Verdict(*refused, frozenset(), {})
    quiet = frozenset(
        key
        for key, row in rows.items()
        if row.token is not None
        and row.version == version
        and key not in drift
        and not wish.always
        and same_digest(audited.partitions[key].digest, audited.before[key].digest)
    )
    overwritten = drift | {key: f"{audited.before[key].rows} rows that were not adopted" for key in unknown}
    return Verdict(None, {}, quiet, overwritten)


def judge_correction(dataset: Dataset, said: KeyRow, audited: Audited, wish: Wish) -> RefusedError | None:
    """Decide about a correction of a sealed key, whose row has the figures that were last said to be right."""
    rows = {said.key: said}
    refused = _broken(dataset, rows, audited) or _beyond_limits(dataset, rows, audited, wish)
    return refused[0] if refused else None


def drift_of(dataset: Dataset, version: int, row: KeyRow, held: Measured) -> str | None:
    """Say how what the target holds differs from what was published last; None where it doesn't, or nothing was.

    Measures are compared where they are of one version of the definition, digests where they are comparable.
    """
    known = row.measured
    if row.token is None or known is None:
        return None
    differences = []
    if known.rows != held.rows:
        differences.append(f"{known.rows} rows were published, {held.rows} are there")
    if row.version == version:
        differences += [
            f"{name} was published as {_shown(value)} and is {_shown(held.measures.get(name))}"
            for name, value in known.measures.items()
            if not same_measure(value, held.measures.get(name), dataset.tolerance.get(name))
        ]
    if not differences and comparable(known.digest, held.digest) and known.digest != held.digest:
        differences.append("the figures are those that were published, but the rows are others")
    return "; ".join(differences) or None


def comparable(one: str | None, other: str | None) -> bool:
    """Return whether two digests are of the same columns, made by the same engine and version."""
    return one is not None and other is not None and one.rpartition(":")[0] == other.rpartition(":")[0]


def same_digest(one: str | None, other: str | None) -> bool:
    """Return whether two digests say that the rows are the same; without a comparable one they don't."""
    return comparable(one, other) and one == other


def same_measure(one: str | None, other: str | None, tolerance: float | None) -> bool:
    """Return whether two values of a measure count as the same. The sum of nothing is no 0."""
    if one == other or one is None or other is None:
        return one == other
    try:
        return abs(Decimal(one) - Decimal(other)) <= Decimal(str(tolerance or 0))
    except InvalidOperation:  # no number, or one that is like no other
        return False


def _not_adopted(
    dataset: Dataset, audited: Audited, unknown: Iterable[str], wish: Wish
) -> tuple[RefusedError, dict[str, str]] | None:
    if wish.overwrite:
        return None
    failures = {
        key: f"{audited.before[key].rows} rows are there that nobody of ours published" for key in sorted(unknown)
    }
    return _refusal(
        NotAdoptedError, dataset, failures, "`adopt` them as they are, or write again with overwrite, in so many words"
    )


def _drifted(dataset: Dataset, drift: Mapping[str, str], wish: Wish) -> tuple[RefusedError, dict[str, str]] | None:
    if wish.overwrite or dataset.on_drift == "overwrite":
        return None
    return _refusal(
        DriftError,
        dataset,
        {key: f"somebody wrote past us: {found}" for key, found in sorted(drift.items())},
        "look at the rows; then `adopt` them, or write again with overwrite",
    )


def _broken(
    dataset: Dataset, rows: Mapping[str, KeyRow], audited: Audited
) -> tuple[RefusedError, dict[str, str]] | None:
    unique = ", ".join(dataset.unique)
    found = [
        what.format(count, example)
        for (count, example), what in (
            (audited.strange, "{} rows of other keys, such as {}"),
            (audited.keyless, "{} rows without a key, such as {}"),
            (audited.repeated, f"{{}} repeats of {unique}, such as {{}}"),
        )
        if count
    ]
    failures = dict.fromkeys(sorted(rows), f"the result has {' and '.join(found)}") if found else {}
    return _refusal(AuditError, dataset, failures, "mend the query; nothing was changed")


def _beyond_limits(
    dataset: Dataset, rows: Mapping[str, KeyRow], audited: Audited, wish: Wish
) -> tuple[RefusedError, dict[str, str]] | None:
    failures = {}
    for key in sorted(rows):
        found = _beyond_limit(dataset, _basis(rows[key], audited.before[key]), audited.partitions[key].rows, wish)
        if found:
            failures[key] = found
    return _refusal(LimitError, dataset, failures, "if that is right, ask again and allow it")


def _basis(row: KeyRow, held: Measured) -> int | None:
    """Return how many rows a result is held against: those that were published last; None where nothing was."""
    if row.token is not None and row.measured is not None:
        return row.measured.rows
    return held.rows or None


def _beyond_limit(dataset: Dataset, basis: int | None, after: int, wish: Wish) -> str | None:
    if after == 0:
        if basis == 0 or dataset.on_empty == "allow" or EMPTY in wish.allow:
            return None
        return "the result is empty" + (f", and {basis} rows are published" if basis else "")
    if not basis:
        return None
    change = (after - basis) / basis
    shrink, growth = dataset.max_shrink, dataset.max_growth
    if shrink is not None and -change > shrink and SHRINK not in wish.allow:
        return f"{after} rows instead of {basis}: smaller by more than the limit, {shrink:.0%}"
    if growth is not None and change > growth and GROWTH not in wish.allow:
        return f"{after} rows instead of {basis}: larger by more than the limit, {growth:.0%}"
    return None


def _refusal(
    kind: type[RefusedError], dataset: Dataset, failures: dict[str, str], cure: str
) -> tuple[RefusedError, dict[str, str]] | None:
    if not failures:
        return None
    key, why = next(iter(failures.items()))
    more = f" (and {len(failures) - 1} more keys)" if len(failures) > 1 and len(set(failures.values())) > 1 else ""
    keys = key if len(failures) == 1 or more else f"{key} and {len(failures) - 1} more keys"
    return kind(f"{dataset.name}: {keys}: {why}{more}; {cure}"), failures


def _shown(value: str | None) -> str:
    return "none" if value is None else value

"""What may take the place of what is published: rules over figures, as tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from backfill_core.errors import AuditError, DriftError, LimitError, NotAdoptedError, RefusedError
from backfill_core.ledger import KeyRow
from backfill_core.protocol.judging import EMPTY, GROWTH, SHRINK, Wish, drift_of, judge, same_digest, same_measure
from backfill_core.target import Audited, Measured
from tests.model.promises import DATASET

KEY = "2026-02-01"
NOBODY = (0, "")
ORDERS = replace(DATASET, max_shrink=0.5, max_growth=1.0)


def figures(rows: int, amount: str | None = "10", digest: str | None = None) -> Measured:
    return Measured(rows, {"orders": str(rows), "amount": amount}, digest)


def row(measured: Measured | None, version: int = 1) -> KeyRow:
    return KeyRow(KEY, 1, None if measured is None else "token", measured, version=version)


def audited(after: Measured, before: Measured, **found: tuple[int, str]) -> Audited:
    return Audited(
        {KEY: after},
        {KEY: before},
        found.get("strange", NOBODY),
        found.get("keyless", NOBODY),
        found.get("repeated", NOBODY),
    )


def refusal(known: Measured | None, audit: Audited, wish: Wish = Wish(), **changes: Any) -> type | None:  # noqa: B008
    error = judge(replace(ORDERS, **changes), 1, {KEY: row(known)}, audit, wish).refusal
    return None if error is None else type(error)


@pytest.mark.parametrize(
    ("published", "after", "changes", "allow", "expected"),
    [
        (10, 10, {}, "", None),
        (10, 5, {}, "", None),
        (10, 4, {}, "", LimitError),
        (10, 4, {}, SHRINK, None),
        (10, 4, {"max_shrink": None}, "", None),
        (10, 20, {}, "", None),
        (10, 21, {}, "", LimitError),
        (10, 21, {}, GROWTH, None),
        (10, 21, {"max_growth": None}, "", None),
        (10, 0, {"max_shrink": None}, "", LimitError),
        (10, 0, {}, SHRINK, LimitError),
        (10, 0, {}, EMPTY, None),
        (10, 0, {"on_empty": "allow"}, "", None),
        (0, 0, {}, "", None),
        (0, 1000, {}, "", None),
        (None, 0, {}, "", LimitError),
        (None, 1000, {}, "", None),
        (3, 1, {"max_shrink": 2 / 3}, "", None),
    ],
)
def test_a_result_that_is_empty_or_moves_by_more_than_a_limit_is_refused_unless_allowed(
    published: int | None, after: int, changes: dict[str, Any], allow: str, expected: type[RefusedError] | None
) -> None:
    known = None if published is None else figures(published)
    audit = audited(figures(after), known or figures(0))

    found = refusal(known, audit, Wish(allow=frozenset(filter(None, [allow]))), **changes)

    assert found is expected


@pytest.mark.parametrize("what", ["strange", "keyless", "repeated"])
def test_rows_that_don_t_belong_there_refuse_every_key_whatever_is_allowed(what: str) -> None:
    audit = audited(figures(1), figures(0), **{what: (3, "an example")})

    verdict = judge(ORDERS, 1, {KEY: row(None)}, audit, Wish(True, True, frozenset({EMPTY, SHRINK, GROWTH})))

    assert isinstance(verdict.refusal, AuditError)
    assert "3 r" in str(verdict.refusal)
    assert "an example" in str(verdict.refusal)


@pytest.mark.parametrize(
    ("known", "held", "strange", "after", "expected"),
    [
        (None, figures(5), (1, "x"), 0, NotAdoptedError),
        (figures(5), figures(6), (1, "x"), 0, DriftError),
        (figures(5), figures(5), (1, "x"), 0, AuditError),
        (figures(5), figures(5), NOBODY, 0, LimitError),
    ],
)
def test_the_refusal_that_tells_more_wins(
    known: Measured | None, held: Measured, strange: tuple[int, str], after: int, expected: type[RefusedError]
) -> None:
    assert refusal(known, audited(figures(after), held, strange=strange)) is expected


@pytest.mark.parametrize(
    ("known", "held", "version", "tolerance", "differs"),
    [
        (figures(5), figures(5), 1, None, False),
        (figures(5), figures(6), 1, None, True),
        (figures(5, "10"), figures(5, "11"), 1, None, True),
        (figures(5, "10"), figures(5, "10.0"), 1, None, False),
        (figures(5, "0.1"), figures(5, "0.1000001"), 1, None, True),
        (figures(5, "0.1"), figures(5, "0.1000001"), 1, 0.001, False),
        (figures(5, "0.1"), figures(5, "0.2"), 1, 0.001, True),
        (figures(5, None), figures(5, "0"), 1, 0.001, True),
        (figures(5, "9" * 38), figures(5, "9" * 37 + "8"), 1, None, True),
        (figures(5, "10"), figures(5, "11"), 2, None, False),
        (figures(5, "10"), figures(6, "10"), 2, None, True),
        (figures(5, "1", "pg15 a,b:1"), figures(5, "1", "pg15 a,b:2"), 1, None, True),
        (figures(5, "1", "pg15 a,b:1"), figures(5, "1", "pg16 a,b:2"), 1, None, False),
        (figures(5, "1", "pg15 a,b:1"), figures(5, "1", None), 1, None, False),
    ],
)
def test_drift_is_a_difference_of_what_can_be_compared(
    known: Measured, held: Measured, version: int, tolerance: float | None, differs: bool
) -> None:
    dataset = replace(ORDERS, tolerance={} if tolerance is None else {"amount": tolerance})

    assert (drift_of(dataset, version, row(known), held) is not None) is differs


def test_where_nothing_was_published_there_is_no_drift() -> None:
    assert drift_of(ORDERS, 1, row(None), figures(5)) is None


@pytest.mark.parametrize(
    ("known", "after", "held", "always", "quiet"),
    [
        ("a:1", "a:1", "a:1", False, True),
        ("a:1", "a:1", "a:1", True, False),
        ("a:1", "a:2", "a:1", False, False),
        ("b:1", "a:1", "a:1", False, True),
        (None, None, None, False, False),
        ("a:1", "a:2", "a:2", False, False),
    ],
)
def test_quiet_is_what_the_target_holds_already(
    known: str | None, after: str | None, held: str | None, always: bool, quiet: bool
) -> None:
    dataset = replace(ORDERS, on_drift="overwrite")
    audit = audited(figures(1, "1", after), figures(1, "1", held))

    verdict = judge(dataset, 1, {KEY: row(figures(1, "1", known))}, audit, Wish(always=always))

    assert (KEY in verdict.quiet) is quiet


def test_a_result_that_is_what_a_stranger_wrote_is_published_all_the_same() -> None:
    dataset = replace(ORDERS, on_drift="overwrite")
    audit = audited(figures(1, "2", "a:2"), figures(1, "2", "a:2"))

    verdict = judge(dataset, 1, {KEY: row(figures(1, "1", "a:1"))}, audit)

    assert (verdict.quiet, verdict.drift) == (frozenset(), {KEY: "amount was published as 1 and is 2"})


def test_what_was_published_under_other_measures_is_never_quiet() -> None:
    audit = audited(figures(1, "1", "a:1"), figures(1, "1", "a:1"))

    assert judge(ORDERS, 2, {KEY: row(figures(1, "1", "a:1"))}, audit).quiet == frozenset()


def test_the_sum_of_nothing_is_no_zero_and_digests_need_each_other() -> None:
    assert not same_measure(None, "0", 1.0)
    assert same_measure(None, None, None)
    assert not same_digest(None, None)
    assert not same_measure("NaN", "1", None)

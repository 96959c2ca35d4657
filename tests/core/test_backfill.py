from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from backfill_core import (
    Backfill,
    DateRange,
    EventFolder,
    NotSealedError,
    PartitionError,
    SourceError,
    StoreError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from backfill_core.counting.facts import Counted, Fingerprint
    from backfill_core.store import Store
    from tests.core.sources import Source

FIRST, SECOND, THIRD = "2024-05-01", "2024-05-02", "2024-05-03"
DAYS = DateRange.parse(FIRST, THIRD)
DAY = DateRange.parse(FIRST, FIRST)


def daily(store: Store) -> list[tuple[str, int, int, str]]:
    with store.reading() as tables:
        return list(tables.published(DateRange(date.min, date.max)))


class Interrupting(EventFolder):
    """A source in which something happens between a count and the transaction that writes it, once."""

    def __init__(self, source: Source) -> None:
        super().__init__(str(source.folder))
        self.happens: Callable[[], object] = lambda: None

    def count_as(self, dt: str, found: Fingerprint, stop: Callable[[], bool] | None = None) -> Counted | None:
        counted = super().count_as(dt, found, stop)
        happens, self.happens = self.happens, lambda: None
        happens()
        return counted


def test_a_run_replaces_and_never_adds(backfill: Backfill, source: Source, store: Store) -> None:
    source.put(FIRST, 1, 2)

    for _ in range(3):
        answer = backfill.run(DAY, "a")

    assert answer == {"owner": "a", "done": [FIRST], "skipped": [], "orders": 2, "amount": 3}
    assert daily(store) == [(FIRST, 2, 3, "a")]


def test_a_claim_that_comes_in_during_the_count_is_honoured(store: Store, source: Source) -> None:
    source.put(FIRST, 1)
    folder = Interrupting(source)
    backfill = Backfill(store, folder)
    folder.happens = lambda: backfill.claim(DAY, "b")

    answer = backfill.run(DAY, "a")

    assert answer["skipped"] == [[FIRST, "claimed_by:b"]]
    assert daily(store) == []


def test_a_seal_that_comes_in_during_the_count_is_honoured(store: Store, source: Source) -> None:
    source.put(FIRST, 1)
    folder = Interrupting(source)
    backfill = Backfill(store, folder)
    folder.happens = lambda: backfill.seal(DAY)

    answer = backfill.run(DAY, "a")

    assert answer["skipped"] == [[FIRST, "sealed"]]
    assert daily(store) == []


def test_an_older_count_never_lands_after_a_newer_source(store: Store, source: Source) -> None:
    source.put(FIRST, 1)
    folder = Interrupting(source)
    folder.happens = lambda: source.put(FIRST, 1, 1)

    answer = Backfill(store, folder).run(DAY, "a")

    assert answer["amount"] == 2
    assert daily(store) == [(FIRST, 2, 2, "a")]


def test_a_source_that_vanishes_before_the_write_leaves_the_earlier_result(store: Store, source: Source) -> None:
    source.put(FIRST, 1)
    folder = Interrupting(source)
    backfill = Backfill(store, folder)
    backfill.run(DAY, "a")
    folder.happens = source.file(FIRST).unlink

    answer = backfill.run(DAY, "b")

    assert answer["skipped"] == [[FIRST, "no_data"]]
    assert daily(store) == [(FIRST, 1, 1, "a")]


def test_a_source_that_changes_before_every_write_is_told(store: Store, source: Source) -> None:
    class Restless(EventFolder):
        def fingerprint(self, dt: str) -> Fingerprint | None:
            source.put(dt, *[1] * (source.file(dt).read_text().count("\n") + 1))
            return super().fingerprint(dt)

    source.put(FIRST, 1)

    answer = Backfill(store, Restless(str(source.folder))).run(DAY, "a")

    assert answer["done"] == []
    assert "keeps changing" in answer["failed"][0][1]
    assert daily(store) == []


def test_a_correction_is_of_the_newest_source_too(store: Store, source: Source) -> None:
    source.put(FIRST, 1)
    folder = Interrupting(source)
    backfill = Backfill(store, folder)
    backfill.run(DAY, "a")
    backfill.seal(DAY)
    folder.happens = lambda: source.put(FIRST, 1, 5)

    answer = backfill.amend(DAY.first, "late")

    assert (answer["amount_before"], answer["amount_after"]) == (1, 6)


def test_a_comparison_is_with_the_newest_source_too(store: Store, source: Source) -> None:
    source.put(FIRST, 1)
    folder = Interrupting(source)
    backfill = Backfill(store, folder)
    backfill.run(DAY, "a")
    folder.happens = lambda: source.put(FIRST, 1, 5)

    status = backfill.status(DAY, compare=True)

    assert status["partitions"][0]["source"] == "differs"


def test_what_reads_no_events_needs_no_folder_of_them(store: Store) -> None:
    backfill = Backfill(store)

    claimed = backfill.claim(DAY, "a")["claimed"]
    with pytest.raises(UsageError, match="no folder of events"):
        backfill.run(DAY, "a")

    assert claimed == [FIRST]


def test_reasons_have_an_order(backfill: Backfill, source: Source) -> None:
    backfill.claim(DAYS, "b")
    backfill.seal(DAY)
    source.put(SECOND, 1)

    answer = backfill.run(DateRange.parse(FIRST, "2024-05-04"), "a")

    assert answer["skipped"] == [
        [FIRST, "sealed"],
        [SECOND, "claimed_by:b"],
        [THIRD, "claimed_by:b"],
        ["2024-05-04", "no_data"],
    ]


def test_a_run_that_is_stopped_tells_what_it_did(backfill: Backfill, source: Source, store: Store) -> None:
    for dt in DAYS:
        source.put(dt, 1)
    passed: list[str] = []

    answer = backfill.run(DAYS, "a", stop=lambda: len(passed) > 1, progress=lambda _, dt: passed.append(dt))

    assert answer["done"] == [FIRST]
    assert [row[0] for row in daily(store)] == [FIRST]


def test_an_error_in_the_middle_tells_what_was_done_before(backfill: Backfill, source: Source) -> None:
    source.put(FIRST, 1)
    source.put(SECOND, 1)

    def take_away(passed: int, _dt: str) -> None:
        if passed == 2:
            source.folder.rename(f"{source.folder}.gone")

    with pytest.raises(SourceError) as told:
        backfill.run(DAYS, "a", progress=take_away)

    assert told.value.so_far == {"owner": "a", "done": [FIRST, SECOND], "skipped": [], "orders": 2, "amount": 2}


def test_a_bad_partition_keeps_its_result_and_stops_no_other(backfill: Backfill, source: Source, store: Store) -> None:
    for dt in DAYS:
        source.put(dt, 1, 1, 1)
    backfill.run(DAYS, "a")
    source.file(SECOND).write_text(source.file(SECOND).read_text()[:-20])

    answer = backfill.run(DAYS, "b")

    assert answer["done"] == [FIRST, THIRD]
    assert [(dt, fault.split(": ")[0].endswith(":3")) for dt, fault in answer["failed"]] == [(SECOND, True)]
    assert daily(store)[1] == (SECOND, 3, 3, "a")


def test_a_correction_needs_a_seal_and_a_source(backfill: Backfill, store: Store) -> None:
    with pytest.raises(NotSealedError, match="2024-05-01 is not sealed"):
        backfill.amend(DAY.first, "late")
    backfill.seal(DAY)
    with pytest.raises(PartitionError, match="no such file; nothing was recorded"):
        backfill.amend(DAY.first, "late")

    with store.reading() as tables:
        assert list(tables.corrections(DAYS)) == []


def test_totals_beyond_64_bits_are_refused_and_nothing_changes(backfill: Backfill, source: Source) -> None:
    source.put(FIRST, 2**63 - 1)
    source.put(SECOND, 5)
    backfill.run(DAY, "a")
    before = backfill.rollup()
    backfill.run(DAYS, "a")

    with pytest.raises(StoreError, match="beyond 64 bits"):
        backfill.rollup()
    with pytest.raises(StoreError, match="beyond 64 bits"):
        backfill.rollup_add(DateRange.parse(SECOND, SECOND))

    source.put(SECOND, 0)
    backfill.run(DAYS, "a")
    assert backfill.rollup() == before | {"order_total": 2}


@pytest.mark.parametrize(
    ("after", "guard", "refused"),
    [
        (0, {"allow_empty": False}, "it holds no orders, but 4 are"),
        (0, {"allow_empty": True, "max_shrink": 0.5}, None),
        (1, {"max_shrink": 0.5}, "it holds 1 orders, but 4 are"),
        (2, {"max_shrink": 0.5}, None),
        (3, {"max_shrink": 0}, "it holds 3 orders, but 4 are"),
        (4, {"allow_empty": False, "max_shrink": 0}, None),
        (1, {}, None),
        (0, {}, None),
    ],
)
def test_a_source_that_lost_orders_is_refused_where_that_is_asked_for(
    backfill: Backfill, source: Source, after: int, guard: dict[str, Any], refused: str | None
) -> None:
    source.put(FIRST, 1, 2, 3, 4)
    backfill.run(DAY, "a")
    source.put(FIRST, *range(1, after + 1))

    ran = backfill.run(DAY, "b", **guard)

    if refused is None:
        assert ran["done"] == [FIRST]
    else:
        [[dt, why]] = ran["failed"]
        assert (dt, refused in why) == (FIRST, True)
        [status] = backfill.status(DAY)["partitions"]
        assert (status["orders"], status["owner"]) == (4, "a")


@pytest.mark.parametrize("guard", [{"allow_empty": False}, {"max_shrink": 0.5}])
def test_a_correction_that_loses_too_much_is_refused_and_what_was_right_stays(
    backfill: Backfill, source: Source, guard: dict[str, Any]
) -> None:
    source.put(FIRST, 1)
    backfill.run(DAY, "a")
    backfill.seal(DAY)
    source.put(FIRST, 1, 2, 3, 4)
    backfill.amend(DAY.first, "late", **guard)
    source.put(FIRST, *([] if "allow_empty" in guard else [1]))  # as much as was sent, and less than is right

    with pytest.raises(PartitionError, match="4 are right until now; they stay"):
        backfill.amend(DAY.first, "late", **guard)

    statement = backfill.statement(DAY)
    assert (statement["orders_corrected"], statement["amount_corrected"]) == (4, 10)
    assert backfill.amend(DAY.first, "so it is")["orders_after"] == (0 if "allow_empty" in guard else 1)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_that_is_none_is_refused(backfill: Backfill, share: float) -> None:
    for call in (
        lambda: backfill.run(DAY, "a", max_shrink=share),
        lambda: backfill.amend(DAY.first, "late", max_shrink=share),
    ):
        with pytest.raises(UsageError, match="from 0 to 1"):
            call()

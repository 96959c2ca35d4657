"""Any split of a range leaves the same `daily`; and whatever is done, the store is what a small model says it is."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from backfill_core import Backfill, DateRange, EventFolder, NotSealedError, create_store, open_store
from tests.core.sources import Source

if TYPE_CHECKING:
    from backfill_core.store import Store

DAYS = DateRange.parse("2024-02-26", "2024-03-03")
DTS = list(DAYS)
EVER = DateRange(date.min, date.max)

amounts = st.lists(st.integers(-(10**6), 10**6), max_size=4)
owners = st.sampled_from(["anna", "ben"])
ranges = st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda ends: (min(ends), max(ends)))


def between(ends: tuple[int, int]) -> DateRange:
    return DateRange.parse(DTS[ends[0]], DTS[ends[1]])


def daily(store: Store) -> list[tuple[str, int, int, str]]:
    with store.reading() as tables:
        return list(tables.published(EVER))


@settings(deadline=None, max_examples=25)
@given(contents=st.lists(amounts, min_size=7, max_size=7), cuts=st.sets(st.integers(1, 6)), again=ranges)
def test_any_split_of_a_range_leaves_the_same_daily(
    contents: list[list[int]], cuts: set[int], again: tuple[int, int]
) -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stores:
        source = Source(Path(folder) / "events")
        for dt, content in zip(DTS, contents, strict=True):
            source.put(dt, *content)
        events = EventFolder(str(source.folder))
        whole, split = f"{folder}/whole.db", f"{folder}/split.db"
        for db in (whole, split):
            create_store(db)
        one = stores.enter_context(open_store(whole))
        other = stores.enter_context(open_store(split))

        answer = Backfill(one, events).run(DAYS, "anna")
        edges = [0, *sorted(cuts), 7]
        parts = [Backfill(other, events).run(between((start, end - 1)), "anna") for start, end in pairwise(edges)]
        Backfill(other, events).run(between(again), "anna")

        assert daily(one) == daily(other)
        assert answer["amount"] == sum(part["amount"] for part in parts)
        assert answer["orders"] == sum(part["orders"] for part in parts)


class StoreAgainstModel(RuleBasedStateMachine):
    """The store beside four dicts and a list."""

    def __init__(self) -> None:
        super().__init__()
        self.resources = ExitStack()
        folder = self.resources.enter_context(tempfile.TemporaryDirectory())
        self.source = Source(Path(folder) / "events")
        create_store(f"{folder}/state.db")
        self.store = self.resources.enter_context(open_store(f"{folder}/state.db"))
        self.backfill = Backfill(self.store, EventFolder(str(self.source.folder)))
        self.files: dict[str, list[int]] = {}
        self.daily: dict[str, tuple[int, int, str]] = {}
        self.claims: dict[str, str] = {}
        self.seals: set[str] = set()
        self.corrections: list[tuple[str, int, int, int, int, str]] = []

    def teardown(self) -> None:
        self.resources.close()

    @initialize(contents=st.lists(amounts, min_size=7, max_size=7))
    def begin(self, contents: list[list[int]]) -> None:
        for dt, content in zip(DTS, contents, strict=True):
            self.write(DTS.index(dt), content)

    @rule(day=st.integers(0, 6), content=amounts)
    def write(self, day: int, content: list[int]) -> None:
        self.source.put(DTS[day], *content)
        self.files[DTS[day]] = content

    @rule(day=st.integers(0, 6))
    def remove(self, day: int) -> None:
        self.source.file(DTS[day]).unlink(missing_ok=True)
        self.files.pop(DTS[day], None)

    @rule(ends=ranges, owner=owners)
    def run(self, ends: tuple[int, int], owner: str) -> None:
        plan = self.backfill.plan(between(ends), owner)
        answer = self.backfill.run(between(ends), owner)

        done, skipped = [], []
        for dt in between(ends):
            if dt in self.seals:
                skipped.append([dt, "sealed"])
            elif self.claims.get(dt, owner) != owner:
                skipped.append([dt, f"claimed_by:{self.claims[dt]}"])
            elif dt not in self.files:
                skipped.append([dt, "no_data"])
            else:
                done.append(dt)
                self.daily[dt] = (len(self.files[dt]), sum(self.files[dt]), owner)
        assert (answer["done"], answer["skipped"]) == (done, skipped)
        assert answer["amount"] == sum(self.daily[dt][1] for dt in done) == plan["amount"]

    @rule(ends=ranges, owner=owners)
    def claim(self, ends: tuple[int, int], owner: str) -> None:
        answer = self.backfill.claim(between(ends), owner)

        for dt in between(ends):
            self.claims.setdefault(dt, owner)
        assert answer["claimed"] == [dt for dt in between(ends) if self.claims[dt] == owner]
        assert answer["denied"] == [[dt, self.claims[dt]] for dt in between(ends) if self.claims[dt] != owner]

    @rule(ends=ranges, owner=owners)
    def release(self, ends: tuple[int, int], owner: str) -> None:
        answer = self.backfill.release(between(ends), owner)

        freed = [dt for dt in between(ends) if self.claims.get(dt) == owner]
        for dt in freed:
            del self.claims[dt]
        assert answer["released"] == freed

    @rule(day=st.integers(0, 6))
    def seal(self, day: int) -> None:
        self.backfill.seal(between((day, day)))
        self.seals.add(DTS[day])

    @rule(day=st.integers(0, 6))
    def amend(self, day: int) -> None:
        dt = DTS[day]
        if dt not in self.seals:
            try:
                self.backfill.amend(date.fromisoformat(dt), "why")
            except NotSealedError:
                return
            raise AssertionError("amended a date that is not sealed")
        if dt in self.files:
            self.backfill.amend(date.fromisoformat(dt), "why")
            orders, amount, _ = self.daily.get(dt, (0, 0, ""))
            self.corrections.append((dt, orders, amount, len(self.files[dt]), sum(self.files[dt]), "why"))

    @rule()
    def rollup(self) -> None:
        answer = self.backfill.rollup()

        assert answer["order_total"] == sum(orders for orders, _, _ in self.daily.values())
        assert answer["amount_total"] == sum(amount for _, amount, _ in self.daily.values())

    @invariant()
    def the_store_is_what_the_model_says(self) -> None:
        with self.store.reading() as tables:
            assert list(tables.published(EVER)) == [(dt, *self.daily[dt]) for dt in sorted(self.daily)]
            assert tables.holders(EVER) == self.claims
            assert tables.sealed(EVER) == self.seals
            assert sorted(tables.corrections(EVER)) == sorted(self.corrections)


TestStoreAgainstModel = StoreAgainstModel.TestCase
TestStoreAgainstModel.settings = settings(deadline=None, max_examples=20, stateful_step_count=25)

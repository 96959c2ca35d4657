"""Whatever runs and the runner do to claims, the two tables say the same, and nobody loses what is theirs."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from backfill_core import Backfill, DateRange, create_store, open_store
from backfill_core.claims import ATTEMPT, RESERVATION, Caller, Claim
from backfill_core.partition import EVER

DTS = list(DateRange.parse("2024-02-28", "2024-03-01"))
RUNS = ("daily/morning", "daily/evening")
PEOPLE = ("anna", "ben")

ranges = st.tuples(st.integers(0, 2), st.integers(0, 2)).map(
    lambda ends: DateRange.parse(DTS[min(ends)], DTS[max(ends)])
)
callers = st.builds(
    Caller,
    st.sampled_from(RUNS),
    st.sampled_from(["replace", "claim"]),
    st.just(-1),
    st.integers(1, 3),
    st.sampled_from(["", *PEOPLE, *RUNS]),
)


class Claims(RuleBasedStateMachine):
    """A store, and beside it what each person reserved by the runner and which claims were taken."""

    @initialize()
    def open(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        db = str(Path(self.folder.name) / "state.db")
        create_store(db)
        self.store = open_store(db)
        self.backfill = Backfill(self.store)
        self.reserved: dict[str, str] = {}
        self.taken: dict[str, tuple[Caller, str]] = {}

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()

    def held(self) -> dict[str, str]:
        with self.store.reading() as tables:
            return tables.holders(EVER)

    def standing(self) -> dict[str, list[Claim]]:
        found = defaultdict(list)
        for claim in self.backfill.standing_claims():
            found[claim.key].append(claim)
        return dict(found)

    @rule(dates=ranges, person=st.sampled_from(PEOPLE))
    def a_person_reserves(self, dates: DateRange, person: str) -> None:
        was = self.held()
        for dt in self.backfill.claim(dates, person)["claimed"]:
            assert was.get(dt, person) == person
            self.reserved[dt] = person

    @rule(dates=ranges, owner=st.sampled_from([*PEOPLE, *RUNS]))
    def somebody_releases_by_name(self, dates: DateRange, owner: str) -> None:
        for dt in self.backfill.release(dates, owner)["released"]:
            self.reserved.pop(dt, None)

    @rule(dates=ranges, caller=callers, kind=st.sampled_from([RESERVATION, ATTEMPT]))
    def a_run_takes(self, dates: DateRange, caller: Caller, kind: str) -> None:
        before = self.standing()

        taken = self.backfill.take(dates, caller, kind)

        if taken.claim is None:
            assert all(dt in before for dt in taken.denied), "a free date keeps nobody out"
            assert self.standing() == before, "who is kept out changes nothing"
            return
        self.taken[taken.claim] = (caller, kind)
        after = self.standing()
        for dt in dates:
            assert taken.claim in [claim.id for claim in after[dt]]
            assert taken.owners[dt] == self.reserved.get(dt, caller.run)
        gone = {c.id for cs in before.values() for c in cs} - {c.id for cs in after.values() for c in cs}
        for by, its_kind in map(self.taken.__getitem__, gone - {""}):
            assert (by[:3], its_kind) == (caller[:3], kind), "only the same task is overtaken"
            assert by.try_number <= caller.try_number

    @rule(which=st.integers(0, 30))
    def a_claim_is_given_back(self, which: int) -> None:
        if not self.taken:
            return
        claim_id = list(self.taken)[which % len(self.taken)]
        before = self.standing()

        given_back = self.backfill.give_back(claim_id)

        assert given_back == [dt for dt, claims in before.items() if claim_id in [claim.id for claim in claims]]
        left = {dt: [claim.id for claim in claims if claim.id != claim_id] for dt, claims in before.items()}
        after = {dt: [claim.id for claim in claims] for dt, claims in self.standing().items()}
        assert after == {dt: ids for dt, ids in left.items() if ids}

    @invariant()
    def the_tables_agree(self) -> None:
        if not hasattr(self, "store"):
            return
        held, standing = self.held(), self.standing()
        assert held.keys() == standing.keys(), "a date is held exactly while a claim is on it"
        for dt, claims in standing.items():
            assert {claim.owner for claim in claims} == {held[dt]}
            assert len({claim.run for claim in claims if claim.run}) <= 1, "two runs are inside together"
            assert len([claim for claim in claims if claim.kind == ATTEMPT]) <= 1

    @invariant()
    def what_a_person_reserved_stays_hers(self) -> None:
        if hasattr(self, "store"):
            held = self.held()
            assert {dt: held.get(dt) for dt in self.reserved} == self.reserved


TestClaims = Claims.TestCase
TestClaims.settings = settings(deadline=None, max_examples=60, stateful_step_count=25)

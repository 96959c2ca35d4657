"""Who may enter a key: the rules, one case each; and what must hold of them whatever is asked in whatever order."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.claims import ATTEMPT, RESERVATION, Caller, Claim, enter, holds

MORNING, EVENING = "daily/morning", "daily/evening"


@dataclass
class Key:
    """One key and the claims on it, as a ledger keeps them."""

    claims: list[Claim] = field(default_factory=list)
    asked: int = 0

    def take(self, caller: Caller, kind: str = ATTEMPT) -> str | None:
        """Enter, and return the claim's id; None if somebody keeps the caller out."""
        entry = enter(self.claims, caller, kind)
        if entry.held_by is not None:
            return None
        self.asked += 1
        claim_id = f"claim {self.asked}"
        self.claims = [claim for claim in self.claims if claim not in entry.overtaken]
        self.claims.append(
            Claim(
                claim_id,
                "2026-02-01",
                entry.owner,
                kind,
                caller.run,
                caller.task,
                caller.map_index,
                caller.try_number,
                entry.beneath,
            )
        )
        return claim_id

    def give_back(self, claim_id: str | None) -> None:
        self.claims = [claim for claim in self.claims if claim.id != claim_id]

    def holds(self, claim_id: str | None) -> bool:
        return claim_id is not None and holds(self.claims, claim_id)


def test_a_later_try_takes_over_and_the_earlier_holds_no_longer() -> None:
    key = Key()
    first = key.take(Caller(MORNING, "replace", try_number=1))

    second = key.take(Caller(MORNING, "replace", try_number=2))
    again = key.take(Caller(MORNING, "replace", try_number=1))

    assert not key.holds(first)
    assert key.holds(second)
    assert again is None


def test_a_try_that_is_started_twice_is_held_by_the_second() -> None:
    key = Key()
    first = key.take(Caller(MORNING, "replace"))

    second = key.take(Caller(MORNING, "replace"))

    assert (key.holds(first), key.holds(second)) == (False, True)


@pytest.mark.parametrize("other", [Caller(MORNING, "load"), Caller(MORNING, "replace", map_index=1), Caller(EVENING)])
def test_of_attempts_there_is_one_at_a_time(other: Caller) -> None:
    key = Key()
    first = key.take(Caller(MORNING, "replace"))

    assert key.take(other) is None
    assert key.holds(first)


def test_a_persons_reservation_lets_her_runs_in_one_after_the_other() -> None:
    key = Key()
    hers = key.take(Caller("", person="anna"), RESERVATION)

    first = key.take(Caller(MORNING, "replace", person="anna"))
    beside = key.take(Caller(EVENING, "replace", person="anna"))
    stranger = key.take(Caller(EVENING, "replace", person="ben"))
    key.give_back(first)
    then = key.take(Caller(EVENING, "replace", person="anna"))

    assert (beside, stranger) == (None, None)
    assert then is not None
    assert key.holds(hers)


def test_two_runs_of_one_person_who_reserved_nothing_keep_each_other_out() -> None:
    key = Key()
    first = key.take(Caller(MORNING, "replace", person="anna"))

    assert key.take(Caller(EVENING, "replace", person="anna")) is None
    assert key.claims[0].owner == MORNING
    assert key.holds(first)


def test_nobody_speaks_for_another_run() -> None:
    key = Key()
    key.take(Caller(MORNING, "claim"), RESERVATION)

    assert key.take(Caller(EVENING, "replace", person=MORNING)) is None


def test_an_attempt_beneath_a_reservation_falls_with_it() -> None:
    key = Key()
    reservation = key.take(Caller(MORNING, "claim"), RESERVATION)
    attempt = key.take(Caller(MORNING, "replace"))
    assert key.holds(attempt)

    key.give_back(reservation)

    assert not key.holds(attempt)


def test_of_two_reservations_of_one_run_each_stands_by_itself() -> None:
    for given_back in (0, 1):
        key = Key()
        reservations = [key.take(Caller(MORNING, task), RESERVATION) for task in ("claim_orders", "claim_visits")]
        attempt = key.take(Caller(MORNING, "replace"))

        key.give_back(reservations[given_back])

        assert key.holds(reservations[1 - given_back])
        assert key.holds(attempt)


def test_what_a_run_reserved_within_a_persons_reservation_falls_with_hers() -> None:
    key = Key()
    hers = key.take(Caller("", person="anna"), RESERVATION)
    within = key.take(Caller(MORNING, "claim", person="anna"), RESERVATION)
    attempt = key.take(Caller(MORNING, "replace", person="anna"))

    key.give_back(hers)

    assert not key.holds(within)
    assert not key.holds(attempt)


def test_the_holder_is_named_with_the_run_and_the_task_inside() -> None:
    key = Key()
    key.take(Caller("", person="anna"), RESERVATION)
    key.take(Caller(MORNING, "replace", try_number=2, person="anna"))

    assert [claim.holder for claim in key.claims] == ["anna", f"anna, {MORNING}, replace"]


people = st.sampled_from(["", "anna", "ben", MORNING])
callers = st.one_of(
    st.builds(Caller, st.just(""), person=st.sampled_from(["anna", "ben"]), owner=st.just("")),
    st.builds(
        Caller,
        st.sampled_from([MORNING, EVENING]),
        st.sampled_from(["replace", "load"]),
        st.sampled_from([-1, 0]),
        st.integers(1, 3),
        people,
        st.just(""),
    ),
)
steps = st.lists(
    st.one_of(
        st.tuples(callers, st.sampled_from([RESERVATION, ATTEMPT])),
        st.integers(1, 12),  # the claim of that number is given back
    ),
    max_size=30,
)


@given(steps)
def test_whatever_is_asked_nobody_is_beside_another(steps: list[tuple[Caller, str] | int]) -> None:
    key = Key()
    taken: dict[str, tuple[Caller, str]] = {}
    for step in steps:
        before = list(key.claims)
        if isinstance(step, int):
            key.give_back(f"claim {step}")
            assert [claim for claim in before if claim not in key.claims] == [
                c for c in before if c.id == f"claim {step}"
            ]
            continue
        caller, kind = step
        if not caller.run and kind == ATTEMPT:
            continue  # a person reserves; a run writes
        claim_id = key.take(caller, kind)
        if claim_id is None:
            assert before, "a free key keeps nobody out"
            assert key.claims == before, "who is kept out changes nothing"
            continue
        taken[claim_id] = step
        for gone in set(before) - set(key.claims):
            by, its_kind = taken[gone.id]
            assert by[:3] == caller[:3], "only the same task is overtaken"
            assert by.try_number <= caller.try_number
            assert its_kind == kind
            assert not key.holds(gone.id)
        _check(key, taken)


def _check(key: Key, taken: dict[str, tuple[Caller, str]]) -> None:
    runs = {claim.run for claim in key.claims if claim.run}
    people = {claim.owner for claim in key.claims if not claim.run}
    assert len(runs) <= 1, "two runs are inside together"
    assert len(people) <= 1, "two persons reserved one key"
    assert len([claim for claim in key.claims if claim.kind == ATTEMPT]) <= 1, "two attempts at once"
    for claim in key.claims:
        came_as = {caller.person for caller, _ in taken.values() if caller.run == claim.run}
        assert claim.owner in {claim.run, *came_as}
        if people and claim.run:
            assert people <= came_as, "a run is in a reservation of somebody in whose name it never came"

"""The claims of Airflow's runs on `daily`, beside the row in `claims`: the same for both databases."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from backfill_core import Backfill, EventFolder, StoreError, create_store, open_store
from backfill_core.claims import ATTEMPT, RESERVATION, Caller
from backfill_core.errors import ClaimLostError
from tests.store.crowd import together
from tests.world import World, day, days

if TYPE_CHECKING:
    from backfill_core.attempts import Taken
    from tests.servers import Postgres

MORNING, EVENING = "daily/morning", "daily/evening"
REPLACE = Caller(MORNING, "replace")


def ledger(world: World) -> list[tuple[str, str, str]]:
    """Return date, owner and task of each claim of a run that counts."""
    with world.backfill() as backfill:
        return [(claim.key, claim.owner, claim.task) for claim in backfill.standing_claims() if claim.run]


def test_a_try_holds_its_date_while_it_writes_and_leaves_nothing(world: World) -> None:
    world.put(day(0), 1, 2)

    with world.backfill() as backfill:
        taken = backfill.take(days(1), REPLACE, ATTEMPT)
        held = world.rows("claims"), ledger(world)
        answer = backfill.run(days(1), MORNING, claim=taken.claim)
        backfill.give_back(claim_of(taken))

    assert held == ([(day(0), MORNING)], [(day(0), MORNING, "replace")])
    assert answer["done"] == [day(0)]
    assert (world.rows("claims"), ledger(world)) == ([], [])
    assert world.daily() == {day(0): (2, 3, MORNING)}


def claim_of(taken: Taken) -> str:
    assert taken.claim is not None, taken.denied
    return taken.claim


def test_an_earlier_try_that_wakes_up_writes_nothing_and_frees_nothing(world: World) -> None:
    world.put(day(0), 1)
    with world.backfill() as backfill:
        first = backfill.take(days(1), REPLACE, ATTEMPT)
        second = backfill.take(days(1), REPLACE._replace(try_number=2), ATTEMPT)

        woken = backfill.run(days(1), MORNING, claim=first.claim)
        freed = backfill.give_back(claim_of(first))

        assert woken["skipped"] == [[day(0), f"claim_lost:{MORNING}, replace, try 2"]]
        assert freed == []
        assert world.daily() == {}
        assert backfill.run(days(1), MORNING, claim=second.claim)["done"] == [day(0)]


def test_a_claim_that_was_given_back_covers_no_write_though_the_date_is_free(world: World) -> None:
    world.put(day(0), 1)
    with world.backfill() as backfill:
        taken = backfill.take(days(1), REPLACE, ATTEMPT)
        backfill.give_back(claim_of(taken))

        answer = backfill.run(days(1), MORNING, claim=taken.claim)

    assert answer["skipped"] == [[day(0), "claim_lost:"]]
    assert world.daily() == {}


def test_a_claim_that_is_lost_while_the_file_is_read_writes_nothing(world: World) -> None:
    world.put(day(0), *range(10))
    with world.backfill() as backfill, world.backfill() as other:
        taken = backfill.take(days(1), REPLACE, ATTEMPT)
        asked: list[object] = []

        def overtake() -> bool:
            if not asked:
                asked.append(other.take(days(1), REPLACE._replace(try_number=2), ATTEMPT))
            return False

        answer = backfill.run(days(1), MORNING, claim=taken.claim, stop=overtake)

    assert asked
    assert answer["skipped"] == [[day(0), f"claim_lost:{MORNING}, replace, try 2"]]
    assert world.daily() == {}


def test_a_write_falls_with_the_reservation_it_stands_under(world: World) -> None:
    world.put(day(0), 1)
    with world.backfill() as backfill:
        reservation = backfill.take(days(3), Caller(MORNING, "claim"), RESERVATION)
        attempt = backfill.take(days(1), REPLACE, ATTEMPT)

        backfill.give_back(claim_of(reservation))

        assert backfill.run(days(1), MORNING, claim=attempt.claim)["skipped"] == [[day(0), "claim_lost:"]]
        # The date isn't free before the try has given up what it does beside the store.
        assert world.rows("claims") == [(day(0), MORNING)]
        again = backfill.take(days(1), Caller(MORNING, "claim", try_number=2), RESERVATION)
        assert backfill.run(days(1), MORNING, claim=attempt.claim)["skipped"] == [[day(0), f"claim_lost:{MORNING}"]]
        backfill.give_back(claim_of(again))
        backfill.give_back(claim_of(attempt))
    assert (world.daily(), world.rows("claims")) == ({}, [])


def test_a_reservation_outlives_the_tries_and_the_other_reservations_in_it(world: World) -> None:
    with world.backfill() as backfill:
        orders = backfill.take(days(3), Caller(MORNING, "claim_orders"), RESERVATION)
        visits = backfill.take(days(2), Caller(MORNING, "claim_visits"), RESERVATION)
        attempt = backfill.take(days(1), REPLACE, ATTEMPT)

        backfill.give_back(claim_of(attempt))
        given_back = backfill.give_back(claim_of(orders))

        assert given_back == [day(0), day(1), day(2)]
        assert world.rows("claims") == [(day(0), MORNING), (day(1), MORNING)]
        assert backfill.give_back(claim_of(visits)) == [day(0), day(1)]
    assert world.rows("claims") == []


def test_a_persons_reservation_lets_her_runs_in_and_outlives_them(world: World) -> None:
    world.put(day(0), 1)
    with world.backfill() as backfill:
        backfill.claim(days(1), "anna")
        hers = backfill.take(days(2), REPLACE._replace(person="anna"), ATTEMPT)
        beside = backfill.take(days(1), Caller(EVENING, "replace", person="anna"), ATTEMPT)
        strange = backfill.take(days(1), Caller(EVENING, "replace"), ATTEMPT)

        assert hers.owners == {day(0): "anna", day(1): MORNING}
        assert strange.denied == {day(0): "anna"}
        assert beside.denied == {day(0): f"anna, {MORNING}, replace"}
        assert backfill.run(days(1), "anna", claim=hers.claim)["done"] == [day(0)]
        backfill.give_back(claim_of(hers))
    assert world.rows("claims") == [(day(0), "anna")]


def test_when_a_person_takes_her_reservation_away_her_run_writes_no_more(world: World) -> None:
    world.put(day(0), 1)
    with world.backfill() as backfill:
        backfill.claim(days(1), "anna")
        hers = backfill.take(days(1), REPLACE._replace(person="anna"), ATTEMPT)

        backfill.release(days(1), "anna")
        backfill.claim(days(1), "ben")

        assert backfill.run(days(1), "anna", claim=hers.claim)["skipped"] == [[day(0), "claim_lost:ben"]]
        assert backfill.give_back(claim_of(hers)) == []
    assert world.rows("claims") == [(day(0), "ben")]


def test_no_run_speaks_for_another_and_a_range_is_taken_whole_or_not_at_all(world: World) -> None:
    with world.backfill() as backfill:
        backfill.take(days(1, start=1), REPLACE, ATTEMPT)
        before = world.rows("claims"), ledger(world)

        denied = backfill.take(days(3), Caller(EVENING, "claim", person=MORNING), RESERVATION)

    assert (denied.claim, denied.denied) == (None, {day(1): f"{MORNING}, replace"})
    assert (world.rows("claims"), ledger(world)) == before


def test_what_the_runner_released_by_name_is_free_and_its_claims_count_no_more(world: World) -> None:
    world.put(day(0), 1)
    with world.backfill() as backfill:
        lost = backfill.take(days(1), REPLACE, ATTEMPT)
        assert world.run("release", day(0), day(0), MORNING)[1]["released"] == [day(0)]

        taken = backfill.take(days(1), Caller(EVENING, "replace"), ATTEMPT)

        assert ledger(world) == [(day(0), EVENING, "replace")]
        answer = backfill.run(days(1), MORNING, claim=lost.claim)
        assert answer["skipped"] == [[day(0), f"claim_lost:{EVENING}, replace, try 1"]]
        assert backfill.run(days(1), EVENING, claim=taken.claim)["done"] == [day(0)]

        backfill.give_back(claim_of(taken))
        backfill.claim(days(1), MORNING)
        assert backfill.run(days(1), MORNING, claim=lost.claim)["skipped"] == [[day(0), f"claim_lost:{MORNING}"]]


def test_a_claim_that_the_runner_was_told_in_the_runs_name_is_the_runs_own(world: World) -> None:
    with world.backfill() as backfill:
        world.run("claim", day(0), day(0), MORNING)

        other = backfill.take(days(1), Caller(EVENING, "replace"), ATTEMPT)
        own = backfill.take(days(1), REPLACE, ATTEMPT)

        assert other.denied == {day(0): MORNING}
        assert backfill.run(days(1), MORNING, claim=own.claim)["skipped"] == [[day(0), "no_data"]]
        world.put(day(0), 1)
        assert backfill.run(days(1), MORNING, claim=own.claim)["done"] == [day(0)]
        backfill.give_back(claim_of(own))
    assert world.rows("claims") == []


def test_a_run_claims_in_its_own_name_whatever_else_it_would_like_to_be_called(world: World) -> None:
    with world.backfill() as backfill:
        taken = backfill.take(days(1), REPLACE._replace(owner="a script"), ATTEMPT)

        assert taken.owners == {day(0): MORNING}
        assert backfill.give_back(claim_of(taken)) == [day(0)]
    assert world.rows("claims") == []


def test_a_person_reserves_by_the_runners_own_row_alone(world: World) -> None:
    with world.backfill() as backfill, pytest.raises(ValueError, match="a person reserves with `claim`"):
        backfill.take(days(1), Caller("", person="anna"), RESERVATION)

    assert world.rows("claims") == []


def test_a_later_try_ends_the_earlier_ones_claim_on_all_its_dates(world: World) -> None:
    with world.backfill() as backfill:
        claiming = Caller(MORNING, "claim")
        backfill.take(days(3), claiming, RESERVATION)
        attempt = backfill.take(days(1, start=2), REPLACE, ATTEMPT)

        backfill.take(days(1, start=1), claiming._replace(try_number=2), RESERVATION)

        assert world.rows("claims") == [(day(1), MORNING), (day(2), MORNING)]
        backfill.take(days(1, start=2), Caller(MORNING, "claim_too"), RESERVATION)
        world.put(day(2), 1)
        answer = backfill.run(days(1, start=2), MORNING, claim=attempt.claim)
    assert answer["skipped"] == [[day(2), f"claim_lost:{MORNING}"]]


def test_what_a_run_reserved_is_given_back_by_task_and_range_and_what_others_hold_stays(world: World) -> None:
    with world.backfill() as backfill:
        backfill.claim(days(1, start=4), "anna")
        backfill.claim(days(1, start=6), MORNING)
        backfill.take(days(3), Caller(MORNING, "claim"), RESERVATION)
        backfill.take(days(3), Caller(MORNING, "claim_too"), RESERVATION)
        backfill.take(days(1, start=5), Caller(EVENING, "claim"), RESERVATION)

        attempt = backfill.take(days(1), REPLACE, ATTEMPT)
        by_task = backfill.give_back_reserved(days(9), MORNING, task="claim")
        by_range = backfill.give_back_reserved(days(2), MORNING)
        hers = backfill.give_back_reserved(days(7, start=3), MORNING, person="anna")
        of_another_run = backfill.give_back_reserved(days(7), MORNING, person=EVENING)
        assert world.rows("claims")[0] == (day(0), MORNING), "an attempt is no reservation"
        backfill.give_back(claim_of(attempt))

    assert by_task == [day(0), day(1), day(2)]
    assert by_range == [day(0), day(1)]
    assert hers == [day(4), day(6)]
    assert of_another_run == [day(2)]
    assert world.rows("claims") == [(day(5), EVENING)]


def test_a_correction_demands_its_claim(world: World) -> None:
    world.put(day(0), 1)
    with world.backfill() as backfill:
        backfill.seal(days(1))
        first = backfill.take(days(1), REPLACE, ATTEMPT)
        second = backfill.take(days(1), REPLACE._replace(try_number=2), ATTEMPT)

        with pytest.raises(
            ClaimLostError, match=f"{day(0)}: the claim .* {MORNING}, replace, try 2 holds the date now"
        ):
            backfill.amend(days(1).first, "late", claim=first.claim)
        backfill.amend(days(1).first, "late", claim=second.claim)

    assert len(world.rows("corrections")) == 1


def test_looking_makes_no_table_and_the_first_claim_makes_one(world: World) -> None:
    with world.backfill() as backfill, open_store(world.db) as store:
        backfill.claim(days(1), "anna")

        looked = backfill.denied(days(2), REPLACE, ATTEMPT), backfill.standing_claims()
        with store.reading() as tables:
            assert not tables.has("ledger_claims")
        backfill.take(days(1, start=1), REPLACE, ATTEMPT)

        assert looked[0] == {day(0): "anna"}
        with store.reading() as tables:
            assert tables.has("ledger_claims")


def test_a_plan_for_a_run_knows_the_claims_it_may_enter(world: World) -> None:
    world.put(day(0), 1)
    with world.backfill() as backfill:
        backfill.claim(days(1), "anna")
        caller = REPLACE._replace(person="anna")

        hers = backfill.plan(days(1), "anna", caller)["partitions"]
        other = backfill.plan(days(1), EVENING, Caller(EVENING, "plan"))["partitions"]

    assert [(row["action"], row["reason"]) for row in (*hers, *other)] == [
        ("change", "new"),
        ("skipped", "claimed_by:anna"),
    ]


def test_a_role_that_may_make_no_table_is_told_the_cure_and_writes_nothing(
    postgres_world: World, postgres: Postgres
) -> None:
    schema = postgres_world.db.rpartition("=")[2]
    role = postgres.new_role()
    for grant in ("USAGE ON SCHEMA {}", "SELECT, INSERT, DELETE ON ALL TABLES IN SCHEMA {}"):
        postgres.sql(f"GRANT {grant.format(schema)} TO {role}")
    db = postgres.as_role(role, postgres_world.db)

    with open_store(db) as store, pytest.raises(StoreError, match=r"no table ledger_claims.*`backfill init`"):
        Backfill(store).take(days(1), REPLACE, ATTEMPT)
    with open_store(postgres_world.db) as store:
        store.make_ledger()
    postgres.sql(f"GRANT SELECT, INSERT, DELETE ON {schema}.ledger_claims TO {role}")

    assert postgres_world.rows("claims") == []
    with open_store(db) as store:
        store.make_ledger()
        assert Backfill(store).take(days(1), REPLACE, ATTEMPT).claim


def test_the_runners_own_init_makes_no_sixth_table(world: World) -> None:
    create_store(world.db)

    with open_store(world.db) as store, store.reading() as tables:
        assert not tables.has("ledger_claims")


# Many processes


def take_turns(number: int, db: str, folder: str, times: int) -> int:
    """As a run of its own, be inside as often as others let us; while inside, nobody else is."""
    dice, entered, inside = random.Random(number), 0, False
    with open_store(db) as store:
        backfill = Backfill(store, EventFolder(folder))
        for turn in range(times):
            caller = Caller(f"daily/run {number}", "replace", try_number=turn + 1, person="anna")
            taken = backfill.take(days(1), caller, ATTEMPT)
            if taken.claim is None:
                continue
            if not inside:
                Path(folder, "inside").touch(exist_ok=False)
            inside = True
            [owner] = taken.owners.values()
            answer = backfill.run(days(1), owner, claim=taken.claim)
            assert answer["done"] == [day(0)], answer
            if dice.random() < 0.8:  # else a later try of ours overtakes it
                Path(folder, "inside").unlink()
                inside = False
                assert backfill.give_back(taken.claim) == [day(0)]
            entered += 1
        if inside:
            Path(folder, "inside").unlink()
        for claim in backfill.standing_claims():
            if claim.run == caller.run:
                backfill.give_back(claim.id)
    return entered


@pytest.mark.parametrize("reserved_by", ["", "anna"])
def test_of_many_runs_one_is_inside_and_its_claim_always_covers_its_write(world: World, reserved_by: str) -> None:
    world.put(day(0), 1)
    with world.backfill() as backfill:
        if reserved_by:
            backfill.claim(days(1), reserved_by)

    entered = together(8, take_turns, world.db, str(world.events), 25)

    assert sum(entered) > 0
    assert world.rows("claims") == ([(day(0), reserved_by)] if reserved_by else [])
    assert ledger(world) == []


class Try(NamedTuple):
    """What one try of a task saw: when it began and had taken its claim, when it began to write, whether it did."""

    number: int
    begin: int
    taken: int
    write: int
    wrote: bool


def try_to_correct(number: int, db: str, folder: str) -> Try | None:
    """As try `number` of one task, take the claim, wait a little, and record a correction under it."""
    dice = random.Random(number)
    time.sleep(dice.random() / 10)  # in any order; nothing is waited for
    with open_store(db) as store:
        backfill = Backfill(store, EventFolder(folder))
        begin = time.monotonic_ns()
        claim = backfill.take(days(1), Caller(MORNING, "amend", try_number=number), ATTEMPT).claim
        if claim is None:
            return None
        taken = time.monotonic_ns()
        time.sleep(dice.random() / 20)
        write = time.monotonic_ns()
        try:
            backfill.amend(days(1).first, f"try {number}", claim=claim)
        except ClaimLostError:
            return Try(number, begin, taken, write, wrote=False)
        return Try(number, begin, taken, write, wrote=True)


def test_a_try_that_was_overtaken_before_it_wrote_wrote_nothing(world: World) -> None:
    world.put(day(0), 1)
    with world.backfill() as backfill:
        backfill.seal(days(1))

    tries = [seen for seen in together(12, try_to_correct, world.db, str(world.events)) if seen]

    reasons = [row[5] for row in world.rows("corrections")]
    assert sorted(reasons) == sorted(f"try {seen.number}" for seen in tries if seen.wrote)
    for seen in tries:
        overtaken = [other for other in tries if seen.taken < other.begin and other.taken < seen.write]
        assert not (seen.wrote and overtaken), (seen, overtaken)
    last = max(tries, key=lambda seen: seen.number)
    assert last.wrote

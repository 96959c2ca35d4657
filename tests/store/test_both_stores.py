"""What a store promises, the same for both databases."""

from __future__ import annotations

from contextlib import suppress

import pytest

from backfill_core import NotSealedError, StoreError, UsageError, create_store, open_store
from tests.world import World, day, days

AWKWARD = [
    'it\'s "quoted"; DROP TABLE daily; --',
    "line one\nline two\r\n\ttabbed",
    "مرحبا ‮ right to left",
    "%(owner)s %s :owner $1 \\ {} 😀",
    "x" * (1 << 20),
]


def test_making_a_store_again_leaves_it_alone(world: World) -> None:
    world.put(day(0), 3, -1)
    with world.backfill() as backfill:
        backfill.run(days(1), "a")
    before = world.dump()

    made = create_store(world.db)

    assert made == ["daily", "rollup", "claims", "seals", "corrections"]
    assert world.dump() == before


def test_a_run_replaces_a_partition_whole(world: World) -> None:
    world.put(day(0), 1, 2)
    world.put(day(1), 5)

    with world.backfill() as backfill:
        backfill.run(days(2), "first")
        world.put(day(0), 1, 2, 4)
        answer = backfill.run(days(3), "second")

    assert answer == {
        "owner": "second",
        "done": [day(0), day(1)],
        "skipped": [[day(2), "no_data"]],
        "orders": 4,
        "amount": 12,
    }
    assert world.daily() == {day(0): (3, 7, "second"), day(1): (1, 5, "second")}


def test_the_ends_of_64_bits_are_kept_exactly(world: World) -> None:
    world.put(day(0), 2**63 - 1)
    world.put(day(1), -(2**63))

    with world.backfill() as backfill:
        backfill.run(days(2), "a")
        totals = backfill.rollup()

    assert world.daily() == {day(0): (1, 2**63 - 1, "a"), day(1): (1, -(2**63), "a")}
    assert totals == {"mode": "derive", "order_total": 2, "amount_total": -1}


def test_a_total_beyond_64_bits_is_refused_and_the_old_one_kept(world: World) -> None:
    world.put(day(0), 2**63 - 1)
    with world.backfill() as backfill:
        backfill.run(days(1), "a")
        backfill.rollup()
        world.put(day(1), 1)
        backfill.run(days(2), "a")

        with pytest.raises(StoreError):
            backfill.rollup()

    assert world.rows("rollup") == [("amount_total", 2**63 - 1), ("order_total", 1)]


def test_free_dates_are_claimed_and_others_are_told(world: World) -> None:
    with world.backfill() as backfill:
        backfill.claim(days(2, start=1), "a")

        answer = backfill.claim(days(4), "b")

    assert answer == {"owner": "b", "claimed": [day(0), day(3)], "denied": [[day(1), "a"], [day(2), "a"]]}
    assert world.rows("claims") == [(day(0), "b"), (day(1), "a"), (day(2), "a"), (day(3), "b")]


def test_only_ones_own_claims_are_released(world: World) -> None:
    with world.backfill() as backfill:
        backfill.claim(days(1), "a")
        backfill.claim(days(3), "b")

        answer = backfill.release(days(3), "b")

    assert answer == {"owner": "b", "released": [day(1), day(2)]}
    assert world.rows("claims") == [(day(0), "a")]


def test_a_sealed_partition_keeps_its_value_and_gets_its_corrections_in_order(world: World) -> None:
    world.put(day(0), 1)
    with world.backfill() as backfill:
        backfill.run(days(1), "a")
        backfill.seal(days(1))
        backfill.seal(days(1))
        for amount in range(2, 30):
            world.put(day(0), 1, amount)
            backfill.amend(days(1).first, f"{amount} came late")
        skipped = backfill.run(days(1), "a")["skipped"]
        [line] = backfill.statement(days(1))["partitions"]

    assert skipped == [[day(0), "sealed"]]
    assert world.rows("seals") == [(day(0),)]
    assert world.daily() == {day(0): (1, 1, "a")}
    assert world.rows("corrections") == [
        (day(0), 1, 1, 2, 1 + amount, f"{amount} came late") for amount in range(2, 30)
    ]
    assert (line["amount_published"], line["amount_corrected"], line["corrections"]) == (1, 30, 28)


def test_what_was_never_sealed_is_not_amended(world: World) -> None:
    with world.backfill() as backfill, pytest.raises(NotSealedError):
        backfill.amend(days(1).first, "late")


def test_rollup_add_adds_again_and_rollup_derives(world: World) -> None:
    world.put(day(0), 7)
    with world.backfill() as backfill:
        backfill.run(days(1), "a")
        backfill.rollup_add(days(1))

        added = backfill.rollup_add(days(1))
        derived = backfill.rollup()

    assert (added["order_total"], added["amount_total"]) == (2, 14)
    assert (derived["order_total"], derived["amount_total"]) == (1, 7)


@pytest.mark.parametrize("text", AWKWARD, ids=lambda text: ascii(text[:20]))
def test_any_owner_and_reason_is_kept_as_given(world: World, text: str) -> None:
    world.put(day(0), 1)

    with world.backfill() as backfill:
        claim = backfill.claim(days(1), text)
        backfill.run(days(1), text)
        backfill.seal(days(1))
        backfill.amend(days(1).first, text)
        [line] = backfill.statement(days(1))["partitions"]
        denied = backfill.claim(days(1), "other")["denied"]
        released = backfill.release(days(1), text)["released"]

    assert claim["claimed"] == released == [day(0)]
    assert denied == [[day(0), text]]
    assert world.daily()[day(0)] == (1, 1, text)
    assert line["reason"] == text


@pytest.mark.parametrize("text", ["", " \n", "a\0b", "half \ud800"])
def test_text_that_no_database_keeps_is_refused_in_a_sentence(world: World, text: str) -> None:
    with world.backfill() as backfill, pytest.raises(UsageError, match="owner"):
        backfill.claim(days(1), text)

    assert world.rows("claims") == []


def test_a_block_that_raises_leaves_nothing(world: World) -> None:
    before = world.dump()

    with open_store(world.db) as store, suppress(ZeroDivisionError), store.writing() as tables:
        tables.replace(day(0), 1, 1, "a")
        tables.seal(days(3))
        tables.claim(days(3), "a")
        raise ZeroDivisionError

    assert world.dump() == before


def test_a_store_goes_on_after_a_block_that_raised(world: World) -> None:
    world.put(day(0), 1)

    with open_store(world.db) as store:
        for transaction in (store.reading, store.writing):
            with suppress(ZeroDivisionError), transaction():
                raise ZeroDivisionError
        with store.writing() as tables:
            tables.seal(days(1))

    assert world.rows("seals") == [(day(0),)]


def test_a_readers_moment_does_not_move(world: World) -> None:
    with open_store(world.db) as reader, open_store(world.db) as writer, reader.reading() as seen:
        before = list(seen.published(days(1)))
        with writer.writing() as tables:
            tables.replace(day(0), 1, 1, "a")

        after = list(seen.published(days(1)))

    assert before == after == []


def test_a_writer_sees_what_was_committed_while_it_waited(world: World) -> None:
    with open_store(world.db) as first, open_store(world.db) as second:
        counts = []
        for number in range(20):
            store = first if number % 2 else second
            with store.writing() as tables:
                counts.append(len(tables.sealed(days(20))))
                tables.seal(days(1, start=number))

    assert counts == list(range(20))


def test_a_year_is_claimed_and_released_whole(world: World) -> None:
    with world.backfill() as backfill:
        claimed = backfill.claim(days(366), "a")["claimed"]
        released = backfill.release(days(366), "a")["released"]

    assert claimed == released == list(days(366))

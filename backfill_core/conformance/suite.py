"""The tests themselves; `from backfill_core.conformance.suite import *` in a test module of yours brings them.

They need a fixture `bench`, a `Bench` over an empty place. The sentences of errors are the target's own, their kinds
are not.
"""

from __future__ import annotations

import itertools
import secrets
from contextlib import contextmanager, suppress
from functools import wraps
from typing import TYPE_CHECKING, Any

import pytest

from backfill_core.claims import Caller
from backfill_core.conformance.bench import DAY, FOURTH, LEDGER, NEXT, THIRD, Bench, expected, orders_on, rows_of
from backfill_core.conformance.stepping import At, Died, Dies, stepped
from backfill_core.errors import BackfillError, ChangedError, FencedError, FenceTimeoutError, HeldError
from backfill_core.guarded import Guarded
from backfill_core.ledger.opening import open_ledger
from backfill_core.target import Expected, Fence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from backfill_core.answers import WriteAnswer
    from backfill_core.claims import Claim


def needs(capability: str, grain: str = "day") -> Callable[[Callable[[Bench], None]], Callable[[Bench], None]]:
    """Leave a test out where the profile says that the target can't do that."""

    def only(test: Callable[[Bench], None]) -> Callable[[Bench], None]:
        @wraps(test)
        def run(bench: Bench) -> None:
            if grain not in bench.profile.grains:
                pytest.skip(f"the profile says that this target has no partitions of the grain {grain}")
            if not getattr(bench.profile, capability):
                pytest.skip(f"the profile says that this target has no {capability}")
            test(bench)

        return run

    return only


# The target alone


def test_a_select_takes_the_place_of_a_partition_and_its_neighbours_stay(bench: Bench) -> None:
    bench.make()
    bench.fill("orders", *orders_on(DAY, 5, 6), *orders_on(NEXT, 7, first=8))
    bench.fill("source", *orders_on(DAY, 10, 20, 30), *orders_on(NEXT, 99, first=9))
    target = bench.target()

    with bench.written(target, DAY) as (write, audited):
        write.publish({DAY: Expected(1, None)}, "t1", LEDGER)

    assert audited.partitions[DAY].measures == {"orders": "3", "amount": "60"}
    assert audited.before[DAY].measures == {"orders": "2", "amount": "11"}
    assert (audited.strange, audited.keyless, audited.repeated) == ((0, ""), (0, ""), (0, ""))
    assert [(dt, amount) for _, dt, amount in bench.orders()] == [(DAY, 10), (DAY, 20), (DAY, 30), (NEXT, 7)]
    side = target.look([DAY])[DAY]
    assert (side.token, side.fence, side.mark, side.ledger) == ("t1", 1, None, LEDGER)


def test_nobody_sees_a_write_before_it_is_published_nor_after_it_was_given_up(bench: Bench) -> None:
    bench.make()
    bench.fill("orders", *orders_on(DAY, 5))
    bench.fill("source", *orders_on(DAY, 10, 20))
    target = bench.target()

    with bench.written(target, DAY):
        during = bench.orders()

    assert during == bench.orders() == [(1, DAY, 5)]
    assert target.look([DAY])[DAY].token is None


def test_rows_of_other_keys_of_none_and_repeats_are_counted_with_an_example(bench: Bench) -> None:
    bench.make()
    bench.fill("source", *orders_on(DAY, 1, 2), *orders_on(DAY, 3), (9, NEXT, 4, ""), (10, None, 5, ""))
    target = bench.target(unique=["order_id"])

    with bench.written(target, DAY, select=bench.everything) as (_, audited):
        pass

    assert rows_of(audited.partitions, DAY) == [3]
    assert (audited.strange[0], audited.keyless[0]) == (1, 1)
    assert audited.repeated[0] == 1
    assert "1" in audited.repeated[1]


def test_what_is_unique_in_a_partition_may_come_again_in_another(bench: Bench) -> None:
    bench.make()
    bench.fill("source", *orders_on(DAY, 1), *orders_on(NEXT, 2))
    target = bench.target(unique=["order_id"])

    with bench.written(target, DAY, NEXT) as (_, audited):
        pass

    assert audited.repeated == (0, "")


@needs("atomic_sets")
def test_a_set_of_keys_is_written_at_once_and_a_hole_in_it_stays(bench: Bench) -> None:
    bench.make()
    for number, day in enumerate((DAY, NEXT, THIRD, FOURTH)):
        bench.fill("orders", *orders_on(day, 1, first=number))
        bench.fill("source", *orders_on(day, 10 + number, first=number))
    target = bench.target()

    with bench.written(target, DAY, NEXT, FOURTH) as (write, audited):
        write.publish({key: Expected(1, None) for key in (DAY, NEXT, FOURTH)}, "t", LEDGER)

    assert rows_of(audited.partitions, DAY, NEXT, FOURTH) == [1, 1, 1]
    assert audited.strange == (0, "")
    assert [amount for _, _, amount in bench.orders()] == [10, 11, 1, 13]


@needs("atomic_sets")
def test_a_key_that_is_left_out_at_publish_keeps_its_rows_and_its_token(bench: Bench) -> None:
    bench.make()
    bench.fill("orders", *orders_on(DAY, 1), *orders_on(NEXT, 2, first=2))
    bench.fill("source", *orders_on(DAY, 10), *orders_on(NEXT, 20, first=2))
    target = bench.target()

    with bench.written(target, DAY, NEXT) as (write, _):
        write.publish({NEXT: Expected(1, None)}, "t", LEDGER)

    assert [amount for _, _, amount in bench.orders()] == [1, 20]
    assert [side.token for side in target.look([DAY, NEXT]).values()] == [None, "t"]


def test_a_partition_may_become_empty_and_what_nothing_sums_to_is_none(bench: Bench) -> None:
    bench.make()
    bench.fill("orders", *orders_on(DAY, 1))
    target = bench.target()

    bench.publish(target, DAY)

    assert bench.orders() == []
    assert target.measure([DAY], digest=False)[DAY].measures == {"orders": "0", "amount": None}


@pytest.mark.parametrize(
    ("wanted", "ledger"),
    [
        (Expected(1, None), LEDGER),
        (Expected(2, "another"), LEDGER),
        (Expected(2, None, "a seal"), LEDGER),
        (Expected(2, None), "another"),
    ],
)
def test_an_attempt_publishes_nothing_where_a_side_row_is_not_as_expected(
    bench: Bench, wanted: Expected, ledger: str
) -> None:
    bench.make()
    bench.fill("orders", *orders_on(DAY, 1))
    bench.fill("source", *orders_on(DAY, 10))
    target = bench.target()

    with bench.written(target, DAY, number=2) as (write, _), pytest.raises(FencedError) as refused:
        write.publish({DAY: wanted}, "t", ledger)

    assert refused.value.sides[DAY].fence == 2
    assert bench.orders() == [(1, DAY, 1)]
    assert target.look([DAY])[DAY].token is None


def test_an_attempt_publishes_nothing_under_a_seal(bench: Bench) -> None:
    bench.make()
    bench.fill("source", *orders_on(DAY, 10))
    target = bench.target()
    token = bench.publish(target, DAY)
    target.mark("seal", expected(target, DAY), LEDGER, 5)

    with bench.written(target, DAY) as (write, _), pytest.raises(FencedError):
        write.publish({DAY: Expected(1, token)}, "t", LEDGER)

    assert target.look([DAY])[DAY].token == token


def test_a_fence_makes_the_side_row_is_raised_and_never_lowered(bench: Bench) -> None:
    bench.make()
    target = bench.target()

    assert target.look([DAY]) == {}
    first = target.fence({DAY: Fence(3), NEXT: Fence(1)}, LEDGER, 5)
    again = target.fence({DAY: Fence(2), NEXT: Fence(2)}, LEDGER, 5)

    assert [side.fence for side in first.values()] == [3, 1]
    assert [side.fence for side in again.values()] == [3, 2]
    assert again == target.look([DAY, NEXT])


def test_a_fence_of_another_ledger_is_refused_whole_unless_it_had_that_name_before(bench: Bench) -> None:
    bench.make()
    target = bench.target()
    target.fence({DAY: Fence(3)}, LEDGER, 5)

    with pytest.raises(FencedError) as refused:
        target.fence({DAY: Fence(9), NEXT: Fence(9)}, "restored", 5)
    kept = target.look([DAY])[DAY]
    taken = target.fence({DAY: Fence(4)}, "restored", 5, former=frozenset({LEDGER}))[DAY]

    assert refused.value.sides[DAY].fence == 3
    assert (kept.fence, kept.ledger) == (3, LEDGER)
    assert (taken.fence, taken.ledger) == (4, "restored")


def test_a_mark_is_set_where_all_is_as_expected_and_may_be_set_again(bench: Bench) -> None:
    bench.make()
    target = bench.target()
    tokens = {key: bench.publish(target, key) for key in (DAY, NEXT)}
    wanted = {DAY: Expected(1, tokens[DAY]), NEXT: Expected(1, "another")}

    assert target.mark("seal", wanted, LEDGER, 5) == {DAY}
    assert target.mark("seal", wanted, LEDGER, 5) == {DAY}
    assert target.mark("another seal", wanted, LEDGER, 5) == frozenset()
    assert target.mark("seal", wanted, "another ledger", 5) == frozenset()
    assert [side.mark for side in target.look([DAY, NEXT]).values()] == ["seal", None]


def test_a_mark_is_taken_away_by_who_knows_it_and_a_late_sealer_cant_set_it_again(bench: Bench) -> None:
    bench.make()
    target = bench.target()
    token = bench.publish(target, DAY)
    target.mark("seal", {DAY: Expected(2, token)}, LEDGER, 5)

    assert target.mark(None, {DAY: Expected(3, token, "another")}, LEDGER, 5) == frozenset()
    assert target.mark(None, {DAY: Expected(3, token, "seal")}, LEDGER, 5) == {DAY}
    assert target.mark("seal", {DAY: Expected(2, token)}, LEDGER, 5) == frozenset()
    assert target.look([DAY])[DAY].mark is None


@needs("atomic_sets")
def test_rows_that_are_there_are_adopted_all_of_them_or_none(bench: Bench) -> None:
    bench.make()
    bench.fill("orders", *orders_on(DAY, 5, 6), *orders_on(NEXT, 7, first=8))
    target = bench.target()
    target.fence({DAY: Fence(1), NEXT: Fence(1)}, LEDGER, 5)
    measured = target.measure([DAY, NEXT], digest=True)

    with pytest.raises(FencedError):
        target.adopt("t", {DAY: Expected(1, None), NEXT: Expected(1, "another")}, measured, LEDGER)
    none = [side.token for side in target.look([DAY, NEXT]).values()]
    adopted = target.adopt("t", {DAY: Expected(1, None), NEXT: Expected(1, None)}, measured, LEDGER)

    sides = target.look([DAY, NEXT])
    assert none == [None, None]
    assert [side.token for side in sides.values()] == ["t", "t"]
    assert adopted == {key: side.published_at for key, side in sides.items()}
    assert bench.orders() == [(1, DAY, 5), (2, DAY, 6), (8, NEXT, 7)]


@needs("digest")
def test_rows_that_changed_after_they_were_measured_are_not_adopted(bench: Bench) -> None:
    bench.make()
    bench.fill("orders", *orders_on(DAY, 5, 6))
    target = bench.target()
    target.fence({DAY: Fence(1)}, LEDGER, 5)
    measured = target.measure([DAY], digest=True)
    bench.empty("orders")
    bench.fill("orders", *orders_on(DAY, 6, 5))  # the same sums, of other rows

    with pytest.raises(ChangedError):
        target.adopt("t", {DAY: Expected(1, None)}, measured, LEDGER)

    assert target.look([DAY])[DAY].token is None


def test_rows_without_a_key_that_are_there_are_counted(bench: Bench) -> None:
    bench.make()
    bench.fill("orders", *orders_on(DAY, 5), (2, None, 6, ""), (3, None, 7, ""))
    target = bench.target()

    assert target.keyless()[0] == 2


def test_expectations_are_read_from_what_is_there(bench: Bench) -> None:
    bench.make()
    target = bench.target()
    token = bench.publish(target, DAY)

    assert expected(target, DAY) == {DAY: Expected(1, token, None)}


@needs("open_publication")
def test_two_writes_of_a_key_dont_wait_for_each_other(bench: Bench) -> None:
    bench.make()
    target = bench.target()

    with (
        bench.written(target, DAY),
        target.writing([DAY], secrets.token_hex(16), staged=False) as second,
    ):
        second.fill(bench.everything)
        with pytest.raises(HeldError):
            second.audit(digest=False)


@needs("open_publication")
def test_a_fence_and_a_seal_wait_for_a_publication_under_way_and_no_longer_than_asked(bench: Bench) -> None:
    bench.make()
    target = bench.target()

    with bench.written(target, DAY):
        with pytest.raises(FenceTimeoutError):
            target.fence({DAY: Fence(2)}, LEDGER, 0.2)
        with pytest.raises(FenceTimeoutError):
            target.mark("seal", {DAY: Expected(2, None)}, LEDGER, 0.2)
        assert target.look([DAY])[DAY].fence == 1
        target.fence({NEXT: Fence(2)}, LEDGER, 0.2)

    assert target.fence({DAY: Fence(2)}, LEDGER, 5)[DAY].fence == 2


@needs("digest")
def test_a_digest_finds_equal_sums_of_other_rows_and_a_row_that_came_twice(bench: Bench) -> None:
    bench.make()
    found = []
    for amounts in ((1, 4), (2, 3), (1, 4, 4), (1, 4, 4, 4)):
        bench.empty("orders")
        for amount in amounts:
            bench.fill("orders", (1, DAY, amount, "note"))
        found.append(bench.target().measure([DAY], digest=True)[DAY].digest)

    assert len(set(found)) == 4


def test_what_others_fill_is_published_and_gone_afterwards(bench: Bench) -> None:
    bench.make()
    bench.fill("orders", *orders_on(DAY, 1))
    target = bench.target()
    target.fence({DAY: Fence(1)}, LEDGER, 5)

    with target.writing([DAY], secrets.token_hex(16), staged=True) as write:
        bench.stage(write.staging, *orders_on(DAY, 10, 20))
        audited = write.audit(digest=False)
        write.publish({DAY: Expected(1, None)}, "t", LEDGER)

    assert audited.partitions[DAY].measures == {"orders": "2", "amount": "30"}
    assert audited.before[DAY].measures == {"orders": "1", "amount": "1"}
    assert [amount for _, _, amount in bench.orders()] == [10, 20]
    assert not bench.is_staged(write.staging)


def test_what_a_dead_attempt_staged_is_swept_and_what_lives_is_not(bench: Bench) -> None:
    bench.make()
    target, tokens = bench.target(), [secrets.token_hex(16), secrets.token_hex(16)]

    with target.writing([DAY], tokens[0], staged=True) as dead, target.writing([DAY], tokens[1], staged=True) as live:
        target.sweep([tokens[0], secrets.token_hex(16)])
        left = bench.is_staged(dead.staging), bench.is_staged(live.staging)

    assert left == (False, True)


COUNTRIES = ["PL", "it's", "a b/c", "ż", 'say "x"']


@needs("grains", "none")
def test_a_whole_table_is_one_partition(bench: Bench) -> None:
    bench.make()
    bench.fill("orders", *orders_on(DAY, 5), *orders_on(NEXT, 7, first=8), (9, None, 8, None))
    bench.fill("source", *orders_on(DAY, 10), *orders_on(THIRD, 20, first=2))
    target = bench.target(grain="none", day=None)

    before = target.measure(["all"], digest=True)["all"]
    bench.publish(target, "all", select=bench.everything)
    after = bench.orders()
    bench.empty("source")
    bench.publish(target, "all", select=bench.everything, number=2)

    assert (before.rows, before.measures) == (3, {"orders": "3", "amount": "20"})
    assert [(dt, amount) for _, dt, amount in after] == [(DAY, 10), (THIRD, 20)]
    assert target.keyless()[0] == 0
    assert bench.orders() == []
    assert target.measure(["all"], digest=False)["all"].measures == {"orders": "0", "amount": None}


@needs("grains", "list")
def test_each_value_of_a_list_is_a_partition_and_others_stay(bench: Bench) -> None:
    bench.make()
    for number, country in enumerate(COUNTRIES):
        bench.fill("orders", (number, DAY, number, country))
    target = bench.target(grain="list", day=None, key="note", values=COUNTRIES)

    for number, country in enumerate(COUNTRIES):
        bench.empty("source")
        bench.fill("source", (number, DAY, 10 * number, country), (10 + number, DAY, 1, country))
        bench.publish(target, country, select=bench.everything)

        assert rows_of(target.measure(COUNTRIES, digest=True), *COUNTRIES) == [
            2 if at <= number else 1 for at in range(len(COUNTRIES))
        ]

    assert [amount for _, _, amount in bench.orders()] == [0, 10, 20, 30, 40, 1, 1, 1, 1, 1]
    assert sorted(target.look(COUNTRIES)) == sorted(COUNTRIES)


@needs("grains", "list")
def test_rows_of_no_value_of_the_list_are_counted_with_an_example(bench: Bench) -> None:
    bench.make()
    bench.fill("orders", (1, DAY, 5, "PL"), (2, DAY, 6, "pl"), (3, DAY, 7, None))
    bench.fill("source", (1, DAY, 1, "PL"), (2, DAY, 2, "XX"), (3, DAY, 3, None))
    target = bench.target(grain="list", day=None, key="note", values=COUNTRIES)

    with bench.written(target, "PL", select=bench.everything) as (_, audited):
        pass

    assert (audited.strange, audited.keyless[0]) == ((1, "XX"), 1)
    assert rows_of(audited.partitions, "PL") == [1]
    assert rows_of(target.measure(["PL"], digest=False), "PL") == [1]
    assert target.keyless()[0] == 2


# The protocol over the target, with a ledger in a file

OTHER = Caller("another", "load")


class Shop:
    """A dataset over the bench's target; each writer opens both for itself, as a process would."""

    def __init__(self, bench: Bench, db: str) -> None:
        self.bench, self.db = bench, db

    @contextmanager
    def open(self, act: Callable[[str], None] | None = None, *, stale: bool = False) -> Iterator[Guarded]:
        """Open it. act: what is told of each step; stale: whether all runs but the other's have ended."""

        def has_ended(claim: Claim) -> bool:
            return stale and claim.run != OTHER.run

        dataset = self.bench.dataset(max_shrink=None, digest="always" if self.bench.profile.digest else "never")
        target = self.bench.target(dataset)
        try:
            with open_ledger(self.db) as ledger:
                opened: Any = stepped(act)(ledger, target) if act else (ledger, target)
                yield Guarded(dataset, *opened, stale=has_ended, wait=0.1)
        finally:
            target.close()

    def put(self, amount: int) -> None:
        """Let the source say that each order has this amount."""
        self.bench.empty("source")
        self.bench.fill("source", *orders_on(DAY, amount, amount), *orders_on(NEXT, 7, first=8))

    def write(self, orders: Guarded, caller: Caller) -> WriteAnswer:
        """Write the day by what the source says."""
        return orders.write([DAY], lambda partition: partition.fill(self.bench.select), caller)

    def seen(self) -> int:
        """Return the amount that readers see; the day is whole, and its neighbour never moves."""
        rows = self.bench.orders()
        amount: int = rows[0][2]
        assert rows == [(1, DAY, amount), (2, DAY, amount), (8, NEXT, 7)]
        return amount

    def check(self) -> None:
        """Check that nothing is left of anybody, and that ledger and target are of one mind."""
        with self.open() as orders:
            ledger, name = orders.ledger, orders.dataset.name
            assert (list(ledger.claims(name)), list(ledger.intents(name))) == ([], [])
            sides = orders.target.look([DAY, NEXT])
            for row in ledger.rows(name):
                assert (sides[row.key].token, sides[row.key].mark) == (row.token, row.mark)
            assert orders.drift()["drift"] == {}


@pytest.fixture
def shop(bench: Bench, tmp_path: Path) -> Shop:
    """A dataset of which two days were published."""
    bench.make()
    made = Shop(bench, str(tmp_path / "ledger.db"))
    made.put(0)
    with made.open() as orders:
        for key in (DAY, NEXT):
            orders.write([key], lambda partition: partition.fill(bench.select), OTHER)
    return made


def one_try(number: int, of: int = 1) -> Caller:
    """Return a try of a numbered run's task."""
    return Caller(f"run-{number}", "load", try_number=of)


def a_later_try(shop: Shop, number: int) -> None:
    """Write as the next try of the run."""
    with shop.open() as orders:
        shop.write(orders, one_try(number, of=2))


def another_run(shop: Shop, _number: int) -> None:
    """Write as a run that was told that the first has ended."""
    with shop.open(stale=True) as orders:
        assert shop.write(orders, OTHER)["skipped"] == []


def settled_before(shop: Shop, number: int) -> None:
    """Let a person settle, which moves no row; then write."""
    before = shop.bench.orders()
    with shop.open() as orders:
        orders.settle(force=True)
    assert shop.bench.orders() == before
    another_run(shop, number)


NEXTS = [a_later_try, another_run, settled_before]


@pytest.mark.parametrize("put_right", NEXTS)
def test_a_write_that_died_at_any_step_is_put_right(shop: Shop, put_right: Callable[[Shop, int], None]) -> None:
    for number in itertools.count():
        shop.put(number + 1)
        dies = Dies(number)

        with suppress(Died), shop.open(dies) as orders:
            shop.write(orders, one_try(number))

        assert shop.seen() in (number, number + 1)
        put_right(shop, number)
        assert shop.seen() == number + 1
        shop.check()
        if not dies.happened:
            break
    assert number > 5


@pytest.mark.parametrize("rival", NEXTS)
def test_a_write_that_slept_at_any_step_never_has_the_last_word(shop: Shop, rival: Callable[[Shop, int], None]) -> None:
    """Of steps at which it holds the key; and of those at which a rival isn't kept out."""
    for number in itertools.count():
        shop.put(2 * number + 1)
        seen: list[int] = []

        def come(number: int = number, seen: list[int] = seen) -> None:
            with shop.open() as orders:
                entered = bool(orders.ledger.claims(orders.dataset.name))
            shop.put(2 * number + 2)
            with suppress(FenceTimeoutError, HeldError):
                rival(shop, number)
                seen.extend([shop.seen()] if entered else [])

        at = At(number, come)
        with suppress(BackfillError), shop.open(at) as orders:
            shop.write(orders, one_try(number))

        assert seen in ([], [shop.seen()])
        settled_before(shop, number)
        assert shop.seen() == 2 * number + 1 + at.happened
        shop.check()
        if not at.happened:
            break
    assert number > 5


def test_a_sealed_day_is_left_alone_until_it_is_unsealed(shop: Shop) -> None:
    shop.put(5)

    with shop.open() as orders:
        orders.seal([DAY], OTHER, "sent")
        left_out = shop.write(orders, OTHER)["skipped"]
        sealed = shop.seen()
        orders.unseal([DAY], OTHER, "it was wrong")
        shop.write(orders, OTHER)

    assert (left_out, sealed, shop.seen()) == ([[DAY, "sealed"]], 0, 5)
    shop.check()


def settled_and_sealed(shop: Shop, _number: int) -> None:
    """Let a person settle, and seal."""
    with shop.open() as orders:
        orders.settle(force=True)
        orders.seal([DAY], OTHER, "sent")


def settled_and_unsealed(shop: Shop, _number: int) -> None:
    """Let a person settle, and take the seal away."""
    with shop.open() as orders:
        orders.settle(force=True)
        orders.unseal([DAY], OTHER, "it was wrong")


@pytest.mark.parametrize("rival", [settled_and_sealed, settled_and_unsealed])
@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_seal_or_an_unseal_that_slept_at_any_step_never_has_the_last_word(
    shop: Shop, is_sealed: bool, rival: Callable[[Shop, int], None]
) -> None:
    for number in itertools.count():
        (settled_and_sealed if is_sealed else settled_and_unsealed)(shop, number)
        seen: list[str | None] = []

        def mark() -> str | None:
            with shop.open() as orders:
                return orders.target.look([DAY])[DAY].mark

        def come(number: int = number, seen: list[str | None] = seen) -> None:
            with shop.open() as orders:
                entered = bool(orders.ledger.claims(orders.dataset.name))
            with suppress(FenceTimeoutError, HeldError):
                rival(shop, number)
                seen.extend([mark()] if entered else [])

        at = At(number, come)
        with suppress(BackfillError), shop.open(at) as orders:
            verb = orders.unseal if is_sealed else orders.seal
            verb([DAY], one_try(number), "asleep")

        assert seen in ([], [mark()])
        shop.check()
        if not at.happened:
            break
    assert number > 3


def test_a_seal_that_died_at_any_step_is_settled_and_changes_no_row(shop: Shop) -> None:
    for number in itertools.count():
        dies = Dies(number)

        with suppress(Died), shop.open(dies) as orders:
            orders.seal([DAY], one_try(number), "sent")

        with shop.open() as orders:
            orders.settle(force=True)
        shop.check()
        assert shop.seen() == 0
        with shop.open() as orders:
            orders.unseal([DAY], OTHER, "once more")
        shop.check()
        if not dies.happened:
            break
    assert number > 3

"""The connection to PostgreSQL cut at every message, and the server crashed and restarted at every message."""

from __future__ import annotations

import itertools
import signal
from typing import TYPE_CHECKING

import pytest

from backfill_core import StoreError
from tests.faults import story
from tests.faults.proxy import LOSE_ANSWER, LOSE_REQUEST, PASS, Proxy
from tests.world import World, day, days

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers import OwnPostgres

COUNT = 2


@pytest.fixture
def world(own_postgres: OwnPostgres, tmp_path: Path) -> Iterator[World]:
    own_postgres.make_sure_it_runs()
    with World(own_postgres.new_store(), tmp_path) as made:
        made.init()
        yield made


@pytest.fixture
def by_proxy(world: World, own_postgres: OwnPostgres, proxy: Proxy) -> World:
    """The same world, by way of the proxy."""
    return World(own_postgres.through(proxy.port, world.db), world.folder)


def is_commit(request: bytes) -> bool:
    return request.endswith(b"COMMIT\0")


class Fault:
    """A plan that does something at the numbered request, and notes what that was."""

    def __init__(self, number: int, what: str, act: Callable[[], None] = lambda: None) -> None:
        self.request = b""
        self._number, self._what, self._act = number, what, act

    def __call__(self, number: int, request: bytes) -> str:
        if number != self._number:
            return PASS
        self.request = request
        self._act()
        return self._what

    @property
    def in_commit(self) -> bool:
        return is_commit(self.request)

    @property
    def in_begin(self) -> bool:
        return b"BEGIN" in self.request


@pytest.mark.parametrize("what", [LOSE_REQUEST, LOSE_ANSWER])
def test_a_run_cut_off_at_any_message_leaves_whole_partitions_and_can_be_run_again(
    world: World, by_proxy: World, proxy: Proxy, what: str
) -> None:
    """A cut at the beginning of a transaction is mended at once: the connection is made again."""
    told_unknown = mended = 0
    for number in itertools.count(1):
        story.begin(world, COUNT)
        fault = Fault(number, what)
        proxy.reset(fault)
        error = None

        try:
            story.run(by_proxy, COUNT, "new")
        except StoreError as caught:
            error = caught

        if not proxy.cuts:
            break
        new = story.days_at_new(world, COUNT)
        if error is None:
            assert new == COUNT
            mended += 1
        else:
            so_far = error.so_far or {"done": []}
            unknown = "unknown" in str(error)
            assert unknown == fault.in_commit, error
            assert so_far["done"] == list(days(COUNT))[: new - (unknown and what == LOSE_ANSWER)]
            assert "geheim" not in str(error)
            told_unknown += unknown
        assert not (error and fault.in_begin)
        story.check_that_running_again_is_enough(world, COUNT)
    print(f"cut at {number - 1} messages: {mended} mended, {told_unknown} with an unknown outcome")
    assert told_unknown == COUNT
    assert mended >= COUNT + 1


@pytest.mark.parametrize("what", [LOSE_REQUEST, LOSE_ANSWER])
@pytest.mark.parametrize("command", ["claim", "release", "seal", "amend", "rollup"])
def test_any_command_whose_commit_is_cut_says_that_the_outcome_is_unknown(
    world: World, by_proxy: World, proxy: Proxy, command: str, what: str
) -> None:
    story.begin(world, COUNT)
    with world.backfill() as backfill:
        backfill.seal(days(1))
        backfill.claim(days(1), "a")
    arguments = {
        "claim": (days(2), "a"),
        "release": (days(2), "a"),
        "seal": (days(2),),
        "amend": (days(1).first, "late"),
        "rollup": (),
    }[command]
    before = world.dump()
    cut: list[bytes] = []

    def plan(_number: int, request: bytes) -> str:
        if not is_commit(request):
            return PASS
        cut.append(request)
        return what

    proxy.reset(plan)
    with by_proxy.backfill() as backfill, pytest.raises(StoreError, match="unknown whether") as caught:
        getattr(backfill, command)(*arguments)
    after = world.dump()

    assert len(cut) == 1
    assert "Running again is safe" in str(caught.value)
    assert (after == before) == (what == LOSE_REQUEST)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_goes_through_a_server_that_crashes_at_any_message(
    world: World, by_proxy: World, own_postgres: OwnPostgres, proxy: Proxy, when: str
) -> None:
    """The server crashes before it hears a message, or after its answer was lost on the way, and comes back."""
    crashed = 0
    for number in itertools.count(6):  # the run's first writing transaction begins with its sixth message
        story.begin(world, 1)
        fault = Fault(
            number,
            LOSE_REQUEST if when == "before" else LOSE_ANSWER,
            (lambda: own_postgres.restart(signal.SIGQUIT)) if when == "before" else lambda: None,
        )
        proxy.reset(fault)
        said = ""

        try:
            story.run(by_proxy, 1, "new")
        except StoreError as error:
            said = str(error)

        if when == "after" and proxy.cuts:
            own_postgres.restart(signal.SIGQUIT)
        if not proxy.cuts:
            break
        crashed += 1
        assert ("unknown" in said) == fault.in_commit
        new = story.days_at_new(world, 1)
        assert new == (fault.in_begin or (fault.in_commit and when == "after"))
        story.check_that_running_again_is_enough(world, 1)
    print(f"crashed at {crashed} messages")
    assert crashed == 5


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["in order", "by a crash"])
def test_a_run_goes_on_when_the_server_was_restarted_between_two_partitions(
    world: World, own_postgres: OwnPostgres, how: signal.Signals
) -> None:
    story.begin(world, 4)

    def restart(_passed: int, dt: str) -> None:
        if dt == day(2):
            own_postgres.restart(how)

    with world.backfill() as backfill:
        answer = backfill.run(days(4), "new", progress=restart)

    assert answer["done"] == list(days(4))
    assert story.days_at_new(world, 4) == 4


def test_a_run_whose_server_stays_away_ends_with_a_receipt(world: World, own_postgres: OwnPostgres) -> None:
    story.begin(world, 4)

    def stop(_passed: int, dt: str) -> None:
        if dt == day(2):
            own_postgres.stop()

    try:
        with world.backfill() as backfill, pytest.raises(StoreError, match="can't be reached") as caught:
            backfill.run(days(4), "new", progress=stop)
    finally:
        own_postgres.start()

    assert caught.value.so_far == {"owner": "new", "done": [day(0), day(1)], "skipped": [], "orders": 6, "amount": 66}
    assert story.days_at_new(world, 4) == 2
    story.check_that_running_again_is_enough(world, 4)


def test_a_damaged_table_is_a_sentence(world: World, own_postgres: OwnPostgres) -> None:
    story.begin(world, 1)
    schema = world.db.rpartition("=")[2]
    own_postgres.sql("CHECKPOINT")
    [(path,)] = own_postgres.sql(f"SELECT pg_relation_filepath('{schema}.daily')")
    own_postgres.stop()
    table = own_postgres.data / path
    with table.open("r+b") as file:
        file.write(b"\xff" * 100)
    own_postgres.start()

    with world.backfill() as backfill, pytest.raises(StoreError, match="can't be used: invalid page"):
        backfill.rollup()

"""Many processes at one store, and what each of them did."""

from __future__ import annotations

import multiprocessing
import random
import time
import traceback
from typing import TYPE_CHECKING, Any

from backfill_core import Backfill, EventFolder, NotSealedError, open_store
from tests.servers import PATIENCE
from tests.store.history import Step
from tests.world import World, day, days, lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Barrier
    from pathlib import Path

DAYS = 10
OWNERS = ("anna", "ben", "cleo")
WEIGHTS = {
    "run": 30,
    "put": 12,
    "claim": 14,
    "release": 14,
    "seal": 1,
    "amend": 8,
    "rollup": 5,
    "rollup_add": 3,
    "see": 13,
}


def together(count: int, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Call `work(number, *arguments)` in so many processes that begin at once; return what each returned."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    barrier = context.Barrier(count)
    started = []
    for number in range(count):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(theirs, barrier, work, number, arguments))
        process.start()
        theirs.close()
        started.append((process, ours))
    try:
        answers = []
        for _, ours in started:
            assert ours.poll(PATIENCE), "a process doesn't answer"
            went_well, answer = ours.recv()
            assert went_well, answer
            answers.append(answer)
        return answers
    finally:
        for process, ours in started:
            ours.close()
            process.kill()
            process.join()
            process.close()


def _work(
    pipe: Connection, barrier: Barrier, work: Callable[..., Any], number: int, arguments: tuple[Any, ...]
) -> None:
    try:
        barrier.wait(PATIENCE)
        pipe.send((True, work(number, *arguments)))
    except BaseException:  # noqa: BLE001  it is told in the parent
        barrier.abort()
        pipe.send((False, traceback.format_exc()))


def claim_a_year(number: int, db: str, folder: str) -> list[str]:
    with open_store(db) as store:
        return Backfill(store, EventFolder(folder)).claim(days(366), f"owner {number}")["claimed"]


def run_a_day(number: int, db: str, folder: str, times: int) -> None:
    with open_store(db) as store:
        for _ in range(times):
            Backfill(store, EventFolder(folder)).run(days(1), f"owner {number}")


def correct_a_day(number: int, db: str, times: int) -> None:
    with open_store(db) as store:
        for turn in range(times):
            with store.writing() as tables:
                known = len(list(tables.corrections(days(1))))
                tables.correct(day(0), (known, known), (known + 1, known + 1), f"{number}: {turn}")


def start_sources(world: World) -> list[tuple[int, int]]:
    """Give every day a source; return their sums."""
    for number in range(DAYS):
        world.put(day(number), *range(1, number + 2))
    return [(number + 1, sum(range(1, number + 2))) for number in range(DAYS)]


def act_at_random(process: int, db: str, folder: Path, seed: int, operations: int) -> list[Step]:
    """Do random operations one after the other; return what was done and answered, step by step."""
    dice = random.Random(f"{seed} {process}")
    with World(db, folder) as world, world.backfill() as backfill:
        actor = Actor(process, world, backfill, dice)
        for _ in range(operations):
            [what] = dice.choices(list(WEIGHTS), list(WEIGHTS.values()))
            getattr(actor, what)()
        return actor.steps


class Actor:
    """A process that does things and writes down when, and what it was answered."""

    def __init__(self, process: int, world: World, backfill: Backfill, dice: random.Random) -> None:
        self.steps: list[Step] = []
        self._process, self._world, self._backfill, self._dice = process, world, backfill, dice
        self._puts = 0

    def _note(self, began: int, what: str, about: Any, answer: Any, ended: int | None = None) -> None:
        self.steps.append(Step(self._process, began, ended or time.monotonic_ns(), what, about, answer))

    def _some_days(self, most: int) -> range:
        first = self._dice.randrange(DAYS)
        return range(first, min(DAYS, first + self._dice.randint(1, most)))

    def put(self) -> None:
        number = self._dice.randrange(DAYS)
        amounts = [
            self._dice.randint(-99, -1) if self._dice.random() < 0.2 else 5 for _ in range(self._dice.randint(0, 9))
        ]
        self._puts += 1
        # Blank lines are no orders: each version has a size of its own, so that it differs from the last one even in
        # the same tick of the file system's clock.
        blank = "\n" * (1000 + self._puts % 100 * 8 + self._process)
        new = self._world.folder / f"new-{self._process}"
        new.write_text(lines(day(number), amounts) + blank)
        began = time.monotonic_ns()
        new.replace(self._world.file(day(number)))
        self._note(began, "put", (number, (len(amounts), sum(amounts))), None)

    def run(self) -> None:
        numbers, owner = self._some_days(4), self._dice.choice(OWNERS)
        moments = [time.monotonic_ns()]
        answer = self._backfill.run(
            _range(numbers), owner, progress=lambda _passed, _dt: moments.append(time.monotonic_ns())
        )
        moments.append(time.monotonic_ns())
        assert "failed" not in answer, answer
        outcomes = dict.fromkeys(answer["done"], "done") | dict(answer["skipped"])
        self._note(moments[0], "look", None, None, moments[1])
        for began, ended, number in zip(moments[1:-1], moments[2:], numbers, strict=True):
            if outcomes[day(number)] == "done":
                self._note(began, "turn", number, None, ended)
            self._note(began, "run", (number, owner), outcomes[day(number)], ended)
        self._note(moments[-1], "ran", None, (answer["orders"], answer["amount"]))

    def claim(self) -> None:
        numbers, owner, began = self._some_days(DAYS), self._dice.choice(OWNERS), time.monotonic_ns()
        answer = self._backfill.claim(_range(numbers), owner)
        denied = [(_number(dt), holder) for dt, holder in answer["denied"]]
        self._note(began, "claim", (numbers, owner), ([_number(dt) for dt in answer["claimed"]], denied))

    def release(self) -> None:
        numbers, owner, began = self._some_days(DAYS), self._dice.choice(OWNERS), time.monotonic_ns()
        answer = self._backfill.release(_range(numbers), owner)
        self._note(began, "release", (numbers, owner), [_number(dt) for dt in answer["released"]])

    def seal(self) -> None:
        numbers, began = self._some_days(1), time.monotonic_ns()
        answer = self._backfill.seal(_range(numbers))
        self._note(began, "seal", numbers, [_number(dt) for dt in answer["sealed"]])

    def amend(self) -> None:
        [number], began = self._some_days(1), time.monotonic_ns()
        reason = f"{self._process}: {len(self.steps)}"
        try:
            answer = self._backfill.amend(days(1, start=number).first, reason)
        except NotSealedError:
            self._note(began, "amend", (number, reason), None)
            return
        ended, values = time.monotonic_ns(), tuple(answer.values())[1:]
        self._note(began, "turn", number, None, ended)
        self._note(began, "amend", (number, reason), values, ended)

    def rollup(self) -> None:
        began = time.monotonic_ns()
        answer = self._backfill.rollup()
        self._note(began, "rollup", None, (answer["order_total"], answer["amount_total"]))

    def rollup_add(self) -> None:
        numbers, began = self._some_days(3), time.monotonic_ns()
        answer = self._backfill.rollup_add(_range(numbers))
        self._note(began, "rollup_add", numbers, (answer["order_total"], answer["amount_total"]))

    def see(self) -> None:
        began = time.monotonic_ns()
        self._note(began, "see", None, seen(self._backfill))


def look_at_the_end(world: World) -> list[Step]:
    """Return what is there when all others are done, as steps: what no answer told is told by these."""
    with world.backfill() as backfill:
        tables = seen(backfill)
        counts = [backfill._source.count(dt) for dt in days(DAYS)]
    sources = tuple(tuple(counted.tally) for counted in counts if counted)
    now = time.monotonic_ns()
    return [Step(0, now, now, "see", None, tables), Step(0, now, now, "sources", None, sources)]


def seen(backfill: Backfill) -> Any:
    """Read all tables in one transaction, and give them the form of `State.seen`."""
    every = days(DAYS)
    with backfill._store.reading() as tables:
        daily = [(dt, (orders, amount, owner)) for dt, orders, amount, owner in tables.published(every)]
        holders, sealed, totals = tables.holders(every), tables.sealed(every), tables.rollup()
        corrections: dict[str, tuple[int, Any]] = {}
        for dt, *correction in tables.corrections(every):
            corrections[dt] = (corrections.get(dt, (0, None))[0] + 1, tuple(correction))
    assert len(dict(daily)) == len(daily), f"a date has more than one row: {daily}"
    return (
        tuple(dict(daily).get(dt) for dt in every),
        tuple(holders.get(dt) for dt in every),
        tuple(dt in sealed for dt in every),
        tuple(corrections.get(dt, (0, None)) for dt in every),
        totals,
    )


def _range(numbers: range) -> Any:
    return days(len(numbers), start=numbers.start)


def _number(dt: str) -> int:
    return int(dt[-2:]) - 1

"""Many processes at one dataset, and what each of them did; and which answers fit a serial order."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from backfill_core.claims import Caller
from backfill_core.errors import FenceTimeoutError, NotSealedError, RefusedError, SealedError
from tests.datasets.shop import DAY, NEXT, Shop
from tests.store.history import Step

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backfill_core.guarded import Guarded

WAIT = 60.0
"""How long a fence waits where nobody may be kept out: a file has one writer."""
WEIGHTS = {"write": 8, "seal": 2, "unseal": 3, "amend": 2, "see": 5}


class State(NamedTuple):
    """What one day holds, whether it is sealed, and what its last correction says."""

    amount: int
    sealed: bool
    corrected: int | None


def act_at_random(process: int, shop: Shop, seed: int, operations: int) -> list[Step]:
    """Do random operations on a day, one after the other; return what was done and answered."""
    dice = random.Random(f"{seed} {process}")
    steps: list[Step] = []
    with shop.open() as orders:
        for number in range(operations):
            version = (seed * 100 + process) * 1000 + number + 1
            [what] = dice.choices(list(WEIGHTS), list(WEIGHTS.values()))
            caller = Caller(f"run-{seed}-{process}-{number}", "load")
            began = time.monotonic_ns()
            answer = _ACTS[what](shop.of(version), orders, caller)
            steps.append(Step(process, began, time.monotonic_ns(), what, version, answer))
    return steps


def _write(shop: Shop, orders: Guarded, caller: Caller) -> str:
    try:
        answer = orders.write([DAY], shop.fill, caller)
    except (RefusedError, FenceTimeoutError) as error:
        return "sealed" if isinstance(error, SealedError) else "kept out"
    if answer["skipped"]:
        return "sealed" if answer["skipped"][0][1] == "sealed" else "kept out"
    return "published"


def _told(act: Callable[[], Any]) -> str:
    try:
        act()
    except NotSealedError:
        return "not sealed"
    except (RefusedError, FenceTimeoutError):
        return "kept out"
    return "done"


def _see(_shop: Shop, orders: Guarded, _caller: Caller) -> int:
    """Return what a reader of the table sees."""
    return _shop.seen_on(DAY)


_ACTS: dict[str, Callable[[Shop, Guarded, Caller], Any]] = {
    "write": _write,
    "seal": lambda _, orders, caller: _told(lambda: orders.seal([DAY], caller, "sent")),
    "unseal": lambda _, orders, caller: _told(lambda: orders.unseal([DAY], caller, "wrong")),
    "amend": lambda shop, orders, caller: _told(lambda: orders.amend(DAY, shop.fill, caller, str(shop.version))),
    "see": _see,
}


def _written(state: State, step: Step) -> State | None:
    if step.answer == "published":
        return None if state.sealed else state._replace(amount=step.about)
    return state if step.answer == "kept out" or state.sealed else None


def _sealed(to: bool) -> Callable[[State, Step], State | None]:
    return lambda state, step: state if step.answer == "kept out" else state._replace(sealed=to)


def _amended(state: State, step: Step) -> State | None:
    if step.answer == "done":
        return state._replace(corrected=step.about) if state.sealed else None
    return state if step.answer == "kept out" or not state.sealed else None


RULES: Mapping[str, Callable[[State, Step], State | None]] = {
    "write": _written,
    "seal": _sealed(to=True),
    "unseal": _sealed(to=False),
    "amend": _amended,
    "see": lambda state, step: state if step.answer == state.amount else None,
    "end": lambda state, step: state if step.answer == state else None,
}


def look_at_the_end(shop: Shop) -> Step:
    """Return what is there when all others are done, as a step."""
    with shop.open() as orders:
        name = orders.dataset.name
        [row] = orders.ledger.rows(name, DAY, DAY)
        reasons = [int(one.reason) for one in orders.ledger.corrections(name, DAY, DAY)]
    now = time.monotonic_ns()
    state = State(shop.seen_on(DAY), bool(row.seal), reasons[-1] if reasons else None)
    return Step(0, now, now, "end", None, state)


def write_often(number: int, shop: Shop, keys: list[str], times: int) -> int:
    """Write days of one's own again and again; return how many were told as published."""
    done = 0
    with shop.open(wait=WAIT) as orders:
        for version in range(1, times + 1):
            answer = orders.write(keys, shop.of(version).fill, Caller(f"{number}-{version}", "load"))
            done += len(answer["published"])
    return done


def write_one_day(number: int, shop: Shop, times: int) -> int:
    """Write one of two days, beside who writes the other."""
    return write_often(number, shop, [(DAY, NEXT)[number]], times)


def begin_and_write_a_share(number: int, shops: list[Shop], processes: int) -> int:
    """Make every so many of the datasets, and write it twice; return how many days were told as published."""
    done = 0
    for shop in shops[number::processes]:
        shop.begin(WAIT)
        done += write_often(number, shop, [DAY, NEXT], 2)
    return done


def be_the_same_task(number: int, shop: Shop, times: int) -> list[str]:
    """Write a day in one run, as two tasks of it; return what was told."""
    with shop.of(number + 1).open() as orders:
        return [
            _write(shop.of(100 * turn + number + 1), orders, Caller("one run", f"task-{number}"))
            for turn in range(times)
        ]

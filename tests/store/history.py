"""Whether the answers that several processes got fit some serial order of what they asked.

After Wing and Gong, "Testing and Verifying Concurrent Objects" (1993), with Lowe's memory of what was tried. A step may
be put before another unless that one had ended before it began. Days are numbers from 0; processes too.

A partition's file is no part of a transaction: a newer file may come after the writer has looked whether it is the one
that it counted, and before its commit. So a transaction that counted is two steps, `turn`, from which on the process is
alone in writing and at which the file was as counted, and then what became visible. Readers may come between the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Sum = tuple[int, int]


class Step(NamedTuple):
    """One transaction, or one write to the source: who did what when (nanoseconds of one clock), and the answer."""

    process: int
    began: int
    ended: int
    what: str
    about: Any
    answer: Any


class Look(NamedTuple):
    """What a run under way read before its walk, and the sum of what it has done since."""

    sealed: tuple[bool, ...]
    holders: tuple[str | None, ...]
    orders: int = 0
    amount: int = 0


class State(NamedTuple):
    """What the source and the tables hold, by day, and what each process's run has seen."""

    sources: tuple[Sum, ...]
    daily: tuple[tuple[int, int, str] | None, ...]
    holders: tuple[str | None, ...]
    sealed: tuple[bool, ...]
    corrections: tuple[tuple[int, Any], ...]  # how many, and the last
    totals: Sum
    looks: tuple[Look | None, ...]
    turn: tuple[int, Sum] | None = None  # whose, and what its day's source added up to

    @classmethod
    def empty(cls, sources: list[Sum], processes: int) -> State:
        none = (None,) * len(sources)
        return cls(
            tuple(sources),
            none,
            none,
            (False,) * len(sources),
            ((0, None),) * len(sources),
            (0, 0),
            (None,) * processes,
        )

    def seen(self) -> Any:
        """Return what a reader sees of the tables."""
        return self.daily, self.holders, self.sealed, self.corrections, self.totals


Rule = Callable[[State, Step], "State | None"]
S = TypeVar("S")


def serial_order(
    histories: list[list[Step]], start: S, rules: Mapping[str, Callable[[S, Step], S | None]] | None = None
) -> tuple[list[Step], S]:
    """Return all steps in an order that explains every answer, and what the tables then hold.

    histories: one list a process, in the order of its own steps.
    rules: what each step does to the state; those of the store by default.

    Raises:
        AssertionError: there is none; the message tells how far the longest attempt came.
    """
    said: Mapping[str, Any] = rules or RULES
    tried: set[tuple[tuple[int, ...], S]] = set()
    positions = (0,) * len(histories)
    trail = [(start, positions, _choices(histories, positions))]
    order: list[Step] = []
    farthest, stuck = 0, positions
    while trail:
        state, positions, choices = trail[-1]
        for step in choices:
            after: S | None = said[step.what](state, step)
            moved = tuple(n + (process == step.process) for process, n in enumerate(positions))
            if after is not None and (moved, after) not in tried:
                tried.add((moved, after))
                order.append(step)
                trail.append((after, moved, _choices(histories, moved)))
                break
        else:
            if len(order) == sum(map(len, histories)):
                return order, state
            if len(order) >= farthest:
                farthest, stuck = len(order), positions
            trail.pop()
            if order:
                order.pop()
    nexts = "\n".join(str(steps[n]) for steps, n in zip(histories, stuck, strict=True) if n < len(steps))
    raise AssertionError(f"no serial order explains the answers; after {farthest} steps none of these fits:\n{nexts}")


def _choices(histories: list[list[Step]], positions: tuple[int, ...]) -> Iterator[Step]:
    nexts = [steps[n] for steps, n in zip(histories, positions, strict=True) if n < len(steps)]
    first_end = min((step.ended for step in nexts), default=0)
    return iter(sorted((step for step in nexts if step.began <= first_end), key=lambda step: step.ended))


# What each step does to the state; None where its answer is not the one that the state would give.


def _put(state: State, step: Step) -> State | None:
    number, tally = step.about
    return state._replace(sources=_with(state.sources, number, tally))


def _look(state: State, step: Step) -> State | None:
    return state._replace(looks=_with(state.looks, step.process, Look(state.sealed, state.holders)))


def _turn(state: State, step: Step) -> State | None:
    return state._replace(turn=(step.process, state.sources[step.about]))


def _counted(state: State, step: Step) -> Sum | None:
    return state.turn[1] if state.turn is not None and state.turn[0] == step.process else None


def _run(state: State, step: Step) -> State | None:
    number, owner = step.about
    look = state.looks[step.process]
    assert look is not None
    counted = _counted(state, step)
    skip = _skip(look.sealed[number], look.holders[number], owner)
    skip = skip or _skip(state.sealed[number], state.holders[number], owner)
    if step.answer != (skip or "done"):
        return None
    if skip or counted is None:
        return state if skip else None
    orders, amount = counted
    look = look._replace(orders=look.orders + orders, amount=look.amount + amount)
    return state._replace(
        daily=_with(state.daily, number, (orders, amount, owner)),
        looks=_with(state.looks, step.process, look),
        turn=None,
    )


def _ran(state: State, step: Step) -> State | None:
    look = state.looks[step.process]
    assert look is not None
    if step.answer != (look.orders, look.amount):
        return None
    return state._replace(looks=_with(state.looks, step.process, None))


def _skip(sealed: bool, holder: str | None, owner: str) -> str | None:
    return "sealed" if sealed else f"claimed_by:{holder}" if holder not in (None, owner) else None


def _claim(state: State, step: Step) -> State | None:
    numbers, owner = step.about
    holders = list(state.holders)
    for number in numbers:
        holders[number] = holders[number] or owner
    claimed = [number for number in numbers if holders[number] == owner]
    denied = [(number, holders[number]) for number in numbers if holders[number] != owner]
    return state._replace(holders=tuple(holders)) if step.answer == (claimed, denied) else None


def _release(state: State, step: Step) -> State | None:
    numbers, owner = step.about
    released = [number for number in numbers if state.holders[number] == owner]
    holders = tuple(None if number in released else holder for number, holder in enumerate(state.holders))
    return state._replace(holders=holders) if step.answer == released else None


def _seal(state: State, step: Step) -> State | None:
    sealed = tuple(old or number in step.about for number, old in enumerate(state.sealed))
    return state._replace(sealed=sealed) if step.answer == list(step.about) else None


def _amend(state: State, step: Step) -> State | None:
    number, reason = step.about
    if not state.sealed[number]:
        return state if step.answer is None else None
    counted = _counted(state, step)
    correction = (*(state.daily[number] or (0, 0))[:2], *(counted or ()), reason)
    if step.answer != correction:
        return None
    count, _ = state.corrections[number]
    return state._replace(corrections=_with(state.corrections, number, (count + 1, correction)), turn=None)


def _rollup(state: State, step: Step) -> State | None:
    totals = _sum(state, range(len(state.daily)))
    return state._replace(totals=totals) if step.answer == totals else None


def _rollup_add(state: State, step: Step) -> State | None:
    orders, amount = _sum(state, step.about)
    totals = state.totals[0] + orders, state.totals[1] + amount
    return state._replace(totals=totals) if step.answer == totals else None


def _see(state: State, step: Step) -> State | None:
    return state if step.answer == state.seen() else None


def _alone(rule: Rule) -> Rule:
    return lambda state, step: rule(state, step) if state.turn is None else None


def _sources(state: State, step: Step) -> State | None:
    return state if step.answer == state.sources else None


def _sum(state: State, numbers: range) -> Sum:
    rows = [row for number in numbers if (row := state.daily[number]) is not None]
    return sum(row[0] for row in rows), sum(row[1] for row in rows)


def _with(values: tuple[Any, ...], number: int, value: Any) -> tuple[Any, ...]:
    return (*values[:number], value, *values[number + 1 :])


RULES: dict[str, Rule] = {
    "put": _put,
    "look": _look,
    "turn": _alone(_turn),
    "run": _run,
    "ran": _ran,
    "claim": _alone(_claim),
    "release": _alone(_release),
    "seal": _alone(_seal),
    "amend": _amend,
    "rollup": _alone(_rollup),
    "rollup_add": _alone(_rollup_add),
    "see": _see,
    "sources": _sources,
}

"""The protocol, explored whole: every order of every step of those who work at the same time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import pytest

from backfill_core.claims import Caller
from tests.model.actors import BOTH, administrator, adopter, amender, sealer, settler, unsealer, writer
from tests.model.explorer import Actor, World, advance, explore
from tests.model.ledger import SimulatedLedger
from tests.model.promises import check, put_right
from tests.model.target import SimulatedTarget

if TYPE_CHECKING:
    from tests.model.actors import Play

LONG = os.environ.get("BACKFILL_FAULTS") == "long"
TRY_1, TRY_2 = Caller("run", "load", try_number=1), Caller("run", "load", try_number=2)
OTHER = Caller("other run", "load")


class Scenario(NamedTuple):
    """Who works at the same time, after what, and how many answers may be lost."""

    actors: dict[str, Play]
    before: tuple[Play, ...] = ()
    faults: int = 0


FIRST = writer(Caller("first", "load"), 1, BOTH)
ONE_SET, ONE_OF_IT = writer(TRY_1, 2, BOTH), writer(TRY_2, 3)
SEALED = (FIRST, sealer())
SCENARIOS = {
    "a retry beside a first try": Scenario({"try1": writer(TRY_1, 2), "try2": writer(TRY_2, 3)}, (FIRST,), 1),
    "a writer whose answers get lost, and a settler": Scenario(
        {"one": writer(TRY_1, 2), "settler": settler()}, (FIRST,), 2
    ),
    "a retry of a part of a set": Scenario({"try1": ONE_SET, "try2": ONE_OF_IT}, (FIRST,), 1),
    "two owners, one of whom takes all for dead": Scenario(
        {"one": writer(TRY_1, 2), "two": writer(OTHER, 3, stale=True)}, (FIRST,), 1
    ),
    "first writes of two owners": Scenario({"one": writer(TRY_1, 2), "two": writer(OTHER, 3)}, (), 1),
    "a set, and two settlers": Scenario({"set": ONE_SET, "settler": settler(), "another": settler()}, (FIRST,)),
    "a set whose answers get lost, and a settler": Scenario({"set": ONE_SET, "settler": settler()}, (FIRST,), 2),
    "open transactions of a try and a retry": Scenario(
        {"try1": writer(TRY_1, 2, staged=False), "try2": writer(TRY_2, 3, staged=False)}, (FIRST,), 1
    ),
    "an open transaction and a settler": Scenario({"one": writer(TRY_1, 2, staged=False), "settler": settler()}, (), 1),
    "a sealer and a writer": Scenario({"one": writer(TRY_1, 2), "sealer": sealer()}, (FIRST,), 1),
    "a sealer, an unsealer who takes it for dead, and a writer": Scenario(
        {"sealer": sealer(), "unsealer": unsealer(stale=True), "one": writer(TRY_1, 2)}, (FIRST,)
    ),
    "an unsealer, a sealer and a settler": Scenario(
        {"unsealer": unsealer(), "sealer": sealer(), "settler": settler()}, SEALED
    ),
    "an unsealer, and a writer who takes it for dead": Scenario(
        {"unsealer": unsealer(), "one": writer(TRY_1, 2, stale=True)}, SEALED, 1
    ),
    "an amender and an unsealer": Scenario({"amender": amender(), "unsealer": unsealer()}, SEALED, 1),
    "an adopter and a writer": Scenario({"adopter": adopter(), "one": writer(TRY_1, 2)}, (), 1),
    "a ledger from a backup under a writer": Scenario(
        {"one": writer(TRY_1, 2), "administrator": administrator()}, (FIRST,)
    ),
    "a ledger from a backup under a writer and another": Scenario(
        {"one": writer(TRY_1, 2), "two": writer(OTHER, 3), "administrator": administrator()}, (FIRST,)
    ),
    "a ledger from a backup, and somebody says so": Scenario(
        {"one": writer(TRY_1, 2), "administrator": administrator(says_so=True)}, (FIRST,), 1
    ),
    "a ledger from a backup, and a writer who still has the former one": Scenario(
        {"one": writer(TRY_1, 2, left_behind=True), "administrator": administrator(says_so=True)}, (FIRST,)
    ),
    "a ledger from a backup under a sealer and a writer": Scenario(
        {"sealer": sealer(), "one": writer(TRY_1, 2), "administrator": administrator()}, (FIRST,)
    ),
}


def begin(before: tuple[Play, ...]) -> World:
    """Return a world in which some have done their work."""
    world = World(SimulatedLedger(), SimulatedTarget())
    for number, play in enumerate(before):
        actor = advance(world, Actor(f"before{number}", play), "")[1]
        while actor.outcome is None:
            world, actor = advance(world, actor, "done")
        assert not actor.outcome.startswith(("no", "unknown")), actor.outcome
    return world


FOR_LONG = {
    "a retry beside a first try, and a settler": Scenario(
        {"try1": writer(TRY_1, 2), "try2": writer(TRY_2, 3), "settler": settler()}, (FIRST,)
    ),
    "a sealer and a writer, and a settler": Scenario(
        {"one": writer(TRY_1, 2), "sealer": sealer(), "settler": settler()}, (FIRST,)
    ),
    "a ledger from a backup under two writers, and somebody says so": Scenario(
        {"one": writer(TRY_1, 2), "two": writer(OTHER, 3), "administrator": administrator(says_so=True)}, (FIRST,)
    ),
    "a set, a retry and a sealer": Scenario({"try1": ONE_SET, "try2": ONE_OF_IT, "sealer": sealer()}, (FIRST,)),
}


@pytest.mark.parametrize("name", [*SCENARIOS, *(FOR_LONG if LONG else ())])
def test_every_promise_holds_in_every_order_of_steps(name: str) -> None:
    actors, before, faults = (SCENARIOS | FOR_LONG)[name]

    explored = explore(
        begin(before), list(actors.items()), check, put_right, faults=faults + (LONG and name in SCENARIOS)
    )

    print(f"{name}: {explored.states} states, {explored.steps} steps, {explored.worlds} worlds")
    assert explored.states > 1

"""Those who work at the same time in the model, and what they come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_core.claims import Caller
from backfill_core.errors import (
    BackfillError,
    FenceTimeoutError,
    OutcomeUnknownError,
    StoreError,
)
from backfill_core.protocol import comparing, sealing, settling, taking, writing
from tests.model import promises
from tests.model.explorer import StagedLedger, StagedTarget, StagedWrite
from tests.model.target import measured

if TYPE_CHECKING:
    from collections.abc import Callable

    from backfill_core.protocol import Place
    from tests.model.explorer import Stage, World

    Play = Callable[[Stage], str]

ROWS_ARE_LOCKED = {"": True}
"""Whether a transaction of the ledger is one step: for the mutant in which it is two."""
FIRST = ("2026-02-01",)
BOTH = ("2026-02-01", "2026-02-02")


def place(stage: Stage, *, stale: bool, left_behind: bool = False) -> Place:
    """Return the model's dataset as the actor sees it."""
    ledger = StagedLedger(stage, in_two=not ROWS_ARE_LOCKED[""], left_behind=left_behind)
    target = StagedTarget(stage)
    return promises.place(ledger, target, stage.new_id, stale=stale)  # type: ignore[arg-type]


def told(act: Callable[[], str]) -> str:
    """Return the outcome of an act as its caller is told it."""
    try:
        return act()
    except (OutcomeUnknownError, StoreError) as error:
        return f"unknown: {type(error).__name__}"
    except BackfillError as error:
        return f"no: {type(error).__name__}"


def writer(
    caller: Caller,
    amount: int,
    keys: tuple[str, ...] = FIRST,
    *,
    stale: bool = False,
    staged: bool = True,
    left_behind: bool = False,
) -> Play:
    """Somebody who writes keys.

    stale: whether every claim that is met is taken for dead.
    left_behind: whether it goes on with the former ledger, where a backup took its place.
    """

    def play(stage: Stage) -> str:
        here = place(stage, stale=stale, left_behind=left_behind)

        def act() -> str:
            attempt = taking.take(here, keys, caller, "")
            if not attempt.numbers:
                return "no: left out"
            with writing.publishing(here, attempt, promises.ANY, staged=staged) as done:
                assert isinstance(done.write, StagedWrite)
                done.write.put(dict.fromkeys(attempt.keys, (amount,)))
            return "published"

        return told(act)

    return play


def settler() -> Play:
    """A person who says that everybody is dead, right or wrong."""

    def play(stage: Stage) -> str:
        try:
            settling.settle_dead(place(stage, stale=False), None, force=True)
        except FenceTimeoutError:
            return "busy"
        except BackfillError as error:
            return f"unknown: {type(error).__name__}"
        return "settled"

    return play


def sealer(key: str = FIRST[0], *, stale: bool = False) -> Play:
    """Somebody who seals a key."""

    def play(stage: Stage) -> str:
        def act() -> str:
            sealing.seal(place(stage, stale=stale), [key], Caller("seals", "seal"), "sent")
            return "sealed"

        return told(act)

    return play


def unsealer(key: str = FIRST[0], *, stale: bool = False) -> Play:
    """Somebody who takes a seal away."""

    def play(stage: Stage) -> str:
        def act() -> str:
            sealing.unseal(place(stage, stale=stale), [key], Caller("unseals", "unseal"), "wrong")
            return "unsealed"

        return told(act)

    return play


def amender(key: str = FIRST[0]) -> Play:
    """Somebody who corrects a sealed key."""

    def play(stage: Stage) -> str:
        def act() -> str:
            here = place(stage, stale=False)
            [row] = here.ledger.rows(here.name, key, key)
            sealing.amend(here, key, measured((7,), digest=False), row.seal, Caller("amends"), "late")
            return "amended"

        return told(act)

    return play


def adopter(key: str = FIRST[0]) -> Play:
    """Somebody who takes on what is there."""

    def play(stage: Stage) -> str:
        def act() -> str:
            done = writing.adopt(place(stage, stale=False), [key], Caller("adopts", "adopt"), "it was there")
            return "adopted" if done.published else "no: left out"

        return told(act)

    return play


def administrator(*, says_so: bool = False) -> Play:
    """Somebody who puts the ledger back from a backup that was made before; says so, or doesn't."""

    def play(stage: Stage) -> str:
        stage.call("backup", _back_up)
        stage.call("restore", _restore)
        if says_so:
            here = place(stage, stale=True)
            try:
                stage.call("renew", lambda world: world.ledger.renew())
                comparing.look_after_restore(here, FIRST)
            except BackfillError as error:
                return f"unknown: {type(error).__name__}"
        return "restored"

    return play


def _back_up(world: World) -> None:
    world.backup = world.ledger.copy()


def _restore(world: World) -> None:
    assert world.backup is not None
    world.left = world.ledger
    world.ledger = world.backup.copy()
    world.restored = True

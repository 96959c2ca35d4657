"""The promises of the protocol, as assertions about a state; and that from each state all can be put right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_core.claims import Caller
from backfill_core.dataset import Dataset, SqlTable
from backfill_core.errors import StoppedError
from backfill_core.ledger import ADOPT, OPEN, PUBLISH, SEAL, UNSEAL
from backfill_core.protocol import Place, comparing, sealing, settling, taking, writing
from backfill_core.protocol.judging import Wish
from tests.model.target import SimulatedWrite, measured

if TYPE_CHECKING:
    from collections.abc import Callable

    from backfill_core.ledger import Entry, Ledger
    from backfill_core.target import Target
    from tests.model.explorer import State, World

DATASET = Dataset(
    name="shop.orders",
    table=SqlTable("shop.db", "orders", day="dt"),
    measures={"orders": "count(*)", "amount": "sum(amount)"},
    digest="never",
    max_shrink=None,
)
ANY = Wish(always=True)


def place(ledger: Ledger, target: Target, new_id: Callable[[], str], *, stale: bool = False) -> Place:
    """Return the dataset of the model with a ledger and a target."""
    return Place(DATASET, 1, ledger, target, new_id, lambda _: stale, 0)


def check(state: State) -> None:
    """Check every promise that is about a moment."""
    world = state.world
    for key, seen in world.sealed.items():
        assert world.target.partitions.get(key, ()) == seen, f"{key} was changed under its seal"
    _check_outcomes(state)
    if not world.restored:
        _check_that_the_ledger_knows(world)
        _check_history(world)
        _check_one_writer(world)


def _check_outcomes(state: State) -> None:
    """What a writer was told is true: `no` means never, `published` that it was, and is in the history once."""
    later: set[str] = set()
    for token, key in state.world.published:
        assert not (token.startswith("try1-") and key in later), f"{key} was published by an earlier try after a later"
        later |= {key} if token.startswith("try2-") else set()
    for actor in state.actors:
        mine = [token for token, _ in state.world.published if token.startswith(f"{actor.name}-")]
        if (actor.outcome or "").startswith("no"):
            assert not mine, f"{actor.name} was told {actor.outcome!r}, but it published"
        if (actor.outcome or "").startswith("unknown"):
            assert state.world.restored or state.lost, f"{actor.name} got all its answers, but heard {actor.outcome!r}"
        if actor.outcome in ("no: StoppedError", "no: DriftError", "no: NotAdoptedError"):
            assert state.world.restored, f"{actor.name} heard {actor.outcome!r}, but nobody wrote past us"
        if actor.outcome == "published":
            assert mine, f"{actor.name} was told that it published, but it didn't"
        if actor.outcome == "sealed" and not any("unseal" in one.name for one in state.actors):
            assert state.world.sealed, f"{actor.name} was told that it sealed, but readers see no seal"
            assert any(side.mark for side in state.world.target.sides.values()), "the mark is gone"


def _check_that_the_ledger_knows(world: World) -> None:
    """What the ledger says is published is what the target holds, or an open intent tells of the difference."""
    for (_, key), row in world.ledger.key_rows.items():
        side = world.target.side(key)
        open_intents = [one for one in world.ledger.all_intents.values() if one.key == key and one.state == OPEN]
        announced = {one.token for one in open_intents}
        assert side.token == row.token or side.token in announced, (
            f"the target holds {side.token} at {key}, the ledger says {row.token}"
        )
        assert side.mark == row.mark or side.mark in announced or any(one.kind == UNSEAL for one in open_intents), (
            f"the target has the mark {side.mark} at {key}, the ledger {row.mark}"
        )
        if side.token == row.token and row.measured is not None:
            assert row.measured == measured(world.target.partitions.get(key, ()), digest=False), (
                f"the ledger's figures of {key} are not what readers see"
            )
        if row.seal:
            writes = [one for one in open_intents if one.kind in (PUBLISH, ADOPT)]
            assert not writes, f"{key} is sealed, and {writes[0].holder} is about to write it"
        if side.published_at and row.published_at:
            assert row.published_at <= side.published_at, f"{key} was published at {row.published_at}, going back"
    for seal in world.ledger.all_seals.values():
        if seal.unsealed_at is None and seal.key in world.sealed:
            assert seal.measured == measured(world.sealed[seal.key], digest=False), (
                "what was sealed is not what was seen"
            )


def _check_history(world: World) -> None:
    """Each publication is remembered once, after the one that it took the place of."""
    lines: dict[str, list[Entry]] = {}
    for _, entry in world.ledger.entries:
        lines.setdefault(entry.key, []).append(entry)
    for key, entries in lines.items():
        done = [(entry.what, entry.token) for entry in entries if entry.token]
        assert len(done) == len(set(done)), f"the history of {key} has a line twice"
        token = None
        for entry in entries:
            if entry.what in (PUBLISH, ADOPT):
                assert entry.before == token, f"the history of {key} has a gap: {entry.before} is not {token}"
                token = entry.token
    numbers = [(one.key, one.number) for one in world.ledger.all_intents.values()]
    assert len(numbers) == len(set(numbers)), "two attempts at a key have one number"


def _check_one_writer(world: World) -> None:
    """Of those who write a key there is one; whoever seals it may be beside, for a moment."""
    sealing_now = {one.token for one in world.ledger.all_intents.values() if one.kind in (SEAL, UNSEAL)}
    for _, key in world.ledger.key_rows:
        writers = [
            claim
            for claim in world.ledger.all_claims.values()
            if claim.key == key and claim.kind == "attempt" and not claim.ended and claim.id not in sealing_now
        ]
        assert len(writers) <= 1, f"{[claim.holder for claim in writers]} write {key} at once"


def put_right(world: World) -> None:
    """Let everybody be dead, and somebody settle; then a stranger to all of it writes each key, and all agrees."""
    world.target.locks.clear()  # the server has noticed
    made = iter(range(1000))
    here = place(world.ledger, world.target, lambda: f"heir-{next(made)}", stale=True)
    heir = Caller("heir", "load")
    settling.settle_dead(here, None, force=True)
    for key in sorted({key for _, key in world.ledger.key_rows} | set(world.target.sides)):
        try:
            _write(here, key, heir)
        except StoppedError:
            assert world.restored, f"{key} is stopped, but nothing was put back from a backup"
            _recover(here, key, heir)
            _write(here, key, heir)
        side, row = world.target.side(key), world.ledger.key_rows[DATASET.name, key]
        assert world.target.partitions[key] == (99,), f"{key} could not be written by an heir"
        assert (side.token, side.mark) == (row.token, row.mark), f"ledger and target differ at {key} in the end"
    assert not world.ledger.intents(DATASET.name), "an intent is open in the end"
    assert not world.ledger.all_claims, "a claim is left in the end"


def _write(here: Place, key: str, heir: Caller) -> None:
    attempt = taking.take(here, [key], heir, "")
    if attempt.left_out == [(key, "sealed")]:
        assert sealing.unseal(here, [key], heir, "an heir") == [key]
        attempt = taking.take(here, [key], heir, "")
    assert attempt.keys == [key], f"the heir was kept out of {key}: {attempt.left_out}"
    with writing.publishing(here, attempt, ANY) as done:
        assert isinstance(done.write, SimulatedWrite)
        done.write.put({key: (99,)})


def _recover(here: Place, key: str, heir: Caller) -> None:
    """Do what the sentences say: `restored`, then adopt what is unknown; seal anew where there is a mark."""
    here.ledger.renew()
    comparing.look_after_restore(here, [key])
    if here.ledger.rows(here.name, key, key)[0].seal:
        sealing.unseal(here, [key], heir, "it is from a backup")
    attempt = writing.adopt(here, [key], heir, "it is from a backup").attempt
    assert attempt.keys == [key]
    if here.target.look([key])[key].mark:
        sealing.seal(here, [key], heir, "the mark is from before")

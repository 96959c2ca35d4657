"""An explorer: it runs the protocol's own code, stops it at every step, and sees every order of what can happen.

An actor is a plain function. It is run again from its start with the recorded answers of its first n calls, makes the
next one for real, and is unwound at the one after that. So its code needs no generators, and a state is what ledger and
target hold and what each actor has been answered.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from backfill_core.errors import AnswerLostError, BackfillError, OutcomeUnknownError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from backfill_core.ledger.page import Page
    from tests.model.ledger import SimulatedLedger
    from tests.model.target import SimulatedTarget

DONE, LOST_DONE, LOST_UNDONE = "done", "answer lost, done", "answer lost, not done"
LEDGER_COMMITS = ("ledger.change",)
LOCAL = ("write.end",)
"""Calls that nobody else's step can tell from none: they are made at once, so that there are fewer orders."""
TARGET_COMMITS = ("target.fence", "target.mark", "target.adopt", "write.publish")


class Unwind(BaseException):
    """The actor is stopped here; what it does from now on is not heard."""


class World:
    """What outlives every actor: the ledger, the target, a backup of the ledger, and what happened so far.

    left: the ledger that a backup took the place of, where somebody may still use it.
    sealed: by key, what readers see under a seal.
    entered: by key, the token of the latest write that began while it held its claim.
    published: each token that a commit of the target made visible, with its key.
    restored: whether the ledger is from a backup.
    """

    def __init__(self, ledger: SimulatedLedger, target: SimulatedTarget) -> None:
        self.ledger = ledger
        self.target = target
        self.backup: SimulatedLedger | None = None
        self.left: SimulatedLedger | None = None
        self.restored = False
        self.sealed: dict[str, tuple[int, ...]] = {}
        self.entered: dict[str, str] = {}
        self.published: tuple[tuple[str, str], ...] = ()
        self._digest: tuple[int, ...] | None = None

    def copy(self, call: str = "") -> World:
        """Return another, to be changed by a call: only what that may change is another."""
        of_ledger, of_target = call.startswith("ledger."), call.startswith(("target.", "write."))
        made = World(self.ledger if of_target else self.ledger.copy(), self.target if of_ledger else self.target.copy())
        made.left = self.left.copy() if self.left and not of_target else self.left
        made.backup, made.restored, made.published = self.backup, self.restored, self.published
        made.sealed, made.entered = dict(self.sealed), dict(self.entered)
        return made

    def digest(self) -> tuple[int, ...]:
        """Return what tells it from others."""
        if self._digest is None:
            so_far = (self.restored, self.published, sorted(self.sealed.items()), sorted(self.entered.items()))
            others = [ledger and ledger.content() for ledger in (self.backup, self.left)]
            self._digest = (_digest(self.ledger), _digest(self.target), hash(repr((others, so_far))))
        return self._digest


def _digest(part: SimulatedLedger | SimulatedTarget) -> int:
    if part.seen is None:
        part.seen = hash(repr(part.content()))
    return part.seen


class Answer(NamedTuple):
    """What a call was answered, or the error that it raised."""

    name: str
    value: Any
    error: Exception | None


@dataclass(frozen=True)
class Actor:
    """One of those who work at the same time.

    play: what it does, with a ledger, a target and a source of ids of its own; it returns a word for the outcome.
    answers: what its calls were answered so far; next: the name of its next call; outcome: once it is over.
    """

    name: str
    play: Callable[[Stage], str]
    answers: tuple[Answer, ...] = ()
    digest: int = 0
    next: str = ""
    outcome: str | None = None


@dataclass
class Stage:
    """What one actor sees: it hears recorded answers first, then one real one, and is stopped at the next call."""

    actor: Actor
    world: World
    how: str
    ids: int = 0
    heard: int = 0
    over: bool = False
    made: list[Answer] = field(default_factory=list)
    next: str = ""
    broken: Exception | None = None

    def new_id(self) -> str:
        """Return an id that no other actor, and no other call, gets; the same one each time the actor is run."""
        self.ids += 1
        return f"{self.actor.name}-{self.ids}"

    def call(self, name: str, act: Callable[[World], Any]) -> Any:
        """Answer a call: from the record, for real, or not any more."""
        if self.over:
            raise Unwind
        if self.heard < len(self.actor.answers):
            answer = self.actor.answers[self.heard]
            assert answer.name == name, f"{self.actor.name} asks for {name} where it asked for {answer.name} before"
            self.heard += 1
        elif self.how == "" or self.made:
            self._stop_at(name)
        else:
            answer = self._for_real(name, act)
            self.made.append(answer)
        if answer.error is not None:
            raise type(answer.error)(*answer.error.args)
        return answer.value

    def _stop_at(self, name: str) -> None:
        self.over, self.next = True, name
        raise Unwind

    def _for_real(self, name: str, act: Callable[[World], Any]) -> Answer:
        lost = AnswerLostError if name in LEDGER_COMMITS else OutcomeUnknownError
        if self.how == LOST_UNDONE:
            return Answer(name, None, lost("no answer"))
        try:
            value = act(self.world)
        except BackfillError as error:
            return Answer(name, None, error)
        except Exception as error:
            self.over, self.broken = True, error
            raise
        return Answer(name, None, lost("no answer")) if self.how == LOST_DONE else Answer(name, value, None)


def advance(world: World, actor: Actor, how: str) -> tuple[World, Actor]:
    """Let an actor make its next call for real; return the world and the actor as they are afterwards."""
    stage = Stage(actor, world.copy(actor.next) if how else world, how)
    outcome = None
    with suppress(Unwind):
        outcome = actor.play(stage)
    if stage.broken is not None:
        raise stage.broken
    answers = (*actor.answers, *stage.made)
    digest = hash((actor.digest, *(repr(answer) for answer in stage.made)))
    return stage.world, replace(actor, answers=answers, digest=digest, next=stage.next, outcome=outcome)


class State(NamedTuple):
    """Where the exploration is: the world, the actors, and how it came here.

    faults: how many answers may still be lost; lost: how many were.
    """

    world: World
    actors: tuple[Actor, ...]
    faults: int
    path: tuple[str, ...]
    lost: int = 0

    def digest(self) -> tuple[object, ...]:
        """Return what tells it from others, however it came here."""
        return (self.world.digest(), tuple((one.digest, one.outcome) for one in self.actors), self.faults)


class Broken(AssertionError):  # noqa: N818  it is what an assertion says
    """A promise was broken; it tells by which steps."""

    def __init__(self, why: str, state: State) -> None:
        steps = "\n  ".join(state.path)
        super().__init__(f"{why}\n  {steps}")
        self.why = why


class Explored(NamedTuple):
    """How much was seen: states, steps between them, and worlds from which all was put right again."""

    states: int
    steps: int
    worlds: int


def explore(
    world: World,
    actors: Sequence[tuple[str, Callable[[Stage], str]]],
    check: Callable[[State], None],
    put_right: Callable[[World], None],
    *,
    faults: int = 0,
) -> Explored:
    """See every order of the actors' steps, with up to so many lost answers; check each state.

    check: raises AssertionError where a promise is broken.
    put_right: likewise where everybody dies at this moment, and it can't be put right afterwards.
    """
    begun = tuple(advance(world, Actor(name, play), "")[1] for name, play in actors)
    stack = [State(world, begun, faults, ())]
    seen = {stack[0].digest()}
    healed: set[tuple[int, ...]] = set()
    steps = 0
    while stack:
        state = stack.pop()
        try:
            check(state)
            if state.world.digest() not in healed:
                healed.add(state.world.digest())
                put_right(state.world.copy())
        except (AssertionError, BackfillError) as error:
            raise Broken(str(error) or repr(error), state) from error
        for reached in _steps(state):
            steps += 1
            digest = reached.digest()
            if digest not in seen:
                seen.add(digest)
                stack.append(reached)
    return Explored(len(seen), steps, len(healed))


def _steps(state: State) -> Iterator[State]:
    for number, actor in enumerate(state.actors):
        if actor.outcome is not None:
            continue
        for how in _ways(actor.next, state.faults):
            try:
                world, moved = advance(state.world, actor, how)
            except AssertionError as error:
                step = f"{actor.name}: {actor.next} ({how})"
                raise Broken(str(error) or repr(error), state._replace(path=(*state.path, step))) from error
            while moved.next in LOCAL and moved.outcome is None:
                world, moved = advance(world, moved, DONE)
            actors = (*state.actors[:number], moved, *state.actors[number + 1 :])
            ending = f" -> {moved.outcome}" if moved.outcome else ""
            step = f"{actor.name}: {actor.next}{'' if how == DONE else f' ({how})'}{ending}"
            lost = state.lost + (how != DONE)
            yield State(world, actors, state.faults - (how != DONE), (*state.path, step), lost)


def _ways(call: str, faults: int) -> tuple[str, ...]:
    if faults and call in (*LEDGER_COMMITS, *TARGET_COMMITS):
        return (DONE, LOST_DONE, LOST_UNDONE)
    return (DONE,)


class Begun:
    """A transaction that has read and not written yet."""

    def __init__(self, page: Page, answer: Any) -> None:
        self.page = page
        self.answer = answer

    def __repr__(self) -> str:
        return repr((vars(self.page), self.answer))


class StagedLedger:
    """The ledger as an actor sees it.

    in_two: without row locks a transaction is two steps.
    left_behind: the actor knows nothing of a backup that took the ledger's place, and goes on with the former one.
    """

    def __init__(self, stage: Stage, *, in_two: bool = False, left_behind: bool = False) -> None:
        self._stage = stage
        self._in_two = in_two
        self._left_behind = left_behind

    def _of(self, world: World) -> SimulatedLedger:
        return world.left if self._left_behind and world.left else world.ledger

    def change(
        self, dataset: str, keys: Sequence[str], step: Callable[[Page], Any], *, token: str = "", caller: Any = None
    ) -> Any:
        """Run a transaction: one step, as the rows are locked."""
        if not self._in_two or not keys:
            return self._stage.call(
                "ledger.change" if keys else "ledger.find",
                lambda world: observed(
                    world, lambda: self._of(world).change(dataset, keys, step, token=token, caller=caller)
                ),
            )

        def begin(world: World) -> Begun:
            page = self._of(world).load(dataset, keys, token, caller)
            return Begun(page, step(page))

        begun = self._stage.call("ledger.begin", begin)
        self._stage.call(
            "ledger.commit", lambda world: observed(world, lambda: self._of(world).keep(dataset, begun.page))
        )
        return begun.answer

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def ask(*arguments: Any) -> Any:
            return self._stage.call(f"ledger.{name}", lambda world: getattr(self._of(world), name)(*arguments))

        return ask


def observed(world: World, act: Callable[[], Any]) -> Any:
    """Change the ledger; compare each new correction with what readers see at that moment."""
    before = len(world.ledger.all_corrections)
    answer = act()
    for _, correction in world.ledger.all_corrections[before:]:
        assert world.target.side(correction.key).mark, "a correction was written of a partition that is not sealed"
    return answer


class StagedTarget:
    """The target as an actor sees it."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def ask(*arguments: Any, **options: Any) -> Any:
            return self._stage.call(f"target.{name}", lambda world: getattr(world.target, name)(*arguments, **options))

        return ask

    def sweep(self, tokens: Sequence[str]) -> None:
        """Leave what is staged where it is: nothing may depend on a sweep, and it must not be what stops a sleeper."""

    def mark(self, mark: str | None, expected: Mapping[str, Any], ledger: str, wait: float) -> frozenset[str]:
        """Set a mark, or take it away; remember what readers see under it."""

        def act(world: World) -> frozenset[str]:
            done = world.target.mark(mark, expected, ledger, wait)
            for key in done:
                world.sealed.pop(key, None)
                if mark is not None:
                    world.sealed[key] = world.target.partitions.get(key, ())
            return done

        done: frozenset[str] = self._stage.call("target.mark", act)
        return done

    def writing(self, keys: Sequence[str], token: str, *, staged: bool) -> StagedWrite:
        """Begin a write."""
        return StagedWrite(self._stage, keys, token, staged=staged)


class StagedWrite:
    """A write as an actor sees it: what it holds in the target is in the world, so that another can meet it."""

    def __init__(self, stage: Stage, keys: Sequence[str], token: str, *, staged: bool) -> None:
        self._stage, self._keys, self._token, self._is_staged = stage, keys, token, staged
        self.staging = ""

    def _write(self, world: World) -> Any:
        from tests.model.target import SimulatedWrite

        write = SimulatedWrite(world.target, self._keys, self._token, staged=self._is_staged)
        write.audited = self._audited if hasattr(self, "_audited") else None
        return write

    def __enter__(self) -> StagedWrite:
        def act(world: World) -> None:
            self._write(world).begin()
            held = {(claim.key, claim.id) for claim in world.ledger.all_claims.values()}
            world.entered.update({key: self._token for key in self._keys if (key, self._token) in held})

        self._stage.call("write.begin", act)
        return self

    def put(self, rows: Mapping[str, tuple[int, ...]]) -> None:
        """Stage rows; they are nobody's business until they are audited, which is the next call."""
        self._rows = dict(rows)

    def audit(self, *, digest: bool) -> Any:
        """Stage and measure."""

        def act(world: World) -> Any:
            write = self._write(world)
            write.put(self._rows)
            return write.audit(digest=digest)

        self._audited = self._stage.call("write.audit", act)
        return self._audited

    def publish(self, expected: Mapping[str, Any], token: str, ledger: str) -> Any:
        """Commit, and remember that it happened."""

        def act(world: World) -> Any:
            before = {key: world.target.side(key).token for key in expected}
            ledgers = {world.target.side(key).ledger for key in expected}
            published = self._write(world).publish(expected, token, ledger)
            assert ledgers == {ledger}, f"{token} is of {ledger}, and was looked for under {ledgers}"
            for intent in world.ledger.all_intents.values():
                if intent.token == token and intent.key in published:
                    assert before[intent.key] == intent.before, f"{token} took the place of {before[intent.key]}"
            for key in published:
                if not world.restored:
                    assert world.entered[key] == token, f"{token} published {key} after it was overtaken"
            world.published = (*world.published, *((token, key) for key in published))
            return published

        return self._stage.call("write.publish", act)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if not self._stage.over:
            self._stage.call("write.end", lambda world: self._write(world).end())

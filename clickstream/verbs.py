"""The verbs: what each does, once. The command line and a DAG's tasks call these, one line each, and get an answer.

Every verb raises RefusedError when a check says no, before anything is published, and ClickstreamError when it fails.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from clickstream import artifact, audit
from clickstream.broker import LIVE_VERB, Broker, Seat, Writer
from clickstream.errors import ClickstreamError, DamagedError, RefusedError, UsageError
from clickstream.guards import Guard, nothing_known
from clickstream.history import (
    RECOVERY,
    Published,
    published,
    require_clean,
    require_no_tail,
    state_of,
)
from clickstream.instant import DAY, LATEST, SECOND, Instant, parse, spell
from clickstream.look import look, require_beginning
from clickstream.publication import Progress, publish, publish_until
from clickstream.topics import EVENT_TOPICS, MANIFEST, STATE, Tallies, Tally
from clickstream.world import Parameters, World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from threading import Event

    from clickstream.manifest import Manifest


def silent(_: str) -> None:
    """Progress that nobody asked for."""


@dataclass(frozen=True, slots=True)
class Stand:
    """The stand that the verbs work on: its broker, and the guards that speak for its other parts."""

    broker: Broker
    pipeline: Guard = nothing_known
    staging: Guard = nothing_known
    progress: Progress = silent

    @contextmanager
    def generating(self, verb: str) -> Iterator[tuple[Seat, Writer]]:
        """Be the one generator for the length of the block.

        Raises: RefusedError ("pipeline-busy" or "generator-running").
        """
        self.require_rest()
        with self.broker.seat(verb) as seat, self.broker.writer() as writer:
            yield seat, writer

    def require_rest(self) -> None:
        """Raise RefusedError ("pipeline-busy") unless the load is paused and idle, so that the stand holds still."""
        if busy := self.pipeline():
            raise RefusedError(
                "pipeline-busy",
                f"{busy}, and no load may run meanwhile. Let its runs end first (unpause it, should it be paused: a "
                "paused DAG's runs never end), then pause it.",
            )

    def require_clean(self) -> None:
        """Raise RefusedError ("not-clean") when a topic or the warehouse's staging holds anything."""
        require_clean(self.broker)
        if filled := self.staging():
            raise RefusedError(
                "not-clean",
                f"{filled}; a history begins on a clean stand. `counts` says what was made of them; if nobody needs "
                "them, empty it with `clear-warehouse --yes`.",
            )


class Answer(TypedDict):
    """What a verb that publishes answers: the history afterwards, and how many records of each topic are new.

    `put_right` says which settings of topics that were there already would have harmed the history, and were changed.
    """

    verb: str
    t0: str
    t_end: str
    boundaries: int
    published: dict[str, int]
    put_right: list[str]


def backfill(stand: Stand, *, t0: str, days: int, visits_a_day: int, seed: int, dirt: int = 0) -> Answer:
    """Publish a fresh history [t0, t0 + days), day by day: each is committed by itself, all are one portion."""
    world = World(Parameters(parse(t0), seed, visits_a_day, dirt))
    if days < 1:
        raise UsageError(f"{days} days: give at least 1.")
    _require_room(world.now, days)
    stand.broker.create_topics()
    put_right = stand.broker.fit_topics()
    with stand.generating("backfill") as (seat, writer):
        stand.require_clean()
        history = opening = Published.nothing(start := world.now)
        for _ in range(days):
            end = Instant(world.now + DAY)
            history = publish_until(writer, seat, world, history, end, portion_from=start, progress=stand.progress)
    return _answer("backfill", opening, history, put_right)


def next_day(stand: Stand, *, expected_t_end: str | None = None, started: float | None = None) -> Answer:
    """Publish exactly one model day more, [T_end, T_end + 24h).

    Two that ask at once both see the same boundary; the one that comes second finds it moved, and is refused. With
    `expected_t_end` that alone decides. `started` is when the process began, by `time.monotonic()`: another that began
    at the same moment is left twice the time that this one needed to see the boundary.
    """
    expected = None if expected_t_end is None else parse(expected_t_end)
    seen = published(stand.broker)
    put_right = stand.broker.fit_topics()
    grace = 0.0 if started is None or expected is not None else 2 * (time.monotonic() - started)
    with stand.generating("next-day") as (seat, writer):
        time.sleep(grace)
        found, world = _at_boundary(stand.broker)
        before = found.manifest
        if expected is not None and expected != before.t_end:
            raise RefusedError(
                "boundary",
                f"Expected the history to end at {spell(expected)}, but it ends at {spell(before.t_end)}. "
                "Nothing was published; was this day made already?",
            )
        if expected is None and found.manifest.t_end != seen.manifest.t_end:
            raise RefusedError(
                "boundary",
                f"The boundary moved to {spell(before.t_end)} while this run was on its way: another one made the day. "
                "Nothing was published; ask again if you want one more.",
            )
        _require_room(before.t_end, 1)
        end = Instant(before.t_end + DAY)
        after = publish_until(writer, seat, world, found, end, portion_from=before.t_end, progress=stand.progress)
    return _answer("next-day", found, after, put_right)


def go_on(stand: Stand, *, stop: Event, tick_seconds: float = 10.0, speed: int = 1) -> Answer:
    """Go on from the state in real time until `stop` is set, committing every `tick_seconds`: the verb `continue`.

    Model time passes `speed` times as fast as the clock on the wall. Each commit has its state and manifest, so it
    ends at an exact boundary whenever it ends; the whole run is one portion.
    """
    if not 0 < tick_seconds < 24 * 3600 or speed < 1:
        raise UsageError(
            "The seconds between two commits must be more than 0 and less than a day, the speed at least 1."
        )
    published(stand.broker)
    put_right = stand.broker.fit_topics()
    with stand.generating(LIVE_VERB) as (seat, writer):
        before, world = _at_boundary(stand.broker)
        history, portion_from = before, before.manifest.t_end
        began = time.monotonic()
        while not stop.wait(tick_seconds):
            seat.confirm()
            passed = int((time.monotonic() - began) * SECOND) * speed
            end = Instant(min(portion_from + passed, LATEST))
            if end > history.manifest.t_end:
                history = publish_until(
                    writer, seat, world, history, end, portion_from=portion_from, progress=stand.progress
                )
            if end == LATEST:
                raise ClickstreamError(f"The history has reached {spell(LATEST)}, the end of what can be generated.")
    return _answer(LIVE_VERB, before, history, put_right)


def import_artifact(stand: Stand, path: str) -> Answer:
    """Publish an artifact's history, all or nothing; it is verified whole before anything is published."""
    with artifact.opened(path) as source:
        stand.broker.create_topics()
        put_right = stand.broker.fit_topics()
        with stand.generating("import") as (seat, writer):
            stand.require_clean()

            def manifest(tallies: Tallies) -> bytes:
                if tallies != source.manifest.tallies:
                    raise DamagedError(f"{path} was changed while it was being published.")
                return source.manifest_text

            before = Published.nothing(source.manifest.t0)
            after = publish(
                writer,
                seat,
                source.batches(),
                before,
                state=lambda: source.state_text,
                manifest=manifest,
                progress=stand.progress,
            )
    return _answer("import", before, after, put_right)


class ExportAnswer(TypedDict):
    """What `export` answers."""

    verb: str
    path: str
    t0: str
    t_end: str
    records: dict[str, int]


def export(stand: Stand, path: str) -> ExportAnswer:
    """Write the published history as a portable artifact. A tail after it is left out."""
    stand.require_rest()
    looked = look(stand.broker)
    require_beginning(stand.broker, looked)
    history, manifest = looked.history, looked.history.manifest
    state = _published_state(stand.broker, manifest)

    def topics() -> Iterator[tuple[str, Iterator[bytes]]]:
        for topic in EVENT_TOPICS:
            yield topic, _published_lines(stand.broker, topic, manifest.tallies[topic])
        yield STATE, iter([state])
        yield MANIFEST, iter([history.text])

    artifact.write(path, topics())
    return {
        "verb": "export",
        "path": path,
        "t0": spell(manifest.t0),
        "t_end": spell(manifest.t_end),
        "records": {topic: tally.records for topic, tally in manifest.tallies.items()},
    }


def check(stand: Stand) -> audit.CheckAnswer:
    """Recount the topics against the manifest."""
    stand.require_rest()
    return audit.check(stand.broker)


def chain_check(stand: Stand) -> audit.ChainAnswer:
    """Look at every boundary of the published history."""
    return audit.chain_check(stand.broker)


class ClearAnswer(TypedDict):
    """What `clear` answers."""

    verb: str
    topics: list[str]


def clear(stand: Stand) -> ClearAnswer:
    """Delete the six topics with all that they hold, and make them again, empty."""
    stand.broker.create_topics()
    with stand.generating("clear"):
        pass
    stand.broker.delete_topics()
    stand.broker.create_topics()
    return {
        "verb": "clear",
        "topics": [stand.broker.prefix + topic for topic in (*EVENT_TOPICS, STATE, MANIFEST)],
    }


def _at_boundary(broker: Broker) -> tuple[Published, World]:
    """Return the history and its world, with the boundary in order: the state belongs to it, and there is no tail."""
    found = published(broker)
    world = state_of(broker, found.manifest)
    require_no_tail(broker, found)
    return found, world


def _require_room(start: Instant, days: int) -> None:
    if start + days * DAY > LATEST:
        raise UsageError(f"{days} days from {spell(start)} would go beyond {spell(LATEST)}.")


def _published_state(broker: Broker, manifest: Manifest) -> bytes:
    """Return the state that belongs to the manifest, which may not be the last: a run may have died after its state."""
    marks = [f'"t_end":"{spell(manifest.t_end)}"'.encode(), f'"t0":"{spell(manifest.t0)}"'.encode()]
    state = None
    for record in broker.records(STATE):
        if all(mark in record.value[:200] for mark in marks):
            state = record.value
    if state is None:
        raise RefusedError(
            "wrong-state",
            f"There is no state of {spell(manifest.t_end)}, where the manifest ends. {RECOVERY}",
        )
    World.restore(state)
    return state


def _published_lines(broker: Broker, topic: str, expected: Tally) -> Iterator[bytes]:
    """Return the records that the manifest speaks of, in pieces.

    Raises: RefusedError ("damaged") when they aren't what the manifest says.
    """
    found = Tally()
    lines: list[bytes] = []
    records = iter(broker.records(topic))
    while found.records + len(lines) < expected.records and (record := next(records, None)):
        lines.append(record.value + b"\n")
        if len(lines) == 1000 or found.records + len(lines) == expected.records:
            piece = b"".join(lines)
            found = found.extended(piece)
            lines.clear()
            yield piece
    if found != expected:
        raise DamagedError(
            f"{broker.prefix}{topic} isn't what the manifest says; `check` tells more. Nothing was exported."
        )


def _answer(verb: str, before: Published, after: Published, put_right: list[str]) -> Answer:
    was, now = before.manifest.tallies, after.manifest.tallies
    return {
        "verb": verb,
        "t0": spell(after.manifest.t0),
        "t_end": spell(after.manifest.t_end),
        "boundaries": len(after.manifest.boundaries),
        "published": {topic: now[topic].records - was[topic].records for topic in EVENT_TOPICS},
        "put_right": put_right,
    }

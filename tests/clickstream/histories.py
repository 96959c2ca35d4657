"""Histories to compare: as they should be, made in one go without Kafka, and as a broker holds them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from clickstream.instant import DAY, Instant, parse
from clickstream.topics import EVENT_TOPICS, MANIFEST, STATE, Tallies, no_records
from clickstream.world import Parameters, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from clickstream.broker import Broker

T0 = "2024-02-28T12:00:00Z"  # the day before a leap day, at noon


class WorldArguments(TypedDict):
    """What a backfill is told of its world."""

    t0: str
    visits_a_day: int
    seed: int


SMALL: WorldArguments = {"t0": T0, "visits_a_day": 200, "seed": 7}
"""A small world; give `days` with it."""


@dataclass(frozen=True)
class History:
    """What was published: the records of each topic as lines, and the state."""

    topics: dict[str, bytes]
    state: bytes


def made(parameters: Parameters, ends: Iterable[int], kind: type[World] = World) -> History:
    """The history from t0 through each of `ends`, its world saved and restored at each."""
    world = kind(parameters)
    lines: dict[str, list[bytes]] = {topic: [] for topic in EVENT_TOPICS}
    for end in ends:
        for batch in world.until(Instant(end)):
            for topic in EVENT_TOPICS:
                lines[topic].append(batch.get(topic, b""))
        world = World.restore(world.state())
    return History({topic: b"".join(pieces) for topic, pieces in lines.items()}, world.state())


def days(number: int, t0: str = T0, visits_a_day: int = 200, seed: int = 7) -> History:
    """That many model days, in one go."""
    start = parse(t0)
    return made(Parameters(start, seed, visits_a_day), [start + number * DAY])


def until(t_end: str) -> History:
    """The small world up to an instant, in one go."""
    return made(Parameters(parse(T0), 7, 200), [parse(t_end)])


def tallies(history: History) -> Tallies:
    """The tallies of a history."""
    return {topic: tally.extended(history.topics[topic]) for topic, tally in no_records().items()}


def held(broker: Broker) -> History:
    """The committed records that a broker holds, and its last state."""
    state = broker.last(STATE)
    topics = {topic: b"".join(record.value + b"\n" for record in broker.records(topic)) for topic in EVENT_TOPICS}
    return History(topics, state.value if state else b"")


def manifest(broker: Broker) -> dict[str, Any]:
    """The published manifest, as its JSON says."""
    record = broker.last(MANIFEST)
    assert record is not None
    return dict(json.loads(record.value))


def started(broker: Broker, *arguments: str) -> subprocess.Popen[str]:
    """The command line, started."""
    more = [] if broker.transactions else ["--no-transactions"]
    environment = {
        **os.environ,
        "KAFKA_BOOTSTRAP_SERVERS": broker.servers,
        "CLICKSTREAM_PREFIX": broker.prefix,
    }
    return subprocess.Popen(
        [sys.executable, "-m", "clickstream", *arguments, *more],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    answer: dict[str, Any]
    stdout: str
    stderr: str


def outcome(process: subprocess.Popen[str]) -> Outcome:
    """Wait for a command's end."""
    stdout, stderr = process.communicate(timeout=300)
    try:
        answer = json.loads(stdout)
    except ValueError:
        answer = {}
    return Outcome(process.returncode, answer, stdout, stderr)


def command(broker: Broker, *arguments: str) -> Outcome:
    """Run the command line to its end."""
    return outcome(started(broker, *arguments))


def wait_for(condition: Callable[[], object], what: str, seconds: float = 120) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: still not after {seconds} s"
        time.sleep(0.05)

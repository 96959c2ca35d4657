"""The history that the topics hold: reading it, and checking that its boundary is in order."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clickstream.errors import ClickstreamError, RefusedError
from clickstream.instant import Instant, spell
from clickstream.manifest import Manifest
from clickstream.topics import EVENT_TOPICS, MANIFEST, STATE
from clickstream.world import World

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from clickstream.broker import Broker, Offsets, Record

OFFSETS_HEADER = "offsets"
"""A header of the manifest's record: the offsets that its history takes up, so that few records need counting again."""


@dataclass(frozen=True, slots=True)
class Published:
    """A manifest as it was found, with the offsets that its history takes up, where they are known."""

    manifest: Manifest
    text: bytes
    offsets: Offsets

    @classmethod
    def nothing(cls, t0: Instant) -> Published:
        """Return what is published before a history that begins at t0."""
        return cls(Manifest.opening(t0), b"", {})

    @classmethod
    def of(cls, record: Record) -> Published:
        """Read a manifest's record.

        Raises: DamagedError.
        """
        return cls(Manifest.from_json(record.value), record.value, _offsets(record.headers))

    def follows(self, other: Published) -> bool:
        """Whether this is the other one's history, gone on with."""
        return self.manifest.t0 == other.manifest.t0 and self.manifest.t_end > other.manifest.t_end


def published(broker: Broker) -> Published:
    """Return what is published now, once all of it can be read.

    Raises: RefusedError ("no-history") when nothing is; DamagedError.
    """
    there = broker.topics()
    record = broker.last(MANIFEST) if MANIFEST in there else None
    if record is None:
        raise _no_history(broker, there)
    history = Published.of(record)
    for topic in (*EVENT_TOPICS, STATE):
        if topic not in there:
            raise RefusedError(
                "missing-records",
                f"Topic {broker.prefix}{topic} is missing, though a history until {spell(history.manifest.t_end)} is "
                f"published. {CURE}",
            )
    if why := broker.await_decided({topic: end for topic, (_, end) in history.offsets.items()}):
        raise ClickstreamError(
            f"The history until {spell(history.manifest.t_end)} is published, but its records can't be read: {why}. "
            "That is somebody else's: it ends with whoever opened it, or by the broker's time limit."
        )
    return history


def _no_history(broker: Broker, topics: Iterable[str]) -> RefusedError:
    for topic in topics:
        if topic != MANIFEST and next(broker.records(topic), None) is not None:
            return RefusedError(
                "no-history", f"No manifest is published, but {broker.prefix}{topic} holds records. {RECOVERY}"
            )
    return RefusedError(
        "no-history", "The stand is empty: no manifest is published. Start with `backfill` or `import`."
    )


def last_state(broker: Broker) -> World | None:
    """Return the world of the last state that was published.

    Raises: DamagedError.
    """
    record = broker.last(STATE)
    return None if record is None else World.restore(record.value)


def belongs(state: World | None, manifest: Manifest) -> bool:
    """Whether a state is the one at the manifest's T_end."""
    return state is not None and (state.now, state.parameters.t0) == (manifest.t_end, manifest.t0)


def state_of(broker: Broker, manifest: Manifest) -> World:
    """Return the world at the manifest's T_end, from the last state that was published. No generator may be at work.

    Raises: RefusedError ("wrong-state") when that state is of another instant; DamagedError.
    """
    state = last_state(broker)
    if state is None or not belongs(state, manifest):
        raise wrong_state(state, manifest)
    return state


def wrong_state(state: World | None, manifest: Manifest) -> RefusedError:
    """Say that a state, or none, isn't the manifest's."""
    ends = f"the manifest ends at {spell(manifest.t_end)}"
    if state is None:
        return RefusedError("wrong-state", f"There is no state, but {ends}. {RECOVERY}")
    return RefusedError(
        "wrong-state",
        f"The state is of {spell(state.now)} (history from {spell(state.parameters.t0)}), "
        f"but {ends} (history from {spell(manifest.t0)}). {RECOVERY}",
    )


RECOVERY = (
    "A run died before its manifest, or something else writes to the topics: `docs/clickstream.md`, “After a death "
    "before the manifest”, says how to be sure, and what to do."
)


def count(broker: Broker, history: Published, topic: str) -> int:
    """How many committed records a topic holds.

    A log only grows, so what the manifest's offsets cover needs no counting again while the topic's ends bear them out.
    """
    first, end = broker.extent(topic)
    begins, ends = history.offsets.get(topic, (-1, -1))
    if first == begins and ends <= end:
        return history.manifest.tallies[topic].records + sum(1 for _ in broker.records(topic, ends))
    return sum(1 for _ in broker.records(topic, first))


def require_no_tail(broker: Broker, history: Published) -> None:
    """Raise as `require_whole`, for whoever has the seat: nobody else may be at work."""
    require_whole(broker, history, {topic: count(broker, history, topic) for topic in EVENT_TOPICS})


def require_whole(broker: Broker, history: Published, found: Mapping[str, int]) -> None:
    """Raise RefusedError ("tail" or "missing-records") with both numbers when a topic holds more or fewer records."""
    for topic in EVENT_TOPICS:
        expected = history.manifest.tallies[topic].records
        numbers = f"{broker.prefix}{topic} holds {found[topic]} records, the manifest says {expected}"
        if found[topic] > expected:
            raise RefusedError("tail", f"{numbers}: a tail of {found[topic] - expected}. {RECOVERY}")
        if found[topic] < expected:
            raise RefusedError(
                "missing-records",
                f"{numbers}: {expected - found[topic]} are missing{gone(broker, history, topic)}. {CURE}",
            )


def gone(broker: Broker, history: Published, topic: str) -> str:
    """Return a clause on what the topic's beginning has lost, or nothing."""
    first, _ = broker.extent(topic)
    begins, _ = history.offsets.get(topic, (0, 0))
    return f"; what lay at offsets {begins} to {first - 1} is gone, deleted or expired" if first > begins else ""


CURE = (
    "Nothing here brings them back but an artifact that `export` wrote before: make sure that there is one, then "
    "`clear --yes` and `import` it."
)


def require_clean(broker: Broker) -> None:
    """Raise RefusedError ("not-clean") when a topic holds a committed record."""
    for topic in (*EVENT_TOPICS, STATE, MANIFEST):
        if next(broker.records(topic), None) is not None:
            raise RefusedError(
                "not-clean",
                f"Topic {broker.prefix}{topic} holds records already; a history begins on a clean stand. `check` says "
                "what history is there: go on with it by `next-day`, or, if nobody needs it (`export` keeps one), "
                "empty the topics with `clear --yes`.",
            )


def _offsets(headers: Mapping[str, bytes]) -> Offsets:
    """Return what the header says, or nothing where another writer left it out: then the records are counted."""
    try:
        stored = json.loads(headers.get(OFFSETS_HEADER, b"{}"))
        return {topic: (int(first), int(end)) for topic, (first, end) in stored.items()}
    except (ValueError, TypeError, AttributeError):
        return {}

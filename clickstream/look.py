"""Looking at the history beside a generator that is at work: one view, and no fault before a second look.

A look reads the manifest, and then as many records as it speaks of. Whatever a generator publishes meanwhile, and what
has been committed in one topic a moment before the other, is no fault; so anything else than the expected numbers is
believed only when the manifest, read again once all that was written is decided, doesn't explain it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from clickstream.errors import RefusedError
from clickstream.history import belongs, count, gone, last_state, published, require_whole, wrong_state
from clickstream.topics import EVENT_TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clickstream.broker import Broker, Record
    from clickstream.history import Published


class Look(NamedTuple):
    """A history, and the records of each topic: as many as its manifest says, or fewer or more, which are faults."""

    history: Published
    found: Mapping[str, int]

    def beyond(self, topic: str) -> int:
        """How many records a topic has behind those that the manifest speaks of: a tail."""
        return max(0, self.found[topic] - self.history.manifest.tallies[topic].records)

    def records(self, broker: Broker, topic: str) -> Iterator[Record]:
        """Yield the topic's records of this look, its tail included."""
        _, end = self.history.offsets.get(topic, (0, 0))
        expected, beyond = self.history.manifest.tallies[topic].records, self.beyond(topic)
        for number, record in enumerate(broker.records(topic)):
            if record.offset >= end and number >= expected:
                if beyond == 0:
                    return
                beyond -= 1
            yield record


def look(broker: Broker) -> Look:
    """Look at what is published.

    Raises: RefusedError ("no-history", or "generator-running" when one publishes without transactions and isn't done
    with it); DamagedError.
    """
    history = published(broker)
    while True:
        found = {topic: count(broker, history, topic) for topic in EVENT_TOPICS}
        if found == _expected(history):
            return Look(history, found)
        again = _looked_again(broker, history)
        expected = _expected(again)
        if again.text == history.text:
            # Fewer may have been counted for want of the last moment's commit; more were there before the second look.
            late = {t: min(count(broker, again, t), expected[t]) for t in found if found[t] < expected[t]}
            return Look(again, {**found, **late})
        if again.follows(history) and all(found[topic] >= was for topic, was in _expected(history).items()):
            return Look(again, {topic: max(found[topic], expected[topic]) for topic in found})
        history = again  # another history, or one that lacks something: from the beginning


def require_sound(broker: Broker) -> Look:
    """Look at what is published, and raise RefusedError ("tail" or "missing-records") unless the numbers are right."""
    looked = look(broker)
    require_whole(broker, *looked)
    return looked


def require_beginning(broker: Broker, looked: Look) -> None:
    """Raise RefusedError ("missing-records") when a topic no longer begins where its history does."""
    if any(gone(broker, looked.history, topic) for topic in EVENT_TOPICS):
        require_whole(broker, *looked)


def require_state(broker: Broker) -> None:
    """Raise RefusedError ("wrong-state") unless the last state belongs to the manifest."""
    before = None
    history = published(broker)
    while not belongs(state := last_state(broker), history.manifest):
        history = _looked_again(broker, history)
        if belongs(state, history.manifest):
            return
        # An earlier state than the manifest's may have been read just before that was committed; not twice.
        now = state and state.now
        if before == (now, history.text) or (now and now > history.manifest.t_end):
            raise wrong_state(state, history.manifest)
        before = now, history.text


def _expected(history: Published) -> dict[str, int]:
    return {topic: tally.records for topic, tally in history.manifest.tallies.items()}


def _looked_again(broker: Broker, history: Published) -> Published:
    """Return what is published once all that has been written so far is decided.

    Without transactions, a publication that is under way is decided by its manifest, or by the generator's end.
    """
    broker.await_decided()
    if not broker.transactions and (who := broker.await_rest(lambda: published(broker).text != history.text)):
        raise RefusedError(
            "generator-running",
            f"There is more in the topics than the manifest says, and a generator is at work: {who}. Without "
            "transactions its records are seen before its manifest; look again when it is done.",
        )
    return published(broker)

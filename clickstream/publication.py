"""Publishing one portion of a history: the events, the state, and the manifest, whose arrival is the commit point."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from clickstream import ahead
from clickstream.errors import ClickstreamError, RefusedError
from clickstream.history import OFFSETS_HEADER, Published, require_no_tail
from clickstream.instant import Instant, spell
from clickstream.manifest import Manifest
from clickstream.topics import MANIFEST, STATE, Batch, Tallies

if TYPE_CHECKING:
    from clickstream.broker import Broker, Seat, Writer
    from clickstream.world import World

Progress = Callable[[str], None]
"""Told each moment of a publication as it passes: begun, events, state, manifest, committed."""


def publish(
    writer: Writer,
    seat: Seat,
    batches: Iterable[Batch],
    before: Published,
    *,
    state: Callable[[], bytes],
    manifest: Callable[[Tallies], bytes],
    progress: Progress,
) -> Published:
    """Publish one portion: the events, then the state, then the manifest, whose arrival is the commit point.

    `before` is what is published so far. `state` and `manifest` are asked when the batches have been taken, the latter
    with the new tallies, and may still refuse. Whatever goes wrong before the commit takes the portion back where the
    broker has transactions. So does a record of something else: the history would lose one of its own for it.

    Raises: KeyboardInterrupt and ClickstreamError, with a sentence on what came of the portion.
    """
    tallies = dict(before.manifest.tallies)
    writer.begin()
    last_manifest = None
    try:
        with writer.broker.named_errors():
            _require_room_of_its_own(writer.broker, before)
            progress("begun")
            for batch in batches:
                for topic, lines in batch.items():
                    tallies[topic] = tallies[topic].extended(lines, writer.send_lines(topic, lines))
            writer.flush()
            last_state, ours = state(), manifest(tallies)
            offsets = writer.own_extents()
            progress("events")
            writer.send(STATE, last_state)
            writer.flush()
            progress("state")
            seat.confirm()
            last_manifest = ours
            writer.send(MANIFEST, ours, {OFFSETS_HEADER: json.dumps(offsets).encode()})
            writer.flush()
            progress("manifest")
            writer.commit()
    except (KeyboardInterrupt, ClickstreamError) as error:
        writer.abort()
        raise _with_outcome(error, writer, before, last_manifest) from error
    except BaseException:
        writer.abort()
        raise
    progress("committed")
    return Published(Manifest.from_json(ours), ours, offsets)


def publish_until(
    writer: Writer,
    seat: Seat,
    world: World,
    before: Published,
    end: Instant,
    *,
    portion_from: Instant,
    progress: Progress,
) -> Published:
    """Generate and publish [world.now, end), as part of the portion that began at `portion_from`."""

    def manifest(tallies: Tallies) -> bytes:
        return before.manifest.extended(end, tallies, portion_from=portion_from).to_json()

    with ahead.generated(world, end) as batches:
        return publish(writer, seat, batches, before, state=world.state, manifest=manifest, progress=progress)


def _require_room_of_its_own(broker: Broker, before: Published) -> None:
    """Raise RefusedError unless the topics hold what is published so far, and nothing else is about to join it."""
    if why := broker.await_decided():
        raise RefusedError(
            "foreign-records",
            f"Something else writes to the topics: {why}. Nothing was published. That transaction ends with whoever "
            "opened it, or by the broker's time limit; ask again then.",
        )
    require_no_tail(broker, before)


def _with_outcome(
    error: KeyboardInterrupt | ClickstreamError, writer: Writer, before: Published, manifest: bytes | None
) -> BaseException:
    """Return the error with a sentence on whether the portion is published, and what asking again would do.

    `manifest` is that of the portion, once it was sent.
    """
    sent = None if manifest is None else Manifest.from_json(manifest)
    came = writer.committed or (sent is not None and _is_published(writer.broker, sent))
    if isinstance(error, RefusedError) and came is False:
        return error  # it says so itself
    was = spell(before.manifest.t_end)
    if sent is None or came is False:
        told = f"The history still ends at {was}" if before.text else "Nothing of it is published"
        if not writer.broker.transactions:
            told += "; `check` says what was left behind."
        else:
            told += ": `next-day` goes on from there." if before.text else ": ask again."
    elif came:
        told = (
            f"The history until {spell(sent.t_end)} is published: don't ask for it again. `next-day` with "
            f"--expected-t-end {was} is refused; without, it makes one day more."
        )
    else:
        told = (
            f"Whether the history until {spell(sent.t_end)} is published isn't known; `check` tells. `next-day` with "
            f"--expected-t-end {was} is safe: it makes the day only if it isn't."
        )
    if isinstance(error, KeyboardInterrupt):
        return KeyboardInterrupt(f"Interrupted {'before' if came is False else 'behind'} the commit point. {told}")
    return ClickstreamError(f"{error} {told}")


def _is_published(broker: Broker, manifest: Manifest) -> bool | None:
    """Whether the history is published as far as that manifest says, or None where the broker can't say."""
    try:
        _, end = broker.extent(MANIFEST)
        if broker.await_decided({MANIFEST: end}):
            return None
        record = broker.last(MANIFEST)
        latest = None if record is None else Manifest.from_json(record.value)
    except ClickstreamError:
        return None
    return latest is not None and latest.t0 == manifest.t0 and latest.t_end >= manifest.t_end

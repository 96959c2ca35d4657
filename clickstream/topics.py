"""The six topics, and what is counted of the four that carry events."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

BROWSER: Final = "browser_events"
LOCATION: Final = "location_events"
DEVICE: Final = "device_events"
GEO: Final = "geo_events"
EVENT_TOPICS: Final = (BROWSER, LOCATION, DEVICE, GEO)

STATE: Final = "generator_state"
MANIFEST: Final = "generator_manifest"
GENERATOR_TOPICS: Final = (STATE, MANIFEST)
GENERATOR_KEY: Final = b"default"

Batch = Mapping[str, bytes]
"""Lines by event topic: each topic's next records in the order of publication, each followed by a newline."""


KEY: Final = slice(13, 49)
"""Where an event record has its key: its first field, a UUID behind `{"event_id":"` or `{"click_id":"`."""


def key_of(record: bytes) -> bytes:
    """Return the key of an event record."""
    return record[KEY]


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of records of a topic and their checksum, from the first record of the history on.

    The checksum is the CRC-32 of the records in order, each followed by a newline. It can be carried on from any record
    and doesn't depend on how the records were grouped, so a history has one tally however it was divided.
    """

    records: int = 0
    checksum: int = 0

    def extended(self, lines: bytes, records: int | None = None) -> Tally:
        """Return this tally after the records in `lines`, each of which a newline follows.

        Say how many they are where that is known: counting takes longer than the checksum.
        """
        records = lines.count(b"\n") if records is None else records
        return Tally(self.records + records, zlib.crc32(lines, self.checksum))


Tallies = dict[str, Tally]


def no_records() -> Tallies:
    """Return the tallies of an empty history."""
    return {topic: Tally() for topic in EVENT_TOPICS}

"""The manifest: one JSON record that says what history is published. Its arrival is the commit point."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from clickstream.errors import DamagedError, UsageError
from clickstream.instant import Instant, parse, spell
from clickstream.topics import EVENT_TOPICS, Tallies, Tally, no_records

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is published: the history [t0, t_end), its tallies, and where one portion ended and the next began.

    `boundaries` runs from t0 to t_end, both included, strictly ascending.
    """

    t0: Instant
    t_end: Instant
    tallies: Tallies
    boundaries: tuple[Instant, ...]

    @classmethod
    def opening(cls, t0: Instant) -> Manifest:
        """Return the manifest of a history that hasn't begun: [t0, t0). It is never published."""
        return cls(t0, t0, no_records(), (t0,))

    def extended(self, t_end: Instant, tallies: Tallies, *, portion_from: Instant) -> Manifest:
        """Return this manifest after [self.t_end, t_end), as part of the portion that began at `portion_from`."""
        begun = tuple(boundary for boundary in self.boundaries if boundary <= portion_from)
        return Manifest(self.t0, t_end, tallies, (*begun, t_end))

    def to_json(self) -> bytes:
        """One canonical line: the same history gives the same bytes."""
        document = {
            "format": FORMAT,
            "t0": spell(self.t0),
            "t_end": spell(self.t_end),
            "topics": {
                topic: {"records": tally.records, "checksum": f"{tally.checksum:08x}"}
                for topic, tally in self.tallies.items()
            },
            "boundaries": [spell(boundary) for boundary in self.boundaries],
        }
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Manifest:
        """Read a manifest; one without `boundaries` is read as [t0, t_end]. Fields beyond ours are no fault.

        Raises: DamagedError with what is wrong.
        """
        try:
            document = json.loads(text)
        except ValueError as error:
            raise DamagedError(f"The manifest is not JSON: {error}.") from None
        if not isinstance(document, dict):
            raise DamagedError("The manifest is not a JSON object.")
        if document.get("format") != FORMAT:
            raise DamagedError(
                f"The manifest has format {document.get('format')!r}; this version reads format {FORMAT}."
            )
        t0, t_end = _instant(document, "t0"), _instant(document, "t_end")
        topics = document.get("topics")
        if not isinstance(topics, dict):
            raise DamagedError("The manifest's `topics` is not a JSON object.")
        tallies = {topic: _tally(topic, topics.get(topic)) for topic in EVENT_TOPICS}
        return cls(t0, t_end, tallies, _boundaries(document, t0, t_end))


def _instant(document: Mapping[str, Any], field: str) -> Instant:
    try:
        return parse(document[field])
    except KeyError:
        raise DamagedError(f"The manifest has no `{field}`.") from None
    except (UsageError, AttributeError) as error:
        raise DamagedError(f"The manifest's `{field}` is damaged: {error}") from None


def _tally(topic: str, entry: object) -> Tally:
    match entry:
        case {"records": bool()}:
            pass
        case {"records": int(records), "checksum": str(checksum)} if records >= 0 and re.fullmatch(
            "[0-9a-f]{8}", checksum
        ):
            return Tally(records, int(checksum, 16))
    raise DamagedError(f"The manifest has no number of records and checksum for {topic}.")


def _boundaries(document: Mapping[str, Any], t0: Instant, t_end: Instant) -> tuple[Instant, ...]:
    listed = document.get("boundaries", [spell(t0), spell(t_end)])
    try:
        boundaries = tuple(parse(boundary) for boundary in listed)
    except (UsageError, AttributeError, TypeError) as error:
        raise DamagedError(f"The manifest's `boundaries` are damaged: {error}") from None
    ascending = all(earlier < later for earlier, later in pairwise(boundaries))
    if len(boundaries) < 2 or boundaries[0] != t0 or boundaries[-1] != t_end or not ascending:
        raise DamagedError(
            f"The manifest's `boundaries` don't ascend from its t0 {spell(t0)} to its t_end {spell(t_end)}."
        )
    return boundaries

"""Looking over what is published: `check` counts it against the manifest, `chain-check` looks at each boundary."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from clickstream.errors import RefusedError
from clickstream.history import gone, last_state
from clickstream.instant import spell, spell_in_record
from clickstream.look import look, require_beginning, require_state
from clickstream.topics import BROWSER, DEVICE, EVENT_TOPICS, GEO, LOCATION, Tally, key_of
from clickstream.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from clickstream.broker import Broker, Record
    from clickstream.instant import Instant
    from clickstream.manifest import Manifest

MOST_FAULTS_LISTED = 1000

_BROWSER_FACTS = ("browser_name", "browser_user_agent", "browser_language")
_LOCATION_FACTS = (
    "referer_url", "referer_medium", "utm_medium", "utm_source", "utm_content", "utm_campaign",
)  # fmt: skip


# ── check ──


class TopicCheck(TypedDict):
    """A topic as the manifest has it and as it was found."""

    records: int
    expected_records: int
    checksum: str
    expected_checksum: str


class CheckAnswer(TypedDict):
    """What `check` found; no faults means that all is as the manifest says."""

    verb: str
    t0: str
    t_end: str
    topics: dict[str, TopicCheck]
    faults: list[str]


def check(broker: Broker) -> CheckAnswer:
    """Recount every event topic against the manifest, and see whether the state belongs to it."""
    faults: list[str] = []
    topics: dict[str, TopicCheck] = {}
    looked = look(broker)
    manifest = looked.history.manifest
    try:
        require_state(broker)
    except RefusedError as refusal:
        faults.append(str(refusal))
    for topic in EVENT_TOPICS:
        expected = manifest.tallies[topic]
        found, at_expected, wrong_key = _recount(looked.records(broker, topic), expected.records)
        topics[topic] = {
            "records": found.records,
            "expected_records": expected.records,
            "checksum": f"{found.checksum:08x}",
            "expected_checksum": f"{expected.checksum:08x}",
        }
        lost = gone(broker, looked.history, topic)
        faults += [f"{topic}: {fault}" for fault in _topic_faults(expected, found, at_expected, lost, wrong_key)]
    return {
        "verb": "check",
        "t0": spell(manifest.t0),
        "t_end": spell(manifest.t_end),
        "topics": topics,
        "faults": faults,
    }


def _recount(records: Iterable[Record], expected_records: int) -> tuple[Tally, Tally, int | None]:
    """Return a topic's tally, that of its first `expected_records`, and the first offset whose key is wrong."""
    found = at_expected = Tally()
    wrong_key = None
    for record in records:
        found = found.extended(record.value.replace(b"\n", b" ") + b"\n")
        if found.records == expected_records:
            at_expected = found
        if wrong_key is None and record.key != key_of(record.value):
            wrong_key = record.offset
    return found, at_expected, wrong_key


def _topic_faults(expected: Tally, found: Tally, at_expected: Tally, lost: str, wrong_key: int | None) -> Iterator[str]:
    if found.records < expected.records:
        missing = expected.records - found.records
        yield f"{found.records} records, the manifest says {expected.records}: {missing} are missing{lost}"
    elif at_expected != expected:
        yield (
            f"checksum {at_expected.checksum:08x} after {expected.records} records, the manifest says "
            f"{expected.checksum:08x}: what was published has been altered"
        )
    if found.records > expected.records:
        tail = found.records - expected.records
        yield f"{found.records} records, the manifest says {expected.records}: a tail of {tail}"
    if wrong_key is not None:
        yield f"the record at offset {wrong_key} has a key that isn't its id"


# ── chain-check ──


class BoundaryCheck(TypedDict):
    """A boundary, and the portion [boundary, until) that began there.

    Visits survived it when they have events on both sides. `unpaired` and `changed` count the faults.
    """

    boundary: str
    until: str
    page_views: int
    visits_born: int
    visits_survived: int
    unpaired: int
    changed: int


class Fault(TypedDict):
    """What is wrong, and at which boundary: the beginning of the portion that it lies in."""

    boundary: str
    fault: str


class ChainAnswer(TypedDict):
    """What `chain-check` found; `faults` lists the first MOST_FAULTS_LISTED of `faults_found`."""

    verb: str
    boundaries: list[BoundaryCheck]
    faults_found: int
    faults: list[Fault]


class _PageView(NamedTuple):
    portion: int
    click_id: str
    facts: int


class _Found(NamedTuple):
    """A fault as it is known again in another walk, where the same record may have another offset and neighbours."""

    counter: str | None
    sentence: str
    record: bytes


class _Line(NamedTuple):
    """A record as a world publishes it."""

    offset: int
    value: bytes


class _Chain:
    """One walk over the four topics; remembers each visit (about 300 bytes) and each record that waits for its pair.

    asked_for: the faults that were asked for, as dirt; each is none, as often as it is here.
    """

    def __init__(
        self, records: Callable[[str], Iterator[_Line]], boundaries: Sequence[Instant], asked_for: Counter[_Found]
    ) -> None:
        self._records, self._asked_for = records, asked_for
        self.all_found: Counter[_Found] = Counter()
        self._starts = [spell_in_record(boundary) for boundary in boundaries[:-1]]
        self._end = spell_in_record(boundaries[-1])
        self.rows: list[BoundaryCheck] = [
            {
                "boundary": spell(start), "until": spell(end), "page_views": 0, "visits_born": 0, "visits_survived": 0,
                "unpaired": 0, "changed": 0,
            }
            for start, end in pairwise(boundaries)
        ]  # fmt: skip
        self.faults: list[Fault] = []
        self.faults_found = 0
        self._born: dict[str, int] = {}  # by click_id, the portion of its first page view
        self._latest: dict[str, tuple[int, int]] = {}  # by click_id, the portion and facts of its latest one

    def walk_page_views(self) -> None:
        """Pair browser and location events, which lie in the same order, and follow each visit's facts."""
        views: dict[str, list[_PageView]] = {}
        places: dict[str, list[tuple[int, int]]] = {}
        portion = 0
        for browser, location in zip_longest(self._records(BROWSER), self._records(LOCATION)):
            if browser and (
                event := self._read(BROWSER, browser, portion, ("event_id", "event_timestamp", "click_id"))
            ):
                portion = self._portion(event["event_timestamp"], browser)
                view = _PageView(portion, event["click_id"], _facts(event, _BROWSER_FACTS))
                views.setdefault(event["event_id"], []).append(view)
                self._see(event["event_id"], views, places)
            if location and (event := self._read(LOCATION, location, portion, ("event_id",))):
                places.setdefault(event["event_id"], []).append((portion, _facts(event, _LOCATION_FACTS)))
                self._see(event["event_id"], views, places)
        for event_id, waiting in views.items():
            for view in waiting:
                self._fault(view.portion, "unpaired", f"browser event {event_id} has no location event")
        for event_id, alone in places.items():
            for near, _ in alone:
                self._fault(near, "unpaired", f"location event {event_id} has no browser event")

    def walk_visits(self, topic: str, kind: str) -> None:
        """See that each click has a record in `topic`, and each record there a click."""
        waiting = dict(self._born)
        seen: set[str] = set()
        near = 0
        for record in self._records(topic):
            if event := self._read(topic, record, near, ("click_id",)):
                click_id = event["click_id"]
                if click_id in seen:
                    self._fault(near, "unpaired", f"click {click_id} has more than one {kind} event")
                elif click_id in waiting:
                    near = waiting.pop(click_id)
                else:
                    self._fault(near, "unpaired", f"{kind} event of click {click_id} has no page view")
                seen.add(click_id)
        for click_id, portion in waiting.items():
            self._fault(portion, "unpaired", f"click {click_id} has no {kind} event")

    def walk(self) -> _Chain:
        """Walk over all topics."""
        self.walk_page_views()
        self.walk_visits(DEVICE, "device")
        self.walk_visits(GEO, "geo")
        return self

    def _see(self, event_id: str, views: dict[str, list[_PageView]], places: dict[str, list[tuple[int, int]]]) -> None:
        if event_id not in views or event_id not in places:
            return
        portion, click_id, browser_facts = views[event_id].pop(0)
        facts = hash((browser_facts, places[event_id].pop(0)[1]))
        for waiting in (views, places):
            if not waiting[event_id]:
                del waiting[event_id]
        self.rows[portion]["page_views"] += 1
        if click_id not in self._latest:
            self._born[click_id] = portion
            self.rows[portion]["visits_born"] += 1
        else:
            before, facts_before = self._latest[click_id]
            for survived in range(before + 1, portion + 1):
                self.rows[survived]["visits_survived"] += 1
            if facts != facts_before:
                self._fault(portion, "changed", f"visit {click_id} has other facts from event {event_id} on")
        self._latest[click_id] = (portion, facts)

    def _portion(self, timestamp: str, record: _Line) -> int:
        portion = bisect_right(self._starts, timestamp) - 1
        if portion < 0 or timestamp >= self._end:
            portion = max(portion, 0)
            self._fault(portion, None, f": {timestamp} lies outside of the history", BROWSER, record)
        return portion

    def _read(self, topic: str, record: _Line, portion: int, needed: tuple[str, ...]) -> dict[str, Any] | None:
        try:
            event = json.loads(record.value)
            if all(isinstance(event[name], str) for name in needed):
                return dict(event)
        except (ValueError, KeyError, TypeError):
            pass
        self._fault(portion, None, f" is no record with {', '.join(needed)}", topic, record)
        return None

    def _fault(
        self, portion: int, counter: str | None, sentence: str, topic: str = "", record: _Line | None = None
    ) -> None:
        found = _Found(counter, sentence, record.value if record else b"")
        if self._asked_for[found]:
            self._asked_for[found] -= 1
            return
        self.all_found[found] += 1
        row = self.rows[portion]
        if counter == "unpaired":
            row["unpaired"] += 1
        elif counter == "changed":
            row["changed"] += 1
        self.faults_found += 1
        if len(self.faults) < MOST_FAULTS_LISTED:
            where = f"{topic} offset {record.offset}" if record else ""
            self.faults.append({"boundary": row["boundary"], "fault": where + sentence})


def chain_check(broker: Broker) -> ChainAnswer:
    """See at each boundary that every record is paired, and that the visits that survived it kept their facts.

    Raises: RefusedError ("missing-records") when the beginning of a topic is gone, which would leave most unpaired.
    """
    looked = look(broker)
    require_beginning(broker, looked)
    manifest = looked.history.manifest
    asked_for = _dirt(broker, manifest)
    chain = _Chain(lambda topic: map(_line, looked.records(broker, topic)), manifest.boundaries, asked_for).walk()
    return {
        "verb": "chain-check",
        "boundaries": chain.rows,
        "faults_found": chain.faults_found,
        "faults": chain.faults,
    }


def _line(record: Record) -> _Line:
    return _Line(record.offset, record.value)


def _dirt(broker: Broker, manifest: Manifest) -> Counter[_Found]:
    """Return what a walk finds in this history as its world makes it: the dirt that was asked for, and nothing else."""
    world = last_state(broker)
    if world is None or world.parameters.t0 != manifest.t0 or not world.parameters.dirt:
        return Counter()

    def records(topic: str) -> Iterator[_Line]:
        lines = (line for batch in World(world.parameters).until(manifest.t_end) for line in batch[topic].splitlines())
        return (_Line(offset, line) for offset, line in enumerate(lines))

    return _Chain(records, manifest.boundaries, Counter()).walk().all_found


def _facts(event: dict[str, Any], names: tuple[str, ...]) -> int:
    return hash(tuple(str(event.get(name)) for name in names))

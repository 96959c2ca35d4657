"""Days of the generator's own world, as records, without a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clickstream.broker import Record
from clickstream.instant import DAY, Instant, parse
from clickstream.topics import EVENT_TOPICS
from clickstream.world import Parameters, World

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clickstream.etl import Etl


class History:
    """A world, and the next offset of each topic: it has gaps, as Kafka's transactions leave them."""

    def __init__(self, t0: str, visits_a_day: int = 200, dirt: int = 0) -> None:
        self.world = World(Parameters(parse(t0), 7, visits_a_day, dirt))
        self.next = dict.fromkeys(EVENT_TOPICS, 0)

    def day(self) -> dict[str, list[Record]]:
        """The records of one model day more."""
        values: dict[str, list[bytes]] = {topic: [] for topic in EVENT_TOPICS}
        for batch in self.world.until(Instant(self.world.now + DAY)):
            for topic, lines in batch.items():
                values[topic] += lines.splitlines()
        return {topic: self.records(topic, lines) for topic, lines in values.items()}

    def records(self, topic: str, values: Iterable[bytes]) -> list[Record]:
        """Records of these values, behind the topic's last one."""
        begin = self.next[topic]
        made = [Record(begin + number, b"", value, {}) for number, value in enumerate(values)]
        self.next[topic] += len(made) + 1
        return made

    def values(self, values: Iterable[tuple[str, bytes]]) -> dict[str, list[Record]]:
        """Records of these topics and values, each behind its topic's last one."""
        by_topic: dict[str, list[bytes]] = {}
        for topic, value in values:
            by_topic.setdefault(topic, []).append(value)
        return {topic: self.records(topic, of) for topic, of in by_topic.items()}


def load(etl: Etl, day: dict[str, list[Record]]) -> list[str]:
    """Load records into every layer and build the days that are due; returns those."""
    etl.warehouse.create()
    for topic, records in day.items():
        etl.stage(topic, records)
    return carry(etl)


def carry(etl: Etl) -> list[str]:
    """Carry what STG holds to the marts; returns the days that were due."""
    from datetime import date

    etl.load_ods()
    etl.load_dds()
    etl.check_integrity()
    due = etl.days_due()
    for day in map(date.fromisoformat, due):
        etl.stage_day(day)
        etl.swap_day(day)
    return due


def by_day(etl: Etl) -> dict[tuple[str, str], tuple[int, int, str]]:
    """Every mart's every day: its rows, events and checksum."""
    return {
        (line["mart"], line["event_date"]): (line["rows"], line["events"], line["checksum"]) for line in etl.counts()
    }

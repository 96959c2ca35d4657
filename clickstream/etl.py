"""The load: Kafka → STG → ODS → DDS → DM. Every step can be repeated, and a step that died leaves whole portions.

A step does what is missing and no more: STG goes on behind its last offset, ODS and DDS behind what they last took
over, and a mart's day is due when its fingerprint is no longer that of the records it was made of.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict

from clickstream.errors import ClickstreamError
from clickstream.history import published
from clickstream.instant import spell
from clickstream.look import require_sound
from clickstream.topics import EVENT_TOPICS
from clickstream.warehouse import Warehouse, beside, query

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import date

    from clickstream.broker import Broker, Record
    from clickstream.history import Published

MARTS = ("daily_traffic", "top_pages_daily", "visits_daily", "dq_summary")
"""The last one holds the fingerprint of what the day's marts were made of, so it is swapped last."""

BATCH_RECORDS = 50_000


class LoadError(ClickstreamError):
    """The load can't go on; what it did so far is whole, and the next run goes on from there."""


class Precheck(TypedDict):
    """What there is to load: the history's end, and the records of each topic that STG doesn't hold yet."""

    t0: str
    t_end: str
    to_load: dict[str, int]


class DayFacts(NamedTuple):
    """What DDS holds of a day. The fingerprint changes with anything that the day's marts are made of."""

    events: int
    visits: int
    fingerprint: str


class MartDay(TypedDict):
    """What a mart says of a day: its rows, the events that they add up to, and a checksum of all of it."""

    mart: str
    event_date: str
    rows: int
    events: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Etl:
    """The steps, in the order of the layers."""

    warehouse: Warehouse

    def precheck(self, broker: Broker) -> Precheck:
        """Make the tables, and see whether there is a whole history to load.

        Raises: Refused when there is no history, or the topics hold more or less than the manifest says; LoadError when
        the warehouse holds another history.
        """
        self.warehouse.create()
        history = require_sound(broker).history
        staged = self._staged()
        missing = {topic: history.manifest.tallies[topic].records - staged.get(topic, 0) for topic in EVENT_TOPICS}
        for topic, records in missing.items():
            if records < 0:
                raise LoadError(
                    f"STG holds {staged[topic]} records of {topic}, the manifest {staged[topic] + records}. "
                    f"{ANOTHER_HISTORY}"
                )
        return {"t0": spell(history.manifest.t0), "t_end": spell(history.manifest.t_end), "to_load": missing}

    def load_stg(self, broker: Broker) -> dict[str, int]:
        """Take in the committed records that the manifest speaks of and STG doesn't hold yet: how many, by topic.

        Only what the manifest speaks of: a publication that is under way, or died, isn't half loaded.

        Raises: LoadError when Kafka no longer holds what STG was loaded from, or fewer or more than the manifest says.
        """
        history, staged = published(broker), self._staged()
        return {topic: self._load_topic(broker, history, topic, staged.get(topic, 0)) for topic in EVENT_TOPICS}

    def _load_topic(self, broker: Broker, history: Published, topic: str, staged: int) -> int:
        missing = history.manifest.tallies[topic].records - staged
        last = next(iter(self.warehouse.rows("stg", "last_record", topic=topic)), None)
        if last is None:
            records = broker.records(topic)
        else:
            first, end = broker.extent(topic)
            records = broker.records(topic, last["offset"]) if first <= last["offset"] < end else iter(())
            again = next(records, None)
            if again is None or (again.offset, sha256(again.value).hexdigest()) != (last["offset"], last["digest"]):
                raise LoadError(
                    f"Kafka's {topic} no longer holds the last record of STG at {last['offset']}. {ANOTHER_HISTORY}"
                )
        if topic in history.offsets:
            _, end = history.offsets[topic]
            records = takewhile(lambda record: record.offset < end, records)
        else:
            records = islice(records, max(missing, 0))
        if (loaded := self.stage(topic, records)) != missing:
            raise LoadError(
                f"{topic} holds {staged + loaded} records where the manifest says {staged + missing}. `check` tells "
                "more."
            )
        return loaded

    def stage(self, topic: str, records: Iterable[Record]) -> int:
        """Write records into STG as they are; those that it holds already add nothing. Returns how many came."""
        count, records = 0, iter(records)
        while batch := list(islice(records, BATCH_RECORDS)):
            columns: list[list[object]] = [
                [topic] * len(batch),
                [record.offset for record in batch],
                [record.value for record in batch],
            ]
            self.warehouse.insert("stg.records", ("topic", "offset", "value"), columns)
            count += len(batch)
        return count

    def _staged(self) -> dict[str, int]:
        return {row["topic"]: row["records"] for row in self.warehouse.rows("stg", "counts")}

    def load_ods(self) -> dict[str, dict[str, int]]:
        """Type what STG holds behind the last portion: by topic, the records `typed` and `faulty`."""
        begin = self.warehouse.row("ods", "next_offset")
        return {topic: self._type(topic, begin[topic]) for topic in EVENT_TOPICS}

    def _type(self, topic: str, begin: int) -> dict[str, int]:
        typed = query("ods", topic)
        # The faulty ones first, as the typed ones tell where the next portion begins; an offset is one row anyhow.
        faulty = self.warehouse.attach(
            "ods.faulty",
            f"SELECT '{topic}' AS topic, offset, event_date, reason, value FROM ({typed}) WHERE reason != ''",  # noqa: S608
            **{"from": begin},
        )
        rows = self.warehouse.attach(f"ods.{topic}", f"SELECT * FROM ({typed}) WHERE reason = ''", **{"from": begin})  # noqa: S608
        return {"typed": rows, "faulty": faulty}

    def load_dds(self) -> dict[str, int]:
        """Put clicks and events together from what is new in ODS: how many of each were written."""
        written = {}
        for name in ("click", "event"):
            begin = self.warehouse.row("dds", f"{name}_from")
            written[name] = self.warehouse.attach(f"dds.{name}", query("dds", name), **begin)
        return written

    def empty(self, *layers: Literal["stg", "ods", "dds"]) -> list[str]:
        """Empty the tables of some layers, and name them. A mart's days are replaced, never emptied."""
        self.warehouse.create()
        tables = [row["table"] for row in self.warehouse.rows("stg", "tables", layers=list(layers))]
        for table in tables:
            self.warehouse.command(f"TRUNCATE TABLE {table}")
        return tables

    def check_integrity(self) -> dict[str, int]:
        """Count what can't be paired, repeats or is faulty. It stops nothing; the marts' `dq_summary` says it by day.

        Raises: LoadError when a record got lost between two layers.
        """
        lost = [row for row in self.warehouse.rows("dds", "conservation") if row["staged"] != row["accounted"]]
        if lost:
            what = ", ".join(f"{row['topic']}: {row['staged']} came in, {row['accounted']} are there" for row in lost)
            raise LoadError(f"Something was lost between the layers: {what}. Run the load with full_refresh.")
        return self.warehouse.row("dds", "integrity")

    def days_due(self, *, every: bool = False) -> list[str]:
        """Return the days whose marts aren't made of what DDS holds now, or all days; YYYY-MM-DD, in order."""
        loaded = {str(row["event_date"]): row["fingerprint"] for row in self.warehouse.rows("dds", "days")}
        built = {str(row["event_date"]): row["fingerprint"] for row in self.warehouse.rows("dm", "built")}
        return sorted(day for day in {*loaded, *built} if every or loaded.get(day) != built.get(day))

    def facts(self, day: date) -> DayFacts:
        """Return what DDS holds of a day now."""
        return DayFacts(**self.warehouse.row("dds", "day", day=day))

    def stage_day(self, day: date) -> None:
        """Build a day of every mart, beside them."""
        for mart in MARTS:
            self.warehouse.stage_day("dm", mart, day)

    def swap_day(self, day: date) -> None:
        """Put the day that was built in the place of what the marts hold of it; of one swapped in part, the rest."""
        for mart in self._built_beside(day):
            self.warehouse.swap_day("dm", mart, day)

    def drop_day(self, day: date) -> None:
        """Forget the day that was built beside the marts."""
        for mart in MARTS:
            self.warehouse.drop_day("dm", mart, day)

    def settle_day(self, day: date, recorded: tuple[int, int] | None) -> None:
        """Bring the marts to the (events, visits) that were recorded of a day, should a swap have died before its end.

        It goes on from what was built then; where that is gone, from DDS, if that still holds what was recorded. What
        was built and never recorded is forgotten.
        """
        built = self._built_beside(day)
        if MARTS[-1] in built and recorded == self._sums(beside(MARTS[-1], day), day):
            began = len(built) < len(MARTS)
            if began or recorded != self._sums(MARTS[-1], day):
                self.swap_day(day)
        self.drop_day(day)
        if recorded is not None and self._sums(MARTS[-1], day) != recorded == self.facts(day)[:2]:
            self.stage_day(day)
            self.swap_day(day)

    def _built_beside(self, day: date) -> list[str]:
        """Return the marts beside which a day stands built; in the middle of a swap these are the last ones."""
        tables = {row["name"] for row in self.warehouse.rows("dm", "tables")}
        return [mart for mart in MARTS if beside(mart, day) in tables]

    def _sums(self, table: str, day: date) -> tuple[int, int]:
        row = self.warehouse.row("dm", "summary", table=table, day=day)
        return row["events"], row["visits"]

    def validate(self, *, left_alone: Iterable[str] = (), sent: Mapping[str, int] | None = None) -> dict[str, int]:
        """Compare the marts with DDS, day by day, except for those that were left alone: days and events compared.

        sent: the events of days that stay as they were sent, whatever DDS says of them by now.

        Raises: LoadError with every difference.
        """
        sent = sent or {}
        expected = {str(row["event_date"]): row["events"] for row in self.warehouse.rows("dds", "days")} | {**sent}
        found = {(line["mart"], line["event_date"]): line["events"] for line in self.counts()}
        days = sorted({*expected, *(day for _, day in found)} - set(left_alone))
        wrong = [
            f"{mart} says {found.get((mart, day), 0)} events on {day}, "
            + (f"{sent[day]} were sent" if day in sent else f"DDS {expected.get(day, 0)}")
            for day in days
            for mart in MARTS
            if found.get((mart, day), 0) != expected.get(day, 0)
        ]
        if wrong:
            raise LoadError(f"{'; '.join(wrong)}. Run the load with full_refresh.")
        return {"days": len(days), "events": sum(expected.get(day, 0) for day in days)}

    def counts(self) -> list[MartDay]:
        """Return what every mart says of every day."""
        return [{**row, "event_date": str(row["event_date"])} for row in self.warehouse.rows("dm", "counts")]  # type: ignore[typeddict-item]


ANOTHER_HISTORY = (
    "The topics were made anew since the warehouse was loaded, or the warehouse is another stand's. `check` says what "
    "history the topics hold. If that is the one to load, empty the warehouse with "
    "`python -m clickstream clear-warehouse --yes`, and load again."
)

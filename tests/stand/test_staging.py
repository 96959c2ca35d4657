"""From a real Kafka into STG: exactly what the manifest speaks of, once."""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from clickstream import verbs
from clickstream.broker import Broker
from clickstream.errors import RefusedError
from clickstream.etl import Etl, LoadError
from clickstream.topics import BROWSER, EVENT_TOPICS, MANIFEST
from clickstream.verbs import Stand

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clickstream.warehouse import Warehouse

SMALL = {"t0": "2026-01-01T12:00:00Z", "visits_a_day": 100, "seed": 7}


@pytest.fixture(params=[True, False], ids=["transactions", "no-transactions"])
def broker(request: pytest.FixtureRequest, kafka: str) -> Iterator[Broker]:
    broker = Broker(kafka, f"t{uuid.uuid4().hex[:12]}_", transactions=request.param)
    yield broker
    broker.delete_topics()


@pytest.fixture
def etl(warehouse: Warehouse) -> Etl:
    warehouse.create()
    return Etl(warehouse)


def staged(etl: Etl) -> dict[str, int]:
    return {row["topic"]: row["records"] for row in etl.warehouse.rows("stg", "counts")}


def test_staging_holds_what_was_published_once_however_often_it_is_loaded(broker: Broker, etl: Etl) -> None:
    first = verbs.backfill(Stand(broker), days=2, **SMALL)["published"]  # type: ignore[arg-type]
    expected = etl.precheck(broker)
    loaded = etl.load_stg(broker)
    again = etl.load_stg(broker)
    second = verbs.next_day(Stand(broker))["published"]

    more = etl.load_stg(broker)

    assert (expected["t_end"], expected["to_load"]) == ("2026-01-03T12:00:00Z", first)
    assert loaded == first
    assert again == dict.fromkeys(EVENT_TOPICS, 0)
    assert more == second
    assert staged(etl) == {topic: first[topic] + second[topic] for topic in EVENT_TOPICS}


def test_a_tail_is_refused_before_the_load_and_not_loaded_by_it(broker: Broker, etl: Etl) -> None:
    published = verbs.backfill(Stand(broker), days=1, **SMALL)["published"]  # type: ignore[arg-type]

    class DeathError(Exception):
        pass

    def die(moment: str) -> None:
        if moment == "state":
            raise DeathError

    with suppress(DeathError):
        verbs.next_day(Stand(broker, progress=die))

    loaded = etl.load_stg(broker)

    assert loaded == published
    if broker.transactions:
        assert etl.precheck(broker)["to_load"] == dict.fromkeys(EVENT_TOPICS, 0)
    else:
        with pytest.raises(RefusedError, match="a tail of"):
            etl.precheck(broker)


def test_an_empty_stand_is_refused(broker: Broker, etl: Etl) -> None:
    with pytest.raises(RefusedError, match="no manifest is published"):
        etl.precheck(broker)


def test_topics_that_were_made_anew_are_not_mixed_with_what_staging_holds(broker: Broker, etl: Etl) -> None:
    stand = Stand(broker)
    verbs.backfill(stand, days=2, **SMALL)  # type: ignore[arg-type]
    etl.load_stg(broker)
    before = staged(etl)
    verbs.clear(stand)
    verbs.backfill(stand, days=2, **{**SMALL, "seed": 8})  # type: ignore[arg-type]

    with pytest.raises(LoadError, match=r"no longer holds the last record of STG|the manifest"):
        etl.load_stg(broker)

    assert staged(etl) == before


def test_a_record_of_something_else_is_never_loaded_in_the_place_of_one_of_the_history(
    broker: Broker, etl: Etl
) -> None:
    published = verbs.backfill(Stand(broker), days=1, **SMALL)["published"]  # type: ignore[arg-type]
    record = broker.last(MANIFEST)
    assert record is not None
    offsets = json.loads(record.headers["offsets"])
    producer = Producer({"bootstrap.servers": broker.servers})
    # As a generator left it that didn't look what else came in meanwhile.
    producer.produce(broker.prefix + BROWSER, b"{}", b"other")
    offsets[BROWSER][1] += 2 if broker.transactions else 1
    headers: dict[str, str | bytes | None] = {"offsets": json.dumps(offsets)}
    producer.produce(broker.prefix + MANIFEST, record.value, b"default", headers=headers)
    assert producer.flush(60) == 0

    with pytest.raises(LoadError, match=rf"holds {published[BROWSER] + 1} records where the manifest says"):
        etl.load_stg(broker)

    assert f"{published[BROWSER] + 1} records, the manifest says {published[BROWSER]}: a tail of 1" in str(
        verbs.check(Stand(broker))["faults"]
    )
    with pytest.raises(LoadError, match=f"STG holds {published[BROWSER] + 1} records of {BROWSER}"):
        etl.precheck(broker)

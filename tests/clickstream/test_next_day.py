"""The verb next-day, and the verbs that a history begins with, on a real Kafka."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clickstream import verbs
from clickstream.errors import DamagedError, RefusedError, UsageError
from clickstream.instant import DAY, Instant, parse, spell
from clickstream.topics import BROWSER, EVENT_TOPICS, LOCATION, MANIFEST, STATE, key_of
from clickstream.verbs import Stand
from tests.clickstream.histories import SMALL, T0, days, held, manifest, tallies

if TYPE_CHECKING:
    from clickstream.broker import Broker


def spelled(number: int) -> str:
    """The end of the small world's first so many days."""
    return spell(Instant(parse(T0) + number * DAY))


def put(broker: Broker, topic: str, key: bytes, value: bytes) -> None:
    """Write one record behind the generator's back."""
    producer = Producer({"bootstrap.servers": broker.servers})
    producer.produce(broker.prefix + topic, value, key)
    assert producer.flush(60) == 0


def test_day_by_day_is_the_same_history_as_all_at_once(either_broker: Broker) -> None:
    stand = Stand(either_broker)

    verbs.backfill(stand, **SMALL, days=1)
    answers = [verbs.next_day(stand) for _ in range(2)]

    assert held(either_broker) == days(3)
    assert answers[-1]["t_end"] == spelled(3)
    assert sum(answers[-1]["published"].values()) == sum(
        tally.records - tallies(days(2))[topic].records for topic, tally in tallies(days(3)).items()
    )


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=st.integers(1, 3), then=st.integers(0, 2), seed=st.integers(0, 99))
def test_any_division_publishes_the_same_bytes_counts_and_checksums(
    broker: Broker, first: int, then: int, seed: int
) -> None:
    stand = Stand(broker)
    verbs.clear(stand)

    verbs.backfill(stand, t0=T0, visits_a_day=150, seed=seed, days=first)
    for _ in range(then):
        verbs.next_day(stand)

    in_one_go = days(first + then, visits_a_day=150, seed=seed)
    assert held(broker) == in_one_go
    assert manifest(broker)["topics"] == {
        topic: {"records": tally.records, "checksum": f"{tally.checksum:08x}"}
        for topic, tally in tallies(in_one_go).items()
    }


def test_the_manifest_differs_by_its_boundaries_alone(broker: Broker) -> None:
    stand = Stand(broker)
    verbs.backfill(stand, **SMALL, days=1)
    verbs.next_day(stand)
    verbs.next_day(stand)
    divided = manifest(broker)
    verbs.clear(stand)
    verbs.backfill(stand, **SMALL, days=3)
    whole = manifest(broker)

    assert divided.pop("boundaries") == [spelled(0), spelled(1), spelled(2), spelled(3)]
    assert whole.pop("boundaries") == [spelled(0), spelled(3)]
    assert divided == whole


def test_every_record_lies_under_its_key_and_kafka_never_expires_it(broker: Broker) -> None:
    verbs.backfill(Stand(broker), **SMALL, days=1)

    for topic in EVENT_TOPICS:
        assert all(record.key == key_of(record.value) for record in broker.records(topic))
    assert {record.key for topic in (STATE, MANIFEST) for record in broker.records(topic)} == {b"default"}
    from clickstream.broker import _topic_config

    assert _topic_config(BROWSER)["retention.ms"] == "-1"


@pytest.mark.parametrize("t_end", [spelled(1), "2024-02-29T15:00:00+03:00", "2024-02-29 12:00Z"])
def test_the_expected_t_end_in_any_spelling_lets_the_day_through(stand: Stand, t_end: str) -> None:
    verbs.backfill(stand, **SMALL, days=1)

    answer = verbs.next_day(stand, expected_t_end=t_end)

    assert answer["t_end"] == spelled(2)


def test_the_same_day_asked_for_again_is_refused_with_both_boundaries(either_broker: Broker) -> None:
    stand = Stand(either_broker)
    verbs.backfill(stand, **SMALL, days=1)
    verbs.next_day(stand, expected_t_end=spelled(1))

    with pytest.raises(RefusedError) as refusal:
        verbs.next_day(stand, expected_t_end=spelled(1))

    assert refusal.value.reason == "boundary"
    assert spelled(1) in str(refusal.value)
    assert spelled(2) in str(refusal.value)
    assert held(either_broker) == days(2)


def test_an_expected_t_end_without_an_offset_is_refused_before_anything_is_asked(stand: Stand) -> None:
    with pytest.raises(UsageError, match="offset"):
        verbs.next_day(stand, expected_t_end="2024-02-29T12:00:00")


def test_an_empty_stand_is_refused(stand: Stand) -> None:
    with pytest.raises(RefusedError, match="stand is empty") as without_topics:
        verbs.next_day(stand)
    stand.broker.create_topics()
    with pytest.raises(RefusedError, match="stand is empty") as without_manifest:
        verbs.next_day(stand)

    assert without_topics.value.reason == without_manifest.value.reason == "no-history"


def test_a_tail_is_refused_with_both_numbers(stand: Stand) -> None:
    verbs.backfill(stand, **SMALL, days=1)
    expected = tallies(days(1))[LOCATION].records
    put(stand.broker, LOCATION, b"a", b'{"event_id":"a"}')

    with pytest.raises(RefusedError) as refusal:
        verbs.next_day(stand)

    assert refusal.value.reason == "tail"
    assert f"{LOCATION} holds {expected + 1} records, the manifest says {expected}: a tail of 1." in str(refusal.value)
    assert manifest(stand.broker)["t_end"] == spelled(1)


def test_missing_records_are_refused_with_both_numbers(stand: Stand) -> None:
    verbs.backfill(stand, **SMALL, days=1)
    expected = tallies(days(1))[BROWSER].records
    delete_first_records(stand.broker, BROWSER, 10)

    with pytest.raises(RefusedError) as refusal:
        verbs.next_day(stand)

    assert refusal.value.reason == "missing-records"
    assert f"{expected - 10} records, the manifest says {expected}" in str(refusal.value)


def delete_first_records(broker: Broker, topic: str, number: int) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": broker.servers})
    [deletion] = admin.delete_records([TopicPartition(broker.prefix + topic, 0, number)]).values()
    deletion.result(60)


def test_a_state_of_another_t_end_is_refused_with_both_instants(stand: Stand) -> None:
    verbs.backfill(stand, **SMALL, days=1)
    put(stand.broker, STATE, b"default", days(2).state)

    with pytest.raises(RefusedError) as refusal:
        verbs.next_day(stand)

    assert refusal.value.reason == "wrong-state"
    assert spelled(1) in str(refusal.value)
    assert spelled(2) in str(refusal.value)


def test_a_damaged_state_and_a_damaged_manifest_are_refused(stand: Stand) -> None:
    verbs.backfill(stand, **SMALL, days=1)

    put(stand.broker, STATE, b"default", days(1).state[:-1])
    with pytest.raises(DamagedError, match="The state is not JSON"):
        verbs.next_day(stand)
    put(stand.broker, MANIFEST, b"default", b'{"format":2}')
    with pytest.raises(DamagedError, match="format 2"):
        verbs.next_day(stand)


def test_an_old_manifest_without_boundaries_is_read_as_one_portion(stand: Stand) -> None:
    verbs.backfill(stand, **SMALL, days=2)
    old = manifest(stand.broker)
    del old["boundaries"]
    put(stand.broker, MANIFEST, b"default", json.dumps(old, indent=2).encode())

    verbs.next_day(stand)

    assert manifest(stand.broker)["boundaries"] == [spelled(0), spelled(2), spelled(3)]
    assert held(stand.broker) == days(3)


def test_records_under_other_keys_in_the_compacted_topics_are_not_ours(stand: Stand) -> None:
    verbs.backfill(stand, **SMALL, days=1)
    put(stand.broker, MANIFEST, b"somebody", b"else")
    put(stand.broker, STATE, b"somebody", b"else")

    assert verbs.next_day(stand)["t_end"] == spelled(2)


@pytest.mark.parametrize("verb", ["backfill", "import"])
def test_a_history_begins_on_a_clean_stand_only(stand: Stand, verb: str, tmp_path: object) -> None:
    verbs.backfill(stand, **SMALL, days=1)
    verbs.export(stand, f"{tmp_path}/artifact.zip")

    begin = {
        "backfill": lambda: verbs.backfill(stand, **SMALL, days=1),
        "import": lambda: verbs.import_artifact(stand, f"{tmp_path}/artifact.zip"),
    }
    with pytest.raises(RefusedError) as refusal:
        begin[verb]()

    assert refusal.value.reason == "not-clean"
    assert held(stand.broker) == days(1)


def test_a_filled_staging_and_a_busy_pipeline_are_refused_before_anything_is_published(broker: Broker) -> None:
    filled = Stand(broker, staging=lambda: "the warehouse's stg holds 7 rows")
    busy = Stand(broker, pipeline=lambda: "etl_pipeline is not paused")

    with pytest.raises(RefusedError, match="stg holds 7 rows") as not_clean:
        verbs.backfill(filled, **SMALL, days=1)
    with pytest.raises(RefusedError, match="etl_pipeline is not paused") as pipeline_busy:
        verbs.backfill(busy, **SMALL, days=1)

    assert (not_clean.value.reason, pipeline_busy.value.reason) == ("not-clean", "pipeline-busy")
    verbs.backfill(Stand(broker), **SMALL, days=1)
    assert verbs.next_day(filled)["t_end"] == spelled(2)
    for verb in (verbs.next_day, verbs.check, lambda stand: verbs.export(stand, os.devnull)):
        with pytest.raises(RefusedError, match="etl_pipeline is not paused"):
            verb(busy)
    assert verbs.chain_check(busy)["faults_found"] == 0
    assert held(broker) == days(2)


@pytest.mark.parametrize(
    ("t0", "number", "sentence"),
    [
        ("2024-02-28", 1, "offset"),
        ("2299-12-30T00:00:00Z", 2, "beyond 2299-12-31T00:00:00Z"),
        ("2024-02-28T00:00:00Z", 0, "at least 1"),
    ],
)
def test_a_backfill_that_can_not_be_is_refused_before_topics_are_made(
    stand: Stand, t0: str, number: int, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        verbs.backfill(stand, t0=t0, days=number, visits_a_day=10, seed=1)

    assert stand.broker.topics() == []


@pytest.mark.parametrize("t0", ["1970-01-01T00:00:00Z", "2024-02-28T23:59:59.999999Z", "2299-12-29T00:00:00Z"])
def test_a_history_may_begin_at_any_instant(stand: Stand, t0: str) -> None:
    verbs.backfill(stand, t0=t0, days=1, visits_a_day=20, seed=3)
    verbs.next_day(stand)

    assert held(stand.broker) == days(2, t0=t0, visits_a_day=20, seed=3)


def test_the_day_that_would_leave_the_calendar_is_refused(stand: Stand) -> None:
    verbs.backfill(stand, t0="2299-12-30T00:00:00Z", days=1, visits_a_day=20, seed=3)

    with pytest.raises(UsageError, match="beyond 2299-12-31T00:00:00Z"):
        verbs.next_day(stand)

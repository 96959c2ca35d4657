"""check and chain-check: what is wrong is found, and named with its place."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from clickstream import verbs
from clickstream.errors import RefusedError
from clickstream.instant import DAY, parse
from clickstream.topics import BROWSER, DEVICE, EVENT_TOPICS, GEO, LOCATION, MANIFEST, STATE, key_of
from clickstream.verbs import Stand
from tests.clickstream.histories import SMALL, T0, command, days, held
from tests.clickstream.test_next_day import put, spelled

if TYPE_CHECKING:
    from collections.abc import Callable

    from clickstream.broker import Broker


def falsify(stand: Stand, topic: str, change: Callable[[list[bytes]], None]) -> None:
    """Publish the stand's records again as they are, but for a change to one topic's."""
    broker = stand.broker
    records = {name: [record.value for record in broker.records(name)] for name in EVENT_TOPICS}
    ours = {name: record.value for name in (STATE, MANIFEST) if (record := broker.last(name))}
    change(records[topic])
    verbs.clear(stand)
    producer = Producer({"bootstrap.servers": broker.servers})
    for name, values in records.items():
        for value in values:
            producer.produce(broker.prefix + name, value, key_of(value))
    assert producer.flush(60) == 0
    for name, value in ours.items():
        put(broker, name, b"default", value)


def born_by_day(number: int) -> list[int]:
    """How many visits are born on each of the small world's first days."""
    until = [days(day).topics[DEVICE].count(b"\n") for day in range(number + 1)]
    return [after - before for before, after in pairwise(until)]


@pytest.fixture
def portions(stand: Stand) -> Stand:
    """A stand with a history of three portions."""
    verbs.backfill(stand, **SMALL, days=1)
    verbs.next_day(stand)
    verbs.next_day(stand)
    return stand


def test_a_sound_history_has_no_faults_and_a_boundary_more_for_each_next_day(portions: Stand) -> None:
    check, chain = verbs.check(portions), verbs.chain_check(portions)

    assert check["faults"] == []
    assert (chain["faults_found"], chain["faults"]) == (0, [])
    assert [row["boundary"] for row in chain["boundaries"]] == [spelled(0), spelled(1), spelled(2)]
    assert chain["boundaries"][-1]["until"] == spelled(3)
    assert sum(row["page_views"] for row in chain["boundaries"]) == held(portions.broker).topics[BROWSER].count(b"\n")
    assert [row["visits_born"] for row in chain["boundaries"]] == born_by_day(3)
    assert chain["boundaries"][0]["visits_survived"] == 0
    assert any(row["visits_survived"] for row in chain["boundaries"])


@pytest.mark.parametrize("topic", EVENT_TOPICS)
def test_one_byte_altered_in_a_published_day_is_found(portions: Stand, topic: str) -> None:
    def alter(records: list[bytes]) -> None:
        records[250] = records[250][:-3] + bytes([records[250][-3] ^ 1]) + records[250][-2:]

    falsify(portions, topic, alter)

    [fault] = verbs.check(portions)["faults"]
    assert fault.startswith(f"{topic}: checksum ")
    assert "altered" in fault


def test_a_tail_a_gap_and_a_wrong_key_are_told_apart(portions: Stand) -> None:
    put(portions.broker, GEO, b"wrong", b'{"click_id":"6a0bd8e1-0000-4000-8000-000000000000"}')
    born = sum(born_by_day(3))

    faults = verbs.check(portions)["faults"]
    falsify(portions, DEVICE, lambda records: records.__delitem__(slice(10)))
    after = verbs.check(portions)["faults"]

    assert any(f"geo_events: {born + 1} records, the manifest says {born}: a tail of 1" in fault for fault in faults)
    assert any("a key that isn't its id" in fault for fault in faults)
    missing = f"device_events: {born - 10} records, the manifest says {born}: 10 are missing"
    assert any(missing in fault for fault in after)


@pytest.mark.parametrize(
    ("topic", "sentence"),
    [
        (BROWSER, "location event {id} has no browser event"),
        (LOCATION, "browser event {id} has no location event"),
        (DEVICE, "click {id} has no device event"),
        (GEO, "click {id} has no geo event"),
    ],
)
def test_an_unpaired_record_is_listed_with_its_boundary(portions: Stand, topic: str, sentence: str) -> None:
    gone: list[str] = []
    events = held(portions.broker).topics[BROWSER].splitlines()
    clicks = [json.loads(event)["click_id"] for event in events]
    # In the last portion, and no visit's only event.
    position = -10 if topic in (DEVICE, GEO) else max(at for at, click in enumerate(clicks) if click in clicks[:at])

    falsify(portions, topic, lambda records: gone.append(key_of(records.pop(position)).decode()))

    answer = verbs.chain_check(portions)
    assert answer["faults"] == [{"boundary": spelled(2), "fault": sentence.format(id=gone[0])}]
    assert [row["unpaired"] for row in answer["boundaries"]] == [0, 0, 1]


@pytest.mark.parametrize(
    ("topic", "field"), [(BROWSER, "browser_name"), (LOCATION, "referer_url"), (LOCATION, "utm_campaign")]
)
def test_a_visit_that_changes_across_a_boundary_is_listed_with_it(portions: Stand, topic: str, field: str) -> None:
    portion, survivor = first_of_a_survivor(held(portions.broker).topics[BROWSER])

    def change(records: list[bytes]) -> None:
        for position, record in enumerate(records):
            if key_of(record) == key_of(survivor):
                records[position] = json.dumps({**json.loads(record), field: "other"}, separators=(",", ":")).encode()

    falsify(portions, topic, change)

    answer = verbs.chain_check(portions)
    assert answer["faults"][0]["boundary"] == spelled(portion)
    assert json.loads(survivor)["click_id"] in answer["faults"][0]["fault"]
    assert answer["boundaries"][portion]["changed"] >= 1


def first_of_a_survivor(lines: bytes) -> tuple[int, bytes]:
    """The first event that a visit has behind a boundary, and the number of that boundary."""
    portions: dict[str, int] = {}
    for line in lines.splitlines():
        event = json.loads(line)
        portion = (parse(event["event_timestamp"] + "Z") - parse(T0)) // DAY
        if portions.setdefault(event["click_id"], portion) != portion:
            return portion, line
    raise AssertionError("No visit survives a boundary.")


def test_what_is_no_record_is_a_fault_and_no_end_of_the_check(portions: Stand) -> None:
    put(portions.broker, BROWSER, b"x", b"\xff")
    put(portions.broker, LOCATION, b"x", b"[]")
    put(portions.broker, DEVICE, b"x", b'{"click_id":7}')

    answer = verbs.chain_check(portions)

    assert answer["faults_found"] == 3
    assert all("is no record with" in fault["fault"] for fault in answer["faults"])


def test_a_tail_is_outside_of_the_history(portions: Stand) -> None:
    stray = json.loads(held(portions.broker).topics[BROWSER].splitlines()[0])
    stray |= {"event_id": "stray", "event_timestamp": "2030-01-01 00:00:00.000000"}
    put(portions.broker, BROWSER, b"stray", json.dumps(stray).encode())

    answer = verbs.chain_check(portions)

    assert any("2030-01-01 00:00:00.000000 lies outside of the history" in fault["fault"] for fault in answer["faults"])


@pytest.mark.parametrize("verb", [verbs.check, verbs.chain_check])
def test_a_check_needs_a_manifest(stand: Stand, verb: Callable[[Stand], object]) -> None:
    with pytest.raises(RefusedError, match="stand is empty"):
        verb(stand)


def test_the_reports_read_well_and_the_exit_code_says_whether_there_are_faults(broker: Broker) -> None:
    verbs.backfill(Stand(broker), **SMALL, days=1)

    check, chain = command(broker, "check"), command(broker, "chain-check")
    put(broker, GEO, b"x", b"{}")
    faulty, faulty_chain = command(broker, "check"), command(broker, "chain-check")
    as_json, chain_as_json = command(broker, "check", "--json"), command(broker, "chain-check", "--json")

    assert (check.code, chain.code) == (0, 0)
    assert f"History {spelled(0)} … {spelled(1)}" in check.stdout
    assert "No faults." in check.stdout
    assert "No faults." in chain.stdout
    assert [result.code for result in (faulty, faulty_chain, as_json, chain_as_json)] == [5, 5, 5, 5]
    assert "Faults: " in faulty.stdout
    assert f"- {spelled(0)}: geo_events offset" in faulty_chain.stdout
    assert "faults" in faulty.stderr
    assert as_json.answer["topics"][GEO]["records"] == born_by_day(1)[0] + 1
    assert chain_as_json.answer["faults_found"] == 1
    assert days(1).topics[GEO] in held(broker).topics[GEO]
    assert parse(T0)


# ── dirt ──


@pytest.fixture
def dirty(stand: Stand) -> Stand:
    """A stand with a history of two portions of which 200 of 1,000 events go wrong."""
    verbs.backfill(stand, **SMALL, days=1, dirt=200)
    verbs.next_day(stand)
    return stand


def test_dirt_that_was_asked_for_is_no_fault(dirty: Stand) -> None:
    check, chain = verbs.check(dirty), verbs.chain_check(dirty)

    assert check["faults"] == []
    assert chain["faults"] == []
    assert [(row["unpaired"], row["changed"]) for row in chain["boundaries"]] == [(0, 0), (0, 0)]
    state = dirty.broker.last(STATE)
    assert state is not None
    assert json.loads(state.value)["dirt"] == 200


def lose_a_sound_one(records: list[bytes]) -> None:
    ids = [key_of(record) for record in records]
    del records[next(number for number, key in enumerate(ids) if number > 300 and ids.count(key) == 1)]


def break_a_sound_one(records: list[bytes]) -> None:
    number = next(n for n, record in enumerate(records) if n > 300 and b'"page_url":"' in record)
    records[number] = records[number].replace(b'"event_id":', b'"event_number":')


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lose_a_sound_one, "has no location event"),
        (break_a_sound_one, "no record with event_id"),
        (lambda records: records.append(records[-1].replace(b"-4", b"-5", 1)), "has no browser event"),
    ],
    ids=["lost", "broken", "one too many"],
)
def test_a_real_fault_beside_dirt_is_one(dirty: Stand, change: Callable[[list[bytes]], None], told: str) -> None:
    falsify(dirty, LOCATION, change)

    check, chain = verbs.check(dirty), verbs.chain_check(dirty)

    assert len(check["faults"]) >= 1
    assert {fault.split(":")[0] for fault in check["faults"]} == {LOCATION}
    assert any(told in fault["fault"] for fault in chain["faults"])
    assert chain["faults_found"] <= 2  # and no dirt

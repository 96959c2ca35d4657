"""Something else writes to the topics: no record of the history is taken for another one, nor lost in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from clickstream import verbs
from clickstream.errors import RefusedError
from clickstream.topics import BROWSER, EVENT_TOPICS, LOCATION
from clickstream.verbs import Stand
from tests.clickstream.histories import SMALL, days, held, manifest
from tests.clickstream.test_next_day import put, spelled

if TYPE_CHECKING:
    from clickstream.broker import Broker


@pytest.mark.parametrize("topic", EVENT_TOPICS)
def test_a_record_of_something_else_inside_a_publication_has_it_refused(either_broker: Broker, topic: str) -> None:
    verbs.backfill(Stand(either_broker), **SMALL, days=1)

    def intrude(moment: str) -> None:
        if moment == "begun":
            put(either_broker, topic, b"other", b"{}")

    with pytest.raises(RefusedError, match="something else writes there") as refusal:
        verbs.next_day(Stand(either_broker, progress=intrude))

    assert refusal.value.reason == "foreign-records"
    assert either_broker.prefix + topic in str(refusal.value)
    assert manifest(either_broker)["t_end"] == spelled(1)
    with pytest.raises(RefusedError, match="a tail of"):
        verbs.next_day(Stand(either_broker))


@pytest.mark.parametrize("moment", ["events", "state", "manifest"])
def test_a_record_that_comes_behind_a_publication_is_a_tail_and_no_part_of_it(broker: Broker, moment: str) -> None:
    stand = Stand(broker)
    verbs.backfill(stand, **SMALL, days=1)

    def intrude(passed: str) -> None:
        if passed == moment:
            put(broker, BROWSER, b"other", b"{}")

    verbs.next_day(Stand(broker, progress=intrude))

    assert manifest(broker)["t_end"] == spelled(2)
    assert held(broker).topics[BROWSER] == days(2).topics[BROWSER] + b"{}\n"
    faults = verbs.check(stand)["faults"]
    assert any(f"{BROWSER}: " in fault and "a tail of 1" in fault for fault in faults)
    with pytest.raises(RefusedError, match="a tail of 1"):
        verbs.next_day(stand)


def test_a_backfill_goes_no_further_than_the_day_before_which_something_else_wrote(broker: Broker) -> None:
    committed: list[str] = []

    def intrude(moment: str) -> None:
        if moment == "committed":
            committed.append(moment)
            put(broker, LOCATION, b"other", b"{}")

    with pytest.raises(RefusedError, match="a tail of 1"):
        verbs.backfill(Stand(broker, progress=intrude), **SMALL, days=3)

    assert committed == ["committed"]
    assert manifest(broker)["t_end"] == spelled(1)


def test_a_transaction_of_something_else_that_is_taken_back_leaves_no_trace(broker: Broker) -> None:
    stand = Stand(broker)
    verbs.backfill(stand, **SMALL, days=1)
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": broker.prefix + "other"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(broker.prefix + BROWSER, b"{}", b"other")
    producer.flush(60)
    producer.abort_transaction(60)

    verbs.next_day(stand)

    assert held(broker) == days(2)
    assert verbs.check(stand)["faults"] == []

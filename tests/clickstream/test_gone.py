"""Topics whose beginning is gone, by retention or by hand, or that are missing: said in a sentence of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from clickstream import verbs
from clickstream.errors import RefusedError
from clickstream.topics import BROWSER, EVENT_TOPICS, GEO, MANIFEST, STATE
from clickstream.verbs import Stand
from tests.clickstream.histories import SMALL, command, days, held, tallies, wait_for
from tests.clickstream.test_next_day import delete_first_records, put

if TYPE_CHECKING:
    from pathlib import Path

    from clickstream.broker import Broker


def test_a_beginning_that_is_gone_is_named_by_its_offsets_in_every_verb(broker: Broker, tmp_path: Path) -> None:
    verbs.backfill(Stand(broker), **SMALL, days=2)
    expected = tallies(days(2))[GEO].records
    delete_first_records(broker, GEO, 150)
    sentence = (
        f"{expected - 150} records, the manifest says {expected}: 150 are missing; "
        "what lay at offsets 0 to 149 is gone, deleted or expired"
    )

    check = command(broker, "check", "--json")
    others = [
        command(broker, *verb) for verb in (["chain-check"], ["export", str(tmp_path / "history.zip")], ["next-day"])
    ]

    assert (check.code, check.answer["faults"]) == (5, [f"{GEO}: {sentence}"])
    assert [(other.code, other.answer["refused"]) for other in others] == [(4, "missing-records")] * 3
    assert all(f"{broker.prefix}{GEO} holds {sentence}" in other.stderr for other in others)
    assert not (tmp_path / "history.zip").exists()


def test_an_emptied_topic_is_empty_to_a_history_that_begins(broker: Broker, tmp_path: Path) -> None:
    stand = Stand(broker)
    verbs.backfill(stand, **SMALL, days=1)
    artifact = str(tmp_path / "history.zip")
    verbs.export(stand, artifact)
    emptied(broker)

    verbs.backfill(stand, **SMALL, days=2)
    assert held(broker) == days(2)
    assert verbs.check(stand)["faults"] == []
    assert verbs.chain_check(stand)["faults_found"] == 0
    emptied(broker)
    verbs.import_artifact(stand, artifact)

    assert held(broker) == days(1)
    verbs.next_day(stand)
    verbs.export(stand, artifact)
    assert held(broker) == days(2)
    assert verbs.check(stand)["faults"] == []


def emptied(broker: Broker) -> None:
    """Take all records out of the event topics, and make the others anew, as they can't be emptied so."""
    admin = AdminClient({"bootstrap.servers": broker.servers})
    for topic in EVENT_TOPICS:
        delete_first_records(broker, topic, broker.extent(topic)[1])
    for deletion in admin.delete_topics([broker.prefix + topic for topic in (STATE, MANIFEST)]).values():
        deletion.result(60)
    wait_for(lambda: broker.prefix + MANIFEST not in admin.list_topics(timeout=60).topics, "the topics' end")


@pytest.mark.parametrize("topic", [BROWSER, STATE])
def test_a_missing_topic_is_no_empty_stand(broker: Broker, topic: str) -> None:
    verbs.backfill(Stand(broker), **SMALL, days=1)
    admin = AdminClient({"bootstrap.servers": broker.servers})
    admin.delete_topics([broker.prefix + topic])[broker.prefix + topic].result(60)
    wait_for(lambda: broker.prefix + topic not in admin.list_topics(timeout=60).topics, "the topic's end")

    for verb in (verbs.next_day, verbs.check, verbs.chain_check):
        with pytest.raises(RefusedError, match=f"Topic {broker.prefix}{topic} is missing") as refusal:
            verb(Stand(broker))
        assert refusal.value.reason == "missing-records"
    with pytest.raises(RefusedError) as not_clean:
        verbs.backfill(Stand(broker), **SMALL, days=1)
    assert not_clean.value.reason == "not-clean"


def test_records_without_a_manifest_are_no_empty_stand(broker: Broker) -> None:
    broker.create_topics()
    put(broker, BROWSER, b"x", b"{}")

    with pytest.raises(RefusedError, match=f"No manifest is published, but {broker.prefix}{BROWSER} holds records"):
        verbs.next_day(Stand(broker))

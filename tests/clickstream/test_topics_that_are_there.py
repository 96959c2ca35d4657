"""Topics that somebody else made: judged before anything is published, put right where a setting can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from clickstream import verbs
from clickstream.topics import BROWSER, EVENT_TOPICS, GEO, MANIFEST, STATE
from clickstream.verbs import Stand
from tests.clickstream.histories import SMALL, command, days, held

if TYPE_CHECKING:
    from pathlib import Path

    from clickstream.broker import Broker

WEEK = {"retention.ms": str(7 * 24 * 3600 * 1000)}


def made(broker: Broker, topic: str, config: dict[str, str] | None = None, *, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": broker.servers})
    new = NewTopic(broker.prefix + topic, num_partitions=partitions, replication_factor=1, config=config or {})
    admin.create_topics([new])[broker.prefix + topic].result(60)


def config(broker: Broker, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, broker.prefix + topic)
    admin = AdminClient({"bootstrap.servers": broker.servers})
    answer = admin.describe_configs([resource])[resource]
    return {name: entry.value for name, entry in answer.result(60).items()}


@pytest.fixture
def artifact(broker: Broker, tmp_path: Path) -> str:
    path = str(tmp_path / "history.zip")
    verbs.backfill(Stand(broker), **SMALL, days=1)
    verbs.export(Stand(broker), path)
    broker.delete_topics()
    return path


@pytest.mark.parametrize("topic", [BROWSER, MANIFEST])
def test_more_partitions_than_one_are_refused_with_the_command_that_cures_it(
    broker: Broker, artifact: str, topic: str
) -> None:
    made(broker, topic, partitions=3)

    backfill, imported = command(broker, "backfill", "--days", "1"), command(broker, "import", artifact)
    cured = command(broker, "clear", "--yes")

    for refused in (backfill, imported):
        assert (refused.code, refused.answer["refused"]) == (4, "unfit-topic")
        assert f"{broker.prefix}{topic} has 3 partitions" in refused.stderr
        assert "`clear --yes`" in refused.stderr
    assert cured.code == 0
    verbs.import_artifact(Stand(broker), artifact)
    assert held(broker) == days(1)


def test_settings_that_would_lose_the_history_are_put_right_and_told(broker: Broker, artifact: str) -> None:
    for topic in EVENT_TOPICS:
        made(broker, topic, WEEK)
    made(broker, STATE, {"cleanup.policy": "delete", "max.message.bytes": "1000"})

    told = command(broker, "import", artifact)
    again = verbs.next_day(Stand(broker))

    assert told.code == 0
    assert len(told.answer["put_right"]) == 6
    assert f"Put right: {broker.prefix}{GEO}: retention.ms was {WEEK['retention.ms']}, is now -1.\n" in told.stderr
    assert all(config(broker, topic)["retention.ms"] == "-1" for topic in EVENT_TOPICS)
    assert config(broker, STATE)["cleanup.policy"] == "compact"
    assert int(config(broker, STATE)["max.message.bytes"]) > 1_000_000
    assert again["put_right"] == []
    assert held(broker) == days(2)


def test_a_setting_that_was_changed_later_is_put_right_by_the_next_day(stand: Stand) -> None:
    verbs.backfill(stand, **SMALL, days=1)
    admin = AdminClient({"bootstrap.servers": stand.broker.servers})
    resource = ConfigResource(ResourceType.TOPIC, stand.broker.prefix + BROWSER)
    change = ConfigEntry("retention.bytes", "1000000000", incremental_operation=AlterConfigOpType.SET)
    resource.add_incremental_config(change)
    admin.incremental_alter_configs([resource])[resource].result(60)

    answer = verbs.next_day(stand)

    assert answer["put_right"] == [f"{stand.broker.prefix}{BROWSER}: retention.bytes was 1000000000, is now -1"]
    assert config(stand.broker, BROWSER)["retention.bytes"] == "-1"


def test_the_topics_that_the_generator_makes_need_nothing_put_right(broker: Broker) -> None:
    assert verbs.backfill(Stand(broker), **SMALL, days=1)["put_right"] == []

"""A broker that goes away in the middle, and comes back or doesn't."""

from __future__ import annotations

import time
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from clickstream import broker as broker_module
from clickstream import verbs
from clickstream.broker import Broker
from clickstream.errors import ClickstreamError, RefusedError
from clickstream.kafka import Kafka, free_port
from clickstream.verbs import Stand
from tests.clickstream.conftest import JARS
from tests.clickstream.histories import SMALL, command, days, held

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A Kafka that a test may crash."""
    with Kafka(tmp_path_factory.mktemp("kafka-that-crashes"), JARS) as kafka:
        yield kafka


@pytest.mark.parametrize(
    ("transactions", "moment"),
    [(True, "begun"), (True, "state"), (True, "manifest"), (False, "begun"), (False, "state")],
)
def test_a_broker_that_crashes_in_the_middle_and_comes_back_gets_the_whole_day_once(
    kafka: Kafka, transactions: bool, moment: str
) -> None:
    broker = Broker(kafka.servers, f"{moment}_{transactions}_", transactions)
    verbs.backfill(Stand(broker), **SMALL, days=1)
    restart = Thread(target=kafka.start)

    def crash(passed: str) -> None:
        if passed == moment:
            kafka.kill()
            restart.start()

    answer = verbs.next_day(Stand(broker, progress=crash))
    restart.join()

    assert answer["t_end"] == "2024-03-01T12:00:00Z"
    assert held(broker) == days(2)
    assert verbs.check(Stand(broker))["faults"] == []


def test_a_broker_that_does_not_come_back_is_given_up_and_the_day_can_be_asked_for_again(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(kafka.servers, "gone_")
    verbs.backfill(Stand(broker), **SMALL, days=1)
    monkeypatch.setattr(broker_module, "ABSENCE_SECONDS", 2.0)
    monkeypatch.setattr(broker_module, "ANSWER_SECONDS", 2.0)

    with pytest.raises(ClickstreamError) as failure:
        verbs.next_day(Stand(broker, progress=lambda moment: kafka.kill() if moment == "begun" else None))
    monkeypatch.undo()
    kafka.start()

    assert not isinstance(failure.value, RefusedError)
    assert str(failure.value).endswith("The history still ends at 2024-02-29T12:00:00Z: `next-day` goes on from there.")
    assert held(broker) == days(1)
    assert verbs.next_day(Stand(broker))["t_end"] == "2024-03-01T12:00:00Z"
    assert held(broker) == days(2)


def test_a_broker_without_transactions_is_told_so_with_the_option_that_helps(tmp_path: Path) -> None:
    three_copies = "transaction.state.log.replication.factor=3\n"
    with Kafka(tmp_path, JARS, properties=three_copies) as kafka:
        began = time.monotonic()
        refused = command(Broker(kafka.servers), "backfill", "--days", "1", "--visits-a-day", "50")
        seconds = time.monotonic() - began
        plain = command(Broker(kafka.servers, transactions=False), "backfill", "--days", "1", "--visits-a-day", "50")

    assert refused.code == 1
    assert "answers, but not to transactions" in refused.stderr
    assert "`--no-transactions`" in refused.stderr
    assert seconds < broker_module.ABSENCE_SECONDS / 2
    assert plain.code == 0


def test_no_broker_is_one_sentence_that_says_what_to_do() -> None:
    nobody = Broker(f"127.0.0.1:{free_port()}")

    result = command(nobody, "next-day")

    assert result.code == 1
    assert result.answer["error"] == result.stderr.strip()
    assert "No broker answers at" in result.stderr
    assert "KAFKA_BOOTSTRAP_SERVERS" in result.stderr


def test_a_missing_java_names_the_variable_and_the_compose_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ClickstreamError, match=r"Java 17 .* KAFKA_BOOTSTRAP_SERVERS .* compose service `kafka`"):
        Kafka(tmp_path, JARS).start()


def test_a_missing_maven_names_the_variable_and_the_compose_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clickstream.kafka import fetch

    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ClickstreamError, match=r"Maven .* KAFKA_BOOTSTRAP_SERVERS .* compose service `kafka`"):
        fetch(tmp_path / "jars")


def test_a_kafka_that_can_not_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "meta.properties").write_text("version=1\ncluster.id=another\nnode.id=9\n")

    with pytest.raises(ClickstreamError, match="Kafka didn't start; the end of"):
        Kafka(tmp_path, JARS).start()


def test_a_port_that_is_taken_is_one_sentence(tmp_path: Path, kafka: Kafka) -> None:
    with pytest.raises(ClickstreamError, match="Something else listens at"):
        Kafka(tmp_path, JARS, port=kafka.port).start()

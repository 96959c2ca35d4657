from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clickstream.broker import Broker
from clickstream.kafka import VERSION, Kafka
from clickstream.verbs import Stand

if TYPE_CHECKING:
    from collections.abc import Iterator

JARS = Path(__file__).parents[2] / ".kafka" / VERSION


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The user's own Kafka, or one that lives as long as the tests."""
    if own := os.environ.get("KAFKA_BOOTSTRAP_SERVERS"):
        yield own
        return
    with Kafka(tmp_path_factory.mktemp("kafka"), JARS) as kafka:
        yield kafka.servers


@pytest.fixture(params=[True, False], ids=["transactions", "no-transactions"])
def either_broker(request: pytest.FixtureRequest, servers: str) -> Iterator[Broker]:
    """Topics of their own for the test, once with transactions and once without."""
    yield from _fresh(Broker(servers, f"t{uuid.uuid4().hex[:12]}_", transactions=request.param))


@pytest.fixture
def broker(servers: str) -> Iterator[Broker]:
    """Topics of their own for the test, on a broker with transactions."""
    yield from _fresh(Broker(servers, f"t{uuid.uuid4().hex[:12]}_"))


@pytest.fixture
def stand(broker: Broker) -> Stand:
    return Stand(broker)


def _fresh(broker: Broker) -> Iterator[Broker]:
    yield broker
    broker.delete_topics()

"""A publication that ends badly says whether the day is published, and what asking again would do."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from clickstream import broker as broker_module
from clickstream import verbs
from clickstream.errors import ClickstreamError, RefusedError
from clickstream.topics import BROWSER, MANIFEST
from clickstream.verbs import Stand
from tests.clickstream.histories import SMALL, days, held, manifest, wait_for
from tests.clickstream.test_next_day import spelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clickstream.broker import Broker

PUBLISHED = (
    f"The history until {spelled(2)} is published: don't ask for it again. `next-day` with "
    f"--expected-t-end {spelled(1)} is refused; without, it makes one day more."
)


@contextmanager
def open_transaction(broker: Broker, topic: str) -> Iterator[None]:
    """Something else's transaction, open with one record on a topic, and taken back in the end."""
    settings = {"transactional.id": broker.prefix + "other", "transaction.timeout.ms": 600_000}
    producer = Producer({"bootstrap.servers": broker.servers, **settings})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(broker.prefix + topic, b"{}", b"other")
    producer.flush(60)
    yield
    producer.abort_transaction(60)


@pytest.mark.parametrize("topic", [BROWSER, MANIFEST])
def test_under_an_open_transaction_of_something_else_nothing_is_published(
    stand: Stand, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    verbs.backfill(stand, **SMALL, days=1)
    monkeypatch.setattr(broker_module, "OPEN_SECONDS", 0.5)

    with (
        open_transaction(stand.broker, topic),
        pytest.raises(RefusedError, match=f"a transaction is open on {stand.broker.prefix}{topic} from") as refusal,
    ):
        verbs.next_day(stand)

    assert refusal.value.reason == "foreign-records"
    assert "Nothing was published" in str(refusal.value)
    assert held(stand.broker) == days(1)
    assert verbs.next_day(stand, expected_t_end=spelled(1))["t_end"] == spelled(2)


def test_a_day_that_readers_do_not_see_yet_is_said_to_be_published(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    verbs.backfill(Stand(broker), **SMALL, days=1)
    other = open_transaction(broker, BROWSER)

    def intrude(moment: str) -> None:
        if moment == "manifest":
            monkeypatch.setattr(broker_module, "OPEN_SECONDS", 0.5)
            other.__enter__()

    with pytest.raises(ClickstreamError) as failure:
        verbs.next_day(Stand(broker, progress=intrude))
    other.__exit__(None, None, None)

    assert not isinstance(failure.value, RefusedError)
    assert f"a transaction is open on {broker.prefix}{BROWSER} from" in str(failure.value)
    assert str(failure.value).endswith(PUBLISHED)
    assert held(broker) == days(2)


def test_a_ctrl_c_behind_the_commit_point_says_that_the_day_is_published(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    import _thread

    monkeypatch.setattr(broker_module, "OPEN_SECONDS", 600)  # the interrupt comes first, however slow the machine is
    verbs.backfill(Stand(broker), **SMALL, days=1)
    other, reader = open_transaction(broker, BROWSER), replace(broker)

    def interrupt_when_it_is_committed() -> None:
        wait_for(lambda: manifest(reader)["t_end"] == spelled(2), "the manifest's commit")
        _thread.interrupt_main()

    def intrude(moment: str) -> None:
        if moment == "manifest":
            other.__enter__()
            Thread(target=interrupt_when_it_is_committed).start()

    with pytest.raises(KeyboardInterrupt) as interrupt:
        verbs.next_day(Stand(broker, progress=intrude))
    other.__exit__(None, None, None)

    assert str(interrupt.value) == f"Interrupted behind the commit point. {PUBLISHED}"
    assert held(broker) == days(2)
    with pytest.raises(RefusedError, match="Expected the history to end"):
        verbs.next_day(Stand(broker), expected_t_end=spelled(1))


@pytest.mark.parametrize(
    ("moment", "transactions", "told"),
    [
        ("begun", True, f"before the commit point. The history still ends at {spelled(1)}: `next-day` goes on"),
        ("manifest", True, f"before the commit point. The history still ends at {spelled(1)}: `next-day` goes on"),
        (
            "state",
            False,
            f"before the commit point. The history still ends at {spelled(1)}; `check` says what was left",
        ),
        ("manifest", False, f"behind the commit point. {PUBLISHED}"),
    ],
)
def test_a_ctrl_c_says_what_came_of_the_day(broker: Broker, moment: str, transactions: bool, told: str) -> None:
    broker = replace(broker, transactions=transactions)
    verbs.backfill(Stand(broker), **SMALL, days=1)

    def interrupt(passed: str) -> None:
        if passed == moment:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as error:
        verbs.next_day(Stand(broker, progress=interrupt))

    assert str(error.value).startswith(f"Interrupted {told}")
    assert manifest(broker)["t_end"] == spelled(2 if told.endswith(PUBLISHED) else 1)

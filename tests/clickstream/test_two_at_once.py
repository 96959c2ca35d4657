"""Only one generator at a time, whoever comes second."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from clickstream import verbs
from clickstream.errors import RefusedError
from clickstream.topics import MANIFEST
from clickstream.verbs import Stand
from tests.clickstream.histories import SMALL, days, held, manifest, outcome, started, until, wait_for
from tests.clickstream.test_next_day import spelled

if TYPE_CHECKING:
    import subprocess

    from clickstream.broker import Broker


ROUNDS = 20 if os.environ.get("BACKFILL_FAULTS") == "long" else 5


def test_two_next_days_at_once_make_one_day_and_one_refusal_every_time(broker: Broker) -> None:
    verbs.backfill(Stand(broker), **SMALL, days=1)

    for round_number in range(1, ROUNDS + 1):
        outcomes = [outcome(process) for process in [started(broker, "next-day"), started(broker, "next-day")]]

        assert sorted(result.code for result in outcomes) == [0, 4], [result.stderr for result in outcomes]
        assert manifest(broker)["t_end"] == spelled(1 + round_number)
    assert held(broker) == days(1 + ROUNDS)


def test_two_next_days_at_once_without_transactions_make_one_day_and_one_refusal(broker: Broker) -> None:
    plain = replace(broker, transactions=False)
    verbs.backfill(Stand(plain), **SMALL, days=1)

    for _ in range(8):
        outcomes = [outcome(process) for process in [started(plain, "next-day"), started(plain, "next-day")]]

        assert sorted(result.code for result in outcomes) == [0, 4], [result.stderr for result in outcomes]
    assert held(plain) == days(9)


def test_three_that_expect_the_same_day_make_it_once(broker: Broker) -> None:
    verbs.backfill(Stand(broker), **SMALL, days=1)

    processes = [started(broker, "next-day", "--expected-t-end", spelled(1)) for _ in range(3)]

    assert sorted(outcome(process).code for process in processes) == [0, 4, 4]
    assert held(broker) == days(2)


@pytest.mark.parametrize(
    ("moment", "transactions"),
    [("begun", True), ("state", True), ("manifest", True), ("begun", False), ("state", False)],
)
def test_one_that_asks_while_a_day_is_being_published_is_refused(
    broker: Broker, moment: str, transactions: bool
) -> None:
    broker = replace(broker, transactions=transactions)
    verbs.backfill(Stand(broker), **SMALL, days=1)
    second: list[subprocess.Popen[str]] = []

    def ask(passed: str) -> None:
        if passed == moment:
            second.append(started(broker, "next-day"))
            wait_for(lambda: len(broker.at_work()) == 2, "the second one waits for the seat")

    verbs.next_day(Stand(broker, progress=ask))
    refused = outcome(second[0])

    assert (refused.code, refused.answer["refused"]) == (4, "boundary")
    assert held(broker) == days(2)


def test_one_that_asks_once_the_day_is_published_makes_a_day_of_its_own(broker: Broker) -> None:
    verbs.backfill(Stand(broker), **SMALL, days=1)
    second: list[subprocess.Popen[str]] = []

    def ask(passed: str) -> None:
        if passed == "committed":
            second.append(started(broker, "next-day"))
            wait_for(lambda: len(broker.at_work()) == 2, "the second one waits for the seat")

    verbs.next_day(Stand(broker, progress=ask))
    own = outcome(second[0])

    assert (own.code, own.answer["t_end"]) == (0, spelled(3))
    assert held(broker) == days(3)


def test_no_clock_decides_whether_a_day_is_made(stand: Stand) -> None:
    verbs.backfill(stand, **SMALL, days=1)
    record = stand.broker.last(MANIFEST)
    assert record is not None
    producer = Producer({"bootstrap.servers": stand.broker.servers})
    an_hour_ahead = int((time.time() + 3600) * 1000)
    producer.produce(stand.broker.prefix + MANIFEST, record.value, b"default", timestamp=an_hour_ahead)
    assert producer.flush(60) == 0

    expected = verbs.next_day(stand, expected_t_end=spelled(1))
    wherever = verbs.next_day(stand)

    assert (expected["t_end"], wherever["t_end"]) == (spelled(2), spelled(3))
    assert held(stand.broker) == days(3)


def test_two_backfills_at_once_make_one_history(broker: Broker) -> None:
    arguments = ["--t0", SMALL["t0"], "--visits-a-day", "200", "--seed", "7", "--days", "2"]

    processes = [started(broker, "backfill", *map(str, arguments)) for _ in range(2)]

    assert sorted(outcome(process).code for process in processes) == [0, 4]
    assert held(broker) == days(2)


def test_a_second_generator_fences_the_first_which_then_publishes_nothing(broker: Broker) -> None:
    verbs.backfill(Stand(broker), **SMALL, days=1)

    def intrude(moment: str) -> None:
        if moment == "state":
            with broker.writer():  # the same transactional id, without asking for the seat
                pass

    with pytest.raises(RefusedError) as refusal:
        verbs.next_day(Stand(broker, progress=intrude))

    assert refusal.value.reason == "fenced"
    assert held(broker) == days(1)
    assert verbs.next_day(Stand(broker))["t_end"] == spelled(2)


def test_a_live_generator_is_recognised_and_unharmed_and_ends_at_an_exact_boundary(either_broker: Broker) -> None:
    stand = Stand(either_broker)
    verbs.backfill(stand, **SMALL, days=1)
    live = started(either_broker, "continue", "--tick-seconds", "0.2", "--speed", "20000")
    wait_for(lambda: manifest(either_broker)["t_end"] != spelled(1), "the live generator's first commit")

    refused = outcome(started(either_broker, "next-day"))
    reached = manifest(either_broker)["t_end"]
    wait_for(lambda: manifest(either_broker)["t_end"] != reached, "the live generator's next commit")
    live.send_signal(signal.SIGTERM)
    ended = outcome(live)

    assert (refused.code, refused.answer["refused"]) == (4, "generator-running")
    assert "continue on" in refused.stderr
    assert ended.code == 0, ended.stderr
    t_end = ended.answer["t_end"]
    assert manifest(either_broker)["t_end"] == t_end
    assert manifest(either_broker)["boundaries"] == [spelled(0), spelled(1), t_end]
    assert held(either_broker) == until(t_end)
    assert verbs.next_day(stand, expected_t_end=t_end)["boundaries"] == 4
    assert verbs.chain_check(stand)["faults_found"] == 0


def test_a_killed_live_generator_is_forgotten_by_itself(broker: Broker) -> None:
    stand = Stand(broker)
    verbs.backfill(stand, **SMALL, days=1)
    live = started(broker, "continue", "--tick-seconds", "0.2", "--speed", "20000")
    wait_for(lambda: manifest(broker)["t_end"] != spelled(1), "the live generator's first commit")

    live.kill()
    live.communicate()

    def next_day_passes() -> bool:
        try:
            verbs.next_day(stand)
        except RefusedError as refusal:
            return refusal.reason != "generator-running"
        return True

    wait_for(next_day_passes, "next-day after the live generator's death")
    assert held(broker) == until(manifest(broker)["t_end"])


def test_a_live_generator_needs_a_history(stand: Stand) -> None:
    with pytest.raises(RefusedError, match="stand is empty"):
        verbs.go_on(stand, stop=Event())


def test_a_live_generator_in_a_task_stops_when_it_is_told(stand: Stand) -> None:
    verbs.backfill(stand, **SMALL, days=1)
    stop, committed = Event(), Event()

    def progress(moment: str) -> None:
        if moment == "committed":
            committed.set()

    live = Thread(
        target=verbs.go_on,
        args=[Stand(stand.broker, progress=progress)],
        kwargs={"stop": stop, "tick_seconds": 0.1, "speed": 10000},
    )
    live.start()
    assert committed.wait(60)
    stop.set()
    live.join(60)

    assert not live.is_alive()
    assert held(stand.broker) == until(manifest(stand.broker)["t_end"])

"""How the stand's topics are read and written: the only module that speaks to Kafka. Its errors become ours here."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from clickstream.errors import ClickstreamError, RefusedError
from clickstream.topics import EVENT_TOPICS, GENERATOR_KEY, GENERATOR_TOPICS, KEY, MANIFEST

GENERATOR: str = "clickstream-generator"
"""The transactional id of every publication, and the consumer group whose one seat a generator takes."""

LIVE_VERB = "continue"

CONTACT_SECONDS = 20.0
"""How long a broker may take to be there at all."""

ANSWER_SECONDS = 60.0
"""How long a broker that is there may take to answer a question."""

ABSENCE_SECONDS = 120.0
"""How long a broker may stay away in the middle of reading or publishing."""

OPEN_SECONDS = 20.0
"""How long a reader waits for an open transaction to be decided; that of a publication that ends takes milliseconds."""

TRANSACTION_SECONDS = 900
"""How long one portion's publication may take: what brokers allow unless told otherwise."""

SEAT_SECONDS = 6
"""After this long without a sign of life a generator's seat is free: the least that most brokers allow."""

LARGEST_RECORD_BYTES = 64 * 1024 * 1024
_QUEUED_RECORDS = 200_000

_log = logging.getLogger("clickstream.kafka")
_log.addHandler(logging.NullHandler())

_UNREACHABLE = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
}
_PASSING = _UNREACHABLE | {
    KafkaError._MSG_TIMED_OUT,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}
_NO_TRANSACTIONS = {
    KafkaError._TIMED_OUT,
    KafkaError._UNSUPPORTED_FEATURE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.UNSUPPORTED_VERSION,
}
_AT_LEAST = ("max.message.bytes",)
_SET = AlterConfigOpType.SET
_GONE = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}
_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}

ALL_TOPICS = (*EVENT_TOPICS, *GENERATOR_TOPICS)

Answer = TypeVar("Answer")
Offsets = Mapping[str, tuple[int, int]]
"""By topic, the half-open range of offsets that a history takes up."""


class Record(NamedTuple):
    """A record as it lies in a topic."""

    offset: int
    key: bytes
    value: bytes
    headers: Mapping[str, bytes]


@dataclass(frozen=True)
class Broker:
    """Where the stand's topics are. `prefix` stands before the name of each, and lets stands share a broker."""

    servers: str
    prefix: str = ""
    transactions: bool = True

    def settings(self, **more: object) -> dict[str, Any]:
        """Return what every client of this broker is told."""
        return {
            "bootstrap.servers": self.servers,
            "socket.connection.setup.timeout.ms": 5000,
            "reconnect.backoff.max.ms": 1000,
            "error_cb": lambda error: _log.debug("%s", error),  # each call tells its own
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    # ── topics ──

    def create_topics(self) -> None:
        """Make the six topics where they are missing, with one partition each: the history has one order.

        Records never expire: `retention.ms` is -1 on the event topics.
        """
        with self.named_errors():
            admin = self._admin
            missing = [name for name in ALL_TOPICS if name not in self._partitions(admin)]
            wanted = [
                NewTopic(self.prefix + name, num_partitions=1, replication_factor=-1, config=_config_of_new(name))
                for name in missing
            ]
            for future in (admin.create_topics(wanted) if wanted else {}).values():
                error = future.exception(ANSWER_SECONDS)
                if isinstance(error, KafkaException) and error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    continue  # somebody else made it meanwhile
                future.result()
            _wait(lambda: len(self._partitions(admin)) == 6, "The new topics don't show up")

    def fit_topics(self) -> list[str]:
        """Put right what a setting of the topics would do to a history, and return what was changed, one clause each.

        Topics that somebody else made may expire records, or take no state of a great world.

        Raises: RefusedError ("unfit-topic") when a topic can't be put right.
        """
        wrong: dict[ConfigResource, list[str]] = {}
        with self.named_errors():
            topics = {ConfigResource(ResourceType.TOPIC, self.prefix + topic): topic for topic in self.topics()}
            for resource, answer in (self._admin.describe_configs(list(topics)) if topics else {}).items():
                found = answer.result(ANSWER_SECONDS)
                for name, value in _topic_config(topics[resource]).items():
                    was = found[name].value
                    if was != value and not (name in _AT_LEAST and int(was) >= int(value)):
                        resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=_SET))
                        wrong.setdefault(resource, []).append(f"{resource.name}: {name} was {was}, is now {value}")
            for alteration in (self._admin.incremental_alter_configs(list(wrong)) if wrong else {}).values():
                alteration.result(ANSWER_SECONDS)
        return [clause for clauses in wrong.values() for clause in clauses]

    def delete_topics(self) -> None:
        """Delete what there is of the six topics, with all that they hold."""
        with self.named_errors():
            admin = self._admin
            there = [self.prefix + name for name in self._partitions(admin)]
            for future in (admin.delete_topics(there) if there else {}).values():
                future.result(ANSWER_SECONDS)
            _wait(lambda: not self._partitions(admin), "The deleted topics are still there")

    def topics(self) -> list[str]:
        """Return which of the six topics are there.

        Raises: RefusedError ("unfit-topic") when one of them has more than one partition.
        """
        with self.named_errors():
            partitions = self._partitions(self._admin)
        for name, count in partitions.items():
            if count != 1:
                raise RefusedError(
                    "unfit-topic",
                    f"Topic {self.prefix}{name} has {count} partitions; a history has one order and needs exactly 1. "
                    "If nobody needs what the stand's six topics hold, `clear --yes` makes them anew, each with one.",
                )
        return list(partitions)

    def _partitions(self, admin: AdminClient) -> dict[str, int]:
        listed = admin.list_topics(timeout=CONTACT_SECONDS).topics
        names = ALL_TOPICS
        return {name: len(listed[self.prefix + name].partitions) for name in names if self.prefix + name in listed}

    # ── reading ──

    def last(self, topic: str) -> Record | None:
        """Return the committed record that counts in a compacted topic: the last one with the generator's key."""
        first, end = self.extent(topic)
        window = 8
        while first < end:
            start = max(first, end - window)
            found = [record for record in self.records(topic, start) if record.key == GENERATOR_KEY]
            if found:
                return found[-1]
            if start == first:
                break
            window *= 16
        return None

    def extent(self, topic: str) -> tuple[int, int]:
        """Return the offsets [first, end) of a topic, with whatever isn't committed (yet, or ever)."""
        return self._bounds(self._written, topic)

    def extents(self) -> dict[str, tuple[int, int]]:
        """Return `extent` by event topic."""
        return {topic: self.extent(topic) for topic in EVENT_TOPICS}

    def await_decided(self, ends: Mapping[str, int] | None = None) -> str | None:
        """Wait until all that was written before these offsets, by default before now, is committed or taken back.

        Readers of committed data then see that far. Returns None, or, after OPEN_SECONDS, a clause that says where
        somebody's transaction is still open.
        """
        ends = {topic: self.extent(topic)[1] for topic in ALL_TOPICS} if ends is None else ends
        deadline = time.monotonic() + OPEN_SECONDS
        for topic, end in ends.items():
            while (readable := self._bounds(self._committed, topic)[1]) < end:
                if readable == self.extent(topic)[1]:
                    break  # the topic ends before that offset: it was made anew
                if time.monotonic() > deadline:
                    return f"a transaction is open on {self.prefix}{topic} from offset {readable} on"
                time.sleep(0.02)
        return None

    def _bounds(self, asker: Consumer, topic: str) -> tuple[int, int]:
        with self.named_errors():
            # A consumer asks, as the admin client's own question ends the process when the broker is away.
            return _retried(lambda: asker.get_watermark_offsets(self._partition(topic), timeout=5.0))

    @cached_property
    def _written(self) -> Consumer:
        return Consumer(self._reading("read_uncommitted"), logger=_log)

    @cached_property
    def _committed(self) -> Consumer:
        return Consumer(self._reading("read_committed"), logger=_log)

    def records(self, topic: str, start: int | None = None) -> Iterator[Record]:
        """Yield a topic's committed records in their order, from offset `start` or the first on, to where they end now.

        Raises: RefusedError ("missing-records") when what lay there is gone.
        """
        if start is None:
            start = self.extent(topic)[0]  # a new client that has to find it out itself waits for half a second
        with self._consumer() as consumer:
            consumer.assign([self._partition(topic, start)])
            patience = time.monotonic() + ABSENCE_SECONDS
            while True:
                first = consumer.poll(1.0)
                if first is None:
                    if time.monotonic() > patience:
                        raise ClickstreamError(f"{self.servers} hasn't answered for {ABSENCE_SECONDS:.0f} s.")
                    continue
                patience = time.monotonic() + ABSENCE_SECONDS
                for message in (first, *consumer.consume(10_000, timeout=0)):
                    error = message.error()
                    if error is None:
                        yield _record(message)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        return
                    elif error.code() in _GONE:
                        raise RefusedError(
                            "missing-records", f"{self.prefix}{topic} holds nothing at offset {start} any more."
                        )
                    elif not error.retriable() and error.code() not in _PASSING:
                        raise KafkaException(error)

    def _partition(self, topic: str, offset: int = OFFSET_INVALID) -> TopicPartition:
        return TopicPartition(self.prefix + topic, 0, offset)

    # ── who else is there ──

    @contextmanager
    def seat(self, verb: str) -> Iterator[Seat]:
        """Take the generator's seat for the length of the block; it dies with the process.

        A verb of a known length is given a moment to finish; a live generator is not waited for.

        Raises: RefusedError ("generator-running") with the holder's name.
        """
        settings = self._seat_settings(verb)
        with self._client(lambda: Consumer(settings, logger=_log), Consumer.close) as consumer:
            seat = Seat(consumer)
            consumer.subscribe(
                [self.prefix + MANIFEST], on_assign=seat.assigned, on_revoke=seat.lost, on_lost=seat.lost
            )
            if not seat.answered(5 * SEAT_SECONDS):
                holders = [name for name in self.at_work() if name != settings["client.id"]]
                live = any(name.startswith(LIVE_VERB) for name in holders)
                if live or not seat.becomes_ours(2 * SEAT_SECONDS):
                    who = holders[0] if holders else "one that has not said its name"
                    raise RefusedError("generator-running", f"Another generator is at work: {who}. Stop it first.")
            yield seat

    def at_work(self) -> list[str]:
        """Who has the seat or waits for it. Before a broker's first group, the question might end nowhere."""
        group = self.prefix + GENERATOR
        answer = self._admin.describe_consumer_groups([group], request_timeout=ANSWER_SECONDS)[group]
        return [member.client_id for member in answer.result(ANSWER_SECONDS + 5).members]

    def await_rest(self, moved: Callable[[], bool]) -> str | None:
        """Wait until no generator is at work, or something has moved; returns who still is after OPEN_SECONDS."""
        deadline = time.monotonic() + OPEN_SECONDS
        while who := self.at_work():
            if moved():
                return None
            if time.monotonic() > deadline:
                return who[0]
            time.sleep(0.1)
        return None

    def _seat_settings(self, verb: str) -> dict[str, Any]:
        return self.settings(
            group_id=self.prefix + GENERATOR,
            client_id=f"{verb} on {socket.gethostname()}, process {os.getpid()}",
            session_timeout_ms=SEAT_SECONDS * 1000,
            heartbeat_interval_ms=SEAT_SECONDS * 1000 // 3,
            max_poll_interval_ms=24 * 3600 * 1000,
            partition_assignment_strategy="cooperative-sticky",
            enable_auto_commit=False,
            auto_offset_reset="latest",
        )

    # ── writing ──

    @contextmanager
    def writer(self) -> Iterator[Writer]:
        """Return a writer that, with transactions, fences off any earlier one and aborts what that one left open."""
        settings = self.settings(
            enable_idempotence=True,
            acks="all",
            compression_type="lz4",
            linger_ms=100,
            batch_size=1_000_000,
            batch_num_messages=100_000,
            message_max_bytes=LARGEST_RECORD_BYTES,
            message_timeout_ms=int(ABSENCE_SECONDS * 1000),
            queue_buffering_max_messages=2 * _QUEUED_RECORDS,
            queue_buffering_max_kbytes=2 * LARGEST_RECORD_BYTES // 1024 + _QUEUED_RECORDS,
        )
        settings["delivery.report.only.error"] = True
        if self.transactions:
            settings["transactional.id"] = self.prefix + GENERATOR
            settings["transaction.timeout.ms"] = TRANSACTION_SECONDS * 1000
        with self._client(lambda: Writer(self, settings), Writer.close) as writer:
            writer.fence()
            yield writer

    # ── clients ──

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient(self.settings(), logger=_log)

    @contextmanager
    def _consumer(self) -> Iterator[Consumer]:
        settings = self._reading("read_committed")
        with self._client(lambda: Consumer(settings, logger=_log), Consumer.close) as consumer:
            yield consumer

    def _reading(self, isolation: str) -> dict[str, Any]:
        return self.settings(
            group_id=self.prefix + GENERATOR + "-reader",  # never joined: required, but we assign ourselves
            isolation_level=isolation,
            enable_partition_eof=True,
            enable_auto_commit=False,
            auto_offset_reset="error",
            queued_max_messages_kbytes=65536,
            fetch_wait_max_ms=1,  # an end that is reached is told at once
        )

    @contextmanager
    def _client(self, make: Callable[[], Answer], close: Callable[[Answer], object]) -> Iterator[Answer]:
        with self.named_errors():
            client = make()
            try:
                yield client
            finally:
                close(client)

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """Have the client's errors leave the block as ours."""
        try:
            yield
        except KafkaException as error:
            raise self._translated(error.args[0]) from error

    def _translated(self, error: KafkaError) -> ClickstreamError:
        if error.code() in _FENCED:
            return RefusedError(
                "fenced",
                "Another generator has taken over while this one was publishing; this one published nothing.",
            )
        if error.code() in _UNREACHABLE:
            return ClickstreamError(
                f"No broker answers at {self.servers}. Start one (`make kafka`, or the compose service `kafka`), "
                "or name yours in KAFKA_BOOTSTRAP_SERVERS."
            )
        return ClickstreamError(f"The broker at {self.servers} answered: {error.str()} ({error.name()}).")


class Seat:
    """The one seat that generators share: membership of a consumer group whose topic has one partition."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._held: bool | None = None

    def confirm(self) -> None:
        """Raise RefusedError ("fenced") when the seat went to somebody else, as after a long standstill.

        One that was lost because the broker was away, and that nobody took meanwhile, comes back.
        """
        self._consumer.poll(0)
        if not self.answered(5 * SEAT_SECONDS):
            raise RefusedError(
                "fenced", "This generator was taken for dead and lost its seat; what it was publishing is void."
            )

    def answered(self, seconds: float) -> bool:
        """Wait for the group's answer, at most so long; whether the seat is ours."""
        self._poll_until(lambda: self._held is not None, seconds)
        return bool(self._held)

    def becomes_ours(self, seconds: float) -> bool:
        """Wait for whoever has the seat to leave it, at most so long; whether it is ours now."""
        self._poll_until(lambda: bool(self._held), seconds)
        return bool(self._held)

    def assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """Take the group's answer: the partition, or none when another member has it."""
        self._held = self._held or bool(partitions)

    def lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """Note that the group took the partition away; it will say who has it now."""
        if partitions:
            self._held = None

    def _poll_until(self, condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition() and time.monotonic() < deadline:
            self._consumer.poll(0.01)


class Writer:
    """Sends records in order. What `begin` opened, `commit` makes visible, or `abort` takes back if the broker can."""

    def __init__(self, broker: Broker, settings: dict[str, Any]) -> None:
        """Make a producer with these settings."""
        self.broker = broker
        self._producer = Producer(settings, logger=_log)
        self._failure: KafkaError | None = None
        self._sent: Counter[str] = Counter()
        self._begun_at: Offsets = {}
        self._asked = self.committed = False
        # A commit knows by itself what was not delivered.
        self._on_delivery = None if broker.transactions else self._report

    def fence(self) -> None:
        """End any earlier writer's transaction, and keep it from another, if the broker has them."""
        if self.broker.transactions:
            # Asked before the bootstrap address (first) and the broker itself (second) have answered, the client would
            # let half a second pass before it asks again.
            for _ in range(2):
                _retried(lambda: self._producer.list_topics(self.broker.prefix + MANIFEST, timeout=5.0))
            try:
                _retried(lambda: self._producer.init_transactions(CONTACT_SECONDS), CONTACT_SECONDS)
            except KafkaException as error:
                cause = error.args[0]
                if cause.code() not in _NO_TRANSACTIONS:
                    raise
                raise ClickstreamError(
                    f"The broker at {self.broker.servers} answers, but not to transactions ({cause.name()}). If it has "
                    "none, say so with `--no-transactions`. A single Kafka has them once its "
                    "transaction.state.log.replication.factor and transaction.state.log.min.isr are 1."
                ) from error

    def close(self) -> None:
        """Let go of the producer, without waiting for what was not sent."""
        self._producer.purge()
        self._producer.flush(1.0)

    def begin(self) -> None:
        """Open a transaction, if the broker has them."""
        self._asked = self.committed = False
        self._sent.clear()
        self._begun_at = self.broker.extents()
        if self.broker.transactions:
            self._producer.begin_transaction()

    def send_lines(self, topic: str, lines: bytes) -> int:
        """Send event records, one a line, each under its key; wait while the broker has too many to take in.

        Returns how many they are.
        """
        records = lines.split(b"\n")
        records.pop()
        messages: list[dict[str, Any]] = [{"key": record[KEY], "value": record} for record in records]
        self._sent[topic] += len(messages)
        name = self.broker.prefix + topic
        taken = self._producer.produce_batch(name, messages, partition=0, on_delivery=self._on_delivery)
        if taken != len(messages):
            raise KafkaException(next(message["_error"] for message in messages if "_error" in message))
        while len(self._producer) > _QUEUED_RECORDS:
            self._producer.poll(0.05)
            self._raise_failure()
        return len(messages)

    def send(self, topic: str, value: bytes, headers: Mapping[str, bytes] | None = None) -> None:
        """Send one record under the generator's key."""
        self._producer.produce(
            self.broker.prefix + topic,
            value,
            GENERATOR_KEY,
            0,
            self._on_delivery,
            headers=list((headers or {}).items()),
        )

    def own_extents(self) -> Offsets:
        """Return the offsets [first, end) that the event topics take up, with what was flushed since `begin`.

        Raises: RefusedError ("foreign-records") unless all since then is this writer's own.
        """
        extents = self.broker.extents()
        for topic, (_, end) in extents.items():
            begun, sent = self._begun_at[topic][1], self._sent[topic]
            if end - begun != sent:
                raise RefusedError(
                    "foreign-records",
                    f"{self.broker.prefix}{topic} has {end - begun} records from offset {begun} on, and {sent} of them "
                    f"were sent by this run: something else writes there. {self._undone()} Find what it is, and see "
                    "`docs/clickstream.md`, “After a death before the manifest”.",
                )
        return extents

    def _undone(self) -> str:
        return "Nothing was published." if self.broker.transactions else "Nothing was published; what was sent stays."

    def flush(self) -> None:
        """Wait until the broker has everything that was sent."""
        while self._producer.flush(1.0):
            self._raise_failure()
        self._raise_failure()

    def commit(self) -> None:
        """Make it visible, and wait until every reader of committed data sees it.

        Where this fails, `committed` and then `is_published` of the history tell what came of it.
        """
        if self.broker.transactions:
            self._asked = True
            try:
                _retried(lambda: self._producer.commit_transaction(ANSWER_SECONDS))
            except KafkaException as error:
                if error.args[0].txn_requires_abort():
                    self._asked = False
                    self.abort()
                raise
            self.committed = True
            if why := self.broker.await_decided():
                raise ClickstreamError(
                    f"Readers of committed data don't see the end of it yet: {why}. That is something else's; it ends "
                    "with whoever opened it, or by the broker's time limit."
                )
        self.committed = True

    def abort(self) -> None:
        """Take back what was sent since `begin`, as far as the broker can. Raises nothing: it follows another error.

        A broker that was asked to commit may have done so: then there is nothing to take back.
        """
        self._producer.purge()
        if self.broker.transactions and not self._asked:
            try:
                self._producer.abort_transaction(ANSWER_SECONDS)
            except KafkaException as error:
                _log.debug("The transaction is left to its timeout: %s", error)

    def _report(self, error: KafkaError | None, _: Message) -> None:
        self._failure = self._failure or error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise KafkaException(self._failure)


def _config_of_new(name: str) -> dict[str, str]:
    return _topic_config(name) | ({} if name in EVENT_TOPICS else {"segment.ms": str(3600 * 1000)})


def _topic_config(name: str) -> dict[str, str]:
    if name in EVENT_TOPICS:
        return {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    return {"cleanup.policy": "compact", "max.message.bytes": str(LARGEST_RECORD_BYTES)}


def _record(message: Message) -> Record:
    return Record(
        message.offset() or 0,
        message.key() or b"",
        message.value() or b"",
        dict(message.headers() or ()),  # type: ignore[arg-type]
    )


def _retried(ask: Callable[[], Answer], seconds: float | None = None) -> Answer:
    """Ask again while the broker is away, or busy, for at most so long, by default ABSENCE_SECONDS."""
    deadline = time.monotonic() + (ABSENCE_SECONDS if seconds is None else seconds)
    while True:
        try:
            return ask()
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            if not (cause.retriable() or cause.code() in _PASSING) or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def _wait(condition: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + ABSENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise ClickstreamError(f"{complaint} after {ABSENCE_SECONDS:.0f} s.")
        time.sleep(0.02)

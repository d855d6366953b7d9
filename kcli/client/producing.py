"""Produces records, and counts those delivered and failed."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from kcli.client.connection import Connection, Refused, kafka_error
from kcli.client.input import NewRecord
from kcli.client.partitioner import Partitioner, Partitioning
from kcli.errors import KcliError, UsageError

# the time that a broker has to create the topic, after the first Metadata request for it (auto.create.topics.enable)
CREATED_WITHIN_S = 2.0
MAX_MESSAGE_BYTES = 1_000_000_000  # librdkafka's maximum, so that the broker decides what is too large
FAILURES_KEPT = 10
POLL_EVERY = 64  # records

PURGED = KafkaError._PURGE_QUEUE  # noqa: SLF001 (librdkafka's own codes have no public name)


@dataclass(frozen=True, kw_only=True)
class ProducerSettings:
    """The producer's settings. For compression, linger_ms and batch_bytes, None stands for librdkafka's default.

    acks: all, 1 or 0; None for all. idempotence: None to turn it on only with acks=all. partition: the partition of
    every record; if it is None, `partitioning` chooses one for each record. own_partitions: whether each record's own
    partition is used instead; a record without one is then an error.
    """

    acks: str | None = None
    idempotence: bool | None = None
    compression: str | None = None
    linger_ms: float | None = None
    batch_bytes: int | None = None
    partition: int | None = None
    partitioning: Partitioning = Partitioning.MURMUR2
    own_partitions: bool = False

    def properties(self) -> dict[str, Any]:
        """Return librdkafka's properties. enable.idempotence is on with acks=all, as in Java's producer. Raises
        UsageError if idempotence is asked for with other acks."""
        acks = self.acks or "all"
        idempotence = self.idempotence if self.idempotence is not None else acks in ("all", "-1")
        if idempotence and acks not in ("all", "-1"):
            raise UsageError(f"--idempotence needs --acks all, not {acks}")
        chosen = {
            "acks": acks,
            "enable.idempotence": idempotence,
            "compression.type": self.compression,
            "linger.ms": self.linger_ms,
            "batch.size": self.batch_bytes,
            "message.max.bytes": MAX_MESSAGE_BYTES,
            "message.timeout.ms": 120_000,  # delivery.timeout.ms of Java's producer
            "delivery.report.only.error": True,
        }
        return {name: value for name, value in chosen.items() if value is not None}


@dataclass
class Delivery:
    """Counts of records. records, bytes: those given to librdkafka, failed ones included. failures: Kafka's name and
    text of an error -> the number of records that failed with it; after FAILURES_KEPT different errors, further ones
    are counted as "other errors"."""

    records: int = 0
    bytes: int = 0
    failures: dict[str, int] = field(default_factory=dict)

    @property
    def failed(self) -> int:
        """The number of records that were not delivered."""
        return sum(self.failures.values())

    def fail(self, topic: str, error: KafkaError, count: int = 1) -> None:
        """Count records that failed with that error, by default one."""
        text = str(Refused(topic, error))
        if text not in self.failures and len(self.failures) >= FAILURES_KEPT:
            text = "other errors"
        self.failures[text] = self.failures.get(text, 0) + count


class TopicProducer:
    """Produces to one topic, or to the topics that the records name. `delivery` counts the records; `close` waits for
    delivery."""

    def __init__(self, connection: Connection, settings: ProducerSettings, topic: str | None) -> None:
        self.delivery = Delivery()
        self._connection = connection
        self._settings = settings
        self._topic = topic
        self._fatal: KafkaError | None = None
        self._purged = 0
        self._producer: Producer = connection.producer(settings.properties())
        self._partitioners: dict[str, tuple[Partitioner, int]] = {}
        if topic is None:
            connection.metadata(self._producer)
        else:
            self._partitioner(topic)

    def send(self, records: Iterable[NewRecord]) -> None:
        """Queue the records in librdkafka's producer; wait while that queue is full. Raises Unreachable, Refused,
        KcliError."""
        producer, fail, delivery = self._producer, self._failed, self.delivery
        fixed = self._settings.partition
        for number, record in enumerate(records):
            topic = self._topic or record.topic
            if topic is None:
                raise UsageError("a record names no topic, which TOPIC - leaves to records")
            size = len(record.value or b"") + len(record.key or b"")
            partition = self._choose(topic, record, size) if fixed is None else self._checked(topic, fixed)
            options: dict[str, Any] = {"partition": partition, "on_delivery": fail}
            if record.headers:
                options["headers"] = list(record.headers)
            if record.timestamp is not None and record.timestamp > 0:
                options["timestamp"] = record.timestamp
            delivery.records += 1
            delivery.bytes += size
            while True:
                try:
                    producer.produce(topic, record.value, record.key, **options)
                except BufferError:
                    self._poll(0.1)
                    if self._connection.trouble.down_for(self._connection.timeout_s):
                        delivery.records -= 1
                        delivery.bytes -= size
                        raise self._connection.unreachable() from None
                except KafkaException as error:
                    delivery.fail(topic, kafka_error(error))
                    break
                else:
                    break
            if number % POLL_EVERY == 0:
                self._poll(0)

    def close(self, timeout_s: float | None = None) -> Delivery:
        """Wait until every record is delivered or has failed, but at most `timeout_s` seconds (None: without limit),
        and not longer if all brokers are down; records that are undelivered then count as failed. Returns the
        counts."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while left := self._undelivered():
            is_down = self._connection.trouble.down_for(self._connection.timeout_s)
            if is_down or (deadline is not None and time.monotonic() >= deadline):
                reason = str(self._connection.unreachable()) if is_down else "interrupted"
                self.delivery.failures[reason] = left
                break
        if self._purged:
            self.delivery.fail("", self._fatal or KafkaError(PURGED), self._purged)
            self._purged = 0
        return self.delivery

    def _poll(self, timeout_s: float) -> None:
        """Receive delivery reports. Raises Refused for a fatal error, after which librdkafka's producer sends nothing
        more."""
        try:
            self._producer.poll(timeout_s)
        except KafkaException as error:
            self._fatal = kafka_error(error)
            raise Refused("", self._fatal) from None

    def _undelivered(self) -> int:
        """Wait a moment for delivery reports; return the number of records that have no report yet."""
        try:
            return self._producer.flush(0.2)
        except KafkaException as error:  # librdkafka's producer does nothing more, and reports every record as purged
            self._fatal = kafka_error(error)
            return len(self._producer)

    def _failed(self, error: KafkaError | None, message: Any) -> None:
        if error is not None and error.code() == PURGED:
            self._purged += 1
        elif error is not None:
            self.delivery.fail(f"{message.topic()}-{message.partition()}", error)

    def _choose(self, topic: str, record: NewRecord, size: int) -> int:
        if self._settings.own_partitions:
            if record.partition is None:
                raise KcliError("a record has no partition of its own")
            return self._checked(topic, record.partition)
        return self._partitioner(topic)[0].partition(record.key, size)

    def _checked(self, topic: str, partition: int) -> int:
        count = self._partitioner(topic)[1]
        if not 0 <= partition < count:
            raise KcliError(f"{topic} has no partition {partition}: it has {count}")
        return partition

    def _partitioner(self, topic: str) -> tuple[Partitioner, int]:
        known = self._partitioners.get(topic)
        if known is None:
            count = self._partition_count(topic)
            known = self._partitioners[topic] = Partitioner(self._settings.partitioning, count), count
        return known

    def _partition_count(self, topic: str) -> int:
        began = time.monotonic()
        while True:
            found = self._connection.metadata(self._producer, topic).topics[topic]
            if found.partitions and found.error is None:
                return len(found.partitions)
            error = found.error or KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
            coming = error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE)
            if not coming or time.monotonic() - began >= CREATED_WITHIN_S:
                raise Refused(topic, error)
            time.sleep(0.1)

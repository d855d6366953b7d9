"""The steps with confluent-kafka (librdkafka), which sends ApiVersions by itself (api.version.request)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import confluent_kafka
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.interop.clients.python.script import TIMEOUT_S, WAIT_MS, Client, Deadline, Message, Offsets, main

LARGEST = 8 << 20


class Confluent(Client):
    """The steps with confluent-kafka; its admin methods return a future for each item."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def version(self) -> str:
        return f"confluent-kafka {confluent_kafka.version()} librdkafka {confluent_kafka.libversion()[0]}"

    def create_topic(self, name: str, partitions: int, configs: dict[str, str]) -> int:
        return _code(self.admin.create_topics([NewTopic(name, partitions, 1, config=configs)]))

    def produce(self, topic: str, messages: Sequence[Message], codec: str, *, idempotent: bool) -> list[int]:
        found = self._produce(topic, messages, codec, idempotent=idempotent)
        errors = [offset_or_error for offset_or_error in found if isinstance(offset_or_error, KafkaError)]
        if errors:
            raise KafkaException(errors[0])
        return [offset for offset in found if isinstance(offset, int)]

    def _produce(
        self, topic: str, messages: Sequence[Message], codec: str, *, idempotent: bool
    ) -> list[int | KafkaError | None]:
        options = {"enable.idempotence": idempotent, "compression.type": codec, "message.max.bytes": LARGEST}
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", "linger.ms": 5} | options)
        found: list[int | KafkaError | None] = [None] * len(messages)
        for i, each in enumerate(messages):

            def delivered(error: KafkaError | None, message: Any, i: int = i) -> None:
                found[i] = message.offset() if error is None else error

            producer.produce(
                topic,
                each.value,
                each.key,
                partition=each.partition,
                timestamp=each.timestamp_ms,
                headers=[*each.headers],
                on_delivery=delivered,
            )
        assert producer.flush(TIMEOUT_S) == 0, "all are delivered"
        return found

    def produce_error(self, topic: str, message: Message) -> int:
        (error,) = self._produce(topic, [message], "none", idempotent=False)
        return error.code() if isinstance(error, KafkaError) else 0

    def _consumer(self, **options: Any) -> Consumer:
        fixed = {"bootstrap.servers": self.bootstrap, "group.id": "none", "enable.auto.commit": False}
        return Consumer(fixed | {name.replace("_", "."): value for name, value in options.items()})

    # Assign offset 0, not "beginning": librdkafka waits 0.5 s before it looks up the beginning.
    def read(self, topic: str, partitions: int, count: int, *, committed: bool) -> list[Message]:
        isolation = "read_committed" if committed else "read_uncommitted"
        consumer = self._consumer(isolation_level=isolation, auto_offset_reset="earliest")
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        found: list[Message] = []
        deadline = Deadline()
        while len(found) < count:
            deadline.check()
            found += map(_message, consumer.consume(count - len(found), 0.1))
        consumer.close()
        return found

    def offsets(self, topic: str, at_ms: int, beyond_ms: int) -> Offsets:
        consumer = self._consumer()
        earliest, latest = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
        (at,) = consumer.offsets_for_times([TopicPartition(topic, 0, at_ms)], timeout=TIMEOUT_S)
        (beyond,) = consumer.offsets_for_times([TopicPartition(topic, 0, beyond_ms)], timeout=TIMEOUT_S)
        consumer.close()
        return {
            "earliest": earliest,
            "latest": latest,
            "at": at.offset,
            "beyond": None if beyond.offset < 0 else beyond.offset,
        }

    def tail(self, topic: str, message: Message) -> float:
        consumer = self._consumer(fetch_wait_max_ms=WAIT_MS)
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert consumer.poll(0.3) is None, "nothing there yet"
        begin = time.monotonic()
        self.produce(topic, [message], "none", idempotent=False)
        assert consumer.poll(WAIT_MS / 1000) is not None, "nothing came"
        passed = time.monotonic() - begin
        consumer.close()
        return passed

    def delete_records(self, topic: str, before: int) -> tuple[int, int]:
        answer = self.admin.delete_records([TopicPartition(topic, 0, before)])
        error = _code(answer)
        return (-1, error) if error else (_result(answer).low_watermark, 0)

    def configs(self, topic: str) -> dict[str, str]:
        found = _result(self.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
        return {name: entry.value for name, entry in found.items()}

    def alter_config(self, topic: str, name: str, value: str) -> None:
        change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
        _result(self.admin.incremental_alter_configs([resource]))

    def create_partitions(self, topic: str, count: int) -> int:
        _result(self.admin.create_partitions([NewPartitions(topic, count)]))
        return len(_result(self.admin.describe_topics(TopicCollection([topic]))).partitions)

    def delete_topic(self, topic: str) -> int:
        return _code(self.admin.delete_topics([topic]))

    def topics(self) -> list[str]:
        return list(self.admin.list_topics(timeout=TIMEOUT_S).topics)

    def cluster(self) -> dict[str, Any]:
        found = self.admin.describe_cluster().result(TIMEOUT_S)
        nodes = [node.id for node in found.nodes]
        return {"id": found.cluster_id, "controller": found.controller.id, "nodes": nodes}

    def more(self) -> dict[str, Any]:
        latest: OffsetSpec = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]
        return {"max_timestamp": _result(self.admin.list_offsets({TopicPartition("none", 0): latest})).offset}

    def close(self) -> None:
        """Its destructor closes it."""


def _result(answer: Mapping[Any, Future[Any]]) -> Any:
    (future,) = answer.values()
    return future.result(TIMEOUT_S)


def _code(answer: Mapping[Any, Future[Any]]) -> int:
    try:
        _result(answer)
    except KafkaException as error:
        return int(error.args[0].code())
    return 0


def _message(message: Any) -> Message:
    assert message.error() is None, message.error()
    _, timestamp_ms = message.timestamp()
    headers = message.headers() or []
    return Message(message.partition(), timestamp_ms, message.key(), message.value(), headers, offset=message.offset())


if __name__ == "__main__":
    main(Confluent)

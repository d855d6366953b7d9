"""aiokafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from tests.interop.clients.python.script import TIMEOUT_S, WAIT_MS, Client, Message, Offsets, main

LARGEST = 8 << 20


class AioKafka(Client):
    """The steps with aiokafka; each runs its coroutines to their end."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.runner = asyncio.Runner()
        self.admin = self.runner.run(self._open_admin())

    async def _open_admin(self) -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        return admin

    def version(self) -> str:
        return f"aiokafka {aiokafka.__version__}"

    def create_topic(self, name: str, partitions: int, configs: dict[str, str]) -> int:
        topic = NewTopic(name, partitions, 1, topic_configs=configs)
        answer = self.runner.run(self.admin.create_topics([topic]))
        return int(answer.topic_errors[0][1])

    def produce(self, topic: str, messages: Sequence[Message], codec: str, *, idempotent: bool) -> list[int]:
        return self.runner.run(self._produce(topic, messages, codec, idempotent=idempotent))

    async def _produce(self, topic: str, messages: Sequence[Message], codec: str, *, idempotent: bool) -> list[int]:
        compression = None if codec == "none" else codec
        options = {"enable_idempotence": idempotent, "compression_type": compression, "max_request_size": LARGEST}
        async with AIOKafkaProducer(bootstrap_servers=self.bootstrap, acks="all", linger_ms=5, **options) as producer:
            sent = [
                await producer.send(topic, each.value, each.key, each.partition, each.timestamp_ms, each.headers)
                for each in messages
            ]
            return [(await future).offset for future in sent]

    def produce_error(self, topic: str, message: Message) -> int:
        try:
            self.produce(topic, [message], "none", idempotent=False)
        except KafkaError as error:
            return int(error.errno)
        return 0

    def read(self, topic: str, partitions: int, count: int, *, committed: bool) -> list[Message]:
        return self.runner.run(self._read(topic, partitions, count, committed=committed))

    async def _read(self, topic: str, partitions: int, count: int, *, committed: bool) -> list[Message]:
        isolation = "read_committed" if committed else "read_uncommitted"
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, auto_offset_reset="earliest", isolation_level=isolation
        )
        consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
        found: list[Message] = []
        async with asyncio.timeout(TIMEOUT_S), consumer:
            while len(found) < count:
                found.append(_message(await consumer.getone()))
        return found

    def offsets(self, topic: str, at_ms: int, beyond_ms: int) -> Offsets:
        return self.runner.run(self._offsets(topic, at_ms, beyond_ms))

    async def _offsets(self, topic: str, at_ms: int, beyond_ms: int) -> Offsets:
        place = TopicPartition(topic, 0)
        async with AIOKafkaConsumer(bootstrap_servers=self.bootstrap) as consumer:
            return {
                "earliest": (await consumer.beginning_offsets([place]))[place],
                "latest": (await consumer.end_offsets([place]))[place],
                "at": (await consumer.offsets_for_times({place: at_ms}))[place].offset,
                "beyond": (await consumer.offsets_for_times({place: beyond_ms}))[place],
            }

    def tail(self, topic: str, message: Message) -> float:
        return self.runner.run(self._tail(topic, message))

    async def _tail(self, topic: str, message: Message) -> float:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, fetch_max_wait_ms=WAIT_MS, auto_offset_reset="earliest"
        )
        consumer.assign([TopicPartition(topic, 0)])
        async with consumer:
            assert not await consumer.getmany(timeout_ms=300), "nothing there yet"
            begin = time.monotonic()
            await self._produce(topic, [message], "none", idempotent=False)
            assert await consumer.getmany(timeout_ms=WAIT_MS), "nothing came"
            return time.monotonic() - begin

    def delete_records(self, topic: str, before: int) -> tuple[int, int]:
        place = TopicPartition(topic, 0)
        try:
            low: int = self.runner.run(self.admin.delete_records({place: RecordsToDelete(before)}))[place]
        except KafkaError as error:
            return -1, int(error.errno)
        return low, 0

    def configs(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        answer = self.runner.run(self.admin.describe_configs([resource]))
        *_, entries = answer[0].resources[0]
        return {name: value for name, value, *_ in entries}

    def alter_config(self, topic: str, name: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})
        answer = self.runner.run(self.admin.alter_configs([resource]))
        assert answer[0].resources[0][0] == 0, answer

    def create_partitions(self, topic: str, count: int) -> int:
        self.runner.run(self.admin.create_partitions({topic: NewPartitions(count)}))
        return len(self.runner.run(self.admin.describe_topics([topic]))[0]["partitions"])

    def delete_topic(self, topic: str) -> int:
        answer = self.runner.run(self.admin.delete_topics([topic]))
        return int(answer.topic_error_codes[0][1])

    def topics(self) -> list[str]:
        found: list[str] = self.runner.run(self.admin.list_topics())
        return found

    def cluster(self) -> dict[str, Any]:
        found = self.runner.run(self.admin.describe_cluster())
        nodes = [broker["node_id"] for broker in found["brokers"]]
        return {"id": found["cluster_id"], "controller": found["controller_id"], "nodes": nodes}

    def more(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        self.runner.run(self.admin.close())
        self.runner.close()


def _message(record: Any) -> Message:
    return Message(
        record.partition, record.timestamp, record.key, record.value, list(record.headers), offset=record.offset
    )


if __name__ == "__main__":
    main(AioKafka)

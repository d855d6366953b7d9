"""kafka-python."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetSpec, TopicPartition
from kafka.admin import ConfigResource
from kafka.errors import KafkaError

from tests.interop.clients.python.script import WAIT_MS, Client, Deadline, Message, Offsets, main

LARGEST = 8 << 20


class KafkaPython(Client):
    """Its admin client speaks most APIs."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def version(self) -> str:
        return f"kafka-python {kafka.__version__}"

    def create_topic(self, name: str, partitions: int, configs: dict[str, str]) -> int:
        topic = {"num_partitions": partitions, "replication_factor": 1, "configs": configs}
        answer = self.admin.create_topics({name: topic}, raise_errors=False)
        return int(answer["topics"][0]["error_code"])

    def _producer(self, codec: str, *, idempotent: bool) -> Any:
        compression = None if codec == "none" else codec
        options = {"enable_idempotence": idempotent, "compression_type": compression, "max_request_size": LARGEST}
        return KafkaProducer(bootstrap_servers=self.bootstrap, acks="all", linger_ms=5, **options)

    def produce(self, topic: str, messages: Sequence[Message], codec: str, *, idempotent: bool) -> list[int]:
        producer = self._producer(codec, idempotent=idempotent)
        sent = [
            producer.send(topic, each.value, each.key, each.headers, each.partition, each.timestamp_ms)
            for each in messages
        ]
        producer.flush()
        producer.close()
        return [future.get().offset for future in sent]

    def produce_error(self, topic: str, message: Message) -> int:
        try:
            self.produce(topic, [message], "none", idempotent=False)
        except KafkaError as error:
            return int(error.errno)
        return 0

    def read(self, topic: str, partitions: int, count: int, *, committed: bool) -> list[Message]:
        isolation = "read_committed" if committed else "read_uncommitted"
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap, auto_offset_reset="earliest", isolation_level=isolation
        )
        consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
        found: list[Message] = []
        deadline = Deadline()
        while len(found) < count:
            deadline.check()
            for records in consumer.poll(timeout_ms=1000).values():
                found += map(_message, records)
        consumer.close()
        return found

    def offsets(self, topic: str, at_ms: int, beyond_ms: int) -> Offsets:
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap)
        place = TopicPartition(topic, 0)
        found = {
            "earliest": consumer.beginning_offsets([place])[place],
            "latest": consumer.end_offsets([place])[place],
            "at": consumer.offsets_for_times({place: at_ms})[place].offset,
            "beyond": consumer.offsets_for_times({place: beyond_ms})[place],
        }
        consumer.close()
        return found

    def tail(self, topic: str, message: Message) -> float:
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap, fetch_max_wait_ms=WAIT_MS, auto_offset_reset="earliest"
        )
        consumer.assign([TopicPartition(topic, 0)])
        assert not consumer.poll(timeout_ms=300), "nothing there yet"
        begin = time.monotonic()
        self.produce(topic, [message], "none", idempotent=False)
        assert consumer.poll(timeout_ms=WAIT_MS), "nothing came"
        passed = time.monotonic() - begin
        consumer.close()
        return passed

    def delete_records(self, topic: str, before: int) -> tuple[int, int]:
        place = TopicPartition(topic, 0)
        try:
            return self.admin.delete_records({place: before})[place]["low_watermark"], 0
        except KafkaError as error:
            return -1, int(error.errno)

    def configs(self, topic: str) -> dict[str, str]:
        found = self.admin.describe_configs([ConfigResource("topic", topic)], config_filter="all")
        return {name: config["value"] for name, config in found["topic"][topic].items()}

    def alter_config(self, topic: str, name: str, value: str) -> None:
        self.admin.alter_configs([ConfigResource("topic", topic, {name: value})])

    def create_partitions(self, topic: str, count: int) -> int:
        self.admin.create_partitions({topic: count})
        return len(self.admin.describe_topics([topic])[0]["partitions"])

    def delete_topic(self, topic: str) -> int:
        return int(self.admin.delete_topics([topic], raise_errors=False)["topics"][0]["error_code"])

    def topics(self) -> list[str]:
        found: list[str] = self.admin.list_topics()
        return found

    def cluster(self) -> dict[str, Any]:
        found = self.admin.describe_cluster()
        nodes = [broker["broker_id"] for broker in found["brokers"]]
        return {"id": found["cluster_id"], "controller": found["controller_id"], "nodes": nodes}

    def more(self) -> dict[str, Any]:
        none, idempotent = TopicPartition("none", 0), TopicPartition("idempotent-none", 0)
        latest = self.admin.list_partition_offsets({none: OffsetSpec.MAX_TIMESTAMP})
        features = self.admin.describe_features()
        directory = self.admin.describe_log_dirs({"idempotent-none": [0]})[0]["log_dirs"][0]
        quorum = self.admin.describe_metadata_quorum()
        return {
            "max_timestamp": latest[none].offset,
            "producers": len(self.admin.describe_producers([idempotent])[idempotent].active_producers),
            "log_size_bytes": directory["topics"][0]["partitions"][0]["partition_size"],
            "metadata_version": features["metadata.version"]["finalized"][1],
            "quorum_leader": quorum["topics"][0]["partitions"][0]["leader_id"],
        }

    def close(self) -> None:
        self.admin.close()


def _message(record: Any) -> Message:
    return Message(
        record.partition, record.timestamp, record.key, record.value, list(record.headers), offset=record.offset
    )


if __name__ == "__main__":
    main(KafkaPython)

"""A client that produces to a topic, or consumes it, and prints its figures as JSON: see cores.py.

python -m tests.bench.core_client produce|consume BOOTSTRAP TOPIC VALUE_BYTES RECORDS
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

AT_ONCE = 10_000


def produce(bootstrap: str, topic: str, size: int, count: int) -> None:
    """Produce records of one value, acks=all."""
    failed: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 0,
            "queue.buffering.max.kbytes": 512 * 1024,
            "sticky.partitioning.linger.ms": 50,
            "on_delivery": lambda error, _: failed.append(error) if error else None,
            "delivery.report.only.error": True,
        }
    )
    value = bytes(size)
    part = [{"value": value}] * AT_ONCE
    for first in range(0, count, AT_ONCE):
        producer.produce_batch(topic, part[: count - first])
        producer.poll(0)
        while len(producer) > 20 * AT_ONCE:
            producer.poll(0.01)
    producer.flush()
    if failed:
        raise KafkaException(failed[0])


def consume(bootstrap: str, topic: str, count: int) -> None:
    """Consume as many records from the beginning of the topic on."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "core",
        "enable.auto.commit": False,
        "fetch.message.max.bytes": 1 << 20,
        "queued.max.messages.kbytes": 128 * 1024,
        "queued.min.messages": 1_000_000,
    }
    consumer = Consumer(settings)
    partitions = consumer.list_topics(topic).topics[topic].partitions
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
    found = 0
    while found < count:
        found += len(consumer.consume(AT_ONCE, 1.0))
    consumer.close()


def main(what: str, bootstrap: str, topic: str, size: int, count: int) -> None:
    """Run and print the figures: MB a second, and CPU seconds a GB."""
    began, cpu = time.perf_counter(), time.process_time()
    if what == "produce":
        produce(bootstrap, topic, size, count)
    else:
        consume(bootstrap, topic, count)
    seconds, used = time.perf_counter() - began, time.process_time() - cpu
    print(json.dumps({"mb_per_s": size * count / 1e6 / seconds, "client_cpu": used / (size * count / 1e9)}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))

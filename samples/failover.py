"""A producer that does not notice that a broker dies, and counts what it was told.

    failover.py BOOTSTRAP TOPIC SECONDS     numbers its records and sends one every two ms, acks=all, idempotent

At the end it reads the topic: every record that was acknowledged has to be there, once, and in order.
"""

from __future__ import annotations

import itertools
import sys
import time

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

PAUSE_S = 0.002
WAIT_S = 30.0


def produced(bootstrap: str, topic: str, seconds: float) -> tuple[list[int], float]:
    """Send for so long. Returns the numbers that were acknowledged, and the longest time between two of them."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 0,
            "retry.backoff.ms": 10,
            "retry.backoff.max.ms": 50,
            "log_level": 0,
        }
    )
    acknowledged: list[int] = []
    times: list[float] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        acknowledged.append(int(message.value() or b""))
        times.append(time.monotonic())

    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        producer.produce(topic, str(number).encode(), partition=0, on_delivery=delivered)
        number += 1
        producer.poll(PAUSE_S)
        time.sleep(PAUSE_S)
    assert producer.flush(WAIT_S) == 0, "all are told of"
    return acknowledged, max(later - earlier for earlier, later in itertools.pairwise(times))


def consumed(bootstrap: str, topic: str, count: int) -> list[int]:
    """The numbers in the topic, in the order of their offsets; at least so many."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "failover", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        found += [int(each.value() or b"") for each in consumer.consume(1000, 0.5) if each.error() is None]
    consumer.close()
    return found


if __name__ == "__main__":
    where, name, duration = sys.argv[1:4]
    told, longest_s = produced(where, name, float(duration))
    there = consumed(where, name, len(told))
    assert there == told == list(range(len(told))), "each once, in order"
    print(f"{len(told):,} records acknowledged, each is there once; the longest wait for one was {longest_s:.2f} s")

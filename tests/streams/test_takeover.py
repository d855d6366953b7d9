"""One of three instances is killed: the others go on with its tasks within two seconds, from the stores that they have
kept up to date, and no key is processed by two of them."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer, TopicPartition

from kcli.testing.kafka import Kafka
from tests.streams.applications import START_MS, by_key, consumed, wait_until

PARTITIONS = 6
KEYS = [f"key-{number}" for number in range(60)]
INSTANCES = ("one", "two", "three")
TAKEOVER_S = 2.0


@contextmanager
def producing(kafka: Kafka) -> Iterator[dict[str, int]]:
    """Produce a record of each key again and again; yield how many records each key has."""
    sent = dict.fromkeys(KEYS, 0)
    stop = threading.Event()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "partitioner": "murmur2_random"})
        while not stop.wait(0.05):
            for key in KEYS:
                producer.produce("a", b"x", key.encode(), timestamp=START_MS)
                sent[key] += 1
            producer.flush()

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield sent
    finally:
        stop.set()
        thread.join()


class Makers:
    """Which instance has made the last committed count of each key, and when it was seen."""

    def __init__(self, kafka: Kafka) -> None:
        self.last: dict[bytes | None, str] = {}
        config = {"group.id": "makers", "isolation.level": "read_committed", "fetch.wait.max.ms": 20}
        self._consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, **config})
        self._consumer.assign([TopicPartition("out", number, 0) for number in range(PARTITIONS)])

    def look(self) -> None:
        for message in self._consumer.consume(1000, 0.02):
            if message.error() is None:
                self.last[message.key()] = (message.value() or b"").decode().split()[0]

    def instances(self) -> set[str]:
        self.look()
        return set(self.last.values())

    def close(self) -> None:
        self._consumer.close()


def test_an_instance_is_killed(kafka: Kafka) -> None:
    kafka.seed({"a": PARTITIONS, "out": PARTITIONS})
    command = [sys.executable, "-m", "tests.streams.taken_over", kafka.bootstrap_servers]
    processes = {each: subprocess.Popen([*command, each]) for each in INSTANCES}
    makers = Makers(kafka)
    try:
        with producing(kafka) as sent:
            wait_until(lambda: makers.instances() == set(INSTANCES))
            time.sleep(1)
            makers.look()
            orphans = {key for key, maker in makers.last.items() if maker == "one"}
            processes["one"].send_signal(signal.SIGKILL)
            begun = time.monotonic()
            while any(makers.last[key] == "one" for key in orphans):
                makers.look()
                assert time.monotonic() < begun + 30
            taken_s = time.monotonic() - begun
        wanted = {key.encode(): count for key, count in sent.items()}
        wait_until(lambda: counts(kafka) == wanted)
    finally:
        makers.close()
        for process in processes.values():
            process.kill()
            process.wait()
    assert orphans
    assert taken_s < TAKEOVER_S
    for rows in by_key(consumed(kafka.bootstrap_servers, "out", PARTITIONS)).values():
        told = [(value or b"").decode().split() for value, _ in rows]
        assert [int(count) for _, count in told] == list(range(1, len(told) + 1))


def counts(kafka: Kafka) -> dict[bytes | None, int]:
    found = by_key(consumed(kafka.bootstrap_servers, "out", PARTITIONS))
    return {key: len(rows) for key, rows in found.items()}

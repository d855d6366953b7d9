"""Programs for the local runner and for Java's KafkaStreams: what they read, and where their results go.

tests/streams/Applications.java declares the programs COUNT, WINDOWED_COUNT and TABLE_JOIN for Kafka Streams.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from kcli.streams import STRING, StreamsBuilder, TimeWindows, Topology
from kcli.streams.local import KafkaStreams

if TYPE_CHECKING:
    from kcli.testing.kafka import Kafka

WAIT_S = 60.0
START_MS = int(time.time()) * 1000
"""Brokers delete records that are older than their retention, by their timestamps."""


class Input(NamedTuple):
    """A record for a topic. timestamp: milliseconds."""

    topic: str
    key: str
    value: str | None
    timestamp: int


Row = tuple[bytes | None, bytes | None, int]


def new_builder() -> StreamsBuilder:
    return StreamsBuilder(key_serde=STRING, value_serde=STRING)


def text(number: int) -> str:
    return f"count {number}"


def count() -> Topology:
    builder = new_builder()
    words = builder.stream("a").flat_map_values(str.split).group_by(lambda _, word: word)
    words.count(store_name="counts").to_stream().map_values(text).to("out")
    return builder.build()


def windowed_count() -> Topology:
    builder = new_builder()
    grouped = builder.stream("a").group_by_key().windowed_by(TimeWindows(size_ms=1000, grace_ms=500))
    counts = grouped.count(store_name="counts")
    counts.to_stream(name="s").map(lambda key, n: (f"{key.key}@{key.window.start}", text(n))).to("out")
    return builder.build()


def stream_table_join() -> Topology:
    builder = new_builder()
    table = builder.table("b", store_name="table")
    builder.stream("a").left_join(table, lambda one, other: f"{one}+{other}").to("out")
    return builder.build()


def versioned_join() -> Topology:
    builder = new_builder()
    table = builder.table("b", store_name="table", history_retention_ms=60_000)
    builder.stream("a").left_join(table, lambda one, other: f"{one}+{other}", grace_ms=1000).to("out")
    return builder.build()


def table_join() -> Topology:
    builder = new_builder()
    one, other = builder.table("a", store_name="one"), builder.table("b", store_name="other")
    one.outer_join(other, lambda left, right: f"{left}+{right}", store_name="joined").to_stream().to("out")
    return builder.build()


def foreign_key_join() -> Topology:
    builder = new_builder()
    one, other = builder.table("a", store_name="one"), builder.table("b", store_name="other")
    joined = one.left_join(
        other, lambda left, right: f"{left}+{right}", foreign_key=lambda value: value[0], store_name="joined"
    )
    joined.to_stream().to("out")
    return builder.build()


PROGRAMS: dict[str, Callable[[], Topology]] = {
    each.__name__: each
    for each in (count, windowed_count, stream_table_join, versioned_join, table_join, foreign_key_join)
}


def inputs(count: int, seed: int) -> list[Input]:
    """Return records for the topics a and b with rising timestamps and some tombstones in b."""
    chance = random.Random(seed)
    keys = "abcdefg"
    found: list[Input] = []
    now = START_MS
    for number in range(count):
        now += chance.randint(1, 400)
        key, topic = chance.choice(keys), chance.choice("aab")
        value = f"{chance.choice(keys)} {number % 9}"
        found.append(Input(topic, key, None if topic == "b" and chance.random() < 0.2 else value, now))
    return found


def produce(bootstrap_servers: str, records: list[Input]) -> None:
    """Produce records, as Java's producer would partition them."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "partitioner": "murmur2_random", "linger.ms": 5})
    for each in records:
        producer.produce(each.topic, each.value, each.key, timestamp=each.timestamp)
    assert producer.flush(WAIT_S) == 0


def consumed(bootstrap_servers: str, topic: str, partitions: int) -> list[Row]:
    """Return what a topic has for consumers with read_committed, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    found: list[list[Row]] = [[] for _ in range(partitions)]
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    left = partitions
    while left:
        message: Any = consumer.poll(WAIT_S)
        assert message is not None
        if message.error() is None:
            found[message.partition()].append((message.key(), message.value(), message.timestamp()[1]))
        else:
            left -= 1
    consumer.close()
    return [row for rows in found for row in rows]


def by_key(rows: list[Row]) -> dict[bytes | None, list[tuple[bytes | None, int]]]:
    """Return values and timestamps of each key, in their order."""
    found: dict[bytes | None, list[tuple[bytes | None, int]]] = {}
    for key, value, timestamp in rows:
        found.setdefault(key, []).append((value, timestamp))
    return found


@contextmanager
def running(kafka: Kafka, topology: Topology, **config: Any) -> Iterator[KafkaStreams]:
    """Run an instance of the application "app" on a thread, and close it at the end. Raises what the thread raises."""
    app = KafkaStreams(topology, application_id="app", bootstrap_servers=kafka.bootstrap_servers, **config)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            app.run()
        except BaseException as failure:  # noqa: BLE001 (raised again by the caller's thread)
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield app
    finally:
        app.close()
        thread.join(WAIT_S)
    if failures:
        raise failures[0]
    assert not thread.is_alive()


def wait_until(condition: Callable[[], bool], timeout_s: float = WAIT_S) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.1)

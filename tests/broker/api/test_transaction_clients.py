"""Transactions with common clients: kafka-python as in its documentation, librdkafka; and kill -9 of the broker."""

from __future__ import annotations

import random
import signal
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka import Producer as LibrdkafkaProducer

from tests.broker.api.test_produce_fetch import create
from tests.broker.running import Client, RunningNode, ServedNode, running_node
from tests.broker.transactional import OPEN

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's way to read its schemas
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.structs import OffsetAndMetadata
    from kafka.structs import TopicPartition as PythonPartition

WAIT_S = 20.0
OPTIONS = {
    "transaction_state_log_num_partitions": "2",
    "offsets_topic_num_partitions": "2",
    "group_initial_rebalance_delay_ms": "0",
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("data"), None, **OPTIONS) as running:
        yield running
    while OPEN:
        OPEN.pop().socket.close()


def librdkafka(bootstrap: str, name: str) -> LibrdkafkaProducer:
    return LibrdkafkaProducer(
        {"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0, "reconnect.backoff.max.ms": 200}
    )


def read(bootstrap: str, topic: str, partitions: int) -> list[list[str]]:
    """Return all committed values by partition, from a consumer with assigned partitions."""
    consumer = LibrdkafkaConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found: list[list[str]] = [[] for _ in range(partitions)]
    ended: set[int] = set()
    deadline = time.monotonic() + WAIT_S
    while len(ended) < partitions:
        assert time.monotonic() < deadline
        message = consumer.poll(1.0)
        if message is None:
            continue
        error, number = message.error(), message.partition()
        assert number is not None
        if error is None:
            found[number].append((message.value() or b"").decode())
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(number)
    consumer.close()
    return found


def test_librdkafka_commits_and_aborts(node: RunningNode) -> None:
    create(node, "rdk", 2)
    producer = librdkafka(node.bootstrap, "rdk")
    producer.init_transactions(WAIT_S)
    for round_ in range(6):
        producer.begin_transaction()
        for number in (0, 1):
            producer.produce("rdk", f"{round_}", partition=number)
        if round_ % 2:
            producer.flush(WAIT_S)
            producer.abort_transaction(WAIT_S)
        else:
            producer.commit_transaction(WAIT_S)
    assert read(node.bootstrap, "rdk", 2) == [["0", "2", "4"]] * 2


def test_librdkafka_is_fenced_by_its_successor(node: RunningNode) -> None:
    create(node, "rdk-fence")
    old, new = librdkafka(node.bootstrap, "rdk-fence"), librdkafka(node.bootstrap, "rdk-fence")
    old.init_transactions(WAIT_S)
    old.begin_transaction()
    old.produce("rdk-fence", "old")
    old.flush(WAIT_S)
    new.init_transactions(WAIT_S)
    with pytest.raises(KafkaException) as fenced:
        old.commit_transaction(WAIT_S)
    assert fenced.value.args[0].fatal()
    new.begin_transaction()
    new.produce("rdk-fence", "new")
    new.commit_transaction(WAIT_S)
    assert read(node.bootstrap, "rdk-fence", 1) == [["new"]]


def consumer_of(bootstrap: str, group: str, topic: str) -> Any:
    return KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )


def test_kafka_python_consumes_processes_and_produces_exactly_once(node: RunningNode) -> None:
    create(node, "input", 2)
    create(node, "output", 1)
    inputs = KafkaProducer(bootstrap_servers=node.bootstrap)
    for i in range(20):
        inputs.send("input", b"%d" % i, partition=i % 2)
    inputs.flush()
    inputs.close()
    done = 0
    for life in range(3):
        consumer = consumer_of(node.bootstrap, "loop", "input")
        producer = KafkaProducer(
            bootstrap_servers=node.bootstrap, enable_idempotence=True, acks="all", transactional_id="loop"
        )
        producer.init_transactions()
        deadline = time.monotonic() + WAIT_S
        turns = 0
        while done < 20:
            assert time.monotonic() < deadline
            batch = consumer.poll(timeout_ms=500, max_records=3)
            if not batch:
                continue
            producer.begin_transaction()
            offsets = {}
            for partition, records in batch.items():
                for record in records:
                    producer.send("output", record.value)
                last = records[-1]
                offsets[PythonPartition(partition.topic, partition.partition)] = OffsetAndMetadata(
                    last.offset + 1, "", -1
                )
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            turns += 1
            if turns == 2 and life < 2:
                producer.flush()
                producer.abort_transaction()
                break
            producer.commit_transaction()
            done += sum(map(len, batch.values()))
        producer.close()
        consumer.close()
    (found,) = read(node.bootstrap, "output", 1)
    assert sorted(found, key=int) == [str(i) for i in range(20)]


# kill -9


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_transactions_are_atomic_whenever_the_broker_is_killed(tmp_path: Path) -> None:
    """Both partitions have the same values of a transaction, or none. A transaction whose commit was acknowledged is
    there once."""
    chance = random.Random(0)
    listen = f"127.0.0.1:{free_port()}"
    options = [word for name, value in OPTIONS.items() for word in ("-o", f"{name.replace('_', '.')}={value}")]
    told: dict[str, str] = {}
    stop = threading.Event()
    writer = threading.Thread(target=write_pairs, args=(listen, told, stop))
    served = ServedNode(tmp_path, *options, listen=listen)
    try:
        topic = {"name": "pairs", "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}
        with Client(served.address) as client:
            client.call("create_topics", 7, topics=[topic], timeout=10_000, validate_only=False)
        writer.start()
        for _ in range(5):
            time.sleep(0.3 + chance.random())
            served.signal(signal.SIGKILL)
            served = ServedNode(tmp_path, *options, listen=listen)
        deadline = time.monotonic() + 60
        while committed(told) <= 20:
            assert time.monotonic() < deadline, "no transaction is committed after the last kill"
            time.sleep(0.05)
        stop.set()
        writer.join(60)
        assert not writer.is_alive()
        last = librdkafka(listen, "pairs")
        last.init_transactions(WAIT_S)  # what is open is aborted
        first, second = read(listen, "pairs", 2)
    finally:
        stop.set()
        served.signal(signal.SIGKILL)
    assert first == second
    assert len(first) == len(set(first))
    assert set(first) >= {value for value, outcome in told.items() if outcome == "committed"}
    assert not set(first) & {value for value, outcome in told.items() if outcome == "aborted"}


def committed(told: dict[str, str]) -> int:
    """How many transactions were acknowledged as committed."""
    return sum(outcome == "committed" for outcome in list(told.values()))


def write_pairs(bootstrap: str, told: dict[str, str], stop: threading.Event) -> None:
    """Write transactions of one value in two partitions until told to stop, with a new producer after an error."""
    count = 0
    producer: LibrdkafkaProducer | None = None
    while not stop.is_set():
        value = str(count)
        count += 1
        commit = count % 5 != 0
        try:
            if producer is None:
                producer = librdkafka(bootstrap, "pairs")
                producer.init_transactions(5.0)
            producer.begin_transaction()
            for number in (0, 1):
                producer.produce("pairs", value, partition=number)
            told[value] = "unknown"
            if commit:
                producer.commit_transaction(5.0)
            else:
                producer.abort_transaction(5.0)
            told[value] = "committed" if commit else "aborted"
        except KafkaException:
            producer = None

"""A backup of a real Kafka that writes, rebalances, cleans and runs transactions; real Kafka on what is restored of it:
every topic as the log was at the time, the groups' offsets, transactions whole or not there."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cli.run import kcli
from tests.interop.kit import kafka
from tests.interop.test_restore_kafka import consumed

pytestmark = [pytest.mark.kafka]
NODE = f"kcli-backup-{os.getpid()}"
COPY = f"kcli-restored-{os.getpid()}"
PLAIN, TABLE, OUT = "plain", "table", ("out-a", "out-b")
RUNS = 4
BETWEEN_S = 1.5
TIMEOUT_MS = 5000
AUTHORIZER = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)


class Commit(NamedTuple):
    """An offset that a group has committed. before_ms, after_ms: when it was sent, and answered."""

    partition: int
    offset: int
    before_ms: float
    after_ms: float


def now_ms() -> float:
    return time.time() * 1000


class Load:
    """Clients of a Kafka: producers, a group that rebalances, and transactions from one topic to two others."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.stop = Event()
        self.acked: dict[tuple[str, int], list[tuple[int, float, float]]] = defaultdict(list)
        self.commits: list[Commit] = []
        self.failures: list[BaseException] = []
        self.transactions: list[tuple[int, dict[int, int], float, float]] = []
        self._threads = [Thread(target=self._guarded, args=(each,)) for each in self._jobs()]
        for each in self._threads:
            each.start()

    def _jobs(self) -> list[Callable[[], None]]:
        return [self._produce, self._table, self._read, self._come_and_go, self._transform, self._topics]

    def _guarded(self, job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            self.failures.append(error)
            raise

    def end(self) -> None:
        self.stop.set()
        for each in self._threads:
            each.join()
        assert self.failures == []

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.address, "enable.idempotence": True, "linger.ms": 2})
        number = 0
        while not self.stop.is_set():
            for _ in range(50):
                producer.produce(
                    PLAIN, key=f"{number}", value=f"{number}-{'x' * 300}", on_delivery=self._noted(now_ms())
                )
                number += 1
            producer.poll(0.005)
        producer.flush(30)

    def _noted(self, sent_ms: float) -> Callable[[Any, Any], None]:
        def noted(error: Any, message: Any) -> None:
            assert error is None, error
            self.acked[message.topic(), message.partition()].append((message.offset(), sent_ms, now_ms()))

        return noted

    def _table(self) -> None:
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 2})
        number = 0
        while not self.stop.is_set():
            for _ in range(40):
                producer.produce(TABLE, key=f"{number % 50}", value=f"{number}-{'y' * 200}")
                number += 1
            producer.poll(0)
            time.sleep(0.005)
        producer.flush(30)

    def _consumer(self, group: str) -> Consumer:
        settings = {"bootstrap.servers": self.address, "group.id": group, "auto.offset.reset": "earliest"}
        return Consumer({**settings, "enable.auto.commit": False, "session.timeout.ms": 6000})

    def _read(self) -> None:
        self._consume(self.stop.is_set)

    def _come_and_go(self) -> None:
        while not self.stop.is_set():
            until = time.monotonic() + 1
            self._consume(lambda until=until: self.stop.is_set() or time.monotonic() > until)  # type: ignore[misc]

    def _consume(self, is_over: Callable[[], bool]) -> None:
        consumer = self._consumer("readers")
        consumer.subscribe([PLAIN])
        while not is_over():
            if any(message.error() is None for message in consumer.consume(200, 0.1)):
                before_ms = now_ms()
                try:
                    done = consumer.commit(asynchronous=False)
                except KafkaException:  # a rebalance
                    continue
                after_ms = now_ms()
                for each in done or ():
                    if each.error is None and each.offset >= 0:
                        self.commits.append(Commit(each.partition, each.offset, before_ms, after_ms))
        consumer.close()

    def _transform(self) -> None:
        """A transaction for each few records: its number in both topics, and the offsets behind the records."""
        settings = {"bootstrap.servers": self.address, "transactional.id": "eos", "transaction.timeout.ms": TIMEOUT_MS}
        producer = Producer({**settings, "linger.ms": 0})
        producer.init_transactions(30)
        consumer = self._consumer("eos")
        consumer.assign([TopicPartition(PLAIN, number, 0) for number in range(3)])
        behind: dict[int, int] = {}
        number = 0
        while not self.stop.is_set():
            messages = [each for each in consumer.consume(20, 0.1) if each.error() is None]
            if not messages:
                continue
            for each in messages:
                partition, offset = each.partition(), each.offset()
                assert partition is not None
                assert offset is not None
                behind[partition] = offset + 1
            producer.begin_transaction()
            before_ms = now_ms()
            for topic in OUT:
                producer.produce(topic, key=b"k", value=f"{number}")
            if number % 7 == 3:
                producer.flush(30)
                producer.abort_transaction(30)
            else:
                offsets = [TopicPartition(PLAIN, partition, offset) for partition, offset in behind.items()]
                producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
                producer.commit_transaction(30)
                self.transactions.append((number, dict(behind), before_ms, now_ms()))
            number += 1
        consumer.close()

    def _topics(self) -> None:
        admin, number = AdminClient({"bootstrap.servers": self.address}), 0
        while not self.stop.is_set():
            for future in admin.create_topics([NewTopic(f"late-{number}", 2, 1)]).values():
                future.result(30)
            if number % 2:
                for future in admin.delete_topics([f"late-{number - 1}"]).values():
                    future.result(30)
            number += 1
            time.sleep(0.4)


@pytest.fixture(scope="module")
def source(kafka_jars: Path) -> Iterator[str]:
    options = ["log.cleaner.backoff.ms=200", "file.delete.delay.ms=100", "group.initial.rebalance.delay.ms=0"]
    yield kafka("start", NODE, *options, *AUTHORIZER).strip().splitlines()[-1]
    kafka("kill", NODE)
    kafka("rm", NODE)


@pytest.fixture
def opened() -> Iterator[Callable[[Path], str]]:
    def start(directory: Path) -> str:
        fast = ["transaction.abort.timed.out.transaction.cleanup.interval.ms=300", "group.initial.rebalance.delay.ms=0"]
        return kafka("open", str(directory), COPY, *fast, *AUTHORIZER).strip().splitlines()[-1]

    yield start
    with suppress(AssertionError):  # it is stopped already
        kafka("kill", COPY)
    kafka("rm", COPY)


def topics_of(address: str) -> dict[str, int]:
    found = AdminClient({"bootstrap.servers": address}).list_topics(timeout=30).topics
    return {name: len(each.partitions) for name, each in found.items() if not name.startswith("__")}


def administered(address: str) -> dict[str, str]:
    """What Kafka's tools tell of configurations, users and ACLs."""
    server = ["--bootstrap-server", address]
    return {
        "topic": kafka("configs", *server, "--describe", "--entity-type", "topics", "--entity-name", TABLE),
        "users": kafka("configs", *server, "--describe", "--entity-type", "users"),
        "acls": kafka("acls", *server, "--list"),
    }


def administer(address: str) -> None:
    server = ["--bootstrap-server", address]
    kafka("acls", *server, "--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", PLAIN)
    user = ["--alter", "--add-config", "SCRAM-SHA-256=[password=secret]", "--entity-type", "users"]
    kafka("configs", *server, *user, "--entity-name", "bob")


def committed(address: str, group: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    deadline = time.monotonic() + 30
    try:
        while True:  # offsets of an open transaction keep the others waiting
            with suppress(KafkaException):
                found = consumer.committed([TopicPartition(PLAIN, number) for number in range(3)], timeout=10)
                return {each.partition: each.offset for each in found if each.offset >= 0}
            assert time.monotonic() < deadline
    finally:
        consumer.close()


def plain_rows(rows: list[dict[str, Any]], partition: int) -> list[dict[str, Any]]:
    return [each for each in rows if each["partition"] == partition]


def check(load: Load, truth: dict[str, list[dict[str, Any]]], address: str, run: dict[str, Any]) -> None:
    """Hold what an opened log directory serves against what the clients know."""
    began_ms, at_ms = run["started"], run["at"]
    topics = topics_of(address)
    assert {PLAIN, TABLE, *OUT} <= topics.keys()
    found = consumed(address, [PLAIN, TABLE], "read_uncommitted")
    ends = {}
    for number in range(3):
        rows, all_rows = plain_rows(found[PLAIN], number), plain_rows(truth[PLAIN], number)
        assert rows == all_rows[: len(rows)]
        ends[number] = len(rows)
        acked = load.acked[PLAIN, number]
        assert max((offset for offset, _, acked_ms in acked if acked_ms < began_ms), default=-1) < len(rows)
        assert min((offset for offset, sent_ms, _ in acked if sent_ms > at_ms), default=len(rows)) >= len(rows)
    # a table: the last value of each key
    last = {each["key"]: int(each["value"].split(b"-")[0]) for each in found[TABLE]}
    newest = max(last.values())
    assert sorted(last.values()) == list(range(newest - 49, newest + 1))
    # the group goes on where it was
    offsets = committed(address, "readers")
    for number, offset in offsets.items():
        assert offset <= ends[number]
        of_partition = [each for each in load.commits if each.partition == number]
        least = max((each.offset for each in of_partition if each.after_ms < began_ms), default=0)
        most = max((each.offset for each in of_partition if each.before_ms <= at_ms), default=0)
        assert least <= offset <= most
    # transactions
    time.sleep(TIMEOUT_MS / 1000 + 2)
    outputs = consumed(address, OUT, "read_committed")
    done = [[int(each["value"]) for each in outputs[topic]] for topic in OUT]
    assert done[0] == done[1]
    all_numbers = [number for number, *_ in load.transactions]
    assert done[0] == all_numbers[: len(done[0])]
    assert sum(1 for *_, after_ms in load.transactions if after_ms < began_ms) <= len(done[0])
    assert len(done[0]) <= sum(1 for _, _, before_ms, _ in load.transactions if before_ms <= at_ms)
    expected = load.transactions[len(done[0]) - 1][1] if done[0] else {}
    assert committed(address, "eos") == expected


def test_each_run_is_the_log_as_it_was(source: str, opened: Callable[[Path], str], tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": source})
    small = {"segment.bytes": "1048576"}
    compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "500", **small}
    new = [
        NewTopic(PLAIN, 3, 1, config=small),
        NewTopic(TABLE, 1, 1, config=compact),
        *(NewTopic(each, 1, 1) for each in OUT),
    ]
    for future in admin.create_topics(new).values():
        future.result(30)
    administer(source)
    data, store = kafka("dir", NODE).strip(), tmp_path / "store"
    load = Load(source)
    found = []
    try:
        for _ in range(RUNS):
            time.sleep(BETWEEN_S)
            ended = kcli("backup", data, "--to", store, "--format", "jsonl")
            assert (ended.stderr, ended.status) == ("", 0)
            found.append(json.loads(ended.stdout))
        time.sleep(0.5)
    finally:
        load.end()
    assert len(load.commits) > 10
    assert len(load.transactions) > 5
    truth = consumed(source, [PLAIN], "read_uncommitted")
    expected = administered(source)
    assert "cleanup.policy=compact" in expected["topic"]
    assert "bob" in expected["users"]
    assert "alice" in expected["acls"]
    ended = kcli("backup", "--to", store, "--orphans")
    assert (ended.stdout, ended.status) == ("every object is needed by a run\n", 0)
    for which in (1, RUNS - 1):
        out = tmp_path / f"restored-{which}"
        ended = kcli("restore", store, "--at", str(found[which]["at"]), "--out", out)
        assert (ended.stderr, ended.status) == ("", 0)
        address = opened(out)
        try:
            check(load, truth, address, found[which])
            assert administered(address) == expected
        finally:
            kafka("kill", COPY)

"""Clients that work on a Kafka while it is backed up, and remember all that they did: the truth for what a backup has.

topics   plain     three partitions, an idempotent producer, keys, headers, lz4
         table     one partition, compacted all the time, zstd
         out-a, out-b   transactions, some aborted; out-b with the broker's timestamps (LogAppendTime)
         late-N    created, written, and every second one deleted
groups   readers   of the classic protocol, with a member that comes and goes: rebalance after rebalance
         members   of the protocol of KIP-848, likewise
         simple    commits offsets of several topics without a member
         eos       commits offsets in its transactions
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PLAIN, TABLE, OUT = "plain", "table", ("out-a", "out-b")
PARTITIONS = {PLAIN: 3, TABLE: 1, OUT[0]: 1, OUT[1]: 1}
KEYS = 50
TIMEOUT_MS = 5000
STAYS_S = 0.4
"""How long a member stays that comes and goes."""
REVOKES_S = 0.3
"""How long a member of `readers` takes to give its partitions up; the group waits for it in PreparingRebalance."""
Place = tuple[str, int]


class Sent(NamedTuple):
    """A record that a broker has acknowledged, in the words of `consumed`. before_ms, after_ms: when it was given to
    the producer, and acknowledged."""

    row: dict[str, Any]
    before_ms: float
    after_ms: float


class Commit(NamedTuple):
    """An offset that a group has committed. before_ms, after_ms: when it was sent, and answered."""

    offset: int
    before_ms: float
    after_ms: float


class Transaction(NamedTuple):
    """A committed transaction: its number, the offsets of `plain` that it committed, and when it began and ended."""

    number: int
    offsets: dict[int, int]
    before_ms: float
    after_ms: float


class Rebalance(NamedTuple):
    """A time in which `readers` was rebalancing: a member had been told, and had no new assignment yet."""

    revoked_ms: float
    assigned_ms: float


def now_ms() -> float:
    return time.time() * 1000


class Load:
    """Clients of a Kafka that has the topics of `new_topics`, until `end`. revokes_s: REVOKES_S, or longer where a run
    takes longer."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.revokes_s = REVOKES_S
        self.sent: dict[Place, dict[int, Sent]] = defaultdict(dict)
        self.commits: dict[tuple[str, str, int], list[Commit]] = defaultdict(list)
        self.transactions: list[Transaction] = []
        self.rebalances: list[Rebalance] = []
        self.created: dict[str, float] = {}
        self._stop = Event()
        self._lock = Lock()
        self._failures: list[BaseException] = []
        jobs = [self._plain, self._table, self._transform, self._topics, self._simple]
        jobs += [lambda: self._stay("readers"), lambda: self._come_and_go("readers")]
        jobs += [lambda: self._stay("members"), lambda: self._come_and_go("members")]
        self._threads = [Thread(target=self._guarded, args=(each,)) for each in jobs]
        for each in self._threads:
            each.start()

    def end(self) -> None:
        """Stop all clients. A failure of one is raised."""
        self._stop.set()
        for each in self._threads:
            each.join()
        assert self._failures == []

    def _guarded(self, job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            self._failures.append(error)
            raise

    def _until_stopped(self) -> Iterator[int]:
        number = 0
        while not self._stop.is_set():
            yield number
            number += 1

    # producers

    def _produce(self, producer: Producer, topic: str, key: bytes, value: bytes, partition: int = -1) -> None:
        before_ms = now_ms()
        headers: list[tuple[str, str | bytes | None]] = [("number", value[:8]), ("none", None), ("none", b"")]

        def noted(error: Any, message: Any) -> None:
            assert error is None, error
            kind, timestamp = message.timestamp()
            row = {"partition": message.partition(), "offset": message.offset(), "timestamp": timestamp}
            row |= {"is_append_time": kind == TIMESTAMP_LOG_APPEND_TIME, "key": key, "value": value, "headers": headers}
            self.sent[topic, message.partition()][message.offset()] = Sent(row, before_ms, now_ms())

        producer.produce(topic, key=key, value=value, headers=headers, on_delivery=noted, partition=partition)

    def _plain(self) -> None:
        settings = {"enable.idempotence": True, "linger.ms": 2, "compression.type": "lz4"}
        producer = Producer({"bootstrap.servers": self.address, **settings})
        for number in self._until_stopped():
            for i in range(25):
                self._produce(producer, PLAIN, f"{number}-{i}".encode(), f"{number}-{i}-{'x' * 300}".encode())
            producer.poll(0.005)
        producer.flush(30)

    def _table(self) -> None:
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 2, "compression.type": "zstd"})
        for number in self._until_stopped():
            for i in range(20):
                each = number * 20 + i
                self._produce(producer, TABLE, f"{each % KEYS}".encode(), f"{each}-{'y' * 200}".encode())
            producer.poll(0)
            time.sleep(0.005)
        producer.flush(30)

    def _transform(self) -> None:
        """A transaction for each few records: its number in both topics, and the offsets behind the records."""
        settings = {"bootstrap.servers": self.address, "transactional.id": "eos", "transaction.timeout.ms": TIMEOUT_MS}
        producer = Producer({**settings, "linger.ms": 0})
        producer.init_transactions(30)
        consumer = self._consumer("eos")
        consumer.assign([TopicPartition(PLAIN, number, 0) for number in range(3)])
        behind: dict[int, int] = {}
        number = 0
        while not self._stop.is_set():
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
                self._produce(producer, topic, b"k", f"{number}".encode())
            if number % 7 == 3:
                producer.flush(30)
                producer.abort_transaction(30)
            else:
                offsets = [TopicPartition(PLAIN, partition, offset) for partition, offset in behind.items()]
                producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
                producer.commit_transaction(30)
                self.transactions.append(Transaction(number, dict(behind), before_ms, now_ms()))
            number += 1
        consumer.close()

    def _topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.address})
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 0})
        for number in self._until_stopped():
            name = f"late-{number}"
            for future in admin.create_topics([NewTopic(name, 2, 1)]).values():
                future.result(30)
            self.created[name] = now_ms()
            for partition in range(2):
                self._produce(producer, name, b"k", f"{number}".encode(), partition=partition)
            assert producer.flush(30) == 0
            if number % 2:
                for future in admin.delete_topics([f"late-{number - 1}"]).values():
                    future.result(30)
            self._stop.wait(0.3)

    # groups

    def _consumer(self, group: str, **more: Any) -> Consumer:
        settings = {"bootstrap.servers": self.address, "group.id": group, "auto.offset.reset": "earliest"}
        return Consumer({**settings, "enable.auto.commit": False, **more})

    def _stay(self, group: str) -> None:
        self._read(group, self._stop.is_set)

    def _come_and_go(self, group: str) -> None:
        while not self._stop.is_set():
            until = time.monotonic() + STAYS_S
            self._read(group, lambda until=until: self._stop.is_set() or time.monotonic() > until)  # type: ignore[misc]

    def _read(self, group: str, is_over: Callable[[], bool]) -> None:
        classic = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 100}
        settings: dict[str, Any] = {"group.protocol": "consumer"} if group == "members" else classic
        consumer = self._consumer(group, **settings)
        revoked_ms: list[float] = []

        def revoked(*_: Any) -> None:
            revoked_ms.append(now_ms())
            time.sleep(self.revokes_s)

        def assigned(*_: Any) -> None:
            if revoked_ms:
                self.rebalances.append(Rebalance(revoked_ms.pop(), now_ms()))

        if group == "readers":
            consumer.subscribe([PLAIN], on_assign=assigned, on_revoke=revoked)
        else:
            consumer.subscribe([PLAIN])
        while not is_over():
            if any(message.error() is None for message in consumer.consume(200, 0.1)):
                self._commit(group, consumer, None)
        consumer.close()

    def _simple(self) -> None:
        consumer = self._consumer("simple")
        for number in self._until_stopped():
            offsets = [TopicPartition(topic, 0, number) for topic in (TABLE, OUT[0])]
            self._commit("simple", consumer, [*offsets, TopicPartition(PLAIN, number % 3, number)])
            time.sleep(0.02)
        consumer.close()

    def _commit(self, group: str, consumer: Consumer, offsets: list[TopicPartition] | None) -> None:
        before_ms = now_ms()
        try:
            if offsets is None:
                done = consumer.commit(asynchronous=False)
            else:
                done = consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:  # a rebalance
            return
        with self._lock:
            for each in done or ():
                if each.error is None and each.offset >= 0:
                    self.commits[group, each.topic, each.partition].append(Commit(each.offset, before_ms, now_ms()))


class SpreadLoad:
    """A producer to all partitions of one topic, until `end`. sent: by partition and offset."""

    def __init__(self, address: str, topic: str, partitions: int) -> None:
        self.sent: list[dict[int, Sent]] = [{} for _ in range(partitions)]
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 2})
        self._stop = Event()
        self._thread = Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            for partition in range(len(self.sent)):
                self._send(partition, f"{number}-{'z' * 300}".encode())
            number += 1
            self._producer.poll(0.002)
        self._producer.flush(30)

    def _send(self, partition: int, value: bytes) -> None:
        before_ms = now_ms()

        def noted(error: Any, message: Any) -> None:
            assert error is None, error
            self.sent[partition][message.offset()] = Sent({"value": value}, before_ms, now_ms())

        self._producer.produce(self._topic, value=value, partition=partition, on_delivery=noted)

    def wait_for(self, count: int) -> None:
        """Wait until so many records are acknowledged."""
        deadline = time.monotonic() + 60
        while sum(map(len, self.sent)) < count:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def end(self) -> None:
        """Stop."""
        self._stop.set()
        self._thread.join()


def new_topics() -> list[NewTopic]:
    """The topics that must be there before the clients."""
    small = {"segment.bytes": "1048576"}
    compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "500", **small}
    configs = {PLAIN: small, TABLE: compact, OUT[1]: {"message.timestamp.type": "LogAppendTime"}}
    return [NewTopic(name, count, 1, config=configs.get(name, {})) for name, count in PARTITIONS.items()]

"""The clients: librdkafka's producers and consumers on threads, Java's consume-process-produce as a child process.

orders     idempotent producers (acks=all), a consumer that stays, two groups whose members come and go: one of
           each protocol
ledger     transactional producers that commit and abort, a read_committed consumer that stays
input      an idempotent producer; JavaExactlyOnce takes it to output in transactions, offsets included
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from abc import abstractmethod
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
)
from confluent_kafka import (
    TopicPartition as Place,
)
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.protocol.topic_partition import TopicPartition
from tests.chaos.history import NO_OFFSET, EventLog, History, Outcome, Sent, Transaction
from tests.chaos.verdict import INPUT, LEDGER, ORDERS, OUTPUT
from tests.interop.clients import toolchains

PARTITIONS = {ORDERS: 6, LEDGER: 4, INPUT: 2, OUTPUT: 2}
PATIENT: dict[str, Any] = {
    "reconnect.backoff.max.ms": 500,
    "socket.connection.setup.timeout.ms": 4000,
    "socket.timeout.ms": 10_000,
    "topic.metadata.refresh.interval.ms": 5000,
    "log_level": 0,
}
QUEUED = 2000
FINISH_S = 120.0
TRANSACTION_TIMEOUT_MS = 20_000


def create_topics(bootstrap: str) -> None:
    """Create the topics, with three replicas and min.insync.replicas=2."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    config = {"min.insync.replicas": "2", "retention.ms": "-1", "segment.bytes": "1048576"}
    topics = [NewTopic(name, count, 3, config=dict(config)) for name, count in PARTITIONS.items()]
    for future in admin.create_topics(topics, request_timeout=30).values():
        future.result()


class Worker(threading.Thread):
    """A client that works until it is told to finish, and then until it has finished."""

    def __init__(self, name: str, bootstrap: str, history: History) -> None:
        super().__init__(name=name, daemon=True)
        self.bootstrap, self.history = bootstrap, history
        self.finishing = threading.Event()

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:  # noqa: BLE001  (whatever it is, it is told)
            self.history.found_wrong(f"{self.name} ended: {error!r}")

    @abstractmethod
    def work(self) -> None:
        """Until `finishing`."""

    def finish(self) -> None:
        """Wait until the worker has finished what it has begun."""
        self.finishing.set()
        self.join(FINISH_S)
        if self.is_alive():
            self.history.found_wrong(f"{self.name} does not finish within {FINISH_S:.0f} s")


class Idempotent(Worker):
    """Numbers each partition's records; a fatal error ends one producer and begins the next, with another name."""

    def __init__(self, name: str, bootstrap: str, history: History, topic: str, per_s: float) -> None:
        super().__init__(name, bootstrap, history)
        self._topic, self._pause_s = topic, PARTITIONS[topic] / per_s

    def work(self) -> None:
        incarnation = 0
        while not self.finishing.is_set():
            self._live(f"{self.name}.{incarnation}")
            incarnation += 1

    def _live(self, name: str) -> None:
        producer = Producer(
            PATIENT
            | {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "acks": "all", "linger.ms": 5}
            | {"message.timeout.ms": 0, "client.id": name}
        )
        places = [TopicPartition(self._topic, number) for number in range(PARTITIONS[self._topic])]
        books = {place: self.history.sent[name, place] for place in places}
        fatal = threading.Event()

        def told(book: Sent, number: int, error: KafkaError | None, message: Message) -> None:
            if error is None:
                offset = message.offset()
                book.acked[number] = NO_OFFSET if offset is None or offset < 0 else offset
                self.history.acknowledged()
            elif error.fatal() or error.code() == KafkaError._FATAL:
                if not fatal.is_set():
                    self.history.ended.append(f"{time.strftime('%H:%M:%S')} {name}: {error.str()}")
                fatal.set()

        due_s = time.monotonic()
        while not fatal.is_set() and not self.finishing.is_set():
            producer.poll(max(0.0, due_s - time.monotonic()))
            if len(producer) > QUEUED or time.monotonic() < due_s:
                continue
            due_s = time.monotonic() + self._pause_s
            for place in places:
                topic, number = place
                book = books[place]
                on_delivery = partial(told, book, book.count)
                producer.produce(topic, f"{name} {book.count}", partition=number, on_delivery=on_delivery)
                book.count += 1
        if not fatal.is_set() and producer.flush(FINISH_S - 10) and not fatal.is_set():
            self.history.found_wrong(f"{name}: {len(producer)} records are neither acknowledged nor refused")


class Transactional(Worker):
    """Writes transactions of a few records in several partitions, and commits or aborts them; after a fatal error a new
    producer continues with the same transactional id."""

    def __init__(self, name: str, bootstrap: str, history: History, seed: int, per_s: float) -> None:
        super().__init__(name, bootstrap, history)
        self._random, self._pause_s, self._next = Random(seed), 1 / per_s, 0

    def work(self) -> None:
        while not self.finishing.is_set():
            try:
                producer = self._producer()
                while not self.finishing.wait(self._pause_s):
                    self._transaction(producer)
            except KafkaException as error:
                self.history.ended.append(f"{time.strftime('%H:%M:%S')} {self.name}: {error.args[0].str()}")
                time.sleep(0.2)

    def _producer(self) -> Producer:
        producer = Producer(
            PATIENT
            | {"bootstrap.servers": self.bootstrap, "transactional.id": self.name, "linger.ms": 2}
            | {"transaction.timeout.ms": TRANSACTION_TIMEOUT_MS, "message.timeout.ms": TRANSACTION_TIMEOUT_MS}
        )
        while True:
            try:
                producer.init_transactions(30)
            except KafkaException as error:
                if not error.args[0].retriable() or self.finishing.is_set():
                    raise
            else:
                return producer

    def _transaction(self, producer: Producer) -> None:
        """Run one transaction. Raises KafkaException where this producer cannot go on."""
        number, self._next = self._next, self._next + 1
        records: dict[TopicPartition, list[int]] = {}
        transaction = self.history.transactions[self.name][number] = Transaction(records)
        wanted = Outcome.ABORTED if self._random.random() < 0.25 else Outcome.COMMITTED
        try:
            producer.begin_transaction()
            for index in range(self._random.randint(1, 8)):
                place = TopicPartition(LEDGER, self._random.randrange(PARTITIONS[LEDGER]))
                records.setdefault(place, []).append(index)
                producer.produce(place[0], f"{self.name} {number} {index}", partition=place[1])
            if wanted is Outcome.COMMITTED:
                _again(lambda: producer.commit_transaction(30))
                transaction.outcome = Outcome.COMMITTED
                self.history.acknowledged()
                return
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        _again(lambda: producer.abort_transaction(30))
        transaction.outcome = Outcome.ABORTED


def _again(call: Any) -> None:
    """Repeat a call until it succeeds, or fails with an error that is not retriable."""
    while True:
        try:
            call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return


class Reader(Worker):
    """A consumer."""

    def _consumer(self, group: str, **options: Any) -> Consumer:
        fixed = {"bootstrap.servers": self.bootstrap, "group.id": group, "enable.auto.commit": False}
        named = {name.replace("_", "."): value for name, value in options.items()}
        return Consumer(PATIENT | fixed | {"fetch.error.backoff.ms": 50, "fetch.wait.max.ms": 200} | named)


class Tail(Reader):
    """Reads a topic from its beginning, and never leaves."""

    def __init__(self, name: str, bootstrap: str, history: History, topic: str) -> None:
        super().__init__(name, bootstrap, history)
        self._topic = topic
        self.seen: dict[TopicPartition, list[tuple[int, str]]]
        self.seen = {TopicPartition(topic, number): [] for number in range(PARTITIONS[topic])}
        history.tails[name] = self.seen

    def work(self) -> None:
        consumer = self._consumer(self.name, isolation_level="read_committed", auto_offset_reset="error")
        self._assign(consumer)
        while not self.finishing.is_set():
            for message in consumer.consume(500, 0.2):
                if (error := message.error()) is None:
                    self.seen[TopicPartition(self._topic, number_of(message))].append(
                        (offset_of(message), text(message))
                    )
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self.history.found_wrong(f"{self.name}: {self._topic}-{number_of(message)}: {error}")
                    self._assign(consumer)
        consumer.close()

    def _assign(self, consumer: Consumer) -> None:
        """Go on behind what it has seen."""
        consumer.assign(
            [Place(topic, number, seen[-1][0] + 1 if seen else 0) for (topic, number), seen in self.seen.items()]
        )

    def has(self, ends: dict[TopicPartition, int]) -> bool:
        """It has seen so many of each."""
        return all(len(seen) >= ends.get(place, 0) for place, seen in self.seen.items())


class Member(Reader):
    """A member of a group: it commits what it has read, and leaves now and then for a moment."""

    def __init__(self, name: str, bootstrap: str, history: History, group: str, protocol: str, seed: int) -> None:
        super().__init__(name, bootstrap, history)
        self._group, self._protocol, self._random = group, protocol, Random(seed)
        self._seen = history.groups.setdefault(
            group, {TopicPartition(ORDERS, number): {} for number in range(PARTITIONS[ORDERS])}
        )

    def work(self) -> None:
        classic = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 1000}
        options = classic if self._protocol == "classic" else {}
        while not self.finishing.is_set():
            consumer = self._consumer(
                self._group, group_protocol=self._protocol, auto_offset_reset="earliest", client_id=self.name, **options
            )
            consumer.subscribe([ORDERS])
            leaves = time.monotonic() + self._random.uniform(15, 60)
            commits = time.monotonic() + 1
            while time.monotonic() < leaves and not self.finishing.is_set():
                for message in consumer.consume(500, 0.2):
                    if message.error() is None:
                        self._see(number_of(message), offset_of(message), text(message))
                if time.monotonic() > commits:
                    commit(consumer)
                    commits = time.monotonic() + 1
            commit(consumer)
            consumer.close()

    def _see(self, number: int, offset: int, value: str) -> None:
        before = self._seen[TopicPartition(ORDERS, number)].setdefault(offset, value)
        if before != value:
            self.history.found_wrong(f"{self.name}: {ORDERS}-{number} offset {offset} was {before}, is {value}")

    def has(self, ends: dict[TopicPartition, int]) -> bool:
        """Return whether the group has read that many records of each topic."""
        return all(len(seen) >= ends.get(place, 0) for place, seen in self._seen.items())


def commit(consumer: Consumer) -> None:
    """Commit the offsets that were read; a failure does not matter, since a later commit covers them."""
    with contextlib.suppress(KafkaException):
        consumer.commit(asynchronous=False)


def number_of(message: Message) -> int:
    return cast("int", message.partition())


def offset_of(message: Message) -> int:
    return cast("int", message.offset())


def text(message: Message) -> str:
    return (message.value() or b"").decode()


class Processor:
    """The process JavaExactlyOnce, which is restarted when it has ended. None says why it cannot run."""

    def __init__(self, bootstrap: str, directory: Path, events: EventLog) -> None:
        self._directory, self._events = directory, events
        self._process: subprocess.Popen[bytes] | None = None
        self._command: list[str] | None
        try:
            self._command = [*toolchains.java("JavaExactlyOnce"), bootstrap, "classic"]
        except toolchains.ToolchainMissing as missing:
            self._command = None
            events.tell("no Java client", why=str(missing))

    @property
    def runs_here(self) -> bool:
        """Java is there."""
        return self._command is not None

    def keep_up(self) -> None:
        """Start it where it does not run."""
        if self._command is None or (self._process is not None and self._process.poll() is None):
            return
        if self._process is not None:
            self._events.tell("the Java client ended", status=self._process.returncode)
        with (self._directory / "java.log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
            self._process = None


def not_processed(bootstrap: str) -> int:
    """Return how many records of the input the Java client has not committed."""
    consumer = Consumer(PATIENT | {"bootstrap.servers": bootstrap, "group.id": "loop"})
    try:
        places = consumer.committed([Place(INPUT, number) for number in range(PARTITIONS[INPUT])], timeout=30)
        ends = [consumer.get_watermark_offsets(each, timeout=30)[1] for each in places]
        return sum(end - max(each.offset, 0) for each, end in zip(places, ends, strict=True))
    finally:
        consumer.close()


def read_all(bootstrap: str, seconds: float) -> dict[TopicPartition, list[tuple[int, str]]]:
    """Read all topics from beginning to end with read_committed. Raises TimeoutError."""
    places = [TopicPartition(topic, number) for topic, count in PARTITIONS.items() for number in range(count)]
    found: dict[TopicPartition, list[tuple[int, str]]] = {place: [] for place in places}
    consumer = Consumer(
        PATIENT
        | {"bootstrap.servers": bootstrap, "group.id": "verdict", "enable.auto.commit": False}
        | {"isolation.level": "read_committed", "enable.partition.eof": True, "auto.offset.reset": "error"}
    )
    consumer.assign([Place(topic, number, OFFSET_BEGINNING) for topic, number in places])
    ended: set[TopicPartition] = set()
    deadline = time.monotonic() + seconds
    while len(ended) < len(places):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the ends of {sorted(set(places) - ended)} do not come")
        for message in consumer.consume(5000, 0.5):
            error = message.error()
            place = TopicPartition(cast("str", message.topic()), number_of(message))
            if error is None:
                found[place].append((offset_of(message), text(message)))
                ended.discard(place)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(place)
    consumer.close()
    return found

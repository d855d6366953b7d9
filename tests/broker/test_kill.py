"""A broker that dies under load: what it acknowledged is there, once, in order; its producers go on and notice nothing.

A scenario is a load, rounds of it on one directory and one port, each ended by a signal, and a check at the end:
    producers   idempotent, acks=all, each with its own codec, over all partitions of a topic with small segments; one
                more comes with every round and leaves with the next: ids that were given out twice would show
    keys        the same into a compacted topic, with the cleaner at work
    topics      created, written to and deleted all the time
kill -9 leaves the page cache alone, so everything that was acknowledged must be there (issue 5, "Must show").
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from formats.file_name import parse_directory
from tests.broker.running import Address, Client, Closed, ServedNode
from tests.cli.warm import Forked
from tests.conftest import examples
from tests.log.batches import batch

ROUNDS = 4
KILLED = settings(examples(1, soak=50), phases=[Phase.generate], database=None)  # 200 rounds; none is worth shrinking
STOPPED = settings(examples(1, soak=10), phases=[Phase.generate], database=None)
NOT_LEADER_OR_FOLLOWER = 6
INVALID_REPLICATION_FACTOR = 38
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 4
CLEANER_S = 30.0
FIRST_PORT, LAST_PORT = 12_000, 32_000  # not in the range from which the system takes clients' ports
PATIENCE_S = 60.0
SMALL_SEGMENTS = {"internal.segment.bytes": "300000", "index.interval.bytes": "512"}
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "internal.segment.bytes": "60000"}
OPTIONS = (
    *("-o", "log.cleaner.backoff.ms=50"),
    *("-o", "log.flush.offset.checkpoint.interval.ms=200"),
    *("-o", "log.initial.task.delay.ms=100"),
    *("-o", "log.segment.delete.delay.ms=500"),
)


def free_port(random: Random) -> int:
    while True:
        port = random.randrange(FIRST_PORT, LAST_PORT)
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Writer(threading.Thread):
    """An idempotent producer whose records are numbered in each partition."""

    def __init__(self, name: str, address: Address, topic: str, codec: str, keys: int = 0) -> None:
        """keys: the number of keys that the records have, 0 for no key."""
        super().__init__(name=name, daemon=True)
        self.topic, self.keys = topic, keys
        self.sent = [0] * PARTITIONS
        self.acknowledged: list[dict[int, int]] = [{} for _ in range(PARTITIONS)]
        """Number of a record -> its offset, of each partition."""
        self.errors: list[str] = []
        self._random = Random(name)
        self._stop_asked = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": "{}:{}".format(*address),
                "enable.idempotence": True,
                "acks": "all",
                "compression.type": codec,
                "linger.ms": 5,
                "batch.num.messages": 60,
                "queue.buffering.max.messages": 2000,
                "message.timeout.ms": 300_000,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "error_cb": self._failed,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        while not self._stop_asked.is_set():
            for _ in range(self._random.randrange(1, 40)):
                self._send(self._random.randrange(PARTITIONS))
            self._producer.poll(self._random.choice((0.005, 0.01, 0.03)))  # a load below the limit of the machine
        if left := self._producer.flush(PATIENCE_S):
            self.errors.append(f"{left} records were not acknowledged in {PATIENCE_S} s")

    def _send(self, partition: int) -> None:
        number = self.sent[partition]
        key = f"{self.name}/{number % self.keys}" if self.keys else None
        value = f"{self.name} {number} ".encode() + bytes(self._random.choice((10, 100, 1000)))

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.errors.append(f"record {number} of partition {partition}: {error}")
            else:
                offset = message.offset()
                self.acknowledged[partition][number] = -1 if offset is None else offset

        try:
            self._producer.produce(self.topic, value, key, partition, on_delivery=delivered)
        except BufferError:
            self._producer.poll(0.05)
        except KafkaException as error:
            self.errors.append(f"record {number} of partition {partition}: {error}")
            self._stop_asked.set()
        else:
            self.sent[partition] += 1

    def _failed(self, error: KafkaError) -> None:
        if error.fatal():
            self.errors.append(f"fatal: {error}")

    def finish(self) -> None:
        """Stop, when all is acknowledged."""
        self._stop_asked.set()
        self.join()
        assert self.errors == [], f"{self.name}: {self.errors[:3]}"
        for partition, sent in enumerate(self.sent):
            assert len(self.acknowledged[partition]) == sent


class TopicChanger(threading.Thread):
    """Creates topics, writes a record to each, deletes some, and keeps the responses."""

    def __init__(self, address: Address, random: Random) -> None:
        super().__init__(name="topics", daemon=True)
        self.created: dict[str, str] = {}  # id by name; the creation was acknowledged, and no deletion was requested
        self.written: set[str] = set()
        self.deleted: set[str] = set()
        self.unexpected: list[object] = []
        self._address, self._random = address, random
        self._stop_asked = threading.Event()

    def run(self) -> None:
        count = 0
        while not self._stop_asked.is_set():
            try:
                with Client(self._address) as client:
                    while not self._stop_asked.is_set():
                        count += 1
                        self._step(client, f"passing-{count}")
            except (Closed, OSError):
                time.sleep(0.01)
            except BaseException as error:
                self.unexpected.append(error)
                raise

    def _step(self, client: Client, name: str) -> None:
        answer = create(client, name, self._random.randrange(1, 4), {})
        if answer["error_code"]:
            if answer["error_code"] != INVALID_REPLICATION_FACTOR:  # the broker is in its controlled shutdown
                self.unexpected.append(answer)
            return
        self.created[name] = answer["topic_id"]
        partition = {"index": 0, "records": bytes(batch(name.encode()))}
        topics = [{"name": name, "partition_data": [partition]}]
        answer = client.call("produce", 9, acks=-1, timeout=1000, topic_data=topics)
        code = answer["responses"][0]["partition_responses"][0]["error_code"]
        if code == NOT_LEADER_OR_FOLLOWER:  # as above
            return
        if code:
            self.unexpected.append(answer)
        self.written.add(name)
        if len(self.created) > 5:
            victim = self._random.choice(list(self.created))
            del self.created[victim]
            answer = client.call("delete_topics", 5, topic_names=[victim], timeout=1000)
            if answer["responses"][0]["error_code"]:
                self.unexpected.append(answer)
            self.deleted.add(victim)
        time.sleep(0.01)

    def finish(self) -> None:
        self._stop_asked.set()
        self.join()
        assert self.unexpected == []


def create(client: Client, name: str, partitions: int, configs: dict[str, str]) -> dict[str, Any]:
    """Create a topic. Returns its part of the response."""
    settings_ = [{"name": key, "value": value} for key, value in configs.items()]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": settings_}
    answer = client.call("create_topics", 7, topics=[{**topic, "assignments": []}], timeout=5000, validate_only=False)
    found: dict[str, Any] = answer["topics"][0]
    return found


@dataclass
class Scenario:
    """A directory, a port, whoever writes."""

    directory: Path
    random: Random
    port: int = 0
    writers: list[Writer] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    """What each life of the broker logged."""
    node: ServedNode | None = None

    @property
    def address(self) -> Address:
        return "127.0.0.1", self.port

    @property
    def listen(self) -> str:
        return "{}:{}".format(*self.address)

    def start(self) -> ServedNode:
        self.node = node = ServedNode(self.directory, *OPTIONS, listen=self.listen)
        log: list[str] = []
        reader = threading.Thread(target=lambda: log.append(stderr_of(node.process)), daemon=True)
        reader.start()
        self._log, self._reader = log, reader
        return node

    def end(self, node: ServedNode, number: signal.Signals) -> int:
        """Send a signal, wait for the end. Returns the exit status."""
        node.process.send_signal(number)
        status = node.process.wait(PATIENCE_S)
        self._reader.join()
        assert node.process.stdout is not None, "piped"
        node.process.stdout.close()
        self.logs += self._log
        return status

    def writer(self, name: str, topic: str, codec: str, keys: int = 0) -> Writer:
        writer = Writer(name, self.address, topic, codec, keys)
        self.writers.append(writer)
        writer.start()
        return writer

    def stillborn(self) -> None:
        """Start a broker and kill it during the start."""
        command = [sys.executable, "-m", "kcli", "serve", "--data-dir", str(self.directory), "--listen", self.listen]
        node = subprocess.Popen([*command, *OPTIONS], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(self.random.uniform(0.1, 0.6))
        node.kill()
        node.wait()


def stderr_of(process: subprocess.Popen[str] | Forked) -> str:
    assert process.stderr is not None, "piped"
    with process.stderr:
        return process.stderr.read()


@contextmanager
def scenario(seed: int) -> Iterator[Scenario]:
    random = Random(seed)
    with TemporaryDirectory() as root:
        each = Scenario(Path(root) / "data", random, free_port(Random()))  # seeds repeat; ports may be taken
        try:
            yield each
        finally:
            if each.node is not None and each.node.process.poll() is None:
                each.end(each.node, signal.SIGKILL)


def run(each: Scenario, rounds: int, end: Callable[[ServedNode], None]) -> None:
    """Load, ended `rounds` times; then the check."""
    node = each.start()
    with Client(node.address) as client:
        assert create(client, "rolling", PARTITIONS, SMALL_SEGMENTS)["error_code"] == 0
        assert create(client, "compacted", PARTITIONS, COMPACTED)["error_code"] == 0
    for codec in CODECS:
        each.writer(codec, "rolling", codec)
    each.writer("keys", "compacted", "lz4", keys=50)
    topics = TopicChanger(each.address, each.random)
    topics.start()
    for number in range(rounds):
        newcomer = each.writer(f"round-{number}", "rolling", each.random.choice(CODECS))
        time.sleep(each.random.uniform(0.3, 1.2))
        end(node)
        node = each.start()
        newcomer.finish()
    for writer in each.writers:
        writer.finish()
    topics.finish()
    check_rolling(each)
    check_compacted(each)
    check_topics(each, topics)
    assert each.end(node, signal.SIGTERM) == 0
    check_directories(each, topics)
    for log in each.logs:
        assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:5000]


@KILLED
@given(st.integers(0, 2**32 - 1))
def test_killed_under_load(seed: int) -> None:
    with scenario(seed) as each:

        def kill(node: ServedNode) -> None:
            each.end(node, signal.SIGKILL)
            if each.random.random() < 0.3:
                each.stillborn()

        run(each, ROUNDS, kill)


@STOPPED
@given(st.integers(0, 2**32 - 1))
def test_stopped_under_load(seed: int) -> None:
    """After SIGTERM the same holds, and the next start has nothing to recover."""
    with scenario(seed) as each:

        def stop(node: ServedNode) -> None:
            assert each.end(node, signal.SIGTERM) == 0
            assert (each.directory / ".kafka_cleanshutdown").exists()

        run(each, ROUNDS // 2, stop)
        assert not any("recover" in log for log in each.logs)


# what must be there


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as a consumer gets it."""

    offset: int
    key: str
    writer: str
    number: int


def stored(each: Scenario, topic: str, partition: int) -> list[Stored]:
    """All records of a partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": "{}:{}".format(*each.address),
            "group.id": "check",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "auto.offset.reset": "error",
        }
    )
    found: list[Stored] = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for message in consumer.consume(5000, 0.05):  # as many as come in that time
                error = message.error()
                if error is None:
                    found.append(record_of(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    return found
                else:
                    raise KafkaException(error)
        raise AssertionError(f"{topic}-{partition} has no end: {len(found):,} records")
    finally:
        consumer.close()


def record_of(message: Message) -> Stored:
    key, value, offset = message.key(), message.value(), message.offset()
    assert value is not None
    assert offset is not None
    writer, number, _ = value.split(b" ", 2)
    return Stored(offset, "" if key is None else str(key, "ascii"), writer.decode(), int(number))


def check_rolling(each: Scenario) -> None:
    """Check that no record is lost or doubled, that they are in order, and at the acknowledged offsets."""
    for partition in range(PARTITIONS):
        found = stored(each, "rolling", partition)
        assert [record.offset for record in found] == list(range(len(found)))
        numbers = defaultdict(list)
        for record in found:
            numbers[record.writer].append(record.number)
        writers = {writer.name: writer for writer in each.writers if writer.topic == "rolling"}
        assert numbers == {
            name: list(range(writer.sent[partition])) for name, writer in writers.items() if writer.sent[partition]
        }
        for record in found:
            assert writers[record.writer].acknowledged[partition][record.number] in (record.offset, -1)
    assert len(list(each.directory.glob("rolling-0/*.log"))) > 1, "segments were rolled"


def check_compacted(each: Scenario) -> None:
    """Check that the last record of each key is there, no other one doubled, in order; and wait for the cleaner."""
    writer = next(writer for writer in each.writers if writer.keys)
    deadline = time.monotonic() + CLEANER_S
    while not compacted_away(each, writer) and len(list(each.directory.glob("compacted-*/*.log"))) > PARTITIONS:
        assert time.monotonic() < deadline, "there are segments to clean, and nobody does"
        time.sleep(0.2)


def compacted_away(each: Scenario, writer: Writer) -> int:
    """Return how many of the writer's records are gone; check the others."""
    removed = 0
    for partition in range(PARTITIONS):
        found = stored(each, "compacted", partition)
        numbers = [record.number for record in found]
        assert numbers == sorted(set(numbers))
        assert set(numbers) >= set(range(max(0, writer.sent[partition] - writer.keys), writer.sent[partition]))
        for record in found:
            assert record.key == f"keys/{record.number % writer.keys}"
            assert writer.acknowledged[partition][record.number] in (record.offset, -1)
        removed += writer.sent[partition] - len(found)
    return removed


def check_topics(each: Scenario, topics: TopicChanger) -> None:
    """Check that a topic whose creation was acknowledged is there with its record, and a deleted one is not."""
    with Client(each.address) as client:
        answer = client.call("metadata", 12, topics=None, allow_auto_topic_creation=False)
    there = {topic["name"]: topic["topic_id"] for topic in answer["topics"]}
    assert topics.created.items() <= there.items()
    assert not topics.deleted & there.keys()
    for name in topics.created.keys() & topics.written:
        with Client(each.address) as client:
            wanted = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
            asked = [{"name": name, "partitions": [wanted]}]
            answer = client.call("list_offsets", 7, replica_id=-1, isolation_level=0, topics=asked)
        assert answer["topics"][0]["partitions"][0]["offset"] == 1


def check_directories(each: Scenario, topics: TopicChanger) -> None:
    """Check that no directory has a deleted topic's name; it is a stray where the broker died before it renamed it."""
    found = [(parse_directory(path.name), path) for path in each.directory.iterdir() if path.is_dir()]
    there = {name.topic for name, _ in found if name is not None and not name.state}
    assert topics.created.keys() <= there
    assert not topics.deleted & there
    for name, path in found:
        if name is not None and name.state == "stray" and name.topic in topics.created:
            # The broker died before the directory got its partition.metadata; Kafka sets that aside as well.
            assert not any(log.stat().st_size for log in path.glob("*.log"))

"""Lives of a broker with tiered storage, which is killed again and again: python -m tests.broker.tiering.lives.

A life is a sequence of rounds. In each of them the broker starts, everything is checked, a client works, and the broker
is killed (SIGKILL): some milliseconds after the client has begun to do something, or once the store has changed a given
number of times. A store in a bucket is served by samples/s3_server.py, which is killed and started again, too. The seed
decides what is done; the moments at which processes are killed also depend on the machine.

    the client        produces batches of new or ten-days-old records, deletes records, sets and removes retention.bytes
                      and retention.ms, deletes topics and creates them again under the same name
    readable          every acknowledged record at or above the log start offset is read back, nothing else is
    expired           the log start offset is not above what the client has deleted, or retention allows to delete
    named             when the broker is down, each object is one of a segment that `__remote_log_metadata` has
    whole             when the broker is down, `kcli tier verify` finds nothing: all objects of each copied segment are
                      there and sound, and no offset below the local log is missing
    cleared           the next broker ends each copy and each deletion that was broken off, and copies the rest
"""

from __future__ import annotations

import argparse
import base64
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from formats.kernels.batches import BatchTable
from formats.kernels.scan import scan
from kcli.inspector.tier import Orphans, TierVerification
from kcli.inspector.verify.findings import Finding
from kcli.protocol.error_code import ErrorCode
from kcli.tier.address import Bucket
from kcli.tier.layout import directory_name
from kcli.tier.local import LocalStore
from kcli.tier.segment import SegmentState, TieredPartition
from kcli.tier.store import Store
from kcli.tier.tier import Tier
from tests.broker.running import Client, Closed, ServedNode
from tests.broker.tiering.test_fetch import fetch
from tests.broker.tiering.test_manager import CONFIGS, SETTINGS
from tests.broker.tiering.tier_reader import records_of
from tests.conftest import SAMPLES
from tests.log.batches import batch
from tests.tier.conftest import use_s3

TOPICS = ("orders", "payments")
UNLIMITED = {"retention.ms": "-1", "retention.bytes": "-1"}
DAY_MS = 86_400_000
RETENTION_BYTES = (8_192, 16_384, 40_000)
VALUE_BYTES = 300
DEADLINE_S = 60.0
PAUSE_S_MAX = 0.02
SEGMENT_CHARS = 43
"""The length of an object's name without its suffix: 20 digits, a hyphen and 22 characters of the segment's id."""
LIFE_KILLS = 20
"""After so many kills the next life begins, in a new directory."""


# what the broker should have


class Batch(NamedTuple):
    """A batch that was sent. size: its bytes in the log."""

    base_offset: int
    values: list[bytes]
    size: int
    is_old: bool

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.values)


@dataclass
class Topic:
    """A topic of one partition. unanswered: the values, the size and the age of a batch of which no answer came.
    deleted_to: the greatest offset that records were to be deleted to; retention_bytes: the least limit that was set,
    None without one; is_timed: whether old records were allowed to expire; is_doubtful: whether its deletion got no
    answer."""

    topic_id: str
    batches: list[Batch] = field(default_factory=list)
    unanswered: tuple[list[bytes], int, bool] | None = None
    deleted_to: int = 0
    retention_bytes: int | None = None
    is_timed: bool = False
    is_doubtful: bool = False

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    def appended(self, base_offset: int, values: list[bytes], size: int, *, is_old: bool) -> None:
        assert base_offset == self.end_offset, "no record is lost, none is there twice"
        self.batches.append(Batch(base_offset, values, size, is_old))

    def start_offset_max(self) -> int:
        """The greatest log start offset that was asked for, or that retention allows."""
        found = self.deleted_to
        if self.retention_bytes is not None:
            left = 0
            for each in reversed(self.batches):
                left += each.size
                if left >= self.retention_bytes:
                    found = max(found, each.base_offset)
                    break
        if self.is_timed:
            new = (each.base_offset for each in self.batches if each.next_offset > found and not each.is_old)
            found = max(found, next(new, self.end_offset))
        return found

    def values(self) -> dict[int, bytes]:
        return {each.base_offset + i: value for each in self.batches for i, value in enumerate(each.values)}


# the stores


class Directory:
    """A directory as the store."""

    def __init__(self, home: Path) -> None:
        self.home = home / "remote"
        self.settings = {"rsm.config.dir": str(self.home)}

    def open(self) -> Store:
        return LocalStore(self.home)

    def partial(self) -> list[Path]:
        """The files that are being written."""
        return list(self.home.rglob("*.part"))

    def kill(self, chance: random.Random) -> None:
        """Nothing serves a directory."""

    def start(self) -> None:
        """Nothing serves a directory."""

    close = start


class S3:
    """A bucket of an S3 server as the store. Its server can be killed."""

    def __init__(self, home: Path) -> None:
        self.home = home / "s3"
        self.settings = {
            "remote.log.storage.manager.class.name": "kcli.tier.ObjectStorage",
            "rsm.config.url": "s3://life/tier",
        }
        self._port = 0
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        (self.home / "life").mkdir(parents=True)
        self.start()

    def start(self) -> None:
        """Start the server, if it is down."""
        with self._lock:
            if self._process is not None:
                return
            command = [sys.executable, str(SAMPLES / "s3_server.py"), str(self.home), str(self._port)]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert self._process.stdout is not None, "piped"
            self.endpoint = self._process.stdout.readline().strip()
            self._port = int(self.endpoint.rpartition(":")[2])

    def kill(self, chance: random.Random) -> None:
        """Kill the server; it is started again in a moment."""
        self.close()
        again = threading.Timer(chance.uniform(0, 0.5), self.start)
        again.daemon = True
        again.start()

    def close(self) -> None:
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.communicate()
            self._process = None

    def open(self) -> Store:
        from kcli.tier.bucket import BucketStore

        return BucketStore(Bucket("s3", "life", "tier"))

    def partial(self) -> list[Path]:
        """A bucket has no unfinished objects."""
        return []


@contextmanager
def store_of(kind: str, home: Path) -> Iterator[Directory | S3]:
    """A store; the environment leads to it."""
    if kind == "directory":
        yield Directory(home)
        return
    store = S3(home)
    with pytest.MonkeyPatch.context() as patch:
        use_s3(patch, store.endpoint)
        try:
            yield store
        finally:
            store.close()


# a life


class Life:
    """A broker and its client. kills: how often the broker was killed."""

    def __init__(self, home: Path, store: Directory | S3, seed: int) -> None:
        self._data, self._store = home / "data", store
        self._chance = random.Random(seed)
        self._topics: dict[str, Topic] = {}
        self._gone: set[str] = set()
        self._made = 0
        self.kills = 0

    def run(self, kills: int) -> None:
        """Live through that many kills, then end in order, with an empty store."""
        for _ in range(kills):
            self._round()
            self.kills += 1
        node = self._start()
        try:
            with Client(node.address) as client:
                self._settled(client)
                self._ended(client)
        except BaseException:
            print(_killed(node), file=sys.stderr)
            raise
        code, log = node.signal(signal.SIGTERM)
        assert code == 0, log
        assert "Traceback" not in log, log
        assert self._objects() == []
        assert self._orphans(self._tier()) == []

    def _start(self) -> ServedNode:
        """A broker that has everything."""
        self._store.start()
        options = SETTINGS | self._store.settings
        node = ServedNode(self._data, *[word for each in options.items() for word in ("-o", "=".join(each))])
        try:
            with Client(node.address) as client:
                self._look(client)
                for name, topic in self._topics.items():
                    client.wait_for_leaders(name)
                    self._compare(client, name, topic)
        except BaseException:
            print(_killed(node), file=sys.stderr)
            raise
        return node

    def _round(self) -> None:
        node = self._start()
        try:
            with Client(node.address) as client:
                if self._chance.random() < 0.2:
                    self._settled(client)
                self._work_until_killed(node, client)
        finally:
            log = _killed(node)
            with (self._data.parent / "broker.log").open("a") as file:
                file.write(f"{log}--- kill {self.kills + 1}\n")
        assert "Traceback" not in log, log
        self._store.start()
        self._check_files()

    def _work_until_killed(self, node: ServedNode, client: Client) -> None:
        for name in TOPICS:
            if name not in self._topics:
                self._create(client, name)
        for _ in range(self._chance.randint(0, 12)):
            self._produce(client)
        does = self._chance.choice(
            (
                self._produce,
                self._delete_records,
                self._limit_bytes,
                self._limit_time,
                self._delete_topic,
                self._delete_topic,
                self._lift_limits,
                self._kill_server,
            )
        )
        killer = threading.Thread(target=self._kill, args=(node, self._moment()))
        try:
            killer.start()
            does(client)
            while killer.is_alive() and self._topics:
                self._produce(client)
                time.sleep(self._chance.uniform(0, PAUSE_S_MAX))
        except (Closed, OSError):
            pass
        finally:
            killer.join()

    def _moment(self) -> Callable[[], bool]:
        """A condition: whether it is time to kill the broker."""
        if self._chance.random() < 0.4:
            until = time.monotonic() + self._chance.uniform(0, 0.8)
            return lambda: time.monotonic() > until
        before, changes = self._names(), self._chance.randint(1, 20)
        until = time.monotonic() + 1.5
        return lambda: len(self._names() ^ before) >= changes or time.monotonic() > until

    @staticmethod
    def _kill(node: ServedNode, is_time: Callable[[], bool]) -> None:
        while not is_time():
            time.sleep(0.001)
        with suppress(ProcessLookupError):
            node.process.kill()

    def _names(self) -> set[str]:
        return {each for _, _, names in os.walk(self._store.home) for each in names}

    # what the client does

    def _create(self, client: Client, name: str) -> None:
        configs = [{"name": key, "value": value} for key, value in (CONFIGS | UNLIMITED).items()]
        topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": configs}
        made = client.call("create_topics", 7, topics=[topic], timeout=10_000, validate_only=False)["topics"][0]
        assert made["error_code"] == 0, made
        self._topics[name] = Topic(made["topic_id"])
        client.wait_for_leaders(name)

    def _any(self) -> tuple[str, Topic]:
        name = self._chance.choice(sorted(self._topics))
        return name, self._topics[name]

    def _produce(self, client: Client) -> None:
        name, topic = self._any()
        values = [self._value() for _ in range(self._chance.randint(1, 8))]
        is_old = self._chance.random() < 0.5
        timestamp_ms = int(time.time() * 1000) - (10 * DAY_MS if is_old else 0)
        data = bytes(batch(*values, timestamp_ms=timestamp_ms))
        topic.unanswered = values, len(data), is_old
        partitions = [{"index": 0, "records": data}]
        topics = [{"name": name, "partition_data": partitions}]
        answer = client.call("produce", 9, transactional_id=None, acks=-1, timeout=10_000, topic_data=topics)
        (found,) = answer["responses"][0]["partition_responses"]
        assert found["error_code"] == 0, found
        topic.appended(found["base_offset"], values, len(data), is_old=is_old)
        topic.unanswered = None

    def _value(self) -> bytes:
        self._made += 1
        return b"value %08d " % self._made + self._chance.randbytes(VALUE_BYTES)

    def _delete_records(self, client: Client) -> None:
        name, topic = self._any()
        offset = self._chance.randint(0, topic.end_offset)
        topic.deleted_to = max(topic.deleted_to, offset)
        partitions = [{"partition_index": 0, "offset": offset}]
        topics = [{"name": name, "partitions": partitions}]
        answer = client.call("delete_records", 2, topics=topics, timeout=10_000)
        (found,) = answer["topics"][0]["partitions"]
        assert found["error_code"] in (0, ErrorCode.OFFSET_OUT_OF_RANGE), found
        assert found["error_code"] != 0 or found["low_watermark"] >= offset, found

    def _limit_bytes(self, client: Client) -> None:
        name, topic = self._any()
        limit = self._chance.choice(RETENTION_BYTES)
        topic.retention_bytes = min(limit, topic.retention_bytes or limit)
        client.alter_topic(name, {"retention.bytes": str(limit)})

    def _limit_time(self, client: Client) -> None:
        name, topic = self._any()
        topic.is_timed = True
        client.alter_topic(name, {"retention.ms": str(DAY_MS)})

    def _lift_limits(self, client: Client) -> None:
        name, _ = self._any()
        client.alter_topic(name, UNLIMITED)

    def _delete_topic(self, client: Client) -> None:
        name, topic = self._any()
        topic.is_doubtful = True
        answer = client.call("delete_topics", 6, topics=[{"name": name, "topic_id": None}], timeout=10_000)
        assert answer["responses"][0]["error_code"] == 0, answer
        self._gone.add(self._topics.pop(name).topic_id)
        if self._chance.random() < 0.5:
            self._create(client, name)

    def _kill_server(self, _: Client) -> None:
        self._store.kill(self._chance)

    # what a broker must have

    def _look(self, client: Client) -> None:
        """Take over what the broker has done without an answer to the client."""
        known = client.call("metadata", 12, topics=None)["topics"]
        found = {each["name"]: each["topic_id"] for each in known if each["name"] in TOPICS}
        for name, topic in list(self._topics.items()):
            if found.get(name) == topic.topic_id:
                topic.is_doubtful = False
                continue
            assert topic.is_doubtful, f"{name} is lost"
            self._gone.add(self._topics.pop(name).topic_id)
        for name in found.keys() - self._topics.keys():
            assert found[name] not in self._gone, f"{name} is back"
            self._topics[name] = Topic(found[name])

    def _compare(self, client: Client, name: str, topic: Topic) -> None:
        """Read everything back."""
        end = _offset(client, name, -1)
        if topic.unanswered is not None:
            values, size, is_old = topic.unanswered
            if end > topic.end_offset:
                topic.appended(topic.end_offset, values, size, is_old=is_old)
            topic.unanswered = None
        assert end == topic.end_offset, (name, end, topic.end_offset)
        start, found = _read(client, name, end)
        assert start <= topic.start_offset_max(), (name, start, topic.start_offset_max())
        expected = {offset: value for offset, value in topic.values().items() if offset >= start}
        assert found == expected, (name, start, end, sorted(found.keys() ^ expected.keys()))

    def _tier(self) -> Tier:
        return Tier.read(self._store.open(), self._data)

    def _objects(self) -> list[str]:
        """The names of all objects but those of `_is_left`."""
        tier = self._tier()
        left = {directory_name(each) for each in tier.inventory.partitions if self._is_left(tier, each)}
        names = [each.name for each in tier.store.list_objects()]
        return [each for each in names if each.partition("/")[0] not in left]

    def _check_files(self) -> None:
        """What is there while the broker is down."""
        tier = self._tier()
        for each in tier.partitions:
            if self._is_left(tier, each.partition):
                continue
            for objects in tier.inventory.partitions.get(each.partition, {}).values():
                segment = each.cache.segment(objects.id)
                assert segment is not None, f"no record has {objects.names}"
                assert segment.start_offset == objects.start_offset, objects.names
        verification = TierVerification(tier)
        for finding in (*verification.findings(), *self._orphans(tier)):
            # a file that was being written goes with the segment whose copy never ended
            assert finding.severity == "info" or finding.path.endswith(".part"), finding
        assert verification.unreadable == []

    def _is_left(self, tier: Tier, whose: TieredPartition) -> bool:
        """Whether the topic of a partition was deleted, and the broker killed before it had said so in the metadata: no
        broker deletes its segments then, but `kcli tier orphans` names them."""
        assert tier.log is not None
        doubtful = {each.topic_id for each in self._topics.values() if each.is_doubtful}
        return whose.topic_id in self._gone | doubtful and tier.log.is_left_behind(whose)

    def _orphans(self, tier: Tier) -> list[Finding]:
        """The orphans, without those of `_is_left`, which all are among them."""
        found = list(Orphans(tier).findings())
        for whose in (each for each in tier.inventory.partitions if self._is_left(tier, each)):
            home = f"{tier.store.address}/{directory_name(whose)}/"
            orphans = [each.path for each in found if each.kind == "tier-orphan"]
            of_topic = {path.removeprefix(home)[:SEGMENT_CHARS] for path in orphans if path.startswith(home)}
            segments = {f"{offset:020}-{segment_id}" for offset, segment_id in tier.inventory.partitions[whose]}
            assert of_topic == segments, f"{whose}: not all is named"
            found = [each for each in found if not each.path.startswith(home)]
        return found

    def _settled(self, client: Client) -> None:
        """Wait until the broker has nothing left to do."""
        until = time.monotonic() + DEADLINE_S
        while (left := self._left(client)) is not None:
            assert time.monotonic() < until, left
            time.sleep(0.05)

    def _left(self, client: Client) -> str | None:
        tier = self._tier()
        for each in tier.partitions:
            whose = each.partition
            if self._is_left(tier, whose):
                continue
            if whose.topic_id in self._gone and whose in tier.inventory.partitions:
                return f"objects of {whose}, which is deleted"
            for segment in each.cache.segments():
                if segment.state is not SegmentState.COPY_SEGMENT_FINISHED:
                    return f"{segment}"
        for name in self._topics:
            logs = [each.local.logs for each in tier.partitions if each.partition.topic == name and each.local]
            if any(each and _offset(client, name, -5) + 1 < each[-1][0] for each in logs):
                return f"segments of {name} that are not copied"
        # the store may have no object of such a partition, but the beginning of one
        left = {directory_name(each.partition) for each in tier.partitions if self._is_left(tier, each.partition)}
        partial = [path for path in self._store.partial() if path.parent.name not in left]
        return f"{partial}" if partial else None

    def _ended(self, client: Client) -> None:
        """Delete the records of one topic and let all of the others expire, then delete the topics."""
        for name, topic in self._topics.items():
            partitions = [{"partition_index": 0, "offset": topic.end_offset}]
            topics = [{"name": name, "partitions": partitions}]
            client.call("delete_records", 2, topics=topics, timeout=10_000)
        _wait(lambda: not self._objects(), self._objects)
        for name in list(self._topics):
            answer = client.call("delete_topics", 6, topics=[{"name": name, "topic_id": None}], timeout=10_000)
            assert answer["responses"][0]["error_code"] == 0, answer
            self._gone.add(self._topics.pop(name).topic_id)
        self._settled(client)


def _killed(node: ServedNode) -> str:
    """Kill a broker, if it still runs. Return its log."""
    with suppress(ProcessLookupError):
        node.process.kill()
    return node.process.communicate()[1]


def _wait(condition: Callable[[], bool], what: Callable[[], object]) -> None:
    until = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < until, what()
        time.sleep(0.05)


def _offset(client: Client, name: str, timestamp: int) -> int:
    """The answer to ListOffsets."""
    error_code, offset = client.list_offset(name, timestamp)
    assert error_code == 0, ErrorCode(error_code).name
    return offset


def _read(client: Client, name: str, end: int) -> tuple[int, dict[int, bytes]]:
    """Read from the log start offset to the end. Return that offset, as it is in the end, and the records."""
    offset = _offset(client, name, -2)
    found: dict[int, bytes] = {}
    until = time.monotonic() + DEADLINE_S
    while offset < end:
        assert time.monotonic() < until, (name, offset, end)
        answer = fetch(client, {(name, 0): offset})["responses"][0]["partitions"][0]
        if answer["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE:
            offset = max(offset, _offset(client, name, -2))  # it has expired meanwhile, or the leader finds out soon
            time.sleep(0.01)
            continue
        assert answer["error_code"] == 0, (name, offset, answer["error_code"])
        data = memoryview(base64.b64decode(answer["records"] or ""))
        behind, _, _ = scan(data, 0, len(data), 0, BatchTable())
        for at, _, _, _, value in records_of(data[:behind])[0] if behind else []:
            if at >= offset:
                assert value is not None
                found[at] = value
        offset = max(offset, max(found, default=-1) + 1)
    start = _offset(client, name, -2)
    return start, {at: value for at, value in found.items() if at >= start}


def live(kind: str, home: Path, seed: int, kills: int) -> None:
    """One life with a store of a kind: `directory` or `bucket`."""
    home.mkdir(parents=True, exist_ok=True)
    with store_of(kind, home) as store:
        life = Life(home, store, seed)
        try:
            life.run(kills)
        except BaseException:
            print(f"a {kind}, seed {seed}, after {life.kills} kills: {home}", file=sys.stderr)
            raise


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--store", choices=("directory", "bucket", "both"), default="both")
    parser.add_argument("--directory", type=Path, help="where the lives have their data, to be looked at later")
    given = parser.parse_args()
    kinds = ("directory", "bucket") if given.store == "both" else (given.store,)
    with ExitStack() as stack:
        home = given.directory or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        begun, done = time.monotonic(), 0
        while done < given.kills:
            kind, seed = kinds[(done // LIFE_KILLS) % len(kinds)], given.seed + done // LIFE_KILLS
            kills = min(LIFE_KILLS, given.kills - done)
            live(kind, home / str(seed), seed, kills)
            done += kills
            print(f"a {kind}, seed {seed}: {done} kills, {time.monotonic() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()

"""Plain Produce requests, which a kernel answers, get the same responses and logs as others.

Two brokers get the same requests, and only one of them has the short way. Responses, offsets, producers and files are
equal after any stream of requests and any changes in between.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from threading import Timer
from time import sleep
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.kernels.crc import crc32c
from kcli.broker.partition.partitions import Partition
from kcli.broker.wire.answers import Laid, Later, Served
from kcli.broker.wire.call import Client as Peer
from kcli.log.config import LogConfig
from kcli.log.live.partition_log import PartitionLog
from kcli.protocol.error_code import ErrorCode
from tests.broker.full_disk import FullDisk
from tests.broker.running import Client, Closed, RunningNode, running_node
from tests.conftest import examples
from tests.log.batches import NOW_MS, batch

CONFIGS: tuple[dict[str, str], ...] = (
    {},
    {"index.interval.bytes": "100"},
    {"flush.messages": "7"},
    {"cleanup.policy": "compact"},
    {"message.timestamp.type": "LogAppendTime"},
    {"compression.type": "lz4"},
    {"message.timestamp.before.max.ms": "30", "message.timestamp.after.max.ms": "30"},
    {"max.message.bytes": "400"},
    {"segment.ms": "40"},
)
PARTITIONS, PRODUCE = 3, 0
HEADER_BYTES = 61
FOLLOWER = 9
VERSIONS = range(3, 14)
SYNC = bytes.fromhex("0000000a 0012 0000 7fffffff ffff".replace(" ", ""))
"""An ApiVersions request, whose answer shows that the requests before it are answered."""
SYNC_ID = 0x7FFFFFFF


class Broker:
    """A broker with a clock that the test moves. plain: the number of requests that the kernel has answered. wakes: how
    often a waiting Fetch was woken."""

    def __init__(self, node: RunningNode, *, is_short: bool) -> None:
        self.node = node
        self.now_ms, self.plain, self.wakes = NOW_MS, 0, 0
        self.client = node.client()
        router, server = node.node.router, node.node.server
        router.now_ms = lambda: self.now_ms

        def counted(frame: memoryview, client: Peer) -> Laid | Later | None:
            found = router.at_once(frame, client)
            self.plain += found is not None and int.from_bytes(frame[:2]) == PRODUCE
            return found

        def served(fd: int, buffer: memoryview, kept: int, client: Peer, max_bytes: int, turn_ns: int) -> Served | None:
            found = router.serve(fd, buffer, kept, client, max_bytes, turn_ns)
            at = 0
            while found is not None and at < found[1]:
                at += 4 + int.from_bytes(buffer[at : at + 4])
                self.plain += 1
            return found

        if is_short:
            server.at_once, server.serve_plain = counted, served
        else:
            server.handle = router.handle  # no request is answered at once

    def create(self, topic: str, config: dict[str, str]) -> bytes:
        """Make a topic; its id."""
        self.client.create_topic(topic, PARTITIONS, config)
        return self.partition(topic, 0).topic_id.bytes

    def replicate(self, topic: str, index: int, fetches: str) -> None:
        """Give the leader a follower, broker 9. fetches: "all" batches, "none", or "outside" the ISR and none, which
        then is smaller than min.insync.replicas."""
        partition = self.partition(topic, index)
        own = partition.node_id

        def change() -> None:
            partition.open()
            isr = (own,) if fetches == "outside" else (own, FOLLOWER)
            partition.update(replace(partition.state, replicas=(own, FOLLOWER), isr=isr))
            if fetches == "outside":
                partition.log.set_config(LogConfig({"min.insync.replicas": "2"}))
            if fetches == "all":
                loop = asyncio.get_running_loop()
                partition.watch_end(lambda _: loop.call_soon(self.fetch, partition))

        self.node.run(change)

    def fetch(self, partition: Partition) -> None:
        """The follower has all batches."""
        leadership = partition.leadership
        if leadership is not None:
            end = partition.log.log_end_offset
            partition.fetched(leadership.followers[FOLLOWER], end, 0, -1)

    def woken(self) -> None:
        """Count a call of a watcher."""
        self.wakes += 1

    def send(self, frame: bytes, cut: int = 0) -> list[bytes]:
        """Return the responses to requests, sent together; an empty one where the broker closes the connection. cut:
        how many bytes are sent first, and the others when the broker has received these."""
        found = []
        if cut:
            self.client.socket.sendall(frame[:cut])
            sleep(0.001)
        self.client.socket.sendall(frame[cut:] + SYNC)
        try:
            while int.from_bytes((answer := self.client.read_frame())[:4]) != SYNC_ID:
                found.append(answer)
        except Closed:
            self.client.socket.close()
            self.client = self.node.client()
            found.append(b"")
        return found

    def partition(self, topic: str, index: int) -> Partition:
        found = self.node.node.broker.partitions.get(topic, index)
        assert found is not None, "created"
        return found

    def state(self, topic: str) -> list[Any]:
        """Return the state of the logs of a topic's partitions."""
        found = []
        for index in range(PARTITIONS):
            log = self.partition(topic, index).log
            offsets = log.log_start_offset, log.high_watermark, log.last_stable_offset, log.log_end_offset
            found.append((offsets, log.base_offsets, log.size, log.producers.table.entries()))
        return found

    def files(self, topic: str) -> dict[str, bytes]:
        """The files of a topic's rolled segments."""
        found = {}
        for index in range(PARTITIONS):
            log = self.partition(topic, index).log
            log.roll(self.now_ms)
            log.write_stale_epochs()
            for path in sorted(log.directory.iterdir()):
                if path.name != "partition.metadata":  # the topic's id
                    found[f"{index}/{path.name}"] = path.read_bytes()
        return found


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Broker]]:
    home = tmp_path_factory.mktemp("brokers")
    # no cleaner and no retention, since these use the real time
    options = dict.fromkeys(("log_initial_task_delay_ms", "log_retention_check_interval_ms"), "100000000")
    options["log_cleaner_enable"] = "false"
    with (
        running_node(home / "short", None, **options) as short,
        running_node(home / "long", None, **options) as long,
    ):
        yield [Broker(short, is_short=True), Broker(long, is_short=False)]
        for node in (short, long):
            node.close_clients()


def cut(data: bytearray, payload_bytes: int) -> bytes:
    """Return the batch with the first bytes of its payload alone, sound in all else."""
    short = data[: HEADER_BYTES + payload_bytes]
    short[8:12] = (len(short) - 12).to_bytes(4)
    short[17:21] = crc32c(short[21:]).to_bytes(4)
    return bytes(short)


class Requests:
    """Requests of a few producers for two topics."""

    def __init__(self, draw: st.DataObject, topics: list[str]) -> None:
        self.draw, self.topics = draw, topics
        self.next_sequence: dict[Any, int] = {}

    def pick(self, *values: Any) -> Any:
        return self.draw.draw(st.sampled_from(values))

    def batch(self, place: tuple[str, int], now_ms: int) -> bytes:
        """Return a batch: mostly one that continues the producer's sequence, rarely a damaged one."""
        values = self.draw.draw(st.lists(st.binary(max_size=60), min_size=1, max_size=5))
        producer = self.pick((-1, -1), (-1, -1), (5, 0), (5, 0), (5, 1), (6, 0))
        sequence = -1
        if producer[0] >= 0:
            known = self.next_sequence.get((place, producer), 0)
            sequence = max(0, known + self.pick(0, 0, 0, 0, 0, 1, -len(values)))
            if sequence == known:
                self.next_sequence[place, producer] = known + len(values)
        at_ms = now_ms + self.pick(0, 0, 0, 0, -10, -50, 50)
        codec = self.pick(0, 0, 0, 1, 2, 3, 4)
        data = batch(*values, producer=producer, sequence=sequence, timestamp_ms=at_ms, codec=codec)
        if self.pick(*range(30)) == 0:
            return cut(data, self.draw.draw(st.integers(0, len(data) - HEADER_BYTES)))
        if self.pick(*range(12)) == 0:
            data[self.draw.draw(st.integers(0, len(data) - 1))] ^= 1 << self.pick(*range(8))
            if self.pick(0, 1):
                data[17:21] = crc32c(data[21:]).to_bytes(4)
        return bytes(data)

    def request(self, now_ms: int) -> tuple[int, dict[str, list[dict[str, Any]]], int]:
        """Version, partitions by topic, acks."""
        found: dict[str, list[dict[str, Any]]] = {}
        for _ in range(self.pick(1, 1, 1, 2, 3, 6)):
            place = self.pick(*self.topics), self.draw.draw(st.integers(0, PARTITIONS - self.pick(1, 1, 1, 1, 0)))
            records = self.batch(place, now_ms) if self.pick(*range(30)) else None
            found.setdefault(place[0], []).append({"index": place[1], "records": records})
        return self.pick(*VERSIONS), found, self.pick(-1, -1, 1, 0, 0, 5)


def frame_of(
    client: Client,
    ids: dict[str, bytes],
    version: int,
    found: dict[str, list[dict[str, Any]]],
    acks: int,
    timeout_ms: int = 100,
) -> bytes:
    data = [
        {"topic_id": UUID(bytes=ids[topic])} | {"partition_data": each}
        if version >= 13
        else {"name": topic, "partition_data": each}
        for topic, each in found.items()
    ]
    client.correlation_id = 7
    return client.frame(
        "produce", version, {"acks": acks, "timeout": timeout_ms, "transactional_id": None, "topic_data": data}
    )


def between(requests: Requests, brokers: list[Broker], topics: list[str]) -> None:
    """Make another change to a partition of both brokers."""
    kind = requests.pick("roll", "config", "delete", "flush", "expire", "quota", "state", "watch", "unwatch")
    topic, index = requests.pick(*topics), requests.draw.draw(st.integers(0, PARTITIONS - 1))
    config = LogConfig(requests.pick(*CONFIGS))
    now_ms = brokers[0].now_ms

    def change(broker: Broker, partition: Partition, log: PartitionLog) -> None:
        if kind == "watch":
            partition.watch(broker.woken)
        elif kind == "unwatch":
            partition.unwatch(broker.woken)
        elif kind == "roll" and log.log_end_offset:
            log.roll(now_ms)
        elif kind == "config":
            log.set_config(config)
        elif kind == "delete":
            partition.delete_records(log.high_watermark)
        elif kind == "flush":
            log.flush(now_ms)
        elif kind == "expire":
            log.expire_producers(now_ms + 10**9)
        elif kind == "state":
            partition.update(partition.state)

    for each in brokers:
        partition = each.partition(topic, index)
        each.node.run(partial(change, each, partition, partition.log))
        if kind == "quota":
            quotas = each.node.node.router.quotas
            quotas.is_active = not quotas.is_active


def replicate(requests: Requests, brokers: list[Broker], fetches_of_most: str) -> None:
    """Give some partitions of both brokers a follower."""
    for topic, index in itertools.product(requests.topics, range(PARTITIONS)):
        fetches = requests.pick(*[fetches_of_most] * 4, "outside", "")
        for each in brokers:
            if fetches:
                each.replicate(topic, index, fetches)


TOPIC_NUMBERS = itertools.count()


@examples(15, soak=2_000)
@given(st.data())
def test_both_ways_answer_and_write_the_same(brokers: list[Broker], draw: st.DataObject) -> None:
    check_both_ways(brokers, draw)


def check_both_ways(brokers: list[Broker], draw: st.DataObject, *, counts_wakes: bool = True) -> None:
    """Send the same requests to both brokers, and compare all that they do. counts_wakes: whether a waiting Fetch is
    woken once for each append."""
    topics = [f"topic-{next(TOPIC_NUMBERS)}" for _ in range(2)]
    ids: list[dict[str, bytes]] = [{}, {}]
    for topic in topics:
        config = draw.draw(st.sampled_from(CONFIGS))
        for each, known in zip(brokers, ids, strict=True):
            known[topic] = each.create(topic, config)
            each.now_ms = NOW_MS
            each.node.node.router.quotas.is_active = False
    requests = Requests(draw, topics)
    fetches = requests.pick("", "", "all", "none")
    if fetches:
        replicate(requests, brokers, fetches)
    for _ in range(draw.draw(st.integers(1, 30))):
        for each in brokers:
            each.now_ms += 5
        if requests.pick(*range(12)) == 0:
            between(requests, brokers, topics)
        request = requests.request(brokers[0].now_ms)
        change = (
            (requests.draw.draw(st.integers(7, 60)), 1 << requests.pick(*range(8)))
            if fetches != "none" and requests.pick(*range(8)) == 0  # it may change the timeout
            else None
        )
        answers = []
        for each, known in zip(brokers, ids, strict=True):
            frame = bytearray(frame_of(each.client, known, *request, timeout_ms=1 if fetches == "none" else 30_000))
            if change is not None and request[0] < 13:
                frame[min(change[0], len(frame) - 1)] ^= change[1]
            cut = draw.draw(st.integers(1, len(frame) - 1)) if requests.pick(*range(6)) == 0 else 0
            found = b"|".join(each.send(bytes(frame), cut))
            for topic_id in known.values():
                found = found.replace(topic_id, b"a topic's own id")
            answers.append(found)
        assert answers[0] == answers[1]
        for topic in topics:
            states = [each.node.run(partial(each.state, topic)) for each in brokers]
            assert states[0] == states[1]
        assert not counts_wakes or brokers[0].wakes == brokers[1].wakes
    for topic in topics:
        files = [each.node.run(partial(each.files, topic)) for each in brokers]
        assert files[0] == files[1]


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_that_wait_for_a_follower_are_plain(brokers: list[Broker], version: int) -> None:
    """Four requests in one write, before the follower fetches: they are answered in their order."""
    topic = f"replicated-{version}"
    found = []
    for broker in brokers:
        broker.node.node.router.quotas.is_active = False
        ids = {topic: broker.create(topic, {})}
        for index in range(PARTITIONS):
            broker.replicate(topic, index, "all")
        data = {topic: [{"index": index, "records": bytes(batch(b"a"))} for index in range(PARTITIONS)]}
        first = frame_of(broker.client, ids, version, data, -1, timeout_ms=30_000)
        assert len(broker.send(first)) == 1  # opens the lanes
        before = broker.plain
        answers = broker.send(first * 4)
        assert len(answers) == 4
        assert broker.plain - before == (4 if broker is brokers[0] else 0)
        found.append([each.replace(ids[topic], b"id") for each in answers])
        assert [each[0][1] for each in broker.node.run(partial(broker.state, topic))] == [5] * PARTITIONS
    assert found[0] == found[1]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("end", ["time", "leader", "offline"])
def test_a_wait_for_a_follower_that_fails(tmp_path: Path, version: int, end: str) -> None:
    """The response has the error, and the leader where the version has it; that of the other batch has none."""
    found = []
    for is_short in (True, False):
        with running_node(tmp_path / str(is_short), None) as node:
            broker = Broker(node, is_short=is_short)
            ids = {"topic": broker.create("topic", {})}
            broker.replicate("topic", 0, "none")
            data = {"topic": [{"index": index, "records": bytes(batch(b"a"))} for index in range(2)]}
            timeout_ms = 1 if end == "time" else 30_000
            broker.send(frame_of(broker.client, ids, version, data, 1))  # opens the lanes
            before = broker.plain
            partition = broker.partition("topic", 0)
            later = Timer(0.1, node.run, [partial(change, partition, end)])
            later.start()
            answers = broker.send(frame_of(broker.client, ids, version, data, -1, timeout_ms))
            later.join()
            assert broker.plain - before == is_short
            port = broker.client.socket.getpeername()[1].to_bytes(4)
            found.append([each.replace(ids["topic"], b"id").replace(port, b"port") for each in answers])
            node.close_clients()
    assert found[0] == found[1]
    codes = {
        "time": ErrorCode.REQUEST_TIMED_OUT,
        "leader": ErrorCode.NOT_LEADER_OR_FOLLOWER,
        "offline": ErrorCode.KAFKA_STORAGE_ERROR,
    }
    ((answer,),) = found[:1]
    assert b"\0\0\0\0" + codes[end].value.to_bytes(2) + (1).to_bytes(8) in answer
    assert b"\0\0\0\1" + bytes(2) + (1).to_bytes(8) in answer


def change(partition: Partition, end: str) -> None:
    """End the wait for the follower."""
    state = partition.state
    if end == "leader":
        partition.update(replace(state, leader=FOLLOWER, leader_epoch=state.leader_epoch + 1))
    elif end == "offline":
        partition.go_offline()


def usual(brokers: list[Broker], topic: str, version: int, acks: int, **fields: Any) -> int:
    """Send ten requests for all partitions to the broker with the short way; return how many of them the kernel
    answered."""
    broker = brokers[0]
    broker.now_ms = NOW_MS
    broker.node.node.router.quotas.is_active = False
    ids = {topic: broker.create(topic, {})}
    before = broker.plain
    for i in range(10):
        sequence = 2 * i if "producer" in fields else -1
        data = bytes(batch(b"a", b"b" * 1000, sequence=sequence, **fields))
        found = {topic: [{"index": index, "records": data} for index in range(PARTITIONS)]}
        answers = broker.send(frame_of(broker.client, ids, version, found, acks))
        assert len(answers) == (acks != 0)
    assert [each[0][3] for each in broker.node.run(lambda: broker.state(topic))] == [20] * PARTITIONS
    return broker.plain - before


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_usual_requests_are_plain(brokers: list[Broker], version: int, acks: int) -> None:
    assert usual(brokers, f"usual-{version}-{acks}", version, acks) == 9


@pytest.mark.parametrize("codec", range(1, 5))
def test_compressed_batches_are_plain(brokers: list[Broker], codec: int) -> None:
    assert usual(brokers, f"compressed-{codec}", 9, -1, codec=codec) == 9


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_without_its_payload_is_refused(brokers: list[Broker], codec: int) -> None:
    topic = f"cut-{codec}"
    usual(brokers, topic, 9, -1)
    broker = brokers[0]
    for payload_bytes in (0, 1):
        data = cut(batch(b"a", b"b", codec=codec), payload_bytes)
        (answer,) = broker.send(frame_of(broker.client, {}, 9, {topic: [{"index": 0, "records": data}]}, -1))
        code = ErrorCode.UNKNOWN_SERVER_ERROR if codec else ErrorCode.INVALID_RECORD
        assert b"\0\0\0\0" + code.value.to_bytes(2, signed=True) + b"\xff" * 8 in answer
    assert broker.partition(topic, 0).log.log_end_offset == 20


def test_idempotent_producers_are_plain(brokers: list[Broker]) -> None:
    assert usual(brokers, "idempotent", 10, -1, producer=(5, 0)) == 9


def test_zstd_is_plain_since_version_7(brokers: list[Broker]) -> None:
    assert usual(brokers, "zstd", 7, -1, codec=4) == 9
    broker = brokers[0]
    before = broker.plain
    found = {"zstd": [{"index": 0, "records": bytes(batch(b"a", codec=4))}]}
    (answer,) = broker.send(frame_of(broker.client, {}, 6, found, 1))
    assert ErrorCode.UNSUPPORTED_COMPRESSION_TYPE.value.to_bytes(2) in answer
    assert broker.plain == before


def test_a_topic_that_is_gone_has_no_lanes(brokers: list[Broker]) -> None:
    broker = brokers[0]
    lanes = broker.node.node.broker.lanes
    before = len(lanes)
    usual(brokers, "gone", 9, 1)
    assert len(lanes) == before + PARTITIONS
    broker.client.call("delete_topics", 6, topics=[{"name": "gone", "topic_id": None}], timeout=1000)
    assert len(lanes) == before
    found = {"gone": [{"index": 0, "records": bytes(batch(b"a"))}]}
    (answer,) = broker.send(frame_of(broker.client, {}, 9, found, 1))
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.value.to_bytes(2) in answer


def test_a_long_payload_is_not_plain(brokers: list[Broker]) -> None:
    """It is decompressed in a thread."""
    broker = brokers[0]
    usual(brokers, "long", 9, 1)
    before = broker.plain
    data = bytes(batch(bytes(5 << 20), codec=4))
    broker.send(frame_of(broker.client, {}, 9, {"long": [{"index": 0, "records": data}]}, 1))
    assert broker.plain == before
    assert broker.partition("long", 0).log.log_end_offset == 21


@pytest.mark.parametrize("acks", [0, 1])
def test_a_write_that_fails(tmp_path: Path, acks: int) -> None:
    """Each partition of the directory gets KAFKA_STORAGE_ERROR, or the connection is closed."""
    sign = tmp_path / "full"
    with running_node(tmp_path / "data", FullDisk(sign)) as node:
        broker = Broker(node, is_short=True)
        usual([broker], "full", 9, 1)
        before = broker.plain
        found = {"full": [{"index": index, "records": bytes(batch(b"a"))} for index in range(PARTITIONS)]}
        sign.write_text("full-*/*.log")
        (answer,) = broker.send(frame_of(broker.client, {}, 9, found, acks))
        node.close_clients()
        if acks:
            assert answer.count(b"\0" + ErrorCode.KAFKA_STORAGE_ERROR.value.to_bytes() + b"\xff" * 24) == PARTITIONS
            assert broker.plain == before + 1
        else:
            assert answer == b""


@pytest.mark.parametrize("version", [8, 9])
def test_frames_of_any_bytes(brokers: list[Broker], version: int) -> None:
    """The kernel reads a frame that is cut at every byte, or has each byte changed."""
    usual(brokers, f"bytes-{version}", version, 1)
    router = brokers[0].node.node.router
    data = bytes(batch(b"value"))
    found = {f"bytes-{version}": [{"index": 0, "records": data}, {"index": 1, "records": data}]}
    frame = frame_of(brokers[0].client, {}, version, found, 1)[4:]
    random = Random(1)

    def try_all() -> None:
        for size in range(len(frame)):
            assert router.broker.lanes.answer(memoryview(bytearray(frame[:size])), NOW_MS) is None
            changed = bytearray(frame)
            changed[size] ^= 1 << random.randrange(8)
            router.broker.lanes.answer(memoryview(changed), NOW_MS)

    brokers[0].node.run(try_all)
    assert router.broker.lanes.answer(memoryview(bytearray(frame + b"\0")), NOW_MS) is None

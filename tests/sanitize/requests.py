"""Frames of the wire protocol through formats.kernels.wire, against every schema that the broker checks with; plain
requests through formats.kernels.produce, group_requests, consumer_fetch and follower_fetch; responses through
fetch_response."""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Sequence
from functools import cache
from random import Random
from socket import socket, socketpair

from formats.batch_writer import write_batch
from formats.errors import FormatError
from formats.kernels.append import LogState
from formats.kernels.consumer_fetch import read_request as read_consumer_fetch
from formats.kernels.crc import crc32c
from formats.kernels.fetch_response import lay_out
from formats.kernels.follower_fetch import read_request, read_response
from formats.kernels.group_requests import Interval, KeptCommits, read_heartbeat, read_offset_commit
from formats.kernels.indexes import AppendIndexer
from formats.kernels.produce import ProduceLanes
from formats.kernels.wire import check, read_produce
from formats.txn_index import AbortedTxn
from formats.varint import uvarint
from kcli.broker.wire.fetch_layout import PartitionAnswer
from kcli.broker.wire.request_check import ITEMS_MAX, schema
from kcli.group.committed import CommittedOffset
from kcli.group.records import offset_record
from tests.damage import extreme, varint, wrapped
from tests.log.batches import NOW_MS, batch
from tests.runways import bare_runway
from tests.sanitize.logs import tight

TOPIC = b"\x00\x05topic"
NAMES = (b"t", b"topic")
FRAMES, FRAMES_OF_LANES, FRAMES_AT_ONCE, KNOWN = 500, 100, 4, 16


@cache
def schemas() -> list[array[int]]:
    """The schemas of requests with structs in arrays, tagged fields, and structs that may be null."""
    from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
    from kio.schema.create_topics.v7.request import CreateTopicsRequest
    from kio.schema.fetch.v17.request import FetchRequest
    from kio.schema.join_group.v9.request import JoinGroupRequest
    from kio.schema.metadata.v1.request import MetadataRequest
    from kio.schema.vote.v2.request import VoteRequest

    newer = (ConsumerGroupHeartbeatRequest, CreateTopicsRequest, FetchRequest, JoinGroupRequest, VoteRequest)
    return [schema(each) for each in (*newer, MetadataRequest)]


def frame(random: Random) -> bytes:
    """Return a frame of small numbers, lengths and names, as requests have them, with some that no request has."""
    parts = []
    for _ in range(random.choice((1, 5, 20, 60))):
        size = random.choice((1, 2, 4, 8))
        parts.append(
            random.choice(
                (
                    bytes(size),
                    wrapped(random.choice((1, 2, 3)), size),
                    wrapped(extreme(random), size),
                    varint(extreme(random)),
                    TOPIC,
                    b"\x06topic",
                    random.randbytes(size),
                )
            )
        )
    return b"".join(parts)


def produce(random: Random) -> bytes:
    """Return a Produce request, version 3 to 8, with changed numbers."""
    topics = b"".join(
        TOPIC + wrapped(2, 4) + (wrapped(0, 4) + wrapped(5, 4) + b"batch") * 2 for _ in range(random.choice((1, 3)))
    )
    data = bytearray(wrapped(-1, 2) + wrapped(-1, 2) + wrapped(1000, 4) + wrapped(topics.count(TOPIC), 4) + topics)
    for _ in range(random.choice((0, 1, 2))):
        at, size = random.randrange(len(data)), random.choice((1, 2, 4))
        data[at : at + size] = wrapped(extreme(random), size)
    return bytes(data[: random.choice((len(data), random.randrange(len(data) + 1)))])


class Led(LogState):
    """A partition that the broker leads, and its log. Every third write fails."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.log_end_offset = random.choice((0, 0, 0, 0, 5, 2**31))
        self.high_watermark = random.choice((0, self.log_end_offset))
        self.runway = bare_runway(
            self,
            write=self._write,
            indexer=AppendIndexer(0, random.choice((0, 100)), -1, -1, 0),
            size_max=random.choice((100, *[2**31 - 1] * 5)),
            offset_max=2**31 - 1,
            offset_slots=random.choice((0, *[9] * 7)),
            keyed=random.random() < 0.1,
        )

    def _write(self, *_: object) -> None:
        if self._random.random() < 0.3:
            raise OSError

    @property
    def lacks_replicas(self) -> bool:
        return self._random.random() < 0.1

    def plain_appended(self) -> int:
        return 0

    def appended_aside(self) -> None:
        """Do nothing: nobody waits."""

    def failed(self, _: Exception) -> None:
        self.runway = None


def plain_batch(random: Random) -> bytes:
    """Return a batch of any codec, sometimes with changed bytes, and then mostly with a corrected CRC."""
    codec = random.choice((0, 0, 1, 2, 3, 4))
    sequence = {"producer": (5, 0), "sequence": random.choice((0, 2))} if random.random() < 0.3 else {}
    data = batch(b"a" * random.choice((0, 3, 300)), b"b", codec=codec, **sequence)  # type: ignore[arg-type]
    for _ in range(random.choice((0, 0, 0, 0, 0, 1, 3))):
        data[random.randrange(len(data))] = random.choice((0, 1, 127, 128, 255))
        if random.random() < 0.8:
            data[17:21] = crc32c(data[21:]).to_bytes(4)
    return bytes(data)


def plain_produce(random: Random) -> bytes:
    """Return a plain Produce request; sometimes its numbers are changed, or it is cut."""
    version = random.randrange(3, 14)
    flexible = version >= 9

    def length(value: int, size: int = 4) -> bytes:
        return uvarint(value + 1) if flexible else wrapped(value, size)

    tags = b"\0" if flexible else b""
    topics = []
    for topic in random.sample(NAMES, random.choice((1, 1, 2))):
        parts = []
        for index in random.choice(((0,), (1,), (0, 1), (0, 1), (1, 0), (1, 0), (0, 0), (7,))):
            records = plain_batch(random)
            parts.append(wrapped(index, 4) + length(len(records)) + records + tags)
        name = bytes(16 - len(topic)) + topic if version >= 13 else length(len(topic), 2) + topic
        topics.append(name + length(len(parts)) + b"".join(parts) + tags)
    head = wrapped(0, 2) + wrapped(version, 2) + wrapped(9, 4) + random.choice((b"\xff\xff", b"\0\4test")) + tags
    body = (b"\0" if flexible else b"\xff\xff") + wrapped(random.choice((-1, 0, 1)), 2) + wrapped(1000, 4)
    data = bytearray(head + body + length(len(topics)) + b"".join(topics) + tags)
    for _ in range(random.choice((0, 0, 0, 1, 2))):
        at, size = random.randrange(min(len(data), 60)), random.choice((1, 2, 4))
        data[at : at + size] = wrapped(extreme(random), size)
    return bytes(data[: random.choice((*[len(data)] * 5, random.randrange(1, len(data) + 1)))])


def opened_lanes(random: Random) -> ProduceLanes[Led]:
    """Return the lanes of partitions that accept batches."""
    lanes: ProduceLanes[Led] = ProduceLanes(1 << 20)
    for topic in NAMES:
        for index in (0, 1):
            led = Led(random)
            lane = lanes.add(
                topic,
                bytes(16 - len(topic)) + topic,
                index,
                led,
                led,
                alone=random.random() < 0.5,
                watchers=({}, random.choice(({}, {1: 1}))),
            )
            if random.random() < 0.05:
                lane.close()
    return lanes


def answer_plain(random: Random) -> None:
    """Answer requests to partitions that accept batches: one after the other, or through a socket."""
    lanes = opened_lanes(random)
    frames = [plain_produce(random) for _ in range(random.choice((1, 2, 3)))]
    if random.random() < 0.5:
        for frame in frames:
            lanes.answer(tight(frame), NOW_MS)
    else:
        client, server = socketpair()
        with client, server:
            client.settimeout(0)
            server.settimeout(0)
            serve_plain(random, lanes, frames, (client, server))


@cache
def known_frames(number: int) -> list[bytes]:
    """Return one of KNOWN lists of plain Produce requests, some of them damaged."""
    random = Random(number)
    return [plain_produce(random) for _ in range(200)]


def many_frames(random: Random, n: int) -> None:
    """Answer FRAMES requests, most of them with a changed bit, a few at a time through a socket: the plain ones at the
    front together, the others one after the other."""
    known = known_frames(n % KNOWN)
    client, server = socketpair()
    with client, server:
        client.settimeout(0)
        server.settimeout(0)
        for first in range(0, FRAMES, FRAMES_AT_ONCE):
            if first % FRAMES_OF_LANES == 0:
                lanes = opened_lanes(random)
            frames = [bytearray(each) for each in random.choices(known, k=FRAMES_AT_ONCE)]
            for frame in frames:
                bit = random.getrandbits(32) % (14 * len(frame))  # beyond the frame's end: no bit is changed
                if bit < 8 * len(frame):
                    frame[bit >> 3] ^= 1 << (bit & 7)
            serve_plain(random, lanes, frames, (client, server))
            for frame in frames:
                lanes.answer(memoryview(frame), NOW_MS)


def serve_plain(
    random: Random, lanes: ProduceLanes[Led], frames: Sequence[bytes | bytearray], sockets: tuple[socket, socket]
) -> None:
    """Answer requests that come through a socket, in pieces of any size. sockets: a client's, and the broker's."""
    client, server = sockets
    odd = random.randrange(9 * len(frames))
    data = b"".join(
        wrapped(len(frame) + (extreme(random) if i == odd else 0), 4) + frame for i, frame in enumerate(frames)
    )
    kept = random.choice((0, 0, random.randrange(len(data))))
    buffer = memoryview(bytearray(data[:kept] + bytes(random.choice((1, 40, len(data), len(data))))))
    with contextlib.suppress(OSError):
        client.send(data[kept:])
        for _ in range(2):
            lanes.serve(server.fileno(), buffer, kept, random.choice((100, 1 << 20)), 1_000_000, NOW_MS)
    with contextlib.suppress(BlockingIOError):
        while server.recv(1 << 16):
            pass
    with contextlib.suppress(BlockingIOError):
        while client.recv(1 << 16):
            pass


def of_a_group(random: Random) -> bytes:
    """Return an OffsetCommit or Heartbeat of any version, with changed numbers."""
    key, version = random.choice((8, 12)), random.randrange(12)
    flexible = version >= (8 if key == 8 else 4)

    def text(value: bytes) -> bytes:
        return (uvarint(len(value) + 1) if flexible else wrapped(len(value), 2)) + value

    def count(value: int) -> bytes:
        return uvarint(value + 1) if flexible else wrapped(value, 4)

    tags = b"\0" if flexible else b""
    null = b"\0" if flexible else b"\xff\xff"
    head = wrapped(key, 2) + wrapped(version, 2) + wrapped(7, 4) + wrapped(4, 2) + b"name" + tags
    body = text(b"group") + wrapped(3, 4) + text(b"member") + (null if version >= (7 if key == 8 else 3) else b"")
    if key == 8:
        epoch = wrapped(-1, 4) if version >= 6 else b""
        partition = wrapped(1, 4) + wrapped(99, 8) + epoch + text(random.choice((b"", b"noted"))) + tags
        partitions = random.choice((0, 1, 3, 101))
        topic = bytes(16) if version >= 10 else text(b"topic")
        topics = random.choice((0, 1, 2))
        body += count(topics) + (topic + count(partitions) + partition * partitions + tags) * topics
    return changed(random, head + body + tags)


def repeat_commits(random: Random) -> None:
    """Keep a commit with a batch of as many records as it has partitions, or not; then commit again."""
    led = Led(random)
    lanes: ProduceLanes[Led] = ProduceLanes(0)
    lane = lanes.add(b"", bytes(16), 0, led, led, alone=random.random() < 0.9, watchers=({}, {}))
    interval, kept = Interval(lane), KeptCommits(random.choice((0, 5_000, 1 << 20))).at(0, NOW_MS)
    frames = [of_a_group(random) for _ in range(3)]
    for frame in frames:
        read = read_offset_commit(frame)
        count = 1 if read is None else sum(len(partitions) for _, partitions in read[5])
        value = CommittedOffset(99, NOW_MS, -1, random.choice(("", "noted", "e" * 200)))
        record = offset_record("group", "topic", 1, value)
        data = bytes(write_batch([record] * (count or 1), NOW_MS))
        data = data if random.random() < 0.7 else changed(random, data)
        kept.keep(tight(frame), tight(bytes(random.choice((0, 7, 8, 60)))), tight(data), interval, lambda *_: None)
    for frame in frames:
        for _ in range(2):
            kept.answer(tight(frame))
            kept.answer(tight(changed(random, frame or b"\0")))
    if random.random() < 0.1:
        random.choice((lane.close, interval.end))()
        assert kept.answer(tight(frames[0])) is None


def of_a_follower(random: Random) -> bytes:
    """Return a Fetch request of a follower, with changed numbers."""
    partition = (
        wrapped(1, 4) + wrapped(0, 4) + wrapped(99, 8) + wrapped(0, 4) + wrapped(0, 8) + wrapped(1 << 20, 4) + b"\0"
    )
    partitions = random.choice((0, 1, 3, 101))
    topics = random.choice((0, 1, 2))
    head = wrapped(1, 2) + wrapped(17, 2) + wrapped(7, 4) + wrapped(4, 2) + b"name\0"
    head += wrapped(500, 4) + wrapped(1, 4) + wrapped(1 << 20, 4) + b"\0" + wrapped(5, 4) + wrapped(6, 4)
    body = uvarint(topics + 1) + (bytes(16) + uvarint(partitions + 1) + partition * partitions + b"\0") * topics
    return changed(random, head + body + b"\1\1\1\1\x0d" + wrapped(9, 4) + wrapped(1, 8) + b"\0")


def of_a_consumer(random: Random) -> bytes:
    """Return a Fetch request of a consumer, of any version, with changed numbers."""
    version = random.randrange(3, 20)
    flexible = version >= 12

    def length(value: int, size: int = 4) -> bytes:
        return uvarint(value + 1) if flexible else wrapped(value, size)

    tags = b"\0" if flexible else b""
    partition = wrapped(1, 4) + (wrapped(0, 4) if version >= 9 else b"") + wrapped(99, 8)
    partition += (wrapped(-1, 4) if version >= 12 else b"") + (wrapped(-1, 8) if version >= 5 else b"")
    partition += wrapped(1 << 20, 4) + tags
    partitions, topics = random.choice((0, 1, 3, 17)), random.choice((0, 1, 2))
    topic = bytes(16) if version >= 13 else length(5, 2) + b"topic"
    head = wrapped(1, 2) + wrapped(version, 2) + wrapped(7, 4) + wrapped(4, 2) + b"name" + tags
    head += (wrapped(-1, 4) if version < 15 else b"") + wrapped(500, 4) + wrapped(1, 4) + wrapped(1 << 20, 4) + b"\1"
    head += wrapped(5, 4) + wrapped(6, 4) if version >= 7 else b""
    body = length(topics) + (topic + length(partitions) + partition * partitions + tags) * topics
    forgotten = length(0) if version >= 7 else b""
    return changed(random, head + body + forgotten + (length(4, 2) + b"rack" if version >= 11 else b"") + tags)


def answer_a_fetch(random: Random) -> None:
    """Lay out a Fetch response with absurd numbers and long names."""
    answers: list[tuple[str | bytes, PartitionAnswer]] = []
    for _ in range(random.choice((0, 1, 3, 20))):
        topic: str | bytes = random.choice((bytes(16), "topic", "\N{EURO SIGN}" * random.choice((1, 80))))
        aborted = random.choice((None, (), (AbortedTxn(0, -(2**63), 2**63 - 1, 0, 0),) * random.choice((1, 90))))
        offset = max(-(2**63), min(2**63 - 1, extreme(random)))
        index, code = random.choice((0, -(2**31))), random.choice((0, 6, -1))
        answer = PartitionAnswer(index, code, offset, -(2**63), 2**63 - 1, aborted)
        answer.region = random.choice((None, memoryview(bytes(random.choice((1, 300))))))
        answer.diverging = random.choice((None, (-(2**31), 2**63 - 1)))
        answer.leader = bytes(random.choice((0, 0, 9, 300)))
        answers.append((topic, answer))
    endpoints = bytes(random.choice((1, 1, 5000)))
    version = random.randrange(4, 19)
    _, parts = lay_out(version, -1, 2**31 - 1, answers, endpoints, error_code=-1, throttle_ms=2**31 - 1)
    assert sum(map(len, parts)) == int.from_bytes(parts[0][:4]) + 4


def to_a_follower(random: Random) -> bytes:
    """Return a Fetch response to a follower, with changed numbers."""
    topics, partitions, size = random.choice((0, 1, 2)), random.choice((0, 1, 3, 101)), random.choice((-1, 0, 300))
    records = uvarint(size + 1) + bytes(max(size, 0))
    partition = wrapped(1, 4) + bytes(2) + wrapped(9, 8) * 3 + b"\0" + wrapped(-1, 4) + records + b"\0"
    body = uvarint(topics + 1) + (bytes(16) + uvarint(partitions + 1) + partition * partitions + b"\0") * topics
    return changed(random, bytes(5) + bytes(4 + 2) + wrapped(5, 4) + body + b"\0")


def changed(random: Random, whole: bytes) -> bytes:
    """Return the bytes, sometimes with changed numbers, or cut."""
    data = bytearray(whole)
    for _ in range(random.choice((0, 0, 1, 2))):
        at, size = random.randrange(len(data)), random.choice((1, 2, 4))
        data[at : at + size] = wrapped(extreme(random), size)
    return bytes(data[: random.choice((len(data), len(data), random.randrange(len(data) + 1)))])


def run(random: Random) -> None:
    """Run one frame. A kernel may raise FormatError and UnicodeDecodeError (a ValueError)."""
    if random.random() < 0.5:
        answer_plain(random)
        return
    data = frame(random)
    position = random.choice((0, 0, 1, len(data), random.randrange(len(data) + 1), extreme(random)))
    position = max(-(2**63), min(2**63 - 1, position))
    limit = random.choice((ITEMS_MAX, 10, 0))
    for each in random.sample(schemas(), 3):
        with contextlib.suppress(FormatError):
            check(each, tight(data), position, limit)
    for version, body in ((random.randrange(3, 14), data), (random.randrange(3, 9), produce(random))):
        with contextlib.suppress(FormatError, ValueError):
            read_produce(tight(body), random.choice((0, 0, len(body))), version, limit)
    for whole in (data, of_a_group(random)):
        read_heartbeat(tight(whole))
        read_offset_commit(tight(whole))
    repeat_commits(random)
    for whole in (data, of_a_follower(random)):
        read_request(tight(whole))
    for whole in (data, of_a_consumer(random)):
        read_consumer_fetch(tight(whole), random.choice((0, 2, 16, 2**31 - 1)))
    answer_a_fetch(random)
    for whole in (data, to_a_follower(random)):
        answer = tight(whole)
        found = read_response(answer, random.choice((5, 5, 5, 0, position)))
        for _, partitions in () if found is None else found[1]:
            assert all(0 <= start <= start + max(size, 0) <= len(answer) for *_, start, size in partitions)

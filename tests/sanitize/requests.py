"""Frames of the wire protocol through formats.kernels.wire, against every schema that the broker checks with, and
through formats.kernels.group_requests."""

from __future__ import annotations

import contextlib
from array import array
from functools import cache
from random import Random

from formats.errors import FormatError
from formats.kernels.group_requests import read_heartbeat, read_offset_commit
from formats.kernels.wire import check, read_produce
from kcli.broker.wire.request_check import ITEMS_MAX, schema
from tests.damage import extreme, varint, wrapped
from tests.sanitize.logs import tight

TOPIC = b"\x00\x05topic"


@cache
def schemas() -> list[array[int]]:
    """Of requests with structs in arrays, tagged fields, structs that may be null."""
    from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
    from kio.schema.create_topics.v7.request import CreateTopicsRequest
    from kio.schema.fetch.v17.request import FetchRequest
    from kio.schema.join_group.v9.request import JoinGroupRequest
    from kio.schema.metadata.v1.request import MetadataRequest
    from kio.schema.vote.v2.request import VoteRequest

    newer = (ConsumerGroupHeartbeatRequest, CreateTopicsRequest, FetchRequest, JoinGroupRequest, VoteRequest)
    return [schema(each) for each in (*newer, MetadataRequest)]


def frame(random: Random) -> bytes:
    """Small numbers, lengths and names, as requests have them, with some that no request has."""
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
    """A Produce request, version 3 to 8, with numbers changed."""
    topics = b"".join(
        TOPIC + wrapped(2, 4) + (wrapped(0, 4) + wrapped(5, 4) + b"batch") * 2 for _ in range(random.choice((1, 3)))
    )
    data = bytearray(wrapped(-1, 2) + wrapped(-1, 2) + wrapped(1000, 4) + wrapped(topics.count(TOPIC), 4) + topics)
    for _ in range(random.choice((0, 1, 2))):
        at, size = random.randrange(len(data)), random.choice((1, 2, 4))
        data[at : at + size] = wrapped(extreme(random), size)
    return bytes(data[: random.choice((len(data), random.randrange(len(data) + 1)))])


def of_a_group(random: Random) -> bytes:
    """An OffsetCommit or a Heartbeat of any version, with numbers changed."""
    key, version = random.choice((8, 12)), random.randrange(12)
    flexible = version >= (8 if key == 8 else 4)

    def text(value: bytes) -> bytes:
        return (varint(len(value) + 1) if flexible else wrapped(len(value), 2)) + value

    def count(value: int) -> bytes:
        return varint(value + 1) if flexible else wrapped(value, 4)

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
    data = bytearray(head + body + tags)
    for _ in range(random.choice((0, 0, 1, 2))):
        at, size = random.randrange(len(data)), random.choice((1, 2, 4))
        data[at : at + size] = wrapped(extreme(random), size)
    return bytes(data[: random.choice((len(data), len(data), random.randrange(len(data) + 1)))])


def run(random: Random) -> None:
    """One frame; a FormatError or UnicodeDecodeError (a ValueError) is what a kernel may say."""
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

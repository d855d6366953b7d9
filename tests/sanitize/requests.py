"""Frames of the wire protocol through formats.kernels.wire, against every schema that the broker checks with."""

from __future__ import annotations

import contextlib
from array import array
from functools import cache
from random import Random

from formats.errors import FormatError
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

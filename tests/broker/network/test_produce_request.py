"""The kernel reads a Produce request as kio does, at every version, and refuses one that is cut."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from formats.errors import BadValue, FormatError, LimitExceeded
from formats.kernels.wire import read_produce
from kcli.broker.wire.apis import APIS, is_flexible
from kcli.broker.wire.messages import (
    HEADER,
    PRODUCE_ITEMS_AT_ONCE,
    BadRequest,
    messages,
    read_body,
    read_header,
    read_request,
    read_short_produce,
)
from kcli.broker.wire.produce_request import ProduceRequest, read
from kcli.broker.wire.request_check import ITEMS_MAX
from tests.broker.network.test_request_check import UNKNOWN, body_of

PRODUCE = APIS[0]
VERSIONS = range(PRODUCE.least, PRODUCE.most + 1)


def values(request: Any) -> object:
    """All that a request says."""
    ms = request.timeout if isinstance(request, ProduceRequest) else round(request.timeout.total_seconds() * 1000)
    topics = [
        (
            getattr(topic, "name", None),
            getattr(topic, "topic_id", None),
            [(each.index, None if each.records is None else bytes(each.records)) for each in topic.partition_data],
        )
        for topic in request.topic_data
    ]
    return request.transactional_id, request.acks, ms, topics


@pytest.mark.parametrize("version", VERSIONS)
def test_as_kio_reads_it(version: int) -> None:
    kind = messages(PRODUCE.key, version)
    random = Random(version)
    for _ in range(50):
        data = body_of(random, PRODUCE.key, version)
        expected, size = kind.read(data, 0)
        assert size == len(data)
        frame = memoryview(bytearray(b"front" + data))
        assert values(read(version, frame, 5)) == values(expected)
        if is_flexible(PRODUCE.key, version):
            newer = memoryview(bytearray(data[:-1] + UNKNOWN))
            assert values(read(version, newer, 0)) == values(expected)
        for cut in range(0, len(data), max(1, len(data) // 50)):
            with pytest.raises(FormatError):
                read(version, memoryview(bytearray(data[:cut])), 0)


def test_batches_are_views_of_the_frame() -> None:
    frame = memoryview(bytearray(b"\xff\xff\xff\xff\0\0\0\5\0\0\0\1\0\1t\0\0\0\1\0\0\0\3\0\0\0\2ab"))
    (topic,) = read(3, frame, 0).topic_data
    (each,) = topic.partition_data
    assert each.records is not None
    frame[-1] = ord("c")
    assert bytes(each.records) == b"ac"


@pytest.mark.parametrize("over", [0, 1])
@pytest.mark.parametrize("count", [1, 10])
def test_a_request_of_many_partitions_is_not_decoded_at_once(count: int, over: int) -> None:
    """count: the topics; all topics and partitions together are at the limit, or one over it."""
    kind = messages(PRODUCE.key, 9)
    partitions = PRODUCE_ITEMS_AT_ONCE - count + over
    topics = [partitions // count + (i < partitions % count) for i in range(count)]
    body = b"\0" + b"\xff\xff" + bytes(4) + varint(count + 1)
    for number in topics:
        body += b"\2t" + varint(number + 1) + number * (bytes(4) + b"\0" + b"\0") + b"\0"
    frame = memoryview(bytearray(HEADER.pack(PRODUCE.key, 9, 7, -1) + b"\0" + body + b"\0"))
    found = read_short_produce(kind, frame, read_header(frame))
    assert (found is None) == bool(over)
    if found is not None:
        assert [len(each.partition_data) for each in found.topic_data] == topics
    assert len(read_body(kind, frame, read_header(frame)).topic_data) == count
    with pytest.raises(BadRequest):
        read_body(kind, frame[: 1 + len(frame) // 2], read_header(frame))
    if not over:
        with pytest.raises(BadRequest):
            read_short_produce(kind, frame[: 1 + len(frame) // 2], read_header(frame))


def varint(number: int) -> bytes:
    """An unsigned varint of up to 14 bits."""
    return bytes([number]) if number < 128 else bytes([number & 127 | 128, number >> 7])


@pytest.mark.parametrize(
    ("version", "body", "error"),
    [
        (3, "ffff ffff 00000005 ffffffff", BadValue),  # no topics
        (3, "ffff ffff 00000005 00000001 ffff", BadValue),  # no name
        (3, "ffff ffff 00000005 7fffffff 0000", FormatError),
        (3, "fffe ffff 00000005 00000000", FormatError),
        (9, "00 ffff 00000005 ffffffffff7f", FormatError),
        (9, "00 ffff 00000005 02 0274 ffffffff7f", FormatError),
        (9, "00 ffff 00000005 01 01 00 ffffffff0f", FormatError),  # a tag longer than the request
        (9, "818002" + "74" * 32_768 + "ffff 00000005 01 00", FormatError),
    ],
)
def test_bytes_that_are_no_request(version: int, body: str, error: type[Exception]) -> None:
    frame = memoryview(bytearray.fromhex(body))
    with pytest.raises(error):
        read(version, frame, 0)
    with pytest.raises(BadRequest):
        read_request(messages(PRODUCE.key, version), frame, 0)


def test_items_are_counted() -> None:
    """The topics' and the partitions' together."""
    partitions = b"\0\0\0\0\0" * 4  # index, no records
    frame = memoryview(bytearray(b"\0\0\1\0\0\0\5\2\2t\5" + partitions.replace(b"\0" * 5, b"\0" * 6) + b"\0\0"))
    assert len(read_produce(frame, 0, 9, 5)[3][0][1]) == 4
    with pytest.raises(LimitExceeded):
        read_produce(frame, 0, 9, 4)
    assert ITEMS_MAX > 1_000_000

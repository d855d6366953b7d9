"""The kernel reads OffsetCommit and Heartbeat as kio does, and writes the responses that kio writes. It leaves requests
that are not ordinary to kio."""

from __future__ import annotations

import struct
from random import Random
from typing import Any
from uuid import UUID

import pytest

from formats.kernels.group_requests import read_heartbeat, read_offset_commit
from kcli.broker.wire import member_layout
from kcli.broker.wire.apis import APIS, is_flexible
from kcli.broker.wire.messages import messages
from kcli.broker.wire.offset_commit_layout import lay_out
from tests.broker.network.test_request_check import UNKNOWN, body_of

OFFSET_COMMIT, HEARTBEAT = APIS[8], APIS[12]
COMMIT_VERSIONS = range(5, OFFSET_COMMIT.most + 1)
HEARTBEAT_VERSIONS = range(HEARTBEAT.least, HEARTBEAT.most + 1)
CORRELATION_ID = 0x01020304
ITEMS_MAX = 100


def framed(key: int, version: int, body: bytes, client_id: bytes | None = b"client") -> bytes:
    """A request without the size in front."""
    head = struct.pack(">hhih", key, version, CORRELATION_ID, -1 if client_id is None else len(client_id))
    return head + (client_id or b"") + (b"\0" if is_flexible(key, version) else b"") + body


def commit_values(request: Any) -> tuple[Any, ...]:
    topics = [
        (
            topic.name if hasattr(topic, "name") else (topic.topic_id or UUID(int=0)).bytes,
            [
                (
                    each.partition_index,
                    each.committed_offset,
                    getattr(each, "committed_leader_epoch", -1),
                    each.committed_metadata,
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    instance_id = getattr(request, "group_instance_id", None)
    return request.group_id, request.generation_id_or_member_epoch, request.member_id, instance_id, topics


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_offset_commit_as_kio_reads_it(version: int) -> None:
    kind = messages(OFFSET_COMMIT.key, version)
    random, taken = Random(version), 0
    for _ in range(100):
        body = body_of(random, OFFSET_COMMIT.key, version)
        request, _ = kind.read(body, 0)
        read = read_offset_commit(framed(OFFSET_COMMIT.key, version, body))
        if read is None:
            assert sum(len(topic.partitions) for topic in request.topics) > ITEMS_MAX
            continue
        taken += 1
        assert read[0] == version
        assert read[1:6] == commit_values(request)
        topics: list[Any] = [
            (key if isinstance(key, str) else UUID(bytes=key), tuple((each[0], 0) for each in partitions))
            for key, partitions in read[5]
        ]
        assert [bytes(read[6])] == [bytes(part) for part in lay_out(kind, CORRELATION_ID, topics)]  # type: ignore[arg-type]
    assert taken > 50


@pytest.mark.parametrize("version", HEARTBEAT_VERSIONS)
def test_heartbeat_as_kio_reads_it(version: int) -> None:
    kind = messages(HEARTBEAT.key, version)
    random = Random(version)
    for _ in range(50):
        body = body_of(random, HEARTBEAT.key, version)
        request, _ = kind.read(body, 0)
        read = read_heartbeat(framed(HEARTBEAT.key, version, body, None))
        assert read is not None
        instance_id = getattr(request, "group_instance_id", None)
        assert read[:4] == (request.group_id, request.generation_id, request.member_id, instance_id)
        assert [bytes(read[4])] == [bytes(part) for part in member_layout.heartbeat(kind, CORRELATION_ID, 0)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "version"),
    [*((OFFSET_COMMIT.key, each) for each in COMMIT_VERSIONS), *((HEARTBEAT.key, each) for each in HEARTBEAT_VERSIONS)],
)
def test_what_is_not_ordinary_is_left_to_kio(key: int, version: int) -> None:
    read: Any = read_offset_commit if key == OFFSET_COMMIT.key else read_heartbeat
    other: Any = read_heartbeat if key == OFFSET_COMMIT.key else read_offset_commit
    random = Random(version)
    for _ in range(20):
        body = body_of(random, key, version)
        whole = framed(key, version, body)
        assert other(whole) is None, "another API"
        for cut in range(0, len(whole), max(1, len(whole) // 50)):
            assert read(whole[:cut]) is None
        assert read(whole + b"\0") is None, "bytes behind the request"
        assert read(framed(key, 99, body)) is None
        if is_flexible(key, version):
            assert read(framed(key, version, body[:-1] + UNKNOWN)) is None, "a tagged field"
            assert read(whole.replace(b"client\0", b"client" + UNKNOWN, 1)) is None, "a tagged field of the header"


def test_strings_that_are_not_utf_8_and_numbers_in_too_many_bytes_are_left_to_kio() -> None:
    heartbeat = b"\x06group\0\0\0\1\x07member\0\0"
    assert read_heartbeat(framed(12, 4, heartbeat)) is not None
    assert read_heartbeat(framed(12, 4, heartbeat.replace(b"group", b"gro\xffp"))) is None
    assert read_heartbeat(framed(12, 4, heartbeat.replace(b"\x06group", b"\x86\0group"))) is None
    assert read_heartbeat(framed(12, 4, b"\0" + heartbeat[6:])) is None, "no group id"

"""The kernel that reads followers' Fetches reads what kio reads, or nothing."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

from formats.kernels.follower_fetch import read_request, read_response
from kcli.broker.network.peers import request_frame
from kcli.broker.wire import fetch_request, fetch_response
from kcli.broker.wire.messages import messages, read_body, read_header
from tests.damage import extreme
from tests.sanitize.requests import of_a_follower, to_a_follower

KIND = messages(1, fetch_request.VERSION)


def request(random: Random) -> bytes:
    """A follower's Fetch, without its size."""
    topics = [
        {
            "topic_id": UUID(int=random.randrange(1, 9)),
            "partitions": [
                {
                    "partition": random.randrange(100),
                    "current_leader_epoch": random.randrange(-1, 9),
                    "fetch_offset": max(-(2**63), min(2**63 - 1, extreme(random))),
                    "last_fetched_epoch": random.randrange(-1, 9),
                    "log_start_offset": random.randrange(1 << 40),
                    "partition_max_bytes": random.randrange(1 << 30),
                }
                for _ in range(random.choice((0, 1, 3)))
            ],
        }
        for _ in range(random.choice((0, 1, 3)))
    ]
    body = fetch_request.lay_out(
        {
            "replica_state": {"replica_id": 9, "replica_epoch": random.randrange(-1, 1 << 40)},
            "max_wait": random.randrange(1000),
            "min_bytes": 1,
            "max_bytes": random.randrange(1 << 30),
            "session_id": random.randrange(1, 1 << 31),
            "session_epoch": random.randrange(1, 1 << 31),
            "topics": topics,
            "forgotten_topics_data": [],
        }
    )
    return request_frame(KIND, random.choice(("", "broker-9")), 7, body)[4:]  # type: ignore[arg-type]


def by_kio(frame: bytes) -> Any:
    """Return what kio reads, as the kernel returns it."""
    header = read_header(memoryview(frame))
    found: Any = read_body(KIND, memoryview(frame), header)
    partitions = [
        (
            ((UUID(int=0) if topic.topic_id is None else topic.topic_id).bytes, each.partition),
            (
                each.fetch_offset,
                each.partition_max_bytes,
                each.current_leader_epoch,
                each.last_fetched_epoch,
                each.log_start_offset,
            ),
        )
        for topic in found.topics
        for each in topic.partitions
    ]
    replica = found.replica_state.replica_id, found.replica_state.replica_epoch
    wait_ms = round(found.max_wait.total_seconds() * 1000)
    limits = wait_ms, found.min_bytes, found.max_bytes
    return header.correlation_id, replica, *limits, found.session_id, found.session_epoch, partitions


def test_requests_are_read_as_kio_reads_them() -> None:
    for seed in range(200):
        frame = request(Random(seed))
        assert read_request(frame) == by_kio(frame)
        assert all(read_request(frame[:size]) is None for size in range(len(frame)))
        assert read_request(frame + b"\0") is None


def test_damaged_requests_are_read_as_kio_reads_them() -> None:
    taken = 0
    for seed in range(3000):
        frame = of_a_follower(Random(seed))
        found = read_request(frame)
        if found is not None:
            taken += 1
            assert found == by_kio(frame)
    assert taken > 300


def test_responses_are_read_as_without_the_kernel() -> None:
    taken = 0
    for seed in range(3000):
        frame = memoryview(to_a_follower(Random(seed)))
        if read_response(frame, 5) is not None:
            taken += 1
            assert fetch_response.read(frame, 5) == fetch_response._Reader(frame, 5).response()
    assert taken > 300

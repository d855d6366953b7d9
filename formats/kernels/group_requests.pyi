from collections.abc import Callable
from typing import Self

from typing_extensions import Buffer

from formats.kernels.produce import Lane, PlainRequests

def read_offset_commit(
    frame: memoryview | bytes,
) -> (
    tuple[int, str, int, str, str | None, list[tuple[str | bytes, list[tuple[int, int, int, str | None]]]], bytearray]
    | None
):
    """Return (version, group, generation, member, instance, topics, answer) of an ordinary OffsetCommit, version 5 to
    10, else None.

    topics: [(name, or id of 16 bytes from version 10 on, [(index, offset, leader epoch, metadata or None), ...]), ...].
    answer: the response's whole frame, in which every error is NONE and the throttle time is 0. Source:
    OffsetCommitRequest.json, OffsetCommitResponse.json."""

def read_heartbeat(frame: memoryview | bytes) -> tuple[str, int, str, str | None, bytearray] | None:
    """Return (group, generation, member, instance, answer) of an ordinary Heartbeat, version 0 to 4, else None. answer:
    the response's whole frame, with the error NONE and the throttle time 0. Source: HeartbeatRequest.json,
    HeartbeatResponse.json."""

class Interval:
    def __init__(self, lane: Lane) -> None: ...
    @property
    def is_open(self) -> bool: ...
    def end(self) -> None: ...

class KeptCommits(PlainRequests):
    def __init__(self, bytes_max: int) -> None: ...
    def __len__(self) -> int: ...
    def at(self, version: int, now_ms: int) -> Self: ...
    def keep(
        self,
        frame: memoryview | bytes,
        answer: Buffer,
        batch: Buffer,
        interval: Interval,
        apply: Callable[[int, int, list[tuple[int, int]]], object],
    ) -> None: ...
    def answer(self, frame: memoryview | bytes) -> bytes | None: ...

"""Decodes the Fetch response of another broker. Its records are views of the received frame, and are not copied. Only
versions with topic ids (13+), which brokers use between each other, are supported. The fields have the names that kio
gives them.

    throttle_time_ms int32, error_code int16, session_id int32 | topics | tagged fields: 0 endpoints of leaders
    topic      id | partitions | tagged fields
    partition  index int32, error int16, high watermark int64, last stable offset int64, log start offset int64,
               aborted transactions (nullable; producer id int64, first offset int64), preferred replica int32,
               records (nullable bytes) | tagged fields: 0 diverging epoch, 1 current leader, 2 snapshot id

Source: FetchResponse.json.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

from formats.errors import FormatError
from formats.kernels.follower_fetch import read_response
from kcli.protocol.error_code import ErrorCode

LEAST: Final = 13
UNKNOWN: Final = -1
_HEAD: Final = struct.Struct(">ihi")
_PARTITION: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qq")
_EPOCH_OFFSET, _ID_EPOCH, _OFFSET_EPOCH = struct.Struct(">iq"), struct.Struct(">ii"), struct.Struct(">qi")
_INT32: Final = struct.Struct(">i")


class EpochEndOffset(NamedTuple):
    """The point at which the follower's log diverges from the leader's: the leader's largest epoch that is at most the
    follower's last fetched epoch, and the end offset of that epoch in the leader's log. Both are -1 if the logs do not
    diverge."""

    epoch: int = -1
    end_offset: int = -1


class LeaderIdAndEpoch(NamedTuple):
    """A partition's leader and leader epoch, as the responding broker knows them; both are -1 if not in the
    response."""

    leader_id: int = -1
    leader_epoch: int = -1


class SnapshotId(NamedTuple):
    """The snapshot of the metadata log to fetch, as the leader's log begins above the fetch offset (KRaft): the end
    offset and epoch in its name, both -1 if no snapshot is needed."""

    end_offset: int = -1
    epoch: int = -1


class NodeEndpoint(NamedTuple):
    """The address of a partition leader in the response. rack: None for a broker without a rack."""

    node_id: int
    host: str
    port: int
    rack: str | None


class AbortedTransaction(NamedTuple):
    """An aborted transaction, as a Fetch with isolation level read_committed lists it."""

    producer_id: int
    first_offset: int


NOT_DIVERGING, NO_LEADER, NO_SNAPSHOT = EpochEndOffset(), LeaderIdAndEpoch(), SnapshotId()


@dataclass(slots=True)
class PartitionData:
    """One partition's part of a Fetch response. aborted_transactions, records: None for null."""

    partition_index: int
    error_code: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: tuple[AbortedTransaction, ...] | None
    preferred_read_replica: int
    records: memoryview | None
    diverging_epoch: EpochEndOffset = NOT_DIVERGING
    current_leader: LeaderIdAndEpoch = NO_LEADER
    snapshot_id: SnapshotId = NO_SNAPSHOT


@dataclass(slots=True)
class FetchableTopicResponse:
    """One topic's part of a Fetch response. topic_id: None for the id of zeros."""

    topic_id: UUID | None
    partitions: tuple[PartitionData, ...]


@dataclass(slots=True)
class FetchResponse:
    """A Fetch response. throttle_time: in ms."""

    throttle_time: int
    error_code: ErrorCode
    session_id: int
    responses: tuple[FetchableTopicResponse, ...]
    node_endpoints: tuple[NodeEndpoint, ...] = ()


def read(frame: memoryview, position: int) -> FetchResponse:
    """Return the response whose body begins at `position` of its frame. Raises FormatError, UnicodeDecodeError."""
    plain = read_response(frame, position)
    if plain is not None:
        return _plain(frame, *plain)
    try:
        return _Reader(frame, position).response()
    except (struct.error, IndexError):
        raise FormatError("FetchResponse ends too early", len(frame)) from None


def _plain(
    frame: memoryview, session_id: int, topics: list[tuple[bytes, list[tuple[int, int, int, int, int, int]]]]
) -> FetchResponse:
    """Return the response that formats.kernels.follower_fetch has read. topics: pairs of a topic id and its partitions;
    each partition is a tuple of the index, the high watermark, the last stable offset, the log start offset, and the
    position in the frame and the size of its records (a negative size for null)."""
    found = []
    for topic_id, items in topics:
        partitions = []
        for index, high_watermark, last_stable, log_start, start, size in items:
            records = None if size < 0 else frame[start : start + size]
            offsets = high_watermark, last_stable, log_start
            partitions.append(PartitionData(index, ErrorCode.NONE, *offsets, None, UNKNOWN, records))
        found.append(FetchableTopicResponse(_topic_id(topic_id), tuple(partitions)))
    return FetchResponse(0, ErrorCode.NONE, session_id, tuple(found))


class _Reader:
    def __init__(self, frame: memoryview, position: int) -> None:
        self.frame, self.position = frame, position

    def response(self) -> FetchResponse:
        throttle_ms, error, session_id = self.unpack(_HEAD)
        topics = tuple([self.topic() for _ in range(self.length())])
        endpoints: tuple[NodeEndpoint, ...] = ()
        for tag, value in self.tagged():
            if tag == 0:
                endpoints = tuple([value.endpoint() for _ in range(value.length())])
        return FetchResponse(throttle_ms, ErrorCode(error), session_id, topics, endpoints)

    def topic(self) -> FetchableTopicResponse:
        topic_id = _topic_id(bytes(self.take(16)))
        partitions = tuple([self.partition() for _ in range(self.length())])
        self.tagged()
        return FetchableTopicResponse(topic_id, partitions)

    def partition(self) -> PartitionData:
        index, error, high_watermark, last_stable, log_start = self.unpack(_PARTITION)
        count = self.varint() - 1
        aborted = None if count < 0 else tuple([self.aborted() for _ in range(count)])
        (preferred,) = self.unpack(_INT32)
        size = self.varint() - 1
        records = None if size < 0 else self.take(size)
        code = ErrorCode.NONE if error == 0 else ErrorCode(error)
        found = PartitionData(index, code, high_watermark, last_stable, log_start, aborted, preferred, records)
        for tag, value in self.tagged():
            if tag == 0:
                found.diverging_epoch = EpochEndOffset(*value.unpack(_EPOCH_OFFSET))
            elif tag == 1:
                found.current_leader = LeaderIdAndEpoch(*value.unpack(_ID_EPOCH))
            elif tag == 2:
                found.snapshot_id = SnapshotId(*value.unpack(_OFFSET_EPOCH))
        return found

    def aborted(self) -> AbortedTransaction:
        found = AbortedTransaction(*self.unpack(_ABORTED))
        self.tagged()
        return found

    def endpoint(self) -> NodeEndpoint:
        (node_id,) = self.unpack(_INT32)
        host = str(self.take(self.length()), "utf-8")
        (port,) = self.unpack(_INT32)
        size = self.varint() - 1
        rack = None if size < 0 else str(self.take(size), "utf-8")
        self.tagged()
        return NodeEndpoint(node_id, host, port, rack)

    def tagged(self) -> list[tuple[int, _Reader]]:
        if self.frame[self.position] == 0:
            self.position += 1
            return []
        return [(self.varint(), _Reader(self.take(self.varint()), 0)) for _ in range(self.varint())]

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        found = layout.unpack_from(self.frame, self.position)
        self.position += layout.size
        return found

    def take(self, size: int) -> memoryview:
        begin, self.position = self.position, self.position + size
        if size < 0 or self.position > len(self.frame):
            raise IndexError
        return self.frame[begin : self.position]

    def length(self) -> int:
        return max(self.varint() - 1, 0)

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.frame[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise FormatError("a varint of more than 5 bytes", self.position)


@lru_cache(4096)
def _topic_id(data: bytes) -> UUID | None:
    return UUID(bytes=data) if any(data) else None

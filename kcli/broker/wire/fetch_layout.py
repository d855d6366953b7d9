"""Encodes Fetch's response without kio, around regions of log files, so that records go from the page cache to the
socket.

    throttle_time_ms int32 | error_code int16, session_id int32 (7+) | topics | tagged fields (12+)
    topic      name (4-12) or id (13+) | partitions | tagged fields (12+)
    partition  index int32, error int16, high watermark int64, last stable offset int64, log start offset int64 (5+),
               aborted transactions (nullable; producer id int64, first offset int64), preferred replica int32 (11+),
               records (nullable bytes) | tagged fields (12+): 0 diverging epoch, 1 current leader

Lengths are int32, compact (length + 1 as a varint) from version 12 on. Source: FetchResponse.json.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from formats.txn_index import AbortedTxn
from formats.varint import uvarint
from kcli.broker.wire.answers import Laid, Part
from kcli.broker.wire.layout import NO_TAGS, length, string
from kcli.broker.wire.messages import Messages
from kcli.log.live.segments import FileRegion

START_OFFSET, SESSIONS, PREFERRED_REPLICA, FLEXIBLE, TOPIC_IDS = 5, 7, 11, 12, 13
UNKNOWN = -1
_PARTITION = struct.Struct(">ihqq")
_PLAIN = struct.Struct(">ihqqqbi")
_ABORTED = struct.Struct(">qq")
_DIVERGING = struct.Struct(">iq")


@dataclass(slots=True)
class PartitionAnswer:
    """One partition's part of the response. An offset is -1 if unknown. region: the records, None for none; those of
    tiered storage are in memory. aborted: the aborted transactions among the records; None, for a null array, with
    read_uncommitted.

    diverging: the point at which the follower's log diverges from this log: this log's largest leader epoch that is at
    most the follower's last fetched epoch, and the end offset of that epoch; None if the logs do not diverge. leader:
    the encoded field `current_leader`, see client_view/current_leader.py.
    """

    index: int
    error_code: int = 0
    high_watermark: int = UNKNOWN
    last_stable_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    aborted: tuple[AbortedTxn, ...] | None = None
    region: FileRegion | memoryview | None = None
    diverging: tuple[int, int] | None = None
    preferred_replica: int = UNKNOWN
    leader: bytes = b""

    @property
    def size(self) -> int:
        """The size of the records, in bytes."""
        region = self.region
        if region is None:
            return 0
        return region.length if isinstance(region, FileRegion) else len(region)


class FetchFrame:
    """The frame of a response, to which partitions are added one after another. Consecutive partitions of the same
    topic become one topic of the response."""

    def __init__(self, kind: Messages) -> None:
        self._kind = kind
        self._is_flexible = kind.version >= FLEXIBLE
        # in both lists, _topics and _partitions, the last part is always a bytearray, to which fields can be appended
        self._topics: list[Part] = [bytearray()]
        self._topic_count = 0
        self._topic: str | bytes = ""
        self._partitions: list[Part] = [bytearray()]
        self._partition_count = 0

    def add(self, topic: str | bytes, answer: PartitionAnswer) -> None:
        """Add a partition to the response. topic: the topic's name, or from version 13 on the bytes of the topic's
        id."""
        if self._partition_count and topic != self._topic:
            self._end_topic()
        self._topic = topic
        self._partition_count += 1
        flexible = self._is_flexible
        part = self._partitions[-1]
        assert isinstance(part, bytearray), "regions have a part behind them"
        if flexible and not answer.aborted:
            # 0 is the encoded length of a null array, 1 that of an empty one
            aborted = 0 if answer.aborted is None else 1
            part += _PLAIN.pack(
                answer.index,
                answer.error_code,
                answer.high_watermark,
                answer.last_stable_offset,
                answer.log_start_offset,
                aborted,
                answer.preferred_replica,
            )
        else:
            _head_of(answer, self._kind.version, part)
        part += length(answer.size, flexible=flexible)
        if answer.region is not None:
            part = bytearray()
            self._partitions += answer.region, part
        if flexible:
            part += _tagged(answer)

    def _end_topic(self) -> None:
        topic, flexible = self._topic, self._is_flexible
        part, first, last = self._topics[-1], self._partitions[0], self._partitions[-1]
        assert isinstance(part, bytearray), "regions have a part behind them"
        assert isinstance(first, bytearray), "regions have a part before them"
        assert isinstance(last, bytearray), "regions have a part behind them"
        part += topic if isinstance(topic, bytes) else string(topic, flexible=flexible)
        part += length(self._partition_count, flexible=flexible)
        if flexible:
            last += NO_TAGS
        part += first
        self._topics += self._partitions[1:]
        self._topic_count += 1
        self._partitions, self._partition_count = [bytearray()], 0

    def whole(
        self,
        correlation_id: int,
        session_id: int,
        *,
        error_code: int = 0,
        throttle_ms: int = 0,
        endpoints: bytes = NO_TAGS,
    ) -> Laid:
        """Return the frame, in parts, with all partitions that were added. Call this once. endpoints: the encoded
        tagged fields at the end of the response (12+), with the endpoints of the leaders; see
        client_view/current_leader.py."""
        if self._partition_count:
            self._end_topic()
        head = bytearray(4) + self._kind.response_header(correlation_id)
        parts = Laid([head])
        parts.throttle_at = len(head)
        head += throttle_ms.to_bytes(4)
        if self._kind.version >= SESSIONS:
            head += struct.pack(">hi", error_code, session_id)
        head += length(self._topic_count, flexible=self._is_flexible)
        first, last = self._topics[0], self._topics[-1]
        assert isinstance(first, bytearray), "regions have a part before them"
        assert isinstance(last, bytearray), "regions have a part behind them"
        if self._is_flexible:
            last += endpoints
        head += first
        parts += self._topics[1:]
        total = sum(part.length if isinstance(part, FileRegion) else len(part) for part in parts)
        struct.pack_into(">i", head, 0, total - 4)
        return parts


def lay_out(kind: Messages, correlation_id: int, session_id: int, *, error_code: int = 0, throttle_ms: int = 0) -> Laid:
    """Return the frame of a response without partitions."""
    return FetchFrame(kind).whole(correlation_id, session_id, error_code=error_code, throttle_ms=throttle_ms)


def _head_of(answer: PartitionAnswer, version: int, part: bytearray) -> None:
    """Append the fields of a partition that precede its records."""
    part += _PARTITION.pack(answer.index, answer.error_code, answer.high_watermark, answer.last_stable_offset)
    if version >= START_OFFSET:
        part += answer.log_start_offset.to_bytes(8, signed=True)
    flexible = version >= FLEXIBLE
    if answer.aborted is None:
        part += b"\0" if flexible else b"\xff\xff\xff\xff"
    else:
        part += length(len(answer.aborted), flexible=flexible)
        for each in answer.aborted:
            part += _ABORTED.pack(each.producer_id, each.first_offset)
            if flexible:
                part += NO_TAGS
    if version >= PREFERRED_REPLICA:
        part += answer.preferred_replica.to_bytes(4, signed=True)


def _tagged(answer: PartitionAnswer) -> bytes:
    if answer.diverging is None and not answer.leader:
        return b"\0"
    fields = []
    if answer.diverging is not None:
        fields.append((0, _DIVERGING.pack(*answer.diverging) + b"\0"))
    if answer.leader:
        fields.append((1, answer.leader))
    encoded = (uvarint(tag) + uvarint(len(value)) + value for tag, value in fields)
    return uvarint(len(fields)) + b"".join(encoded)

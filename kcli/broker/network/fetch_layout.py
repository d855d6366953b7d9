"""Fetch's response, laid out by hand around regions of log files, so that records go from the page cache to the socket.

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
from uuid import UUID

from formats.txn_index import AbortedTxn
from formats.varint import uvarint
from kcli.broker.network.connection import Laid
from kcli.broker.network.layout import NO_TAGS, length, string
from kcli.broker.network.messages import Messages
from kcli.log.live_segments import FileRegion

START_OFFSET, SESSIONS, PREFERRED_REPLICA, FLEXIBLE, TOPIC_IDS = 5, 7, 11, 12, 13
UNKNOWN = -1
_PARTITION = struct.Struct(">ihqq")
_ABORTED = struct.Struct(">qq")
_DIVERGING = struct.Struct(">iq")


@dataclass(slots=True)
class PartitionAnswer:
    """What a fetch finds in one partition; offsets -1 where they are not known. diverging: epoch and its end offset.
    leader: the field of the current one, see current_leader."""

    index: int
    error_code: int = 0
    high_watermark: int = UNKNOWN
    last_stable_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    aborted: tuple[AbortedTxn, ...] | None = None
    region: FileRegion | None = None
    diverging: tuple[int, int] | None = None
    preferred_replica: int = UNKNOWN
    leader: bytes = b""

    @property
    def size(self) -> int:
        """Bytes of records."""
        return 0 if self.region is None else self.region.length


def lay_out(
    kind: Messages,
    correlation_id: int,
    session_id: int,
    topics: list[tuple[str | UUID, list[PartitionAnswer]]],
    *,
    error_code: int = 0,
    throttle_ms: int = 0,
    endpoints: bytes = NO_TAGS,
) -> Laid:
    """The answer's frame, in parts. endpoints: the tagged fields at its end (12+), see current_leader."""
    version = kind.version
    flexible = version >= FLEXIBLE
    head = bytearray(4) + kind.response_header(correlation_id)
    throttle_at = len(head)
    head += throttle_ms.to_bytes(4)
    if version >= SESSIONS:
        head += struct.pack(">hi", error_code, session_id)
    parts = Laid([head])
    parts.throttle_at = throttle_at
    part = head
    total = 0
    part += length(len(topics), flexible=flexible)
    for topic, partitions in topics:
        if isinstance(topic, UUID):
            part += topic.bytes
        else:
            part += string(topic, flexible=flexible)
        part += length(len(partitions), flexible=flexible)
        for answer in partitions:
            _head_of(answer, version, part)
            part += length(answer.size, flexible=flexible)
            if answer.region is not None:
                parts.append(answer.region)
                total += answer.region.length + len(part)
                part = bytearray()
                parts.append(part)
            if flexible:
                part += _tagged(answer)
        if flexible:
            part += NO_TAGS
    if flexible:
        part += endpoints
    total += len(part)
    struct.pack_into(">i", head, 0, total - 4)
    return parts


def _head_of(answer: PartitionAnswer, version: int, part: bytearray) -> None:
    """All of a partition in front of its records."""
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
    told = (uvarint(tag) + uvarint(len(value)) + value for tag, value in fields)
    return uvarint(len(fields)) + b"".join(told)

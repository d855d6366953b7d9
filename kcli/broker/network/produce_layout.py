"""Produce's response, laid out by hand: it is made for every batch, and with kio's objects and writer it would take a
third of the time of the whole request.

    responses | throttle_time_ms int32 | tagged fields (9+)
    topic      name (3-12) or id (13+) | partitions | tagged fields (9+)
    partition  index int32, error int16, base offset int64, log append time int64, log start offset int64 (5+),
               errors of records (8+): index int32, message, tagged fields (9+); error message (8+)
               | tagged fields (9+): 0 current leader (10+)

The tagged field at the end of all is the leaders' endpoints (10+).

Source: ProduceResponse.json.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from uuid import UUID

from formats.varint import uvarint
from kcli.broker.network.connection import Laid
from kcli.broker.network.layout import NO_TAGS, length, string
from kcli.broker.network.messages import Messages
from kcli.log.validator import RecordError

START_OFFSET, RECORD_ERRORS, FLEXIBLE = 5, 8, 9
_PARTITION = struct.Struct(">ihqq")
_PARTITION_5 = struct.Struct(">ihqqq")
_NO_ERRORS = (b"\0\0\0\0" + b"\xff\xff", b"\x01" + b"\0")


@dataclass(slots=True)
class PartitionAnswer:
    """What became of one batch; log_append_time is -1 with CreateTime. leader: the field of the current one, see
    current_leader."""

    index: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    record_errors: tuple[RecordError, ...] = ()
    error_message: str | None = None
    leader: bytes = b""


def lay_out(
    kind: Messages,
    correlation_id: int,
    topics: list[tuple[str | UUID, list[PartitionAnswer]]],
    endpoints: bytes = NO_TAGS,
) -> Laid:
    """The answer's frame, in one part. endpoints: the tagged fields at its end, see current_leader."""
    version = kind.version
    flexible = version >= FLEXIBLE
    tags = NO_TAGS if flexible else b""
    plain_end = (_NO_ERRORS[flexible] if version >= RECORD_ERRORS else b"") + tags
    frame = bytearray(4) + kind.response_header(correlation_id)
    frame += length(len(topics), flexible=flexible)
    for topic, partitions in topics:
        frame += topic.bytes if isinstance(topic, UUID) else string(topic, flexible=flexible)
        frame += length(len(partitions), flexible=flexible)
        for each in partitions:
            head = each.index, each.error_code, each.base_offset, each.log_append_time
            if version >= START_OFFSET:
                frame += _PARTITION_5.pack(*head, each.log_start_offset)
            else:
                frame += _PARTITION.pack(*head)
            if version >= RECORD_ERRORS and (each.record_errors or each.error_message is not None):
                _put_errors(each, frame, flexible=flexible)
                frame += tags
            elif each.leader:
                frame += _NO_ERRORS[flexible] + b"\1\0" + uvarint(len(each.leader)) + each.leader
            else:
                frame += plain_end
        frame += tags
    answer = Laid([frame])
    answer.throttle_at = len(frame)
    frame += b"\0\0\0\0" + (endpoints if flexible else b"")
    frame[:4] = (len(frame) - 4).to_bytes(4)
    return answer


def _put_errors(answer: PartitionAnswer, frame: bytearray, *, flexible: bool) -> None:
    frame += length(len(answer.record_errors), flexible=flexible)
    for each in answer.record_errors:
        frame += each.index.to_bytes(4) + string(each.reason, flexible=flexible)
        if flexible:
            frame += NO_TAGS
    frame += string(answer.error_message, flexible=flexible)

"""Encodes Produce's response without kio. There is a response to every Produce request, and kio's objects and writer
would take a third of the time of the whole request.

    responses | throttle_time_ms int32 | tagged fields (9+)
    topic      name (3-12) or id (13+) | partitions | tagged fields (9+)
    partition  index int32, error int16, base offset int64, log append time int64, log start offset int64 (5+),
               errors of records (8+): index int32, message, tagged fields (9+); error message (8+)
               | tagged fields (9+): 0 current leader (10+)

The tagged field at the end of the response has the leaders' endpoints (10+).

Source: ProduceResponse.json.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from uuid import UUID

from formats.kernels.append import RefusedRecords
from formats.message import read_uvarint
from formats.varint import uvarint
from kcli.broker.wire.answers import Laid
from kcli.broker.wire.layout import NO_TAGS, length, string
from kcli.broker.wire.messages import Messages, cut_message

START_OFFSET, RECORD_ERRORS, FLEXIBLE, IDS = 5, 8, 9, 13
UUID_BYTES = 16
RECORD_ERRORS_MAX = 1 << 16
"""The greatest number of invalid records in one response, which take some megabytes. Kafka has no limit."""
_PARTITION = struct.Struct(">ihqq")
_PARTITION_5 = struct.Struct(">ihqqq")
_NO_ERRORS = (b"\0\0\0\0" + b"\xff\xff", b"\x01" + b"\0")


@dataclass(slots=True)
class PartitionAnswer:
    """The result of the append to one partition. base_offset, log_start_offset: -1 after an error that leaves them
    unknown. log_append_time: in ms since 1970; -1 with CreateTime. error_message: None for none.

    record_errors: the invalid records of a refused batch, None for none; error_message is then set, too. One response
    lists at most RECORD_ERRORS_MAX invalid records.
    leader: the encoded field `current_leader`, see client_view/current_leader.py.
    """

    index: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    record_errors: RefusedRecords | None = None
    error_message: str | None = None
    leader: bytes = b""


def lay_out(
    kind: Messages,
    correlation_id: int,
    topics: list[tuple[str | UUID, list[PartitionAnswer]]],
    endpoints: bytes = NO_TAGS,
) -> Laid:
    """Return the response's frame, in one part. endpoints: the encoded tagged fields at the end of the response, with
    the endpoints of the leaders; see client_view/current_leader.py."""
    version = kind.version
    flexible = version >= FLEXIBLE
    tags = NO_TAGS if flexible else b""
    plain_end = (_NO_ERRORS[flexible] if version >= RECORD_ERRORS else b"") + tags
    frame = bytearray(4) + kind.response_header(correlation_id)
    frame += length(len(topics), flexible=flexible)
    errors_left = RECORD_ERRORS_MAX
    for topic, partitions in topics:
        frame += topic.bytes if isinstance(topic, UUID) else string(topic, flexible=flexible)
        frame += length(len(partitions), flexible=flexible)
        for each in partitions:
            head = each.index, each.error_code, each.base_offset, each.log_append_time
            if version >= START_OFFSET:
                frame += _PARTITION_5.pack(*head, each.log_start_offset)
            else:
                frame += _PARTITION.pack(*head)
            if version >= RECORD_ERRORS and each.error_message is not None:
                errors_left -= _put_errors(each, frame, errors_left, flexible=flexible)
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


def read_back(version: int, frame: bytes) -> list[tuple[str | UUID, list[PartitionAnswer]]]:
    """Return the topics of a response that compiled code (formats/kernels/produce) has encoded. Such a response has no
    error messages, no errors of records and no tagged fields. frame: the response's bytes, beginning with its size."""
    flexible = version >= FLEXIBLE
    partition = _PARTITION_5 if version >= START_OFFSET else _PARTITION
    end_bytes = (len(_NO_ERRORS[flexible]) if version >= RECORD_ERRORS else 0) + flexible
    position = 8 + flexible  # after the size, the correlation id and the header's tagged fields

    def read_length(size: int = 4) -> int:
        nonlocal position
        if flexible:
            value, position = read_uvarint(frame, position)
            return value - 1
        position += size
        return int.from_bytes(frame[position - size : position])

    topics: list[tuple[str | UUID, list[PartitionAnswer]]] = []
    for _ in range(read_length()):
        size = UUID_BYTES if version >= IDS else read_length(2)
        key = frame[position : position + size]
        position += size
        partitions = []
        for _ in range(read_length()):
            partitions.append(PartitionAnswer(*partition.unpack_from(frame, position)))
            position += partition.size + end_bytes
        topics.append((UUID(bytes=key) if version >= IDS else key.decode(), partitions))
        position += flexible
    return topics


def _put_errors(answer: PartitionAnswer, frame: bytearray, most: int, *, flexible: bool) -> int:
    """Append the errors of at most `most` invalid records, and the error message, to `frame`. Return the number of
    appended records."""
    records = answer.record_errors
    count = 0 if records is None else min(len(records), most)
    frame += length(count, flexible=flexible)
    if records is not None:
        frame += memoryview(records.encode(count, flexible=flexible))
    message = answer.error_message
    frame += string(None if message is None else cut_message(message), flexible=flexible)
    return count

"""What a task writes beside a committed offset, for the task that goes on from there: Base64 of

    version         1 byte: 2
    partition time  8 bytes: the highest timestamp of the partition's records so far, -1 for none
    processors      nothing, or their number (4 bytes), and for each the length of its name (4 bytes), the name in UTF-8
                    and a time (8 bytes): the store of an operator that sends closed windows, and the time up to which
                    it has sent them

Version 1 ends behind the partition time. Source: TopicPartitionMetadata, ProcessorMetadata of Kafka Streams.
"""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import NamedTuple

from kcli.streams.records import NO_TIMESTAMP

HEAD = struct.Struct(">bq")
COUNT = struct.Struct(">i")
TIME = struct.Struct(">q")
VERSION = 2


class OffsetMetadata(NamedTuple):
    """What a committed offset is written with. partition_time: milliseconds. processors: times by name."""

    partition_time: int = NO_TIMESTAMP
    processors: Mapping[str, int] = {}

    def encode(self) -> str:
        """Return the text that is committed with the offset."""
        data = HEAD.pack(VERSION, self.partition_time)
        if self.processors:
            data += COUNT.pack(len(self.processors))
        for name, time in self.processors.items():
            data += COUNT.pack(len(name.encode())) + name.encode() + TIME.pack(time)
        return b64encode(data).decode()


def decode(text: str) -> OffsetMetadata:
    """Return what is in the text. A text that no task has written, such as that of a reset, means nothing is known. A
    zero byte at its end is passed over: confluent-kafka commits one."""
    try:
        data = b64decode(text.rstrip("\0"), validate=True)
        version, partition_time = HEAD.unpack_from(data)
        processors: dict[str, int] = {}
        at = HEAD.size + COUNT.size
        for _ in range(COUNT.unpack_from(data, HEAD.size)[0] if version == VERSION and len(data) > HEAD.size else 0):
            end = at + COUNT.size + COUNT.unpack_from(data, at)[0]
            processors[data[at + COUNT.size : end].decode()] = TIME.unpack_from(data, end)[0]
            at = end + TIME.size
    except (ValueError, struct.error):
        return OffsetMetadata()
    return OffsetMetadata(partition_time, processors) if version in (1, VERSION) else OffsetMetadata()

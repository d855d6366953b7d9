"""A record that waits in a buffer, of suppress or of a join with a grace period, as the buffer's changelog has it:

    timestamp, offset                        8 bytes each: of the record that made the change
    topic, partition                         length (4 bytes) and text; 4 bytes
    headers                                  number (4 bytes); for each its name and value behind their lengths
    prior, old, new value                    length (4 bytes; -1 for none, -2 for an old value like the prior) and bytes
    time                                     8 bytes

Source: BufferValue, ProcessorRecordContext; KIP-328.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from kcli.streams.records import Record, RecordMetadata

CONTEXT_BYTES = 20
INT, LONG = struct.Struct(">i"), struct.Struct(">q")
NONE, LIKE_PRIOR = -1, -2


class _Reader:
    """Reads the parts of a value in the changelog, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, layout: struct.Struct) -> int:
        number: int = layout.unpack_from(self._data, self._at)[0]
        self._at += layout.size
        return number

    def sized(self, like_prior: bytes | None = None) -> bytes | None:
        """Return the bytes behind their length; `like_prior` for the length that stands for the prior value."""
        size = self.number(INT)
        if size < 0:
            return like_prior if size == LIKE_PRIOR else None
        self._at += size
        return self._data[self._at - size : self._at]


class Buffered(NamedTuple):
    """What a buffer has of a record: the new and the old value of its change. prior: the value that was sent last."""

    prior: bytes | None
    old: bytes | None
    new: bytes | None
    record: Record[Any, Any]
    metadata: RecordMetadata | None

    def pack(self, time: int) -> bytes:
        """Return the value in the changelog."""
        topic, partition, offset = self.metadata or RecordMetadata("", -1, -1)
        headers = b"".join(_sized(name.encode()) + _sized(value) for name, value in self.record.headers)
        packed = LONG.pack(self.record.timestamp) + LONG.pack(offset) + _sized(topic.encode()) + INT.pack(partition)
        packed += INT.pack(len(self.record.headers)) + headers + _sized(self.prior)
        packed += INT.pack(LIKE_PRIOR) if self.old is not None and self.old == self.prior else _sized(self.old)
        return packed + _sized(self.new) + LONG.pack(time)

    @classmethod
    def unpack(cls, data: bytes) -> tuple[int, Buffered]:
        """Return the time and the entry of a value in the changelog. Raises ValueError, struct.error."""
        reader = _Reader(data)
        timestamp, offset = reader.number(LONG), reader.number(LONG)
        topic = (reader.sized() or b"").decode()
        metadata = RecordMetadata(topic, reader.number(INT), offset)
        headers = tuple(((reader.sized() or b"").decode(), reader.sized()) for _ in range(max(0, reader.number(INT))))
        prior = reader.sized()
        old = reader.sized(prior)
        new = reader.sized()
        return reader.number(LONG), cls(prior, old, new, Record(None, None, timestamp, headers), metadata)

    @property
    def size(self) -> int:
        size = CONTEXT_BYTES + len(self.prior or b"") + len(self.new or b"")
        if self.old != self.prior:
            size += len(self.old or b"")
        topic = self.metadata.topic if self.metadata else ""
        return size + len(topic) + sum(len(name) + len(value or b"") for name, value in self.record.headers)


def _sized(data: bytes | None) -> bytes:
    return INT.pack(NONE) if data is None else INT.pack(len(data)) + data

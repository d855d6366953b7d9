"""Offset syncs, checkpoints and heartbeats as bytes.

    string   int16 length, UTF-8                        all numbers big endian

    offset sync  key    topic string, partition int32
                 value  upstream_offset int64, offset int64
    checkpoint   key    group string, topic string, partition int32
                 value  version int16 (0), upstream_offset int64, offset int64, metadata string
    heartbeat    key    source_alias string, target_alias string
                 value  version int16 (0), timestamp int64, in milliseconds

Source: OffsetSync, Checkpoint, Heartbeat.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kcli.protocol.topic_partition import TopicPartition

VERSION = 0


class BadRecord(Exception):
    """Bytes that have not the layout above."""


class OffsetSync(NamedTuple):
    """The record of a partition of the source with offset `upstream` has the offset `downstream` in the target."""

    place: TopicPartition
    upstream: int
    downstream: int

    def key(self) -> bytes:
        """Return the record's key."""
        return _string(self.place.topic) + struct.pack(">i", self.place.partition)

    def value(self) -> bytes:
        """Return the record's value."""
        return struct.pack(">qq", self.upstream, self.downstream)

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> OffsetSync:
        """Return the sync in a record. Raises BadRecord."""
        topic, at = _read_string(key, 0)
        (partition,) = _unpack(">i", key, at)
        return cls(TopicPartition(topic, partition), *_unpack(">qq", value, 0))


class Checkpoint(NamedTuple):
    """A group that stands at `upstream` in the source stands at `downstream` in the target. place: in the target."""

    group: str
    place: TopicPartition
    upstream: int
    downstream: int
    metadata: str

    def key(self) -> bytes:
        """Return the record's key."""
        return _string(self.group) + _string(self.place.topic) + struct.pack(">i", self.place.partition)

    def value(self) -> bytes:
        """Return the record's value."""
        return struct.pack(">hqq", VERSION, self.upstream, self.downstream) + _string(self.metadata)

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> Checkpoint:
        """Return the checkpoint in a record. Raises BadRecord."""
        group, at = _read_string(key, 0)
        topic, at = _read_string(key, at)
        (partition,) = _unpack(">i", key, at)
        version, upstream, downstream = _unpack(">hqq", value, 0)
        if version != VERSION:
            raise BadRecord(f"a checkpoint of version {version}")
        return cls(group, TopicPartition(topic, partition), upstream, downstream, _read_string(value, 18)[0])


class Heartbeat(NamedTuple):
    """A sign of life. timestamp_ms: when it was sent."""

    source: str
    target: str
    timestamp_ms: int

    def key(self) -> bytes:
        """Return the record's key."""
        return _string(self.source) + _string(self.target)

    def value(self) -> bytes:
        """Return the record's value."""
        return struct.pack(">hq", VERSION, self.timestamp_ms)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _read_string(data: bytes | None, at: int) -> tuple[str, int]:
    (size,) = _unpack(">h", data, at)
    text = (data or b"")[at + 2 : at + 2 + size]
    if size < 0 or len(text) < size:
        raise BadRecord("a string that is cut off")
    try:
        return text.decode(), at + 2 + size
    except UnicodeDecodeError:
        raise BadRecord("a string that is not UTF-8") from None


def _unpack(layout: str, data: bytes | None, at: int) -> tuple[int, ...]:
    try:
        return struct.unpack_from(layout, data or b"", at)
    except struct.error:
        raise BadRecord("a record that is cut off") from None

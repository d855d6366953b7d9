"""A fast codec for OffsetCommitValue in its common form: every commit writes one such value and replays it.

    version       int16           4
    offset        int64
    leader epoch  int32
    metadata      compact string  of at most 126 bytes
    timestamp     int64           of the commit, ms
    tags          none, or 0: the topic's id, 16 bytes

Values of another form go through the general codec of all records (kcli.group.records). Source: OffsetCommitValue.json.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from formats.message import uuid_bytes, uuid_text
from kcli.group.committed import NONE, CommittedOffset
from kcli.group.requests import ZERO_ID

VERSION = 4
TOPICS_KEPT = 10_000
_HEAD = struct.Struct(">hqiB")  # version, offset, leader epoch, length of the metadata plus one
_TIMESTAMP = struct.Struct(">q")
_LENGTH_MAX = 127
_NO_TAGS = b"\0"
_TOPIC_ID = b"\x01\0\x10"  # the number of tags, tag 0, its size: 16 bytes
_TAGS_SIZES = (len(_NO_TAGS), len(_TOPIC_ID) + 16)


def write(offset: CommittedOffset) -> bytes | None:
    """Return the value of the commit's record; None if the commit does not fit this form (non-ASCII or long metadata,
    or an expire timestamp)."""
    metadata = offset.metadata
    if not metadata.isascii() or len(metadata) >= _LENGTH_MAX or offset.expire_timestamp_ms != NONE:
        return None
    head = _HEAD.pack(VERSION, offset.offset, offset.leader_epoch, len(metadata) + 1)
    return head + metadata.encode() + _TIMESTAMP.pack(offset.commit_timestamp_ms) + _tags(offset.topic_id)


def read(value: bytes, record_offset: int) -> CommittedOffset | None:
    """Parse the record's value; None if it has another form. record_offset: the offset of the record in
    __consumer_offsets, which becomes the record_offset of the result."""
    if len(value) < _HEAD.size:
        return None
    version, offset, leader_epoch, length = _HEAD.unpack_from(value)
    behind = _HEAD.size + length - 1
    tags_at = behind + _TIMESTAMP.size
    if version != VERSION or not 0 < length <= _LENGTH_MAX or len(value) - tags_at not in _TAGS_SIZES:
        return None
    metadata, topic_id = value[_HEAD.size : behind], _topic_id(value[tags_at:])
    if topic_id is None or not metadata.isascii():
        return None
    (timestamp_ms,) = _TIMESTAMP.unpack_from(value, behind)
    return CommittedOffset(offset, timestamp_ms, leader_epoch, metadata.decode(), NONE, topic_id, record_offset)


@lru_cache(maxsize=TOPICS_KEPT)
def _tags(topic_id: str) -> bytes:
    return _NO_TAGS if topic_id == ZERO_ID else _TOPIC_ID + uuid_bytes(topic_id)


@lru_cache(maxsize=TOPICS_KEPT)
def _topic_id(tags: bytes) -> str | None:
    if tags == _NO_TAGS:
        return ZERO_ID
    return uuid_text(tags[len(_TOPIC_ID) :]) if tags.startswith(_TOPIC_ID) else None

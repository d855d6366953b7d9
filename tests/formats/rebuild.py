"""Files, parsed and built again: one function for each kind. Damage raises FormatError."""

from collections.abc import Callable
from typing import Any

from formats import (
    checkpoint,
    legacy,
    offset_index,
    producer_snapshot,
    properties,
    quorum_state,
    record_batch,
    time_index,
    txn_index,
)
from formats.file_name import FileKind
from formats.fixed import FixedLayout


def offsets(data: bytes) -> bytes:
    return checkpoint.build_offsets(checkpoint.parse_offsets(data))


def leader_epochs(data: bytes) -> bytes:
    return checkpoint.build_leader_epochs(checkpoint.parse_leader_epochs(data))


def meta_properties(data: bytes) -> bytes:
    parsed = properties.parse(data)
    properties.meta_properties(parsed)
    return properties.build(parsed)


def log(data: bytes) -> bytes:
    """Rebuild batches and messages of every magic; a compressed batch is rebuilt, compared, and returned as it was."""
    parts, position = [], 0
    while position < len(data):
        is_legacy = len(data) > position + record_batch.MAGIC_AT and data[position + record_batch.MAGIC_AT] < 2
        part = _message(data, position) if is_legacy else _batch(data, position)
        parts.append(part)
        position += len(part)
    return b"".join(parts)


def _batch(data: bytes, position: int) -> bytes:
    batch = record_batch.parse_batch(data, position)
    built = record_batch.build_batch(batch)
    if not batch.header.codec:
        return built
    again = record_batch.parse_batch(built)
    derived = {"batch_length": 0, "crc": 0}
    assert again.header._replace(**derived) == batch.header._replace(**derived)
    assert again.records == batch.records
    return data[position : position + batch.header.size]


def _message(data: bytes, position: int) -> bytes:
    message = legacy.parse_message(data, position)
    inner = legacy.unwrap(message)
    if message.codec:
        wrapper = legacy.wrap(inner, message.codec)
        assert legacy.unwrap(wrapper) == inner
        assert (wrapper.offset, wrapper.timestamp) == (message.offset, message.timestamp)
        assert wrapper.attributes == message.attributes
    return legacy.build_message(message)


REBUILD: dict[FileKind, Callable[[bytes], bytes]] = {
    FileKind.LOG: log,
    FileKind.KRAFT_SNAPSHOT: log,
    FileKind.BOOTSTRAP: log,
    FileKind.OFFSET_INDEX: lambda data: offset_index.build(offset_index.parse(data)),
    FileKind.TIME_INDEX: lambda data: time_index.build(time_index.parse(data)),
    FileKind.TXN_INDEX: lambda data: txn_index.build(txn_index.parse(data)),
    FileKind.PRODUCER_SNAPSHOT: lambda data: producer_snapshot.build(producer_snapshot.parse(data)),
    FileKind.LEADER_EPOCHS: leader_epochs,
    FileKind.REMOTE_LEADER_EPOCHS: leader_epochs,
    FileKind.RECOVERY_POINTS: offsets,
    FileKind.REPLICATION_OFFSETS: offsets,
    FileKind.LOG_START_OFFSETS: offsets,
    FileKind.CLEANER_OFFSETS: offsets,
    FileKind.META_PROPERTIES: meta_properties,
    FileKind.PARTITION_METADATA: lambda data: properties.build_partition_metadata(
        properties.parse_partition_metadata(data)
    ),
    FileKind.QUORUM_STATE: lambda data: quorum_state.build(quorum_state.parse(data)),
}

LAYOUTS: tuple[FixedLayout[Any], ...] = (
    offset_index.ENTRY,
    time_index.ENTRY,
    txn_index.ENTRY,
    producer_snapshot.HEADER,
    producer_snapshot.ENTRY,
    record_batch.HEADER,
    legacy.HEADERS[0],
    legacy.HEADERS[1],
)

"""The small files (indexes, snapshots, checkpoints, properties) as one dict for each entry, for the JSON lines and the
table of `kcli dump-segment`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from formats import checkpoint, offset_index, producer_snapshot, properties, quorum_state, time_index, txn_index
from formats.errors import Truncated
from formats.file_name import parse as parse_name
from kcli.inspector.file_type import FileType
from kcli.log.source import AnyPath, read_input

Entry = dict[str, Any]


def file_entries(path: AnyPath, file_type: FileType) -> Iterator[Entry]:
    """Yield the entries of a file, in its order.

    Numbers are as stored, but the offsets of index entries are absolute if the file's name has the base offset. Raises
    FormatError: for an index that ends with a partial entry, after all whole entries were yielded; for a transaction
    index with an entry of an unknown version, and for a damaged file of another type, before any entry was yielded.
    Raises UnreadableInput if the file cannot be read.
    """
    data = read_input(path)
    name = parse_name(path.name)
    base_offset = (name.base_offset if name else None) or 0
    match file_type:
        case FileType.INDEX:
            yield from _offset_index(data, base_offset)
        case FileType.TIMEINDEX:
            yield from _time_index(data, base_offset)
        case FileType.TXNINDEX:
            yield from _txn_index(data)
        case FileType.SNAPSHOT:
            yield from (entry._asdict() for entry in producer_snapshot.parse(data).entries)
        case FileType.LEADER_EPOCH_CHECKPOINT:
            yield from (entry._asdict() for entry in checkpoint.parse_leader_epochs(data))
        case FileType.OFFSET_CHECKPOINT:
            yield from (entry._asdict() for entry in checkpoint.parse_offsets(data))
        case FileType.META_PROPERTIES:
            yield dict(properties.parse(data).entries)
        case FileType.PARTITION_METADATA:
            yield asdict(properties.parse_partition_metadata(data))
        case FileType.QUORUM_STATE:
            yield {name: value for name, value in asdict(quorum_state.parse(data)).items() if value is not None}
        case _:
            raise AssertionError(f"{file_type} is no small file")


def _offset_index(data: bytes, base_offset: int) -> Iterator[Entry]:
    whole = len(data) - len(data) % offset_index.ENTRY.size
    for entry in offset_index.parse(data[:whole]).entries:
        yield {"offset": base_offset + entry.relative_offset, "position": entry.position}
    _no_rest(data, whole, offset_index.ENTRY.size)


def _time_index(data: bytes, base_offset: int) -> Iterator[Entry]:
    whole = len(data) - len(data) % time_index.ENTRY.size
    for entry in time_index.parse(data[:whole]).entries:
        yield {"timestamp": entry.timestamp, "offset": base_offset + entry.relative_offset}
    _no_rest(data, whole, time_index.ENTRY.size)


def _txn_index(data: bytes) -> Iterator[Entry]:
    whole = len(data) - len(data) % txn_index.ENTRY.size
    for entry in txn_index.parse(data[:whole]):
        yield entry._asdict()
    _no_rest(data, whole, txn_index.ENTRY.size)


def _no_rest(data: bytes, whole: int, size: int) -> None:
    if len(data) > whole:
        raise Truncated(f"{len(data) - whole} bytes are left behind the last whole entry of {size}", whole)

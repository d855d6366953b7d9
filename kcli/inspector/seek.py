"""The byte of a segment at which to begin reading for an offset or a timestamp, by its offset index and time index.

An index may be wrong, so its entries are checked. An offset index entry must point to a sound batch that ends at the
entry's offset, a time index entry to one that has the entry's timestamp as its largest; else reading begins at byte 0.
The first entry of zeros, and all entries after it, are the unused rest of a preallocated file.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator

from formats import offset_index, time_index
from formats.errors import FormatError
from formats.file_name import FileKind, build, parse
from formats.kernels.columns import BatchRow
from kcli.errors import UnreadableInput
from kcli.inspector.selection import MIN_INT64, Selection
from kcli.log.segment_reader import Window, read_segment
from kcli.log.source import AnyPath, Source, open_file, read_whole
from kcli.tier.store import StoreFailed

PROBE_BYTES = 1 << 16

ReadIndex = Callable[[FileKind], bytes]


def start_position(path: AnyPath, selection: Selection) -> int:
    """Return the position (bytes) of a batch at or before the first record that `selection` takes from the segment at
    `path`.

    All records before that position have offsets below from_offset or timestamps below from_time_ms. Returns 0 if no
    index is usable.
    """
    name = parse(path.name)
    if name is None or name.base_offset is None or name.kind is not FileKind.LOG or not path.is_file():
        return 0
    if selection.from_offset <= name.base_offset and selection.from_time_ms == MIN_INT64:
        return 0

    def read_index(kind: FileKind) -> bytes:
        return read_whole(path.with_name(build(name._replace(kind=kind))))

    source = open_file(path)
    try:
        return seek(source, name.base_offset, read_index, selection)
    finally:
        source.close()


def seek(source: Source, base_offset: int, read_index: ReadIndex, selection: Selection) -> int:
    """Return the same as `start_position`, for any source of a segment's bytes.

    read_index: returns the bytes of the segment's index file of a kind, or raises UnreadableInput.
    """
    start = 0
    if selection.from_offset > base_offset:
        start = _position(source, base_offset, read_index, selection.from_offset - base_offset)
    if selection.from_time_ms > MIN_INT64:
        entry = _time_entry_before(read_index, selection)
        position = _position(source, base_offset, read_index, entry.relative_offset) if entry else 0
        if entry and position and _has_largest(source, position, base_offset + entry.relative_offset, entry.timestamp):
            start = max(start, position)
    return start


def _position(source: Source, base_offset: int, read_index: ReadIndex, relative_offset: int) -> int:
    """Return the position in the last offset index entry whose offset is at most `relative_offset`; 0 if the index has
    no such entry, or if no sound batch at that position ends at the entry's offset."""
    try:
        entries = offset_index.parse(read_index(FileKind.OFFSET_INDEX)).entries
    except StoreFailed:
        raise
    except (FormatError, UnreadableInput):
        return 0
    slot = bisect_right(entries, relative_offset, key=lambda entry: entry.relative_offset) - 1
    if slot < 0 or indexed_batch(source, base_offset, entries[slot]) is None:
        return 0
    return entries[slot].position


def indexed_batch(source: Source, base_offset: int, entry: offset_index.OffsetIndexEntry) -> BatchRow | None:
    """Return the sound batch at the position of an offset index entry, if that batch ends at the entry's offset; else
    None."""
    row = next(_rows(source, entry.position), None) if entry.position >= 0 else None
    return row if row is not None and row.last_offset == base_offset + entry.relative_offset else None


def _time_entry_before(read_index: ReadIndex, selection: Selection) -> time_index.TimeIndexEntry | None:
    """Return the last time index entry with a timestamp below from_time_ms: no record up to the entry's offset has a
    larger timestamp. None if there is no such entry."""
    try:
        entries = time_index.parse(read_index(FileKind.TIME_INDEX)).entries
    except StoreFailed:
        raise
    except (FormatError, UnreadableInput):
        return None
    slot = bisect_left(entries, selection.from_time_ms, key=lambda entry: entry.timestamp) - 1
    return entries[slot] if slot >= 0 else None


def _has_largest(source: Source, position: int, offset: int, timestamp: int) -> bool:
    """Return whether `timestamp` is the largest timestamp of the first batch, from byte `position` on, whose last
    offset is `offset` or higher. False if there is no such batch."""
    row = next((row for row in _rows(source, position) if row.last_offset >= offset), None)
    return row is not None and row.max_timestamp == timestamp


def _rows(source: Source, position: int) -> Iterator[BatchRow]:
    """Yield the batches from byte `position` on, up to the first that is not sound."""
    for part in read_segment(source, start=position, resync=False, window_bytes=PROBE_BYTES):
        if not isinstance(part, Window):
            return
        for i in range(part.batches.count):
            row = BatchRow._make(part.batches.row(i))
            if row.faults:
                return
            yield row

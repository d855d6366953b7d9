"""Where in a segment to begin reading for an offset or a time, through its sparse indexes.

An index is a hint: the entry found must lead to a sound batch that ends at the entry's offset, else reading begins at
byte 0. Entries behind the first zero one are slack of a preallocated file.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from pathlib import Path

from formats import offset_index, time_index
from formats.errors import FormatError
from formats.file_name import FileKind, build, parse
from formats.kernels.columns import BatchRow
from kcli.errors import UnreadableInput
from kcli.inspector.selection import MIN_INT64, Selection
from kcli.log.segment_reader import Window, read_segment
from kcli.log.source import FileSource, read_whole

PROBE_BYTES = 1 << 16


def start_position(path: Path, selection: Selection) -> int:
    """The byte of a batch at or before the first record that `selection` wants from the log at `path`.

    Everything before it has smaller offsets than from_offset, or smaller timestamps than from_time. 0 where there is no
    usable index.
    """
    name = parse(path.name)
    if name is None or name.base_offset is None or name.kind is not FileKind.LOG or not path.is_file():
        return 0
    wanted = selection.from_offset
    if selection.from_time_ms > MIN_INT64:
        wanted = max(wanted, _offset_before(path.with_name(build(name._replace(kind=FileKind.TIME_INDEX))), selection))
    if wanted <= 0:
        return 0
    try:
        data = read_whole(path.with_name(build(name._replace(kind=FileKind.OFFSET_INDEX))))
        entries = offset_index.parse(data).entries
    except (FormatError, UnreadableInput):
        return 0
    slot = bisect_right(entries, wanted - name.base_offset, key=lambda entry: entry.relative_offset) - 1
    if slot < 0:
        return 0
    relative_offset, position = entries[slot]
    return position if _ends_at(path, position, name.base_offset + relative_offset) else 0


def _offset_before(path: Path, selection: Selection) -> int:
    """An offset before which every timestamp is below from_time: that of the last time index entry below it."""
    name = parse(path.name)
    assert name is not None
    assert name.base_offset is not None
    try:
        entries = time_index.parse(read_whole(path)).entries
    except (FormatError, UnreadableInput):
        return 0
    slot = bisect_left(entries, selection.from_time_ms, key=lambda entry: entry.timestamp) - 1
    return name.base_offset + entries[slot].relative_offset if slot >= 0 else 0


def _ends_at(path: Path, position: int, offset: int) -> bool:
    """Is there a sound batch at that byte whose last offset is `offset`?"""
    if position < 0:
        return False
    source = FileSource(path)
    try:
        for part in read_segment(source, start=position, resync=False, window_bytes=PROBE_BYTES):
            if not isinstance(part, Window):
                return False
            row = BatchRow._make(part.batches.row(0))
            return row.position == position and not row.faults and row.last_offset == offset
    finally:
        source.close()
    return False

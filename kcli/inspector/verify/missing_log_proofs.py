"""Whether a .log file is the missing one of a segment: by the indexes that the segment has without it, and by the
producer snapshot at the segment's end.

The offset index alone is no proof: two partitions whose batches have equal sizes have equal offset indexes. The time
index has the largest timestamps of batches, and the producer snapshot the last batch of each producer. An entry whose
offset lies in damage of the .log file says nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from formats.errors import FormatError
from formats.kernels.columns import BatchRow
from formats.producer_snapshot import ProducerEntry
from formats.producer_snapshot import parse as parse_snapshot
from kcli.errors import UnreadableInput
from kcli.inspector.verify.index_files import TIME_ENTRY_BYTES, load
from kcli.log.segment_reader import sound_batches
from kcli.log.source import FileSource, read_whole

_Test = Callable[[BatchRow], bool]


def fits_time_index(log: Path, base: int, index: Path) -> bool:
    """Return whether a sound batch of a .log file ends at the offset of an entry of a time index, and has its timestamp
    as the largest; and no entry's offset is that of another batch. base: the base offset of the index. Raises
    UnreadableInput."""
    entries, _ = load(index, TIME_ENTRY_BYTES)
    return _agrees(log, {base + relative: _has_timestamp(timestamp) for timestamp, relative in entries.all_fields()})


def fits_snapshot(log: Path, first: int, snapshot: Path) -> bool:
    """Return whether a sound batch of a .log file is the last of a producer in a producer snapshot; and no last batch
    of a producer, from offset `first` on, is another one. False if the snapshot cannot be read, which other checks
    report. Raises UnreadableInput for the .log file."""
    try:
        entries = parse_snapshot(read_whole(snapshot)).entries
    except (FormatError, UnreadableInput):
        return False
    return _agrees(log, {each.last_offset: _is_last_of(each) for each in entries if each.last_offset >= first})


def _agrees(log: Path, wanted: Mapping[int, _Test]) -> bool:
    """Return whether the sound batches of a .log file that have these offsets end there and pass the tests, and there
    is at least one."""
    offsets, is_found = sorted(wanted), False
    with closing(FileSource(log)) as source:
        for row in sound_batches(source) if offsets else ():
            for offset in offsets[bisect_left(offsets, row.base_offset) : bisect_left(offsets, row.last_offset + 1)]:
                if offset != row.last_offset or not wanted[offset](row):
                    return False
                is_found = True
    return is_found


def _has_timestamp(timestamp: int) -> _Test:
    return lambda row: row.max_timestamp == timestamp


def _is_last_of(entry: ProducerEntry) -> _Test:
    producer = entry.producer_id, entry.producer_epoch

    def test(row: BatchRow) -> bool:
        is_next = row.base_sequence + row.last_offset - row.base_offset == entry.last_sequence
        return (row.producer_id, row.producer_epoch) == producer and is_next

    return test

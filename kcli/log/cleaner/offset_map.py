"""The last offset of every key in the dirty part of a log, as far as memory goes.

Segments are read in order until the map is full; it then speaks for all offsets up to `reach`, and what lies behind is
left for another pass. Records of aborted transactions and control records do not count, records without a key neither.
Windows are decompressed and their keys hashed by several threads; only putting them in is one after the other.
Source: Cleaner.buildOffsetMap.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from formats.compression import decompress
from formats.errors import FormatError
from formats.kernels.columns import BASE_OFFSET, FAULTS, LAST_OFFSET, MAGIC, POSITION, BatchRow
from formats.kernels.log import (
    FAULT_BAD_PAYLOAD,
    FAULT_BAD_RECORD,
    FAULT_CONTROL_KEY,
    CleanedTransactions,
    KeyHashes,
    KeyMap,
    RecordTable,
    payload_bounds,
)
from kcli.log.batch_records import UNREADABLE, decode, faults_of
from kcli.log.cleaner.partition import CleanerLog, Segment, Uncleanable
from kcli.log.cleaner.pipeline import in_order
from kcli.log.cleaner.progress import Progress
from kcli.log.segment_reader import Window

ROWS = 1024
MARKER_FAULTS = UNREADABLE | FAULT_CONTROL_KEY


@dataclass(frozen=True, slots=True)
class Judged:
    """A window and, for each batch, CLEAN_* flags."""

    segment: Segment
    window: Window
    flags: bytearray

    def fail_at(self, i: int) -> Uncleanable:
        """What is wrong with batch i."""
        faults = faults_of(self.window, i)
        position = self.window.batches.field(i, POSITION)
        return Uncleanable(self.segment.path(), faults[0].reason if faults else "unreadable", position)

    def check(self, bits: int) -> None:
        """Raise Uncleanable where a batch has one of these faults."""
        batches = self.window.batches
        i = batches.first_fault()
        while i >= 0:
            if batches.field(i, FAULTS) & bits:
                raise self.fail_at(i)
            i = batches.first_fault(i + 1)


@dataclass(frozen=True, slots=True)
class SeenWindow:
    """Whole batches in a row that are in the map, sound with their CRCs: bytes [position, stop) of the log, offsets.

    records and size of records in bytes: -1 where some of the batches need a look whatever the map says.
    """

    position: int
    stop: int
    first_offset: int
    last_offset: int
    batches: int
    records: int
    size: int


Seen = dict[int, list[SeenWindow]]  # by base offset of the segment


def new_map(memory_bytes: int, load_factor: float) -> KeyMap:
    """An empty map of that many bytes, its hash under a secret of its own."""
    return KeyMap(memory_bytes, load_factor, os.urandom(16))


def payload_of(window: Window, i: int) -> bytes:
    """The decompressed records of batch i; nothing, and a fault on the batch, where they do not decompress."""
    start, stop = payload_bounds(window.data, window.batches, i)
    row = BatchRow._make(window.batches.row(i))
    try:
        return decompress(row.codec, memoryview(window.data)[start:stop], magic=row.magic) if start >= 0 else b""
    except FormatError:
        window.batches.add_fault(i, FAULT_BAD_PAYLOAD)
        return b""


def hash_keys(judged: Judged, offset_map: KeyMap, from_offset: int, keys: KeyHashes) -> None:
    """Hash the keys of a window's records from an offset on. Raises Uncleanable."""
    window, flags = judged.window, judged.flags
    batches = window.batches
    records = RecordTable(ROWS)
    at = 0
    while at < batches.count:
        stop, codec = batches.run(at)
        if codec == 0:
            at = keys.run(offset_map, window.data, batches, flags, at, stop, from_offset)
            if at < stop and batches.field(at, MAGIC) >= 2:
                batches.add_fault(at, FAULT_BAD_RECORD)
                raise judged.fail_at(at)
        if at < stop and not (codec and flags[at]):
            for _ in decode(window, records, first=at, last=stop):
                keys.add(offset_map, records, flags, from_offset)
        at = stop
    judged.check(UNREADABLE)


def build_offset_map(
    log: CleanerLog,
    start: int,
    stop: int,
    offset_map: KeyMap,
    *,
    threads: int,
    progress: Progress,
    seen: Seen | None = None,
) -> bool:
    """Fill the map from the segments with offsets in [start, stop). True where it got full. `seen` hears what was read.
    Raises Uncleanable."""
    transactions = CleanedTransactions()
    transactions.add_aborted(log.aborted(start, stop))
    dirty = log.between(start, stop)

    def windows(segment: Segment) -> Iterator[Judged]:
        for window in segment.windows():
            flags = transactions.judge(window.data, window.batches, partial(payload_of, window))
            judged = Judged(segment, window, flags)
            judged.check(MARKER_FAULTS)
            yield judged

    def hashed(judged: Judged) -> tuple[KeyHashes, SeenWindow]:
        keys, window, batches = KeyHashes(), judged.window, judged.window.batches
        hash_keys(judged, offset_map, start, keys)
        keys.finish(batches, start)
        window.release()
        found = SeenWindow(
            window.position,
            window.position + window.stop,
            batches.field(0, BASE_OFFSET),
            batches.field(batches.count - 1, LAST_OFFSET),
            batches.count,
            keys.plain_records,
            keys.plain_bytes,
        )
        return keys, found

    for i, segment in enumerate(dirty):
        for keys, found in in_order(hashed, windows(segment), threads):
            if offset_map.put(keys):
                return True
            if seen is not None:
                seen.setdefault(segment.base_offset, []).append(found)
            progress(found.stop - found.position)
        offset_map.reach = (dirty[i + 1].base_offset if i + 1 < len(dirty) else stop) - 1
    return False

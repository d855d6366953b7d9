"""The offset map: the last offset of every key in the dirty part of a log, for as many keys as its memory holds.

Segments are read in order until the map is full. The map then has the keys of all records up to offset `reach`; another
pass cleans the offsets after that. Records of aborted transactions, control records and records without a key are left
out. Several threads decompress windows and hash keys; one thread fills the map. Source: Cleaner.buildOffsetMap.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from formats.compression import decompress
from formats.errors import FormatError
from formats.kernels.batches import FAULT_BAD_PAYLOAD, FAULT_BAD_RECORD, FAULT_CONTROL_KEY
from formats.kernels.cleaner.key_map import KeyHashes, KeyMap
from formats.kernels.cleaner.transactions import CleanedTransactions
from formats.kernels.columns import BASE_OFFSET, FAULTS, LAST_OFFSET, MAGIC, POSITION, BatchRow
from formats.kernels.records import RecordTable, payload_bounds
from kcli.log.batch_records import UNREADABLE, decode, faults_of
from kcli.log.cleaner.partition import CleanerLog, StoredSegment, Uncleanable
from kcli.log.cleaner.progress import Progress
from kcli.log.segment_reader import Window
from kcli.log.threads import in_order

ROWS = 1024
MARKER_FAULTS = UNREADABLE | FAULT_CONTROL_KEY


@dataclass(frozen=True, slots=True)
class Judged:
    """A window of a segment. flags: for each of its batches, the CLEAN_* bits that say what the cleaner does with
    it."""

    segment: StoredSegment
    window: Window
    flags: bytearray

    def fail_at(self, i: int) -> Uncleanable:
        """Return the error for batch i: the reason is the batch's first fault, the position the batch's first byte in
        the .log file."""
        faults = faults_of(self.window, i)
        position = self.window.batches.field(i, POSITION)
        return Uncleanable(self.segment.path(), faults[0].reason if faults else "unreadable", position)

    def check(self, bits: int) -> None:
        """Raise Uncleanable if a batch of the window has one of the faults in `bits` (FAULT_* flags)."""
        batches = self.window.batches
        i = batches.first_fault()
        while i >= 0:
            if batches.field(i, FAULTS) & bits:
                raise self.fail_at(i)
            i = batches.first_fault(i + 1)


@dataclass(frozen=True, slots=True)
class SurveyedWindow:
    """A window of batches that was read to fill the map, and whose keys are all in the map: bytes [position, stop) of
    the segment's .log file, first and last offset.

    records, size: the number of records, and the bytes of these. Both are -1 if a batch of the window has magic 0 or 1,
    is compressed, has a producer id, is a control batch, or begins before the dirty part: such a window must be read
    again even if all of its records are superseded.
    """

    position: int
    stop: int
    first_offset: int
    last_offset: int
    batches: int
    records: int
    size: int


SurveyedWindows = dict[int, list[SurveyedWindow]]  # by base offset of the segment


def new_map(memory_bytes: int, load_factor: float) -> KeyMap:
    """Return an empty map that takes memory_bytes and hashes keys with a new random secret. load_factor: the part of
    the map's slots that may be filled."""
    return KeyMap(memory_bytes, load_factor, os.urandom(16))


def payload_of(window: Window, i: int) -> bytes:
    """Return the decompressed records of batch i. If they do not decompress, return b"" and set FAULT_BAD_PAYLOAD
    for the batch."""
    start, stop = payload_bounds(window.data, window.batches, i)
    row = BatchRow._make(window.batches.row(i))
    try:
        return decompress(row.codec, memoryview(window.data)[start:stop], magic=row.magic) if start >= 0 else b""
    except FormatError:
        window.batches.add_fault(i, FAULT_BAD_PAYLOAD)
        return b""


def hash_keys(judged: Judged, offset_map: KeyMap, from_offset: int, keys: KeyHashes) -> None:
    """Hash the keys of a window's records from `from_offset` on, and add the hashes to `keys`. offset_map: the map to
    which the hashes will be added. Raises Uncleanable."""
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
    surveyed: SurveyedWindows | None = None,
) -> bool:
    """Fill the map with the keys of the segments that have offsets in [start, stop). Returns whether it got full.

    threads: how many threads hash keys. surveyed: a dict to which each window is added whose keys are all in the map.
    Raises Uncleanable.
    """
    transactions = CleanedTransactions()
    transactions.add_aborted(log.aborted(start, stop))
    dirty = log.between(start, stop)

    def windows(segment: StoredSegment) -> Iterator[Judged]:
        for window in segment.windows():
            flags = transactions.judge(window.data, window.batches, partial(payload_of, window))
            judged = Judged(segment, window, flags)
            judged.check(MARKER_FAULTS)
            yield judged

    def hashed(judged: Judged) -> tuple[KeyHashes, SurveyedWindow]:
        keys, window, batches = KeyHashes(), judged.window, judged.window.batches
        hash_keys(judged, offset_map, start, keys)
        keys.finish(batches, start)
        window.release()
        found = SurveyedWindow(
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
            if surveyed is not None:
                surveyed.setdefault(segment.base_offset, []).append(found)
            progress(found.stop - found.position)
        offset_map.reach = (dirty[i + 1].base_offset if i + 1 < len(dirty) else stop) - 1
    return False

"""Which batches of a split belong to aborted transactions: told by the markers in the log, else by its index.

A transactional batch is as the next marker of its producer says: commit or abort. Markers are looked for only once a
transactional batch is met, from there to the split's end, and behind it as long as a transaction of the split goes on:
so logs without transactions cost nothing more. Where the bytes of an abort marker are damaged, an entry of the
transaction index (`.txnindex`) stands in for it; an entry that the log itself contradicts counts for nothing.
A transaction without any marker is delivered, as Kafka does: splits end at the last stable offset anyway.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from formats.kernels.columns import ATTRIBUTES, BASE_OFFSET, LAST_OFFSET, MAGIC, POSITION, PRODUCER_ID, SIZE, START
from formats.kernels.log import BatchTable
from formats.txn_index import AbortedTxn
from kcli.export.discovery import SegmentFile
from kcli.export.files import open_source
from kcli.export.offsets import sound_windows
from kcli.log.producer_state import read_control
from kcli.log.read_only_survey import ABORT, COMMIT, CONTROL, TRANSACTIONAL
from kcli.log.segment_reader import Window

BEFORE_ALL = -(1 << 63)
ZEROS = slice(62, 66)
KIND_AT = 69


def aborted_ranges(
    segments: Iterator[SegmentFile], start: int, stop: int | None, aborts: list[AbortedTxn] | tuple[AbortedTxn, ...]
) -> array[int]:
    """Producer id, first and last offset of the aborted transactions in bytes [start, stop) of the first of `segments`,
    flat and sorted; more may be among them. The others are looked at as far as needed. Raises UnreadableInput."""
    markers = _Markers({entry.last_offset: entry for entry in aborts})
    for number, segment in enumerate(segments):
        source = open_source(segment.address)
        try:
            for window in sound_windows(source, start if number == 0 else 0):
                behind = number > 0 or (stop is not None and window.position >= stop)
                if behind and not markers.open:
                    return markers.ranges()
                markers.add(window, opens=not behind, until=None if number else stop)
                window.release()
        finally:
            source.close()
        if not markers.open:
            break
    return markers.ranges()


class _Markers:
    """Markers by producer, in the order of the log, and the producers in whose transaction the split's end lies."""

    def __init__(self, indexed: dict[int, AbortedTxn]) -> None:
        self._indexed = indexed
        self._unseen = sorted(indexed)
        self._found: dict[int, list[tuple[int, int, int]]] = {}  # (offset, kind, not before)
        self.open: set[int] = set()

    def add(self, window: Window, *, opens: bool, until: int | None) -> None:
        table = window.batches
        self._see(table)
        for i in range(table.count):
            attributes = table.field(i, ATTRIBUTES)
            if not attributes & TRANSACTIONAL or table.field(i, MAGIC) < 2:
                continue
            producer, offset = table.field(i, PRODUCER_ID), table.field(i, BASE_OFFSET)
            if not attributes & CONTROL:
                if opens and (until is None or table.field(i, POSITION) < until):
                    self.open.add(producer)
                continue
            start, size = table.field(i, START), table.field(i, SIZE)
            kind = _kind(bytes(window.data[start : start + size]))
            if kind in (ABORT, COMMIT):
                self._found.setdefault(producer, []).append((offset, kind, BEFORE_ALL))
                self.open.discard(producer)

    def _see(self, table: BatchTable) -> None:
        """Entries of the index with a marker's offset that is in a sound batch are not needed, or wrong."""
        if not self._unseen or not table.count:
            return
        for i in range(table.count):
            first = bisect_left(self._unseen, table.field(i, BASE_OFFSET))
            del self._unseen[first : bisect_right(self._unseen, table.field(i, LAST_OFFSET))]

    def ranges(self) -> array[int]:
        """See aborted_ranges."""
        for offset in self._unseen:
            entry = self._indexed[offset]
            self._found.setdefault(entry.producer_id, []).append((offset, ABORT, entry.first_offset))
        flat: array[int] = array("q")
        for producer, markers in sorted(self._found.items()):
            before = BEFORE_ALL
            for offset, kind, not_before in sorted(markers):
                if kind == ABORT:
                    flat.extend((producer, max(before, not_before), offset))
                before = offset + 1
        return flat


def _kind(batch: bytes) -> int:
    """What a producer's control batch is: ABORT, COMMIT, or something else."""
    if batch[ZEROS] == b"\0\0\0\x08":  # one byte each: attributes, deltas of 0, and a key's length of 4
        return batch[KIND_AT] if batch[KIND_AT - 1] == 0 else -1
    return read_control(batch)[1]

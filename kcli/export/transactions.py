"""Finds the batches of a split that belong to aborted transactions, by the transaction markers in the log. A split is a
run of whole batches of one segment, see kcli.export.splits.

A transactional batch is committed or aborted by the next marker of its producer. The search for markers begins at the
first transactional batch of the split, so a split without transactions costs nothing more. It goes on to the end of the
split, and then, also in later segments, until each producer with a transactional batch in the split has a marker after
this batch. If the batch of an abort marker is damaged, the entry of the transaction index (`.txnindex`) is used
instead; an entry is ignored if the log has a sound batch at the marker's offset.

The records of a transaction without a marker are delivered, as a Kafka consumer does. In a sound log, no such record is
read: with read_committed, no offset from the last stable offset on is read, and each transaction with a record below
that offset has a marker.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from formats.kernels.batches import BatchTable
from formats.kernels.columns import ATTRIBUTES, BASE_OFFSET, LAST_OFFSET, MAGIC, POSITION, PRODUCER_ID, SIZE, START
from formats.txn_index import AbortedTxn
from kcli.export.discovery import SegmentFile
from kcli.export.files import open_source
from kcli.export.offsets import sound_windows
from kcli.log.producer_state import marker_kind
from kcli.log.read_only.survey import ABORT, COMMIT, CONTROL, TRANSACTIONAL
from kcli.log.segment_reader import Window

BEFORE_ALL = -(1 << 63)


def aborted_ranges(
    segments: Iterator[SegmentFile], start: int, stop: int | None, aborts: list[AbortedTxn] | tuple[AbortedTxn, ...]
) -> array[int]:
    """Return the aborted transactions of a split in one array, with three numbers for each transaction: producer id,
    first and last offset of the range in which all transactional batches of this producer are aborted. The array is
    sorted by producer id, then by offset.

    A range begins after the producer's previous marker, or at BEFORE_ALL if no previous marker was read; a transaction
    that only the transaction index lists begins at its first offset. The last offset is that of the abort marker.

    segments: the split's segment, then the segments with higher base offsets, which are read only until no transaction
    of the split is open. start, stop: the split's bytes [start, stop) in the first segment; stop None: to its end.
    aborts: entries of the transaction indexes. Transactions outside the split may be in the result. Raises
    UnreadableInput.
    """
    markers = _Markers({entry.last_offset: entry for entry in aborts})
    for number, segment in enumerate(segments):
        source = open_source(segment.address)
        try:
            for window in sound_windows(source, start if number == 0 else 0):
                if segment.next_offset is not None:
                    window.batches.select(from_offset=segment.begin, to_offset=segment.next_offset)
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
    """Transaction markers by producer id. open: the ids of the producers that have a transactional batch without a
    marker after it."""

    def __init__(self, indexed: dict[int, AbortedTxn]) -> None:
        self._indexed = indexed
        self._without_marker = sorted(indexed)
        # By producer id, a tuple for each marker: the marker's offset; ABORT or COMMIT; the first offset of the
        # transaction in the transaction index, BEFORE_ALL for a marker that was read from the log.
        self._found: dict[int, list[tuple[int, int, int]]] = {}
        self.open: set[int] = set()

    def add(self, window: Window, *, opens: bool, until: int | None) -> None:
        table = window.batches
        self._drop_found(table)
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
            kind = marker_kind(bytes(window.data[start : start + size]))
            if kind in (ABORT, COMMIT):
                self._found.setdefault(producer, []).append((offset, kind, BEFORE_ALL))
                self.open.discard(producer)

    def _drop_found(self, table: BatchTable) -> None:
        """Drop entries of the transaction index whose marker's offset is in a sound batch of `table`: if the marker
        exists, it has been read from the log; if not, the entry is wrong."""
        if not self._without_marker or not table.count:
            return
        for i in range(table.count):
            first = bisect_left(self._without_marker, table.field(i, BASE_OFFSET))
            del self._without_marker[first : bisect_right(self._without_marker, table.field(i, LAST_OFFSET))]

    def ranges(self) -> array[int]:
        """Return the array that aborted_ranges returns, from the markers read so far, and from the entries of the
        transaction index whose markers are not in a sound batch."""
        for offset in self._without_marker:
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

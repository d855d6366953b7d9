"""Which records of .deleted and .swap logs a compacted topic still needs.

A start deletes these logs. In a compacted topic nothing is lost with a record that compaction would remove as well:

    superseded       a segment, or one of these logs, has a later record of its key, whose transaction is committed
    aborted          a record of an aborted transaction
    tombstone        no segment has an older record of its key
    marker           no segment has records of its transaction

Keys are compared by hashes, in maps of bounded memory: if a map is full, the next map begins at the
first offset that it lacks. Damaged batches are passed over. Source: Cleaner.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from formats.control_record import ControlType, parse_key
from formats.errors import FormatError
from formats.kernels.batches import FAULT_BAD_CRC, has_transactions
from formats.kernels.cleaner.key_map import KeyHashes, KeyMap
from formats.kernels.columns import LAST_OFFSET, BatchRow, RecordRow
from formats.kernels.records import RecordTable
from kcli.log.batch_records import UNREADABLE, decode
from kcli.log.partition_view import Content, ContentSource
from kcli.log.recovery.offset_ranges import OffsetRanges
from kcli.log.segment_reader import Damage, Window, read_segment

MAP_BYTES = 64 << 20
LOAD_FACTOR = 0.9
RECORDS_AT_ONCE = 4096
UNSOUND = UNREADABLE | FAULT_BAD_CRC
NEVER = 2**63
NEEDED, NEEDLESS, TOMBSTONE = 0, 1, 2
"""The three states of a record: it is needed; it is not needed; it is a tombstone, which is needed if there is an older
record."""


@dataclass(slots=True)
class Needed:
    """The records of a .deleted or .swap log that the topic needs: their number, that of their batches, their
    offsets, and their first and last offset (-1 if there are none)."""

    records: int = 0
    batches: int = 0
    offsets: OffsetRanges = field(default_factory=OffsetRanges)
    first_offset: int = -1
    last_offset: int = -1


def needed_records(files: Mapping[str, Content], live: Mapping[int, str], logs: Mapping[int, str]) -> dict[int, Needed]:
    """Return, by base offset, the records of `logs` that a compacted topic needs: all but those that compaction would
    remove as well.

    files: the content of the files by name. live: the names of the segments' .log files by base offset. logs: those of
    the logs with a suffix, whose offsets no segment has. Raises UnreadableInput.
    """
    return _Comparison(files, live, logs).needed()


@dataclass(slots=True)
class _Transactions:
    """The transactions of a log. ranges: by producer id, the first offset of each transaction that was aborted or is
    open, and the offset of its abort marker (NEVER for an open one). markers: by the name of a log with a suffix, the
    offset of each marker in it, with the names of the other .log files that have records of the marker's
    transaction."""

    ranges: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    markers: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    _ongoing: dict[int, tuple[int, set[str]]] = field(default_factory=dict)

    def add(self, name: str, row: BatchRow, control: int | None) -> None:
        """Add a transactional batch; the batches come in the order of the log. name: the .log file. control: the type
        of a marker, None for a batch of records."""
        if control is None:
            self._ongoing.setdefault(row.producer_id, (row.base_offset, set()))[1].add(name)
            return
        begun, names = self._ongoing.pop(row.producer_id, (row.base_offset, set[str]()))
        if control == ControlType.ABORT:
            self.ranges.setdefault(row.producer_id, []).append((begun, row.base_offset))
        if name in self.markers:
            self.markers[name][row.base_offset] = names - {name}

    def end(self) -> None:
        """Add the transactions that are still open after the last batch."""
        for producer_id, (begun, _) in self._ongoing.items():
            self.ranges.setdefault(producer_id, []).append((begun, NEVER))

    def end_of(self, row: BatchRow) -> int | None:
        """Return the offset of the abort marker of the transaction to which a batch belongs, and NEVER if the
        transaction is open; None if it was committed, and for a batch outside of transactions."""
        ranges = self.ranges.get(row.producer_id) if row.is_transactional else None
        at = -1 if ranges is None else bisect_right(ranges, (row.base_offset, NEVER)) - 1
        return ranges[at][1] if ranges and at >= 0 and row.base_offset < ranges[at][1] else None


class _Comparison:
    def __init__(self, files: Mapping[str, Content], live: Mapping[int, str], logs: Mapping[int, str]) -> None:
        self._files = files
        self._logs = dict(sorted(logs.items()))
        self._kept = dict(live)
        self._all = dict(sorted((*live.items(), *logs.items())))
        self._records = RecordTable(RECORDS_AT_ONCE)
        self._transactions = _Transactions(markers={name: {} for name in logs.values()})

    def needed(self) -> dict[int, Needed]:
        self._read_transactions()
        known = {base: self._begin(name) for base, name in self._logs.items()}
        first = min(self._logs)
        for offsets in self._maps(self._all, first, NEVER):
            for base, name in self._logs.items():
                self._mark_superseded(name, known[base], offsets)
        found = {}
        for base, name in self._logs.items():
            if TOMBSTONE in known[base]:
                for offsets in self._maps(self._kept, 0, base):
                    self._mark_tombstones(name, known[base], offsets)
            found[base] = self._count(name, known[base])
            if found[base].records:
                self._kept[base] = name
        return found

    def _windows(self, name: str) -> Iterator[Window]:
        """Yield the windows of a .log file."""
        source = ContentSource(name, self._files[name])
        try:
            for part in read_segment(source):
                if not isinstance(part, Damage):
                    yield part
                    part.release()
        finally:
            source.close()

    def _rows(self, name: str) -> Iterator[tuple[Window, RecordRow, memoryview]]:
        """Yield the records of a .log file, each with its window and the buffer to which the row's byte positions
        refer."""
        for window in self._windows(name):
            for buffer in decode(window, self._records):
                for i in range(self._records.count):
                    yield window, RecordRow._make(self._records.row(i)), buffer

    def _read_transactions(self) -> None:
        for name in self._all.values():
            for window in self._windows(name):
                for i in range(window.batches.count if has_transactions(window.batches) else 0):
                    row = BatchRow._make(window.batches.row(i))
                    if row.is_transactional and not row.faults & UNSOUND:
                        control = self._control_type(window, i) if row.is_control else None
                        if not row.is_control or control is not None:
                            self._transactions.add(name, row, control)
        self._transactions.end()

    def _control_type(self, window: Window, i: int) -> int | None:
        """Return the type of the control record in batch i; None if it cannot be read."""
        found = None
        for buffer in decode(window, self._records, first=i, last=i + 1):
            for at in range(self._records.count):
                try:
                    found = parse_key(RecordRow._make(self._records.row(at)).key(buffer)).type
                except FormatError:
                    continue
        return found

    def _maps(self, logs: Mapping[int, str], first: int, until: int) -> Iterator[KeyMap]:
        """Yield maps with the latest offset of each key in `logs`, each map for the offsets after those of the map
        before it. Records below the offset `first`, and .log files with base offsets from `until` on, are left out."""
        chosen = [(base, name) for base, name in sorted(logs.items()) if base < until]
        if not chosen:
            return
        size = sum(self._files[name].size for _, name in chosen)
        memory = min(MAP_BYTES, max(MAP_BYTES >> 10, 4 * size))
        while True:
            offsets = KeyMap(memory, LOAD_FACTOR, os.urandom(16))
            behind = [base for base, _ in chosen[1:]] + [NEVER]
            is_full = any(
                self._put(name, offsets, first) for (_, name), end in zip(chosen, behind, strict=True) if end > first
            )
            yield offsets
            if not is_full:
                return
            first = offsets.reach + 1

    def _put(self, name: str, offsets: KeyMap, first: int) -> bool:
        """Add the keys of a .log file to the map, from the offset `first` on. Returns whether the map got full."""
        for window in self._windows(name):
            if window.batches.field(window.batches.count - 1, LAST_OFFSET) < first:
                continue
            discarded = bytearray(window.batches.count)
            for i in range(window.batches.count):
                row = BatchRow._make(window.batches.row(i))
                is_out = row.is_control or row.faults & UNSOUND or self._transactions.end_of(row) is not None
                discarded[i] = bool(is_out)
            keys = KeyHashes()
            for _ in decode(window, self._records):
                keys.add(offsets, self._records, discarded, first)
            if offsets.put(keys):
                return True
        return False

    def _begin(self, name: str) -> bytearray:
        """Return NEEDLESS, TOMBSTONE or NEEDED for each record of a log, in order, as far as this log alone shows."""
        known = bytearray()
        for window, row, _ in self._rows(name):
            batch = BatchRow._make(window.batches.row(row.batch))
            is_aborted = self._transactions.end_of(batch) not in (None, NEVER)
            if batch.is_control or batch.faults & UNSOUND or is_aborted:
                known.append(NEEDLESS)
            else:
                known.append(TOMBSTONE if row.value_length < 0 <= row.key_length else NEEDED)
        return known

    def _mark_superseded(self, name: str, known: bytearray, offsets: KeyMap) -> None:
        """Mark as NEEDLESS, in `known`, the records of a log for whose key the map has a later offset. known: what is
        known of each record of the log, in order."""
        for at, (_, row, buffer) in enumerate(self._rows(name)):
            key = row.key(buffer) if known[at] != NEEDLESS else None
            if key is not None and offsets.get(key) > row.offset:
                known[at] = NEEDLESS

    def _mark_tombstones(self, name: str, known: bytearray, offsets: KeyMap) -> None:
        """Mark as NEEDED, in `known`, the tombstones of a log for whose key the map has an offset."""
        for at, (_, row, buffer) in enumerate(self._rows(name)):
            key = row.key(buffer) if known[at] == TOMBSTONE else None
            if key is not None and offsets.get(key) >= 0:
                known[at] = NEEDED

    def _count(self, name: str, known: bytearray) -> Needed:
        """Return the needed records of a log, with the markers of transactions that have records in other logs that are
        kept. known: what is known of each record of the log, in order."""
        found, last, kept = Needed(), -1, set(self._kept.values())
        markers = {offset for offset, names in self._transactions.markers[name].items() if names & kept}
        for at, (window, row, _) in enumerate(self._rows(name)):
            if known[at] != NEEDED and row.offset not in markers:
                continue
            base = BatchRow._make(window.batches.row(row.batch)).base_offset
            found.records += 1
            found.batches += base != last
            found.offsets.add(row.offset, row.offset)
            found.first_offset = row.offset if found.first_offset < 0 else found.first_offset
            found.last_offset, last = row.offset, base
        return found

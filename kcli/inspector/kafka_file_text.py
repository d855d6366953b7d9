"""Index and producer snapshot files as kafka-dump-log 4.3 prints them, with that tool's checks of the entries.

The functions yield lines of stdout. `notes` collects the mismatches that Kafka's tool writes to stderr, and the errors
at which the tool would end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager

from formats import offset_index, producer_snapshot, time_index, txn_index
from formats.errors import BadLength, BadValue, FormatError
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.records import RecordTable
from kcli.errors import UnreadableInput
from kcli.inspector.kafka_options import IndexTextOptions, Notes
from kcli.log.batch_records import decode
from kcli.log.segment_reader import Damage, read_segment
from kcli.log.source import STDIN, AnyPath, Source, open_file, read_input, read_whole
from kcli.tier.store import StoreFailed

SMALL_WINDOW_BYTES = 1 << 16


def _base_offset(path: AnyPath, notes: Notes) -> int | None:
    if path == STDIN:
        return 0
    digits = path.name.split(".")[0].partition("-")[0]
    if digits.isdigit():
        return int(digits)
    notes.errors.append(BadValue(f"the name {path.name} begins with no offset"))
    return None


def _sibling(path: AnyPath, suffix: str) -> AnyPath:
    return path.with_name(path.name.partition(".")[0] + suffix)


def print_offset_index(path: AnyPath, name: str, options: IndexTextOptions, notes: Notes) -> Iterator[str]:
    """Yield the lines of an `.index`. name: the path as the command line has it. Raises UnreadableInput."""
    base_offset = _base_offset(path, notes)
    data = read_input(path)
    if base_offset is None:
        return
    entry = offset_index.ENTRY
    entries = entry.unpack_all(data[: len(data) // entry.size * entry.size])
    if not entries:
        yield f"{name} is empty."
        return
    if options.index_sanity_check:
        yield from _sanity(name, base_offset, base_offset + entries[-1].relative_offset, len(data), entry.size, notes)
        return
    with _opened_log(path, notes) as log:
        for i, (relative_offset, position) in enumerate(entries):
            if relative_offset == 0 and i > 0:
                break
            offset = base_offset + relative_offset
            if log is not None:
                _check_position(log, offset, position, path, options.max_message_bytes, notes)
            if not options.verify_index_only:
                yield f"offset: {offset} position: {position}"


def _sanity(name: str, base_offset: int, last_offset: int, length: int, entry_size: int, notes: Notes) -> Iterator[str]:
    """Check an index as a broker does when it starts, to decide whether to rebuild it. If the index passes, yield the
    line that says so; otherwise yield nothing, and add the error to `notes`. base_offset: that of the segment.
    last_offset: that of the last entry. length: the bytes of the file. entry_size: the bytes of an entry."""
    if last_offset < base_offset:
        notes.errors.append(BadValue(f"last offset {last_offset:,} is less than the base offset {base_offset:,}"))
    elif length % entry_size:
        notes.errors.append(BadLength(f"{length:,} bytes are not a multiple of {entry_size}"))
    else:
        yield f"{name} passed sanity check."


@contextmanager
def _opened_log(path: AnyPath, notes: Notes) -> Iterator[Source | None]:
    """Yield the .log file beside an index; None if it cannot be read, or if the index is read from standard input."""
    log = None
    if path != STDIN:
        try:
            log = open_file(_sibling(path, ".log"))
        except StoreFailed:
            raise
        except UnreadableInput as error:
            notes.errors.append(error)
    try:
        yield log
    finally:
        if log is not None:
            log.close()


def _check_position(
    log: Source, offset: int, position: int, path: AnyPath, max_message_bytes: int, notes: Notes
) -> None:
    header = bytearray(27)
    is_whole_header = position >= 0 and log.read_at(position, memoryview(header)) == len(header)
    if not is_whole_header or int.from_bytes(header[8:12], "big", signed=True) > max_message_bytes - 12:
        reason = f"offset {offset:,} points to byte {position:,}, where no batch begins, or one too large"
        notes.errors.append(BadValue(reason))
        return
    last_offset = int.from_bytes(header[:8], "big", signed=True)
    if 2 <= header[16] < 128:
        last_offset += int.from_bytes(header[23:27], "big", signed=True)
    if last_offset != offset:
        notes.complain(f"Mismatches in :{path.absolute()}", f"  Index offset: {offset}, log offset: {last_offset}")


def print_time_index(path: AnyPath, name: str, options: IndexTextOptions, notes: Notes) -> Iterator[str]:
    """Yield the lines of a `.timeindex`. name: the path as the command line has it. Raises UnreadableInput."""
    base_offset = _base_offset(path, notes)
    data = read_input(path)
    if base_offset is None:
        return
    entry = time_index.ENTRY
    entries = entry.unpack_all(data[: len(data) // entry.size * entry.size])
    if options.index_sanity_check:
        last = entries[-1] if entries else time_index.TimeIndexEntry(-1, 0)
        if entries and last.timestamp < entries[0].timestamp:
            notes.errors.append(
                BadValue(f"last timestamp {last.timestamp:,} is less than the first, {entries[0].timestamp:,}")
            )
            return
        yield from _sanity(name, base_offset, base_offset + last.relative_offset, len(data), entry.size, notes)
        return
    with _opened_log(path, notes) as log:
        check = _TimeCheck(path, base_offset, log, notes)
        for i, (timestamp, relative_offset) in enumerate(entries):
            if relative_offset == 0 and i > 0:
                break
            check.entry(timestamp, base_offset + relative_offset)
            if not options.verify_index_only:
                yield f"timestamp: {timestamp} offset: {base_offset + relative_offset}"


class _TimeCheck:
    """Checks time index entries against the .log file: the batch that ends at an entry's offset must have the entry's
    timestamp as its largest."""

    def __init__(self, path: AnyPath, base_offset: int, log: Source | None, notes: Notes) -> None:
        self._name = str(path.absolute())
        self._notes = notes
        self._previous = -1
        self._log = log
        self._index: list[tuple[int, int]] = []
        if path == STDIN:
            return
        try:
            data = read_whole(_sibling(path, ".index"))
        except StoreFailed:
            raise
        except UnreadableInput as error:
            notes.errors.append(error)
            return
        size = offset_index.ENTRY.size
        for relative_offset, position in offset_index.ENTRY.unpack_all(data[: len(data) // size * size]):
            self._index.append((base_offset + relative_offset, position))

    def entry(self, timestamp: int, offset: int) -> None:
        if self._log is None:
            return
        slot = bisect_right(self._index, (offset, 2**63)) - 1
        found, largest = self._largest_timestamp(offset, self._index[slot][1] if slot >= 0 else 0)
        if found != offset:
            title = f"The following indexed offsets are not found in :{self._name}"
            self._notes.complain(title, f"Indexed offset: {offset}, found log offset: {found}")
        else:
            if largest != timestamp:
                title = f"Found timestamp mismatch in :{self._name}"
                self._notes.complain(title, f"  Index timestamp: {timestamp}, log timestamp: {largest}")
            if self._previous >= timestamp:
                title = f"Found out of order timestamp in :{self._name}"
                line = f"  Index timestamp: {timestamp}, Previously indexed timestamp: {self._previous}"
                self._notes.complain(title, line)
        self._previous = timestamp

    def _largest_timestamp(self, offset: int, position: int) -> tuple[int, int]:
        """Return the last offset and the largest timestamp of the first batch from byte `position` on whose last offset
        is `offset` or higher.

        Return -1, -1 if there is no such batch before the first damaged bytes.
        """
        assert self._log is not None
        for part in read_segment(self._log, start=max(0, position), resync=False, window_bytes=SMALL_WINDOW_BYTES):
            if isinstance(part, Damage):
                break
            for i in range(part.batches.count):
                row = BatchRow._make(part.batches.row(i))
                if row.last_offset < offset:
                    continue
                records = RecordTable(4096)
                largest = -1
                for _ in decode(part, records, first=i, last=i + 1):
                    largest = max([largest, *(RecordRow._make(records.row(k)).timestamp for k in range(records.count))])
                return row.last_offset, largest
        return -1, -1


def print_txn_index(path: AnyPath, notes: Notes) -> Iterator[str]:
    """Yield the lines of a `.txnindex`. Raises UnreadableInput."""
    data = read_input(path)
    entry = txn_index.ENTRY
    if len(data) % entry.size:
        notes.errors.append(BadLength(f"{len(data):,} bytes are not a multiple of {entry.size}", len(data)))
    for i, aborted in enumerate(entry.unpack_all(data[: len(data) // entry.size * entry.size])):
        version = aborted.version >> 8  # Kafka's AbortedTxn reads only the first byte of this int16
        if version > txn_index.VERSION:
            notes.errors.append(BadValue(f"aborted transaction of version {aborted.version}", i * entry.size))
            return
        yield (
            f"version: {version} producerId: {aborted.producer_id} firstOffset: {aborted.first_offset} "
            f"lastOffset: {aborted.last_offset} lastStableOffset: {aborted.last_stable_offset}"
        )


def print_producer_snapshot(path: AnyPath, notes: Notes) -> Iterator[str]:
    """Yield the lines of a producer snapshot. Raises UnreadableInput."""
    try:
        snapshot = producer_snapshot.parse(read_input(path))
    except FormatError as error:
        notes.complain(f"{path}: {error}")
        return
    for entry in snapshot.entries:
        open_offset = entry.current_txn_first_offset
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
            f"coordinatorEpoch: {entry.coordinator_epoch} "
            f"currentTxnFirstOffset: {'OptionalLong.empty' if open_offset < 0 else f'OptionalLong[{open_offset}]'} "
            f"lastTimestamp: {entry.timestamp}"
        )
        if entry.last_offset >= 0:
            line += (
                f" firstSequence: {_first_sequence(entry.last_sequence, entry.offset_delta)} "
                f"lastSequence: {entry.last_sequence} lastOffset: {entry.last_offset} "
                f"offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
            )
        yield line


def _first_sequence(last: int, delta: int) -> int:
    """Return the first sequence of a batch. last: its last sequence. delta: by how much the last one is above the first
    one. After 2^31 - 1, sequences continue at 0."""
    return last - delta if last >= delta else 2**31 - (delta - last)

"""Files that a start makes anew from the batches without a step of its own for them.

After a crash Kafka recovers each segment from the recovery point on: it empties the segment's transaction index, writes
an entry for each abort marker, and then writes a producer snapshot. So a transaction index that was lost is there
again, and a snapshot that cannot be read is overwritten, and not noticed. A snapshot below the segments whose snapshots
Kafka keeps is deleted. Source: LogSegment.recover, ProducerStateManager.takeSnapshot, removeStraySnapshots.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from formats.errors import FormatError
from formats.file_name import FileKind, FileName, build, parse
from formats.producer_snapshot import parse as parse_snapshot
from formats.txn_index import ENTRY
from kcli.log.partition_view import SMALL_FILE_BYTES, PartitionView
from kcli.log.recovery.loader import Event, EventKind


def made_anew(view: PartitionView, told: Container[str]) -> Iterator[Event]:
    """Yield an event for each producer snapshot that cannot be parsed and that the start has removed or overwritten,
    and for each transaction index with entries that it has made for a segment without one. view: after the start. told:
    the files that other events name. Raises UnreadableInput."""
    yield from _snapshots(view, told)
    yield from _transaction_indexes(view, told)


def _snapshots(view: PartitionView, told: Container[str]) -> Iterator[Event]:
    before = view.unchanged()
    for name in before.names():
        parsed = parse(name)
        is_snapshot = parsed is not None and parsed.kind is FileKind.PRODUCER_SNAPSHOT and not parsed.state
        is_same = view.files.get(name) == view.original[name]
        if not is_snapshot or name in told or is_same or before.size(name) > SMALL_FILE_BYTES:
            continue
        try:
            parse_snapshot(before.read(name))
        except FormatError as error:
            anew = ", and made anew from the log" if name in view else ""
            yield Event(EventKind.SNAPSHOT_REMOVED, name, f"producer snapshot is corrupt: {error.reason}{anew}")


def _transaction_indexes(view: PartitionView, told: Container[str]) -> Iterator[Event]:
    for name in view.names():
        parsed = parse(name)
        if parsed is None or parsed.kind is not FileKind.TXN_INDEX or parsed.state or name in told:
            continue
        log, index = (build(FileName(kind, parsed.base_offset)) for kind in (FileKind.LOG, FileKind.OFFSET_INDEX))
        was_lost = name not in view.original or not view.original[name].size
        is_of_segment = log in view.original and f"{name}.swap" not in view.original
        entries = view.size(name) // ENTRY.size
        if entries and was_lost and is_of_segment and index not in told:
            what = f"{entries:,} aborted transaction{'s' if entries != 1 else ''}"
            yield Event(EventKind.INDEX_REBUILT, name, f"the transaction index lacks {what}")

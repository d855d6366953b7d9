"""What a segment's objects say about the segment, if no metadata describes it. Their names have the start offset; the
last batch of the .log object has the end offset.

leader_epoch_checkpoint   the leader epochs of the log up to the end of the segment; the segment's own are those that
                          end above its start offset
.index                    the last entry leads to a batch near the end of the .log object, where the last batch is
"""

from __future__ import annotations

from formats.checkpoint import EpochEntry, parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import FileKind
from formats.kernels.columns import LAST_OFFSET, BatchRow
from kcli.errors import KcliError
from kcli.log.index_entries import OFFSET_ENTRY_BYTES, OffsetIndexReader
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.log.segment_reader import Window, read_segment
from kcli.log.source import SEGMENT_BYTES_MAX, Source
from kcli.tier.layout import SegmentObjects
from kcli.tier.segment import RemoteSegment
from kcli.tier.store import KeyMissing, Store, StoreFailed

CHECKPOINT_BYTES_MAX = 4 << 20
"""The size of the largest leader_epoch_checkpoint that is read: more than 100,000 leader epochs."""
INDEX_BYTES_MAX = 64 << 20


def read_object(store: Store, name: str, limit_bytes: int) -> bytes:
    """Return the bytes of a small object. Raises UnreadableInput, ObjectMissing; FormatError for a larger object."""
    source = store.open(name)
    try:
        if source.size() > limit_bytes:
            raise FormatError(f"{source.size():,} bytes are more than such an object can have")
        data = bytearray(source.size())
        return bytes(data[: source.read_at(0, memoryview(data))])
    finally:
        source.close()


def epochs_in(store: Store, objects: SegmentObjects) -> tuple[EpochEntry, ...] | None:
    """Return the entries of a segment's leader_epoch_checkpoint; None if there is none that can be read."""
    if FileKind.REMOTE_LEADER_EPOCHS not in objects.sizes:
        return None
    try:
        name = objects.name(FileKind.REMOTE_LEADER_EPOCHS)
        return LeaderEpochCache(parse_leader_epochs(read_object(store, name, CHECKPOINT_BYTES_MAX))).entries
    except KeyMissing:  # the manifest has the segment's own
        return None
    except StoreFailed:
        raise
    except (KcliError, FormatError, ValueError):
        return None


def segment_of(store: Store, objects: SegmentObjects) -> RemoteSegment | None:
    """Return what a segment's objects say about it, or its manifest; None if they do not have a .log object with a
    batch."""
    if objects.told is not None and objects.told.segment is not None:
        return objects.told.segment
    size = objects.sizes.get(FileKind.LOG)
    if not size:
        return None
    try:
        source = store.open(objects.name(FileKind.LOG))
    except StoreFailed:
        raise
    except KcliError:
        return None
    try:
        last = _last_offset(source, _near_end(store, objects, size))
        if last is None:
            last = _last_offset(source, 0)
        if last is None or last < objects.start_offset:
            return None
        epochs = epochs_in(store, objects) or _first_epoch(source, objects.start_offset)
    except StoreFailed:
        raise
    except KcliError:
        return None
    finally:
        source.close()
    own = LeaderEpochCache(epochs)
    own.truncate_from_start(objects.start_offset)
    own.truncate_from_end(last + 1)
    return RemoteSegment(
        partition=objects.partition,
        id=objects.id,
        start_offset=objects.start_offset,
        end_offset=last,
        size=size,
        leader_epochs=own.entries,
        has_txn_index=FileKind.TXN_INDEX in objects.sizes,
    )


def _near_end(store: Store, objects: SegmentObjects, size: int) -> int:
    """Return a byte of the .log object where a batch begins, near its end as the offset index tells; else 0."""
    if not 0 < objects.sizes.get(FileKind.OFFSET_INDEX, 0) <= INDEX_BYTES_MAX:
        return 0
    try:
        data = read_object(store, objects.name(FileKind.OFFSET_INDEX), INDEX_BYTES_MAX)
    except (KcliError, FormatError):
        return 0
    reader = OffsetIndexReader(data.rstrip(b"\0") + bytes(-len(data.rstrip(b"\0")) % OFFSET_ENTRY_BYTES), 0)
    position = reader.entry(reader.count - 1)[1] if reader.count else 0
    return position if 0 < position < min(size, SEGMENT_BYTES_MAX) else 0


def _last_offset(source: Source, start: int) -> int | None:
    """Return the last offset of the batches from byte `start` on; None if none begins there."""
    last = None
    for part in read_segment(source, start=start, check_crc=start > 0, resync=start == 0):
        if isinstance(part, Window):
            last = part.batches.field(part.batches.count - 1, LAST_OFFSET)
            part.release()
        elif start:
            return None
    return last


def _first_epoch(source: Source, start_offset: int) -> tuple[EpochEntry, ...]:
    """Return one entry, as if all batches of the segment had the leader epoch of the first; no entry if the first batch
    has no leader epoch (magic 0 and 1)."""
    for part in read_segment(source, check_crc=False):
        if isinstance(part, Window):
            epoch = BatchRow._make(part.batches.row(0)).leader_epoch
            return (EpochEntry(epoch, start_offset),) if epoch >= 0 else ()
    return ()

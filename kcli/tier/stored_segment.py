"""The description of a segment by its objects, if no metadata describes it. The objects' names have the start offset;
the last batch of the .log object has the end offset.

leader_epoch_checkpoint   the leader epochs of the log up to the end of the segment; the segment's own are those that
                          end above its start offset. A checkpoint that contradicts the first or the last batch is
                          another log's, or damaged: the segment's own epochs are then taken from the batches
.index                    the last entry leads to a batch near the end of the .log object, where the last batch is
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from formats import offset_index, time_index
from formats.checkpoint import EpochEntry, parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import FileKind
from formats.kernels.columns import BASE_OFFSET, LAST_OFFSET, LEADER_EPOCH, START, BatchRow
from kcli.errors import KcliError, UnreadableInput
from kcli.log.index_entries import OFFSET_ENTRY_BYTES, OffsetIndexReader
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.log.segment_reader import Damage, Window, read_segment
from kcli.log.source import SEGMENT_BYTES_MAX, Source
from kcli.tier.layout import SegmentObjects
from kcli.tier.segment import RemoteSegment
from kcli.tier.store import DamagedObject, KeyMissing, Store, StoreFailed

CHECKPOINT_BYTES_MAX = 4 << 20
"""The size of the largest leader_epoch_checkpoint that is read: more than 100,000 leader epochs."""
INDEX_BYTES_MAX = 64 << 20
HEADER_WINDOW_BYTES = 4 << 10
"""The size of the window in which the first batch is read, if it is not larger."""
OnUnread = Callable[[UnreadableInput], None]
"""Called with the error of each object that could not be read, and may be sound."""


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


def is_unread(error: KcliError) -> bool:
    """Whether the error means that an object could not be read, rather than that it is missing or damaged."""
    return isinstance(error, UnreadableInput) and not isinstance(error, DamagedObject)


def epochs_in(store: Store, objects: SegmentObjects) -> tuple[EpochEntry, ...] | None:
    """Return the entries of a segment's leader_epoch_checkpoint; None if it is missing or damaged. Raises
    UnreadableInput."""
    if FileKind.REMOTE_LEADER_EPOCHS not in objects.sizes:
        return None
    try:
        name = objects.name(FileKind.REMOTE_LEADER_EPOCHS)
        return LeaderEpochCache(parse_leader_epochs(read_object(store, name, CHECKPOINT_BYTES_MAX))).entries
    except KeyMissing:  # the manifest, too, has the segment's own epochs
        return None
    except KcliError as error:
        if is_unread(error):
            raise
        return None
    except (FormatError, ValueError):
        return None


def has_epochs_of(epochs: Sequence[EpochEntry], segment: RemoteSegment) -> bool:
    """Whether a leader_epoch_checkpoint has the leader epochs that a segment is known to have."""
    own = LeaderEpochCache(epochs).entries_in(segment.start_offset, segment.end_offset + 1)
    return not segment.leader_epochs or own == segment.leader_epochs


def segment_of(store: Store, objects: SegmentObjects, on_unread: OnUnread) -> RemoteSegment | None:
    """Return the segment as its manifest or its objects describe it; None if there is neither a manifest that describes
    it nor a .log object with a readable batch. Raises StoreFailed."""
    if objects.told is not None and objects.told.segment is not None:
        return objects.told.segment
    size = objects.sizes.get(FileKind.LOG)
    if not size:
        return None
    try:
        source = store.open(objects.name(FileKind.LOG))
    except KcliError as error:
        _pass_over(error, on_unread)
        return None
    try:
        last = _last_batch(source, _near_end(store, objects, size)) or _last_batch(source, 0)
        if last is None or last.last_offset < objects.start_offset:
            return None
        epochs = None
        try:
            epochs = epochs_in(store, objects)
        except UnreadableInput as error:
            _pass_over(error, on_unread)
        if not epochs or _contradict(epochs, source, last):
            epochs = _epochs_of_batches(source, objects.start_offset)
    except KcliError as error:
        _pass_over(error, on_unread)
        return None
    finally:
        source.close()
    return RemoteSegment(
        partition=objects.partition,
        id=objects.id,
        start_offset=objects.start_offset,
        end_offset=last.last_offset,
        size=size,
        leader_epochs=LeaderEpochCache(epochs).entries_in(objects.start_offset, last.last_offset + 1),
        has_txn_index=FileKind.TXN_INDEX in objects.sizes,
    )


def _pass_over(error: KcliError, on_unread: OnUnread) -> None:
    """Call `on_unread` if an object could not be read. Raises StoreFailed."""
    if isinstance(error, StoreFailed):
        raise error
    if isinstance(error, UnreadableInput) and is_unread(error):
        on_unread(error)


def too_large(size: int) -> str | None:
    """Return, in words, why a .log object of `size` bytes is too large for a segment; None if it is not."""
    if size <= SEGMENT_BYTES_MAX:
        return None
    return f"{size:,} bytes, and Kafka opens no segment of more than {SEGMENT_BYTES_MAX:,}"


def survey(source: Source) -> tuple[int | None, int | None, str | None]:
    """Return the first and the last offset of a .log file or object before its first damage, and a description of this
    damage. The offsets are None if no batch comes before it; the description is None if there is none. Closes the
    source."""
    first = last = None
    try:
        for part in read_segment(source, resync=False):
            if isinstance(part, Damage):
                return first, last, f"byte {part.position:,}: {part.error.reason}"
            table = part.batches
            first = table.field(0, BASE_OFFSET) if first is None else first
            fault = table.first_fault()
            if fault >= 0:
                return first, last, f"byte {part.position + table.field(fault, START):,}: a damaged batch"
            last = table.field(table.count - 1, LAST_OFFSET)
            part.release()
    finally:
        source.close()
    return first, last, None if first is not None else "no batch"


def indexed_offset(store: Store, objects: SegmentObjects) -> int:
    """Return the greatest offset in the .index and .timeindex objects of a segment; -1 if they have no entry, or are
    missing or damaged. Raises UnreadableInput, StoreFailed."""
    found = -1
    for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
        if not 0 < objects.sizes.get(kind, 0) <= INDEX_BYTES_MAX:
            continue
        try:
            data = read_object(store, objects.name(kind), INDEX_BYTES_MAX)
            entries = (offset_index if kind is FileKind.OFFSET_INDEX else time_index).parse(data).entries
        except KcliError as error:
            if is_unread(error):
                raise
            continue
        except FormatError:
            continue
        if entries:
            found = max(found, objects.start_offset + entries[-1].relative_offset)
    return found


def _near_end(store: Store, objects: SegmentObjects, size: int) -> int:
    """Return the byte of the .log object to which the last entry of the offset index points; 0 if there is no such
    entry, or if it points behind the object's end."""
    if not 0 < objects.sizes.get(FileKind.OFFSET_INDEX, 0) <= INDEX_BYTES_MAX:
        return 0
    try:
        data = read_object(store, objects.name(FileKind.OFFSET_INDEX), INDEX_BYTES_MAX)
    except (KcliError, FormatError):
        return 0
    reader = OffsetIndexReader(data.rstrip(b"\0") + bytes(-len(data.rstrip(b"\0")) % OFFSET_ENTRY_BYTES), 0)
    position = reader.entry(reader.count - 1)[1] if reader.count else 0
    return position if 0 < position < min(size, SEGMENT_BYTES_MAX) else 0


def _last_batch(source: Source, start: int) -> BatchRow | None:
    """Return the last of the batches from byte `start` on; None if there is none, or if `start` is above 0 and damage
    follows. If the object is too large for a segment, return the last batch before damage: the bytes behind it may be
    two gigabytes of zeros."""
    last, is_large = None, too_large(source.size()) is not None
    for part in read_segment(source, start=start, check_crc=start > 0, resync=start == 0 and not is_large):
        if isinstance(part, Window):
            last = BatchRow._make(part.batches.row(part.batches.count - 1))
            part.release()
        elif start and not is_large:
            return None
    return last


def _contradict(epochs: Sequence[EpochEntry], source: Source, last: BatchRow) -> bool:
    """Whether the first or the last batch of a segment has another leader epoch than `epochs` have for its last offset.
    The first batch is no contradiction if `epochs` begin above it, because the log began inside the segment when it was
    copied; nor are batches of magic 0 and 1, which have no leader epoch."""
    known = LeaderEpochCache(epochs)
    first = _first_batch(source)
    if first is not None and first.leader_epoch >= 0:
        said = known.epoch_for(first.last_offset)
        if said is not None and said != first.leader_epoch:
            return True
    return last.leader_epoch >= 0 and known.epoch_for(last.last_offset) != last.leader_epoch


def _first_batch(source: Source) -> BatchRow | None:
    for part in read_segment(source, check_crc=False, window_bytes=HEADER_WINDOW_BYTES):
        if isinstance(part, Window):
            return BatchRow._make(part.batches.row(0))
    return None


def _epochs_of_batches(source: Source, start_offset: int) -> tuple[EpochEntry, ...]:
    """Return the leader epochs of a segment's batches; the first one begins at the segment's start offset. No entry if
    the batches have none (magic 0 and 1). A batch whose leader epoch is above that of a later batch does not count."""
    found = LeaderEpochCache()
    for part in read_segment(source, check_crc=False, resync=too_large(source.size()) is None):
        if isinstance(part, Window):
            for i in range(part.batches.count):
                epoch = part.batches.field(i, LEADER_EPOCH)
                if epoch >= 0 and epoch != found.latest_epoch:
                    found.assign(epoch, max(start_offset, part.batches.field(i, BASE_OFFSET)))
            part.release()
    first, *others = found.entries or (None,)
    return () if first is None else (EpochEntry(first.epoch, start_offset), *others)

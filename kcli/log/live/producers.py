"""The producers of an open log: their state, updated with every append; their snapshots; the ended transactions whose
markers are not replicated.

The last stable offset is the first offset of the first transaction that is open, or whose marker is not yet below the
high watermark. Source: ProducerStateManager, UnifiedLog.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from formats.file_name import FileKind, FileName, build
from formats.kernels.batches import BatchTable
from formats.kernels.columns import BatchRow
from formats.kernels.producers import expire_producers
from kcli.errors import StartRefused
from kcli.log.disk import Disk
from kcli.log.live.segment import DELETED, LiveSegment
from kcli.log.live.verification import Verification
from kcli.log.partition_view import Content, FileRange, PartitionView
from kcli.log.producer_state import ProducerStateManager
from kcli.log.segment_reader import Damage, read_segment


class LiveView(PartitionView):
    """The view of an open partition's directory: each change is made on disk at once; `sync` makes it durable."""

    def __init__(self, loaded: PartitionView, disk: Disk) -> None:
        """loaded: the view with which recovery loaded the log, after its changes were applied to the directory."""
        self.directory = loaded.directory
        self.original = {}
        self.files = dict(loaded.files)
        self._disk = disk
        self._unsynced: set[str] = set()

    def write(self, name: str, data: bytes) -> None:
        """Create a file, or replace it."""
        path = self.directory / name
        with self._disk.open(path, create=True, truncate=True) as file:
            file.write([data], 0)
        self.files[name] = Content((FileRange(path, 0, len(data)),))
        self._unsynced.add(name)

    def remove(self, name: str) -> None:
        """Remove a file that may already be gone."""
        super().remove(name)
        self._unsynced.discard(name)
        self._disk.remove(self.directory / name)

    def rename(self, name: str, to: str) -> None:
        """Rename a file."""
        super().rename(name, to)
        self._unsynced.discard(name)
        self._disk.rename(self.directory / name, self.directory / to)

    def move(self, directory: Path) -> None:
        """Use the new name of the directory, which has been renamed."""
        self.directory = directory
        self.files = {
            name: Content((FileRange(directory / name, 0, content.size),)) for name, content in self.files.items()
        }

    def take_unsynced(self) -> tuple[str, ...]:
        """Return the names of the files written since the last sync, and forget them: the caller is to sync them."""
        names = tuple(sorted(self._unsynced))
        self._unsynced.clear()
        return names

    def sync(self) -> None:
        """Sync the files that `write` has written, so that they survive a power failure."""
        for name in self.take_unsynced():
            with self._disk.open(self.directory / name) as file:
                file.sync()


class LiveProducers(ProducerStateManager):
    """The producer state of an open log; it begins with the state that recovery has loaded."""

    def __init__(self, view: LiveView, loaded: ProducerStateManager, *, now_ms: int, expiration_ms: int) -> None:
        super().__init__(view, now_ms, expiration_ms=expiration_ms)
        self.table = loaded.table
        self.unreplicated = loaded.unreplicated
        self._last_snapshot_offset = loaded.last_snapshot_offset
        self._live_view = view
        self.verifications: dict[int, Verification] = {}

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, begins_at_0: bool
    ) -> None:
        """Note that the producer tried to append a batch with this epoch and sequence, which is not appended before the
        coordinator has verified its transaction. begins_at_0: whether the producer must begin with sequence 0 if it has
        no batch in the log."""
        known = self.verifications.setdefault(producer_id, Verification(epoch, sequence, begins_at_0, now_ms))
        known.tried(epoch, sequence)

    def end_verification(self, row: BatchRow) -> None:
        """End the verification of the batch's producer, as a batch or marker of the verified transaction is appended;
        the marker of the producer's previous transaction does not end it."""
        known = self.verifications.get(row.producer_id)
        if known is not None and not (row.is_control and known.begins_at_0 and known.epoch == row.producer_epoch):
            del self.verifications[row.producer_id]

    def end_verifications(self, batches: BatchTable) -> None:
        """End the verifications of the producers of the transactional batches in `batches`, which came from the
        leader."""
        for i in range(batches.count):
            row = BatchRow._make(batches.row(i))
            if row.is_transactional:
                self.end_verification(row)

    def replicated_to(self, high_watermark: int) -> None:
        """Drop the ended transactions whose markers are below the high watermark: they no longer hold back the last
        stable offset."""
        if self.unreplicated:
            self.unreplicated = {
                first: marker for first, marker in self.unreplicated.items() if marker >= high_watermark
            }

    def start_moved(self, log_start_offset: int) -> None:
        """Let the state begin at the new log start offset: drop the ended transactions whose markers are below it, and
        count the batches below it as included in the state."""
        self.replicated_to(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        latest = self.latest_snapshot_offset
        self._last_snapshot_offset = log_start_offset if latest is None else latest

    def expire(self, now_ms: int) -> int:
        """Forget producers that have been silent for producer.id.expiration.ms. Returns how many."""
        before_ms = now_ms - self._expiration_ms
        for each in [each for each, known in self.verifications.items() if known.since_ms <= before_ms]:
            del self.verifications[each]  # not a new dict, because a Runway shares this one
        return expire_producers(self.table, before_ms)

    def mark_deleted(self, offset: int) -> str | None:
        """Give the producer snapshot at an offset the suffix `.deleted`. Returns the new name; None if there is no
        snapshot."""
        name = self._snapshots.pop(offset, None)
        if name is None:
            return None
        self._live_view.rename(name, name + DELETED)
        return name + DELETED

    def snapshot_path(self, offset: int) -> Path | None:
        """Return the path of the producer snapshot at an offset; None if there is none."""
        name = self._snapshots.get(offset)
        return None if name is None else self._live_view.directory / name

    def take_over(self, offset: int, snapshot: bytes) -> None:
        """Write a producer snapshot at `offset` that comes from another broker, in place of all others. `rebuild` loads
        it. Raises OSError."""
        self.truncate_fully_and_start_at(0)
        name = build(FileName(FileKind.PRODUCER_SNAPSHOT, offset))
        self._live_view.write(name, snapshot)
        self._snapshots[offset] = name

    def move(self, directory: Path) -> None:
        """Use the new name of the partition's directory, which has been renamed."""
        self._live_view.move(directory)

    def sync(self) -> None:
        """Make snapshots durable."""
        self._live_view.sync()

    def take_unsynced(self) -> tuple[str, ...]:
        """Return the names of the snapshots written since the last sync, and forget them: the caller is to sync
        them."""
        return self._live_view.take_unsynced()

    def rebuild(self, segments: Sequence[LiveSegment], start_offset: int, end_offset: int, now_ms: int) -> None:
        """Load the state of the records below `end_offset`: from the latest snapshot that is not above it, and from the
        batches after the snapshot. segments: all segments of the log. start_offset: the log start offset. Raises
        StartRefused."""
        self._now_ms = now_ms
        to_snapshot = {*(segment.base_offset for segment in segments[-2:]), end_offset}
        was_empty = not len(self.table) and not self.unreplicated and self.map_end_offset >= end_offset
        self.truncate_and_reload(start_offset, end_offset)
        if end_offset > self.map_end_offset and not was_empty:
            for i, segment in enumerate(segments):
                behind = segments[i + 1].base_offset if i + 1 < len(segments) else end_offset
                if behind <= self.map_end_offset or segment.base_offset >= end_offset:
                    continue
                self.map_end_offset = max(segment.base_offset, self.map_end_offset, start_offset)
                if segment.base_offset in to_snapshot:
                    self.take_snapshot()
                self._load_segment(segment, self.map_end_offset, end_offset)
        self.map_end_offset = end_offset
        self.take_snapshot()

    def _load_segment(self, segment: LiveSegment, from_offset: int, to_offset: int) -> None:
        start = segment.locate(from_offset)
        if start is None:
            return
        stop = segment.locate(to_offset)
        source = segment.source()
        try:
            end = segment.size if stop is None else stop.position
            for part in read_segment(source, start=start.position, stop=end, check_crc=False, resync=False):
                if isinstance(part, Damage) or self.follow(part.batches, part.data) is None:
                    raise StartRefused(segment.log_path.name, self.table.reason or "a batch that is not whole")
        finally:
            source.close()

"""Snapshots and retention of a metadata log. Both depend on a size in bytes and on a time.

    snapshot   is written after metadata.log.max.record.bytes.between.snapshots or metadata.log.max.snapshot.interval.ms
               (0: not by time)
    clean      deletes by metadata.max.retention.bytes and metadata.max.retention.ms (-1: no limit); never the latest
               snapshot
    files      of deleted snapshots and segments keep the suffix `.deleted` for a minute

Source: SnapshotGenerator, KafkaRaftLog.maybeClean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

from kcli.broker.metadata.config import DELETE_DELAY_MS, MetadataLogConfig
from kcli.broker.metadata.snapshots import Retention, Snapshots
from kcli.broker.process.unattended import report
from kcli.errors import UnreadableInput
from kcli.log.disk import Disk
from kcli.log.live.partition_log import PartitionLog
from kcli.metadata_log.snapshot_file import SnapshotId


class Upkeep:
    """The snapshots and deletions of one metadata log. Its tasks run in the event loop; a thread writes files."""

    def __init__(
        self, disk: Disk, snapshots: Snapshots, config: MetadataLogConfig, *, bytes_since: int, now_ms: int
    ) -> None:
        """bytes_since: the size of the batches after the latest snapshot, in bytes."""
        self.snapshots = snapshots
        self.writing: asyncio.Task[None] | None = None
        self._disk = disk
        self._config = config
        self._bytes_since = bytes_since
        self._since_ms = now_ms
        self._removals: dict[asyncio.TimerHandle, Callable[[], None]] = {}

    def appended(self, size_bytes: int) -> None:
        """Count the size of an appended batch, so that a snapshot may become due."""
        self._bytes_since += size_bytes

    def is_snapshot_due(self, now_ms: int) -> bool:
        """Whether a snapshot is due, and none is being written."""
        interval_ms = self._config.max_snapshot_interval_ms
        by_time = 0 < interval_ms <= now_ms - self._since_ms
        by_bytes = self._bytes_since >= self._config.max_record_bytes_between_snapshots
        return self.writing is None and (by_time or by_bytes)

    def write(self, which: SnapshotId, batches: Iterator[bytearray], now_ms: int) -> asyncio.Task[None]:
        """Begin to write a snapshot in a thread. Return the task, which ends when this is done or has failed."""
        assert self.writing is None, "one at a time"
        self._bytes_since, self._since_ms = 0, now_ms
        self.writing = asyncio.get_running_loop().create_task(self._write(which, batches))
        return self.writing

    async def _write(self, which: SnapshotId, batches: Iterator[bytearray]) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(None, self.snapshots.write, which, batches)
            self.snapshots.added(which)
        except Exception as error:  # noqa: BLE001  (the log has all records: the next snapshot is tried when due)
            report(f"snapshot {which.file_name} is not written", error)
        finally:
            self.writing = None

    def clean(self, log: PartitionLog, now_ms: int) -> None:
        """Delete old snapshots, and the segments below the oldest remaining snapshot. If the oldest snapshot cannot be
        read, delete none, as in Kafka. Raises OSError."""
        while self._oldest_is_due(log.size, now_ms):
            keep = self.snapshots.ids[1]
            if not log.delete_records(keep.offset):
                return
            for removal in log.delete_old_segments(now_ms):
                self._remove_later(removal.run)
            for path in self.snapshots.forget_before(keep):
                self._remove_later(partial(self._disk.remove, path))

    def _oldest_is_due(self, log_bytes: int, now_ms: int) -> bool:
        limits = Retention(self._config.max_retention_bytes, self._config.max_retention_ms)
        try:
            return self.snapshots.oldest_is_due(limits, log_bytes, now_ms)
        except UnreadableInput as error:
            report("old snapshots of the metadata log stay: the oldest cannot be read", error)
            return False

    def _remove_later(self, remove: Callable[[], None]) -> None:
        def run() -> None:
            del self._removals[timer]
            self._remove(remove)

        timer = asyncio.get_running_loop().call_later(DELETE_DELAY_MS / 1000, run)
        self._removals[timer] = remove

    def _remove(self, remove: Callable[[], None]) -> None:
        try:
            remove()
        except OSError as error:
            report("an old file of the metadata log stays", error)

    def close(self) -> None:
        """Remove at once the files that were to be removed later."""
        for timer, remove in self._removals.items():
            timer.cancel()
            self._remove(remove)
        self._removals.clear()

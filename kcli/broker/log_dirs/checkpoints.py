"""The checkpoints of the log directories, and the marker of a clean shutdown. The contents of a checkpoint are
collected on the event loop, and written later by a thread.

    recovery points     every 60 s   the offset up to which each log is flushed
    log start offsets   every 60 s   those above the base offset of the log's first segment, and those of tiered logs
    high watermarks     every 5 s
    cleaned offsets     after a log was cleaned

A checkpoint whose contents have not changed is not written. Source: LogManager, ReplicaManager, LogCleanerManager,
CleanShutdownFileHandler; KIP-966 (broker epoch in the clean-shutdown marker).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from threading import Lock

from formats.file_name import FileKind
from kcli.broker.log_dirs.directories import LogDir, LogDirs
from kcli.log.disk import Disk
from kcli.log.live.partition_log import PartitionLog
from kcli.metadata.registration_control import NO_EPOCH
from kcli.protocol.topic_partition import TopicPartition

Offsets = Mapping[TopicPartition, int]
OF_LOGS = (FileKind.RECOVERY_POINTS, FileKind.REPLICATION_OFFSETS, FileKind.LOG_START_OFFSETS)


def recovery_points(logs: Iterable[tuple[TopicPartition, PartitionLog]]) -> dict[TopicPartition, int]:
    """The contents of recovery-point-offset-checkpoint for these logs."""
    return {key: log.recovery_point for key, log in logs}


def log_starts(logs: Iterable[tuple[TopicPartition, PartitionLog]]) -> dict[TopicPartition, int]:
    """The contents of log-start-offset-checkpoint for these logs."""
    return {
        key: log.log_start_offset for key, log in logs if log.log_start_offset > log.first_base_offset or log.is_tiered
    }


def high_watermarks(logs: Iterable[tuple[TopicPartition, PartitionLog]]) -> dict[TopicPartition, int]:
    """The contents of replication-offset-checkpoint for these logs."""
    return {key: log.high_watermark for key, log in logs}


class CheckpointWriter:
    """Writes the checkpoints of one log directory. May be called in any thread; one thread writes at a time."""

    def __init__(self, disk: Disk, directory: LogDir) -> None:
        self._disk = disk
        self._directory = directory
        self._written: dict[FileKind, Offsets] = {}
        self._found: dict[FileKind, Offsets] = {}
        self._guard = Lock()

    def write(self, contents: Mapping[FileKind, Offsets]) -> None:
        """Write the checkpoints that have changed. contents: kind of the file -> its offsets. Raises OSError."""
        with self._guard:
            for kind, offsets in contents.items():
                if self._directory.is_online and self._written.get(kind) != offsets:
                    self._directory.files.write_offsets(self._disk, kind, offsets)
                    self._written[kind] = offsets

    def forget(self, partition: TopicPartition) -> None:
        """Remove the entries of a partition whose log is about to be created. Such entries are those of a deleted log
        of the same name; if the broker crashed, its next start would take them for the new log's, and a log start
        offset above the new log's end removes all records. Raises OSError."""
        with self._guard:
            for kind in OF_LOGS:
                offsets = self._written.get(kind)
                if offsets is None:
                    if kind not in self._found:
                        self._found[kind] = self._directory.files.legible_offsets(kind)
                    offsets = self._found[kind]
                if partition in offsets and self._directory.is_online:
                    left = {key: offset for key, offset in offsets.items() if key != partition}
                    self._directory.files.write_offsets(self._disk, kind, left)
                    self._written[kind] = left

    def mark_clean(self, broker_epoch: int) -> None:
        """Write the marker of a clean shutdown. Raises OSError."""
        data = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()
        self._disk.write_file(self._directory.path / FileKind.CLEAN_SHUTDOWN, data)


def previous_epoch(dirs: LogDirs) -> int:
    """Return the broker epoch in the clean-shutdown markers of the online log directories; -1 unless each of them has a
    marker with the same epoch."""
    epochs = {each.files.marked_broker_epoch for each in dirs.online}
    epoch = epochs.pop() if len(epochs) == 1 else None
    return NO_EPOCH if epoch is None else epoch

"""The checkpoints of the log directories, and the marker of a clean shutdown: snapshots taken at once, written later.

    recovery points   every 60 s   up to where each log is flushed
    log starts        every 60 s   those that lie behind the first segment's base offset
    high watermarks   every 5 s
    cleaned           when the cleaner has been at a log

One that would say what it said the last time is not written. Source: LogManager, ReplicaManager, LogCleanerManager,
CleanShutdownFileHandler; KIP-966 (broker epoch in the marker).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock

from formats.file_name import FileKind
from kcli.broker.logs.directories import LogDir, LogDirs
from kcli.log.disk import Disk
from kcli.log.partition_log import PartitionLog
from kcli.metadata.registration_control import NO_EPOCH

EPOCH_MAX = 2**63 - 1
Key = tuple[str, int]
Offsets = Mapping[Key, int]


def recovery_points(logs: Iterable[tuple[Key, PartitionLog]]) -> dict[Key, int]:
    """What recovery-point-offset-checkpoint says of these logs."""
    return {key: log.recovery_point for key, log in logs}


def log_starts(logs: Iterable[tuple[Key, PartitionLog]]) -> dict[Key, int]:
    """What log-start-offset-checkpoint says of these logs."""
    return {
        key: log.log_start_offset
        for key, log in logs
        if log.log_start_offset > log.first_base_offset or log.config.remote_storage
    }


def high_watermarks(logs: Iterable[tuple[Key, PartitionLog]]) -> dict[Key, int]:
    """What replication-offset-checkpoint says of these logs."""
    return {key: log.high_watermark for key, log in logs}


class CheckpointWriter:
    """Writes the files of one log directory. Any thread may; one writes at a time."""

    def __init__(self, disk: Disk, directory: LogDir) -> None:
        self._disk = disk
        self._directory = directory
        self._written: dict[FileKind, Offsets] = {}
        self._guard = Lock()

    def write(self, contents: Mapping[FileKind, Offsets]) -> None:
        """Write those that have changed. Raises OSError."""
        with self._guard:
            for kind, offsets in contents.items():
                if self._directory.is_online and self._written.get(kind) != offsets:
                    self._directory.files.write_offsets(self._disk, kind, offsets)
                    self._written[kind] = offsets

    def mark_clean(self, broker_epoch: int) -> None:
        """Write the marker of a clean shutdown. Raises OSError."""
        data = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()
        self._disk.write_file(self._directory.path / FileKind.CLEAN_SHUTDOWN, data)


def previous_epoch(dirs: LogDirs) -> int:
    """The broker's epoch at its last clean shutdown, where all directories agree on it."""
    epochs = {_epoch_in(each.path / FileKind.CLEAN_SHUTDOWN) for each in dirs.online}
    return epochs.pop() if len(epochs) == 1 else NO_EPOCH


def _epoch_in(marker: Path) -> int:
    try:
        epoch = json.loads(marker.read_bytes()).get("brokerEpoch", NO_EPOCH)
    except (OSError, ValueError, AttributeError, RecursionError):
        return NO_EPOCH
    return epoch if isinstance(epoch, int) and NO_EPOCH <= epoch <= EPOCH_MAX else NO_EPOCH

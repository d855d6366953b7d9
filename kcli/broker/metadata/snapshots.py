"""The snapshots of a node's metadata log. Their format is in kcli.metadata_log.snapshot_file.

A snapshot is written to a file with the suffix `.part`, which is synced, made read-only and renamed. A snapshot that is
no longer needed keeps the suffix `.deleted` for a minute. Source: FileRawSnapshotWriter, KafkaRaftLog, Snapshots;
KIP-630.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from formats.file_name import FileKind, parse
from kcli.errors import StartRefused
from kcli.log.disk import Disk
from kcli.metadata_log.snapshot_file import SnapshotId, read_snapshot

DELETED = ".deleted"
READ_ONLY = 0o400


class Retention(NamedTuple):
    """The limits metadata.max.retention.bytes and metadata.max.retention.ms; -1 for no limit."""

    bytes_max: int
    ms_max: int


class Snapshots:
    """The snapshots in the directory of a metadata log, from the oldest to the latest."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self.directory = directory
        self.ids: list[SnapshotId] = []

    def load(self, log_start_offset: int) -> None:
        """List the snapshots on disk. Remove partial and deleted snapshots, and those below the log start offset.
        Raises StartRefused, OSError."""
        for path in sorted(self.directory.iterdir()):
            name = parse(path.name)
            if name is None or name.kind is not FileKind.KRAFT_SNAPSHOT:
                continue
            assert name.base_offset is not None, "these names have an offset"
            assert name.epoch is not None, "and an epoch"
            if name.state or name.base_offset < log_start_offset:
                self._remove(path)
            else:
                self.ids.append(SnapshotId(name.base_offset, name.epoch))
        self.ids.sort()
        # refuse the start before the latest snapshot replaces a log that ends below it
        if self.latest is not None and self.path(self.latest).is_dir():
            raise StartRefused(f"{self.directory.name}/{self.latest.file_name}", "the latest snapshot is a directory")
        if log_start_offset and not self.ids:
            reason = f"the log begins at {log_start_offset:,}, and no snapshot has what was before"
            raise StartRefused(self.directory.name, reason)

    def _remove(self, path: Path) -> None:
        """Remove whatever has the name of a snapshot: a file, or an empty directory, as Java's Files.deleteIfExists
        does."""
        if path.is_dir() and not path.is_symlink():
            self._disk.remove_directory(path)
        else:
            self._disk.remove(path)

    @property
    def latest(self) -> SnapshotId | None:
        """The latest snapshot; None if there is none."""
        return self.ids[-1] if self.ids else None

    def path(self, snapshot: SnapshotId) -> Path:
        """The path of a snapshot."""
        return self.directory / snapshot.file_name

    def write(self, snapshot: SnapshotId, batches: Iterator[bytearray]) -> int:
        """Write a snapshot, in a thread; call `added` afterwards.

        Return the snapshot's size in bytes. If OSError is raised, no file is left.
        """
        path = self.path(snapshot)
        part = path.with_name(f"{path.name}.part")
        size = 0
        try:
            with self._disk.open(part, create=True, truncate=True) as file:
                for batch in batches:
                    size += file.write([batch], size)
                file.sync()
                os.fchmod(file.fd, READ_ONLY)
            self._disk.rename(part, path)
            self._disk.sync_directory(self.directory)
        except BaseException:
            self._disk.remove(part)
            raise
        return size

    def added(self, snapshot: SnapshotId) -> None:
        """Add a snapshot, whose file has been written, to `ids`."""
        self.ids.append(snapshot)
        self.ids.sort()

    def forget_before(self, snapshot: SnapshotId) -> list[Path]:
        """Give the files of the snapshots before `snapshot` the suffix `.deleted`. Return these files, which are to be
        removed later. Raises OSError."""
        older = [each for each in self.ids if each < snapshot]
        self.ids = [each for each in self.ids if each >= snapshot]
        renamed = []
        for each in older:
            path = self.path(each)
            renamed.append(path.with_name(path.name + DELETED))
            self._disk.rename(path, renamed[-1])
        return renamed

    def oldest_is_due(self, limits: Retention, log_bytes: int, now_ms: int) -> bool:
        """Whether retention, by total size or by age, is to delete the oldest snapshot and the log up to the next
        snapshot. Raises UnreadableInput."""
        if len(self.ids) < 2:
            return False
        total = log_bytes + sum(self.path(each).stat().st_size for each in self.ids)
        if 0 <= limits.bytes_max < total:
            return True
        return 0 <= limits.ms_max < now_ms - last_timestamp_ms(self.path(self.ids[0]))


def last_timestamp_ms(path: Path) -> int:
    """Return the timestamp, in ms, of the last record below a snapshot's offset, as the snapshot's header has it.
    Raises UnreadableInput."""
    value = next(read_snapshot(path)).controls[0].value
    timestamp: int = value["lastContainedLogTimestamp"]
    return timestamp

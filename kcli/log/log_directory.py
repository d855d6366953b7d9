"""A broker's log directory: whose it is, who uses it, how it was left, and the partitions in it.

    .lock                   locked as a whole file by the broker that uses the directory
    .kafka_cleanshutdown    the broker ended in order: a start need not check its logs
    meta.properties         the cluster and the node that the directory belongs to
    recovery-point-, log-start-, replication- and cleaner-offset-checkpoint
    <topic>-<partition>     and those with -delete, -future, -stray; any other directory keeps a broker from starting.
                            Kafka takes any characters for a topic here: it knows no such topic, so it is a stray

Source: LogManager, FileLock, MetaPropertiesEnsemble, UnifiedLog.parseTopicPartitionName.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import ClassVar, Self

from formats import properties
from formats.checkpoint import OffsetEntry, build_offsets, parse_offsets
from formats.errors import BadNumber, FormatError
from formats.file_name import DirectoryName, FileKind, build_directory, parse, parse_directory
from formats.message import uuid_bytes
from formats.properties import MetaProperties
from kcli.errors import KcliError, UnreadableInput
from kcli.log.disk import Disk, DiskFile
from kcli.log.recovery_view import MOST_DIGITS, StartRefused
from kcli.log.source import read_whole

REMOTE_INDEX_CACHE = "remote-log-index-cache"
RESERVED_IDS = 100
"""Ids below are no directory's: those of replicas that are lost, or lie nowhere yet."""
PARTITION_FILES = (
    FileKind.LOG,
    FileKind.OFFSET_INDEX,
    FileKind.TIME_INDEX,
    FileKind.TXN_INDEX,
    FileKind.PRODUCER_SNAPSHOT,
    FileKind.LEADER_EPOCHS,
    FileKind.PARTITION_METADATA,
)
DIRECTORY_FILES = (
    FileKind.META_PROPERTIES,
    FileKind.CLEAN_SHUTDOWN,
    FileKind.RECOVERY_POINTS,
    FileKind.LOG_START_OFFSETS,
    FileKind.REPLICATION_OFFSETS,
    FileKind.CLEANER_OFFSETS,
)

PASSED_OVER = {
    FileKind.RECOVERY_POINTS: "Kafka goes on as if there were none, and recovers logs from their beginning",
    FileKind.LOG_START_OFFSETS: "Kafka goes on as if there were none: logs begin with their first segment",
    FileKind.CLEANER_OFFSETS: "Kafka starts, and its log cleaner ends at once",
    FileKind.REPLICATION_OFFSETS: "Kafka starts, and serves no partition of this directory",
}
"""What becomes of a start where a checkpoint has text for a number. All else that is wrong with one stops it."""

Partition = tuple[str, int]


def read_properties(path: Path) -> Mapping[str, str]:
    """The entries of a properties file: meta.properties, server.properties. Raises UnreadableInput."""
    try:
        return properties.parse(read_whole(path)).entries
    except FormatError as error:
        raise UnreadableInput(str(path), str(error)) from None


def read_meta_properties(directory: Path) -> MetaProperties | None:
    """What the directory's meta.properties says; None where it has none. Raises FormatError, UnreadableInput."""
    path = directory / FileKind.META_PROPERTIES
    return properties.meta_properties(properties.parse(read_whole(path))) if path.exists() else None


class DirectoryLocked(KcliError):
    """Another process, or another part of this one, uses the log directory."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: in use by a running Kafka or kcli, which holds its .lock")


class DirectoryLock:
    """Kafka's lock of a log directory: POSIX record lock on all of `.lock`. A context manager that gives it back.

    Java's FileChannel lock and this one exclude each other. POSIX locks are a process's, and closing any descriptor of
    the file gives them up: within a process a table of locked files stands in. Raises DirectoryLocked, OSError.
    """

    _held: ClassVar[set[tuple[int, int]]] = set()
    _guard = Lock()

    def __init__(self, disk: Disk, directory: Path) -> None:
        path = directory / FileKind.LOCK
        with self._guard:
            key = _file_id(path)
            if key in self._held:
                raise DirectoryLocked(directory)
            self._file: DiskFile = disk.open(path, create=True)
            try:
                fcntl.lockf(self._file.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                self._file.close()
                if error.errno in (errno.EACCES, errno.EAGAIN):
                    raise DirectoryLocked(directory) from None
                raise
            stat = os.fstat(self._file.fd)
            self._key = (stat.st_dev, stat.st_ino)
            self._held.add(self._key)

    def release(self) -> None:
        """Give the lock back."""
        with self._guard:
            self._held.discard(self._key)
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _file_id(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino


@dataclass(frozen=True, slots=True)
class PartitionDirectory:
    """A directory that Kafka takes for a partition's."""

    path: Path
    name: DirectoryName

    @property
    def partition(self) -> Partition:
        """Topic and number."""
        return self.name.topic, self.name.partition


class LogDirectory:
    """What a log directory holds, read when it is asked for. Nothing is written but by `write_offsets`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def was_shut_down_cleanly(self) -> bool:
        """Is the clean-shutdown marker there?"""
        return (self.path / FileKind.CLEAN_SHUTDOWN).exists()

    def offsets(self, kind: FileKind) -> dict[Partition, int]:
        """The entries of a checkpoint; none where it is not there, or a number in it is none and Kafka goes on without
        it (see `passed_over`). Raises StartRefused, UnreadableInput."""
        path = self.path / kind
        if not path.exists():
            return {}
        try:
            return {(entry.topic, entry.partition): entry.offset for entry in parse_offsets(read_whole(path))}
        except FormatError as error:
            if isinstance(error, BadNumber) and kind != FileKind.REPLICATION_OFFSETS:
                return {}
            raise StartRefused(kind, error.reason, error.position) from None

    def passed_over(self) -> list[StartRefused]:
        """Checkpoints with which a broker starts, but not as it should. Raises UnreadableInput."""
        found = []
        for kind, outcome in PASSED_OVER.items():
            path = self.path / kind
            try:
                parse_offsets(read_whole(path) if path.exists() else b"")
            except BadNumber as error:
                found.append(StartRefused(kind, f"{error.reason}: {outcome}", error.position))
            except FormatError:
                continue
        return found

    def write_offsets(self, disk: Disk, kind: FileKind, offsets: Mapping[Partition, int]) -> None:
        """Write a checkpoint, atomically. Raises OSError."""
        entries = [OffsetEntry(topic, partition, offset) for (topic, partition), offset in sorted(offsets.items())]
        disk.write_file(self.path / kind, build_offsets(entries))

    def refusals(self) -> list[StartRefused]:
        """What keeps a broker from starting with this directory: meta.properties, checkpoints, odd directories.

        A bad replication-offset-checkpoint does not. Raises UnreadableInput.
        """
        found = []
        try:
            reason = _unusable(read_meta_properties(self.path))
            if reason is not None:
                found.append(StartRefused(FileKind.META_PROPERTIES, reason))
        except FormatError as error:
            found.append(StartRefused(FileKind.META_PROPERTIES, error.reason, error.position))
        for kind in (FileKind.RECOVERY_POINTS, FileKind.LOG_START_OFFSETS, FileKind.CLEANER_OFFSETS):
            try:
                self.offsets(kind)
            except StartRefused as refused:
                found.append(refused)
        odd = [each.name for each in self._directories() if partition_named(each.name) is None]
        found += [
            StartRefused(name, "a directory whose name is no partition's") for name in odd if name != REMOTE_INDEX_CACHE
        ]
        return found + [
            StartRefused(each.path.name, f"a second directory of the partition that {first.path.name} is")
            for each, first in self.duplicates()
        ]

    def duplicates(self) -> list[tuple[PartitionDirectory, PartitionDirectory]]:
        """Directories whose names are other spellings of a partition that has one, each with that. One without
        partition.metadata is a stray. Raises UnreadableInput."""
        by_partition: dict[Partition, list[PartitionDirectory]] = {}
        for each in self.partitions():
            if each.name.state:
                continue
            if os.path.exists(each.path / FileKind.PARTITION_METADATA):  # noqa: PTH110  (unreadable: not known)
                by_partition.setdefault(each.partition, []).append(each)
        found = []
        for same in by_partition.values():
            same.sort(key=lambda each: each.path.name != build_directory(each.name))
            found += [(each, same[0]) for each in same[1:]]
        return found

    def partitions(self) -> list[PartitionDirectory]:
        """The directories of partitions, by topic and number. Raises UnreadableInput."""
        found = [
            PartitionDirectory(each, name)
            for each in self._directories()
            if (name := partition_named(each.name)) is not None
        ]
        return sorted(found, key=lambda each: (each.partition, each.name))

    def unreadable(self) -> list[UnreadableInput]:
        """Names of partitions that are no directories: links that lead nowhere or in a circle, files. Raises
        UnreadableInput."""
        found = []
        for path in self._entries():
            if parse_directory(path.name) is not None and not path.is_dir():
                try:
                    path.stat()
                    reason = "not a directory"
                except OSError as error:
                    reason = error.strerror or str(error)
                found.append(UnreadableInput(str(path), reason))
        return found

    def expected_partitions(self) -> list[PartitionDirectory]:
        """The same. Raises UnreadableInput also where nothing says that this is a broker's directory."""
        found = self.partitions()
        if not found and not is_log_directory(self.path):
            raise UnreadableInput(str(self.path), "neither a partition's directory nor a broker's")
        return found

    def _directories(self) -> list[Path]:
        return [each for each in self._entries() if each.is_dir()]

    def _entries(self) -> list[Path]:
        try:
            return sorted(self.path.iterdir())
        except OSError as error:
            raise UnreadableInput(str(self.path), error.strerror or str(error)) from error


def partition_named(name: str) -> DirectoryName | None:
    """The partition that Kafka takes a directory of this name for; None where it does not start with it."""
    found = parse_directory(name)
    if found is not None and found.state != "remote":
        return found
    topic, _, number = name.rpartition("-")
    digits = number.removeprefix("+")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= MOST_DIGITS and int(digits) < 2**31
    return DirectoryName(topic, int(digits)) if topic and is_number else None


def _unusable(meta: MetaProperties | None) -> str | None:
    """Why no broker starts with what meta.properties says."""
    if meta is None:
        return None
    if meta.node_id is None or meta.cluster_id is None:
        return f"has no {'node' if meta.node_id is None else 'cluster'} id"
    if meta.directory_id is not None and int.from_bytes(uuid_bytes(meta.directory_id)) < RESERVED_IDS:
        return f"directory.id {meta.directory_id} is reserved"
    return None


def holds_segments(path: Path) -> bool:
    """Is this a partition's directory, by the files in it (or, where it is empty, by its name)?"""
    kinds = _kinds(path)
    if any(kind in PARTITION_FILES for kind in kinds):
        return True
    return not kinds and parse_directory(path.name) is not None


def is_log_directory(path: Path) -> bool:
    """Is this a broker's log directory, by the files in it?"""
    return any(kind in DIRECTORY_FILES for kind in _kinds(path))


def _kinds(path: Path) -> list[FileKind]:
    try:
        return [name.kind for each in path.iterdir() if each.is_file() and (name := parse(each.name)) is not None]
    except OSError as error:
        raise UnreadableInput(str(path), error.strerror or str(error)) from error

"""A broker's log directory: its lock, its meta.properties, its checkpoints, and the partitions in it.

    .lock                   is locked, as a whole file, by the broker that uses the directory
    .kafka_cleanshutdown    exists if the broker shut down cleanly: its next start need not check the logs
    meta.properties         the cluster and the node that the directory belongs to
    recovery-point-, log-start-, replication- and cleaner-offset-checkpoint
    <topic>-<partition>     and those with -delete, -future, -stray; a directory with any other name keeps a broker from
                            starting. The topic in the name may have characters that no topic can have: then the
                            directory is a stray

Source: LogManager, FileLock, MetaPropertiesEnsemble, UnifiedLog.parseTopicPartitionName.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
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
from kcli.errors import KcliError, StartRefused, UnreadableInput
from kcli.log.disk import Disk, DiskFile
from kcli.log.odd_entries import is_cut, odd_entries
from kcli.log.partition_view import MOST_DIGITS
from kcli.log.source import read_whole
from kcli.protocol.topic_partition import TopicPartition

MARKER_BYTES = 1 << 10
"""How many bytes of the clean-shutdown marker are read; its JSON object is shorter."""
JSON_SPACE = " \t\r\n"
REMOTE_INDEX_CACHE = "remote-log-index-cache"
LOST_AND_FOUND = "lost+found"
ADRIFT_MAX = 10_000
"""The largest number of directories with segments that are listed inside one directory whose name is no partition's."""
DEPTH_MAX = 3
RESERVED_IDS = 100
"""Directory ids below this number are reserved, for replicas whose directory is lost or not chosen yet
(DirectoryId)."""
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

SEGMENT_KINDS = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
PASSED_OVER = {
    FileKind.RECOVERY_POINTS: "Kafka goes on as if there were none, and recovers logs from their beginning",
    FileKind.LOG_START_OFFSETS: "Kafka goes on as if there were none: logs begin with their first segment",
    FileKind.CLEANER_OFFSETS: "Kafka starts, and its log cleaner ends at once",
    FileKind.REPLICATION_OFFSETS: "Kafka starts, and serves no partition of this directory",
}
"""By checkpoint file, what Kafka does at its start if the file has other text where a number belongs, or a negative
number of entries. With any other damage of these files Kafka does not start; only replication-offset-checkpoint may
have any damage."""


def read_properties(path: Path) -> Mapping[str, str]:
    """Return the entries of a properties file, such as meta.properties or server.properties. Raises UnreadableInput."""
    try:
        return properties.parse(read_whole(path)).entries
    except FormatError as error:
        raise UnreadableInput(str(path), str(error)) from None


def read_meta_properties(directory: Path) -> MetaProperties | None:
    """Return the content of the directory's meta.properties; None if it has none. Raises FormatError,
    UnreadableInput."""
    path = directory / FileKind.META_PROPERTIES
    return properties.meta_properties(properties.parse(read_whole(path))) if path.exists() else None


class DirectoryLocked(KcliError):
    """Another process, or another part of this process, uses the log directory."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: in use by a running Kafka or kcli, which holds its .lock")


class DirectoryLock:
    """Kafka's lock of a log directory: a POSIX record lock on all of `.lock`. A context manager that releases the lock.

    Java's FileChannel lock and this one exclude each other. A POSIX lock belongs to the whole process, and is lost when
    the process closes any descriptor of the file: within the process, a table of locked files therefore excludes a
    second lock. Raises DirectoryLocked, OSError.
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
        """Release the lock."""
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
    """A directory whose name is that of a partition, as Kafka reads names."""

    path: Path
    name: DirectoryName

    @property
    def partition(self) -> TopicPartition:
        """Topic and number."""
        return TopicPartition(self.name.topic, self.name.partition)


class LogDirectory:
    """A log directory. Every call reads the files again. Only `write_offsets` and `remove_marker` write."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def was_shut_down_cleanly(self) -> bool:
        """Whether the clean-shutdown marker exists: a file, or a directory of its name."""
        return (self.path / FileKind.CLEAN_SHUTDOWN).exists()

    @property
    def has_directory_for_marker(self) -> bool:
        """Whether the clean-shutdown marker is a directory, which Kafka accepts as a marker."""
        return (self.path / FileKind.CLEAN_SHUTDOWN).is_dir()

    @property
    def marked_broker_epoch(self) -> int | None:
        """The broker epoch in the clean-shutdown marker; -1 if the broker did not know its epoch; None if there
        is no marker, or none that Kafka can read. Kafka ignores what follows the JSON object."""
        try:
            with (self.path / FileKind.CLEAN_SHUTDOWN).open("rb") as marker:
                content, _ = json.JSONDecoder().raw_decode(marker.read(MARKER_BYTES).decode().lstrip(JSON_SPACE))
            epoch = content["brokerEpoch"]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return None
        return epoch if isinstance(epoch, int) and -1 <= epoch < 2**63 else None

    def remove_marker(self, disk: Disk) -> None:
        """Remove the clean-shutdown marker, which may be a file or an empty directory. Raises OSError."""
        marker = self.path / FileKind.CLEAN_SHUTDOWN
        if marker.is_dir() and not marker.is_symlink():
            disk.remove_directory(marker)
        else:
            disk.remove(marker)
        disk.sync_directory(self.path)

    def offsets(self, kind: FileKind) -> dict[TopicPartition, int]:
        """Return the entries of a checkpoint, by partition; none if there is no such file, or if Kafka ignores its
        damage (see `passed_over`). Raises StartRefused for any other damage, and if the file cannot be read."""
        path = self.path / kind
        if not path.exists():
            if path.is_symlink():
                raise StartRefused(kind, f"a symbolic link to {path.readlink()}, where nothing is")
            return {}
        try:
            return {
                TopicPartition(entry.topic, entry.partition): entry.offset for entry in parse_offsets(read_whole(path))
            }
        except FormatError as error:
            if isinstance(error, BadNumber) and kind != FileKind.REPLICATION_OFFSETS:
                return {}
            raise StartRefused(kind, error.reason, error.position) from None
        except UnreadableInput as error:
            raise StartRefused(kind, f"cannot be read: {error.reason}") from None

    def legible_offsets(self, kind: FileKind) -> dict[TopicPartition, int]:
        """Return the entries of a checkpoint, by partition; none if the file is missing or damaged."""
        try:
            return self.offsets(kind)
        except StartRefused:
            return {}

    def passed_over(self) -> list[StartRefused]:
        """Return an error for each checkpoint that is damaged, or has entries that no broker writes, and with which a
        broker nevertheless starts."""
        found = []
        for kind, outcome in PASSED_OVER.items():
            path = self.path / kind
            try:
                odd = [*odd_entries(kind, read_whole(path) if path.exists() else b"")]
            except BadNumber as error:
                found.append(StartRefused(kind, f"{error.reason}: {outcome}", error.position))
            except (FormatError, UnreadableInput):  # `refusals` reports this error
                continue
            else:
                more = f"; {len(odd) - 1:,} more" if len(odd) > 1 else ""
                found += [StartRefused(kind, f"{odd[0]}{more}")] if odd else []
        return found

    def has_offsets(self, kind: FileKind, offsets: Mapping[TopicPartition, int]) -> bool:
        """Whether a checkpoint has these entries, one a partition, and no damage; a file that is missing has none."""
        path = self.path / kind
        try:
            data = read_whole(path) if path.exists() or path.is_symlink() else b""
            entries = parse_offsets(data)
        except (FormatError, UnreadableInput):
            return False
        found = {TopicPartition(entry.topic, entry.partition): entry.offset for entry in entries}
        return len(entries) == len(found) and found == offsets and not is_cut(data)

    def write_offsets(self, disk: Disk, kind: FileKind, offsets: Mapping[TopicPartition, int]) -> None:
        """Write a checkpoint, atomically. Raises OSError."""
        entries = [OffsetEntry(topic, partition, offset) for (topic, partition), offset in sorted(offsets.items())]
        disk.write_file(self.path / kind, build_offsets(entries))

    def refusals(self) -> list[StartRefused]:
        """Return the reasons for which no broker starts with this directory: those in meta.properties and the
        checkpoints, and the directories whose names are no partition's, or a second spelling of a partition's name.

        A damaged replication-offset-checkpoint is no such reason. Raises UnreadableInput.
        """
        found = self.failures()
        if FileKind.META_PROPERTIES not in {each.file for each in found}:
            reason = unusable(read_meta_properties(self.path))
            found[:0] = [] if reason is None else [StartRefused(FileKind.META_PROPERTIES, reason)]
        known = {each.file for each in found}
        misnamed = [each.name for each in self.misnamed() if each.name not in known]
        found += [StartRefused(name, "a directory whose name is no partition's") for name in misnamed]
        return found + [
            StartRefused(each.path.name, f"a second directory of the partition that {first.path.name} is")
            for each, first in self.duplicates()
        ]

    def failures(self) -> list[StartRefused]:
        """Return those of `refusals` that Kafka treats as I/O errors: a broker with several log directories then starts
        without this one."""
        found = []
        try:
            read_meta_properties(self.path)
        except FormatError as error:
            found.append(StartRefused(FileKind.META_PROPERTIES, error.reason, error.position))
        except UnreadableInput as error:
            found.append(StartRefused(FileKind.META_PROPERTIES, f"cannot be read: {error.reason}"))
        for kind in (FileKind.RECOVERY_POINTS, FileKind.LOG_START_OFFSETS, FileKind.CLEANER_OFFSETS):
            try:
                self.offsets(kind)
            except StartRefused as refused:
                found.append(refused)
        return found

    def misnamed(self) -> list[Path]:
        """Return the directories whose names are no partition's, because of which Kafka does not start. Raises
        UnreadableInput."""
        odd = [each for each in self._directories() if partition_named(each.name) is None]
        return [each for each in odd if each.name != REMOTE_INDEX_CACHE and not is_removable_marker(each)]

    def adrift(self) -> list[Path]:
        """Return the directories with segments that lie deeper than Kafka looks: inside those of `misnamed`; inside a
        partition's directory, where `mv a b` puts `a` if a directory `b` exists; and inside the lost+found beside the
        log directory, where fsck puts directories whose parent it does not know. Raises UnreadableInput."""
        beside = self.path.absolute().parent / LOST_AND_FOUND
        around = [each for each in self.misnamed() if not each.is_symlink()]
        around += [each.path for each in self.partitions() if _has_directories(each.path)]
        around += [beside] if beside.is_dir() and not beside.is_symlink() else []
        return [path for each in around for path in islice(_with_segments(each, DEPTH_MAX), ADRIFT_MAX)]

    def duplicates(self) -> list[tuple[PartitionDirectory, PartitionDirectory]]:
        """Return the directories whose name is a second spelling of a partition's name (`t-00` beside `t-0`), each with
        the directory of that partition. Directories without partition.metadata are left out, as Kafka's start renames
        them to -stray. Raises UnreadableInput."""
        by_partition: dict[TopicPartition, list[PartitionDirectory]] = {}
        for each in self.partitions():
            if each.name.state:
                continue
            # os.path.exists is False for a directory that may not be read, for which Path.exists would raise an error.
            if os.path.exists(each.path / FileKind.PARTITION_METADATA):  # noqa: PTH110
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
        """Return an error for each entry that has the name of a partition and is no directory: links to nothing or in a
        circle, and files with the name of a partition that the checkpoints list. A file with the name of any other
        partition is left out: Kafka ignores it, and makes no directory of that name. Raises UnreadableInput."""
        found = []
        for path in self._entries():
            name = parse_directory(path.name)
            if name is not None and not path.is_dir():
                try:
                    path.stat()
                    if TopicPartition(name.topic, name.partition) in self._known():
                        found.append(UnreadableInput(str(path), "not a directory"))
                except OSError as error:
                    found.append(UnreadableInput.of(path, error))
        return found

    def shared_files(self) -> list[list[Path]]:
        """Return the files of segments that are one file on disk, as hard links of each other, in the directories of
        one or more partitions; each list has the paths of one file, .log files first. Kafka writes in place to the
        indexes and the .log file of an active segment, and so changes the file under all of these paths. Raises
        UnreadableInput."""
        by_inode: dict[tuple[int, int], list[Path]] = {}
        for each in self.partitions():
            try:
                paths = sorted(each.path.iterdir()) if each.name.state in ("", "future") else []
            except OSError:  # recovery reports this error when it plans this partition
                continue
            for path in paths:
                name = parse(path.name)
                if name is None or name.state or name.kind not in SEGMENT_KINDS:
                    continue
                try:
                    found = path.lstat()
                except OSError:
                    continue
                if found.st_nlink > 1 and stat.S_ISREG(found.st_mode):
                    by_inode.setdefault((found.st_dev, found.st_ino), []).append(path)
        shared = [paths for paths in by_inode.values() if len(paths) > 1]
        return sorted(shared, key=lambda paths: paths[0].suffix != FileKind.LOG)

    def shared_directories(self) -> dict[Path, Path]:
        """Return the partitions' directories that are in fact the directory of another partition, each with the path of
        that other directory: symbolic links, also into another log directory, or one directory mounted in two places.
        Kafka opens a log on each, and both write into the same files. Raises UnreadableInput."""
        by_inode: dict[tuple[int, int], list[Path]] = {}
        shared: dict[Path, Path] = {}
        for each in self.partitions():
            try:
                found, target = each.path.stat(), each.path.resolve()
            except (OSError, RuntimeError):  # recovery reports this error when it plans this partition
                continue
            by_inode.setdefault((found.st_dev, found.st_ino), []).append(each.path)
            if each.path.is_symlink() and _is_of_another(target, each.name):
                shared[each.path] = target
        for paths in by_inode.values():
            if len(paths) > 1:
                mounted = _mount_points()
                paths.sort(key=lambda path: (path.resolve().name != path.name or path.resolve() in mounted, path.name))
                shared.pop(paths[0], None)
                shared.update((other, paths[0]) for other in paths[1:])
        return shared

    def expected_partitions(self) -> list[PartitionDirectory]:
        """As `partitions`, but raises UnreadableInput also if there is neither a partition nor a file that only a
        broker's log directory has."""
        found = self.partitions()
        if not found and not is_log_directory(self.path):
            inside = log_directories_in(self.path)
            more = f"; {inside[0]} is a broker's" if inside else ""
            raise UnreadableInput(str(self.path), f"neither a partition's directory nor a broker's{more}")
        return found

    def _known(self) -> set[TopicPartition]:
        """Return the partitions that the checkpoints list, as far as these can be read."""
        known: set[TopicPartition] = set()
        for kind in (FileKind.RECOVERY_POINTS, FileKind.REPLICATION_OFFSETS):
            try:
                known |= self.offsets(kind).keys()
            except StartRefused:  # `refusals` reports this error
                continue
        return known

    def _directories(self) -> list[Path]:
        return [each for each in self._entries() if each.is_dir()]

    def _entries(self) -> list[Path]:
        try:
            return sorted(self.path.iterdir())
        except OSError as error:
            raise UnreadableInput.of(self.path, error) from error


def _mount_points() -> set[Path]:
    """Return the directories on which a file system is mounted, by /proc/self/mountinfo (proc(5)); none if there is
    no such file."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return set()
    names = (line.split(b" ")[4] for line in lines)  # the file has \\040 for a space
    return {Path(os.fsdecode(name.decode("unicode_escape").encode("latin-1"))) for name in names}


def _is_of_another(target: Path, name: DirectoryName) -> bool:
    """Whether `target` is the directory of another partition than `name`, in a broker's log directory."""
    other = partition_named(target.name)
    if other is None or other == name:
        return False
    try:
        return is_log_directory(target.parent)
    except (UnreadableInput, OSError):
        return False


def _has_directories(directory: Path) -> bool:
    try:
        with os.scandir(directory) as entries:
            return any(each.is_dir(follow_symlinks=False) for each in entries)
    except OSError:
        return False


def _with_segments(directory: Path, depth: int) -> Iterator[Path]:
    """Yield the partitions' directories below a directory, at most `depth` levels further down; those that cannot be
    listed are left out."""
    try:
        entries = sorted(each for each in directory.iterdir() if each.is_dir() and not each.is_symlink())
    except OSError:
        return
    for each in entries:
        try:
            is_one = holds_segments(each)
        except (UnreadableInput, OSError):
            continue
        if is_one:
            yield each
        elif depth:
            yield from _with_segments(each, depth - 1)


def is_removable_marker(directory: Path) -> bool:
    """Whether Kafka takes this directory for the clean-shutdown marker, and removes it before it lists the directories:
    it has the marker's name, and is empty or a symbolic link."""
    return directory.name == FileKind.CLEAN_SHUTDOWN and (directory.is_symlink() or not any(directory.iterdir()))


def partition_named(name: str) -> DirectoryName | None:
    """Return the topic and partition in a directory's name, as Kafka reads it; None for a name with which Kafka does
    not start."""
    found = parse_directory(name)
    if found is not None and found.state != "remote":
        return found
    topic, _, number = name.rpartition("-")
    digits = number.removeprefix("+")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= MOST_DIGITS and int(digits) < 2**31
    return DirectoryName(topic, int(digits)) if topic and is_number else None


def unusable(meta: MetaProperties | None) -> str | None:
    """Return the reason why no broker starts with these meta.properties; None if a broker can start with them."""
    if meta is None:
        return None
    if meta.node_id is None or meta.cluster_id is None:
        return f"has no {'node' if meta.node_id is None else 'cluster'} id"
    if meta.node_id < 0:
        return f"node.id {meta.node_id} is below 0"
    if meta.directory_id is not None and int.from_bytes(uuid_bytes(meta.directory_id)) < RESERVED_IDS:
        return f"directory.id {meta.directory_id} is reserved"
    return None


def holds_segments(path: Path) -> bool:
    """Whether the path is a partition's directory: it has files that only such a directory has, or it has no files of
    Kafka at all, and its name is that of a partition. A directory that contains log directories is no partition's, even
    if it is called backup-20261127."""
    kinds = _kinds(path)
    if any(kind in PARTITION_FILES for kind in kinds):
        return True
    if kinds or parse_directory(path.name) is None:
        return False
    return not log_directories_in(path)


def log_directories_in(path: Path) -> list[Path]:
    """Return the subdirectories of a directory that have a meta.properties, in order. Raises OSError."""
    return sorted(each for each in path.iterdir() if os.path.isfile(each / FileKind.META_PROPERTIES))  # noqa: PTH113 (raises nothing)


def is_log_directory(path: Path) -> bool:
    """Whether the path is a broker's log directory: it has a checkpoint, meta.properties or the clean-shutdown
    marker."""
    if os.access(path, os.R_OK | os.X_OK) and any((path / kind).is_file() for kind in DIRECTORY_FILES):
        return True  # known without listing the directory, which may have thousands of partitions
    return any(kind in DIRECTORY_FILES for kind in _kinds(path))


def _kinds(path: Path) -> list[FileKind]:
    try:
        return [name.kind for each in path.iterdir() if each.is_file() and (name := parse(each.name)) is not None]
    except OSError as error:
        raise UnreadableInput.of(path, error) from error

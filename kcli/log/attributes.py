"""Files and directories that Linux lets no user change, not even root: those with the attribute `i` (immutable) or `a`
(append only) of chattr. Kafka opens or changes these when it starts, and fails with "Operation not permitted":

    .log, .txnindex      of every segment
    .index, .timeindex   of the active segment, and of a segment that the start recovers
    .lock                of the log directory
    .deleted, .cleaned, .swap, .kafka_cleanshutdown, which it deletes or renames
    recovery-point-offset-checkpoint, quorum-state, which it replaces
    directories          in which it makes, renames and deletes files

With any other such file the log directory goes offline when Kafka is to open it for writing, rename or delete it: an
index of a closed segment at the first read that looks into it, leader-epoch-checkpoint when the leader changes. An
append-only file is no better, as Kafka opens no file in that mode. Most of this was tried with Kafka 4.3.

Source: FileRecords.open, TransactionIndex, AbstractIndex, LogLoader.load (resizeIndexes), FileLock; ioctl_iflags(2).
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from formats.file_name import FileKind, FileName, parse
from kcli.log.log_directory import LogDirectory

_GET_FLAGS = 0x80086601  # FS_IOC_GETFLAGS, where a long has 64 bits
_FLAGS = {"i": 0x10, "a": 0x20}  # FS_IMMUTABLE_FL, FS_APPEND_FL
_WORDS = {"i": "immutable", "a": "append only"}
FAILS_LATER = "the log directory goes offline when Kafka is to write or replace it"
_OPENED = (
    FileKind.LOG,
    FileKind.TXN_INDEX,
    FileKind.LOCK,
    FileKind.CLEAN_SHUTDOWN,
    FileKind.RECOVERY_POINTS,
    FileKind.QUORUM_STATE,
)
_SELDOM_WRITTEN = (
    FileKind.META_PROPERTIES,
    FileKind.PARTITION_METADATA,
    FileKind.PRODUCER_SNAPSHOT,
    FileKind.KRAFT_SNAPSHOT,
)
_TIDIED = ("deleted", "cleaned", "swap")
_INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)


@dataclass(frozen=True, order=True)
class Sealed:
    """A file or directory that no user can change. attributes: `i`, `a` or both. refuses: whether Kafka fails at it
    when it starts."""

    path: Path
    attributes: str
    refuses: bool

    @property
    def is_seldom_written(self) -> bool:
        """Whether Kafka keeps running although it cannot change the file, because it seldom replaces the file, or only
        deletes it in the end."""
        name = parse(self.path.name)
        return not self.refuses and name is not None and name.kind in _SELDOM_WRITTEN

    @property
    def words(self) -> str:
        """The names of the attributes, in words."""
        return f"{' and '.join(_WORDS[each] for each in self.attributes)} (chattr +{self.attributes})"


def attributes_of(path: Path) -> str:
    """Return which of the attributes `i` and `a` a regular file or a directory has; none where the system or the file
    system has no such attributes, or the file cannot be opened, which other checks report."""
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return ""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        flags = int.from_bytes(fcntl.ioctl(fd, _GET_FLAGS, bytes(8))[:4], sys.byteorder)
    except OSError:
        return ""
    finally:
        os.close(fd)
    return "".join(each for each, flag in _FLAGS.items() if flags & flag)


def sealed(path: Path, name: FileName, active: int | None) -> Sealed | None:
    """Return a Sealed for a regular file of a partition that no user can change; None if it can be changed. active: the
    base offset of the partition's active segment; None if there is none."""
    attributes = attributes_of(path)
    if not attributes:
        return None
    is_active = active is not None and (name.base_offset or 0) >= active
    is_opened = name.kind in _OPENED or (name.kind in _INDEXES and is_active)
    return Sealed(path, attributes, is_opened or name.state in _TIDIED)


def sealed_files(home: Path) -> Iterator[Sealed]:
    """Yield the files of the partitions in a log directory, the directories of these, the log directory and the files
    in it, that no user can change. Raises UnreadableInput."""
    for directory in (home, *(each.path for each in LogDirectory(home).partitions())):
        yield from sealed_in(directory)


def sealed_in(directory: Path) -> Iterator[Sealed]:
    """Yield a log directory or a partition's directory, and Kafka's files in it, if no user can change them."""
    if attributes := attributes_of(directory):
        yield Sealed(directory, attributes, refuses=True)
    try:
        with os.scandir(directory) as entries:
            names = sorted(each.name for each in entries)
    except OSError:  # other checks report this error
        return
    found = [(directory / each, name) for each in names if (name := parse(each)) is not None]
    active = active_base(name for _, name in found)
    for path, name in found:
        if _is_regular(path) and (each := sealed(path, name, active)) is not None:
            yield each


def active_base(names: Iterator[FileName]) -> int | None:
    """Return the base offset of the active segment among the files of a partition; None if there is none."""
    return max((each.base_offset or 0 for each in names if each.kind is FileKind.LOG and not each.state), default=None)


def _is_regular(path: Path) -> bool:
    """Whether the path is a regular file: opening a named pipe could block or have an effect."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False

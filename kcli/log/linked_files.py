"""Files of a log directory that are symbolic links to one file: a program that stores equal files once makes such
links.

    .log files, indexes, snapshots  Kafka writes into them in place, through a link: the file changes under every name
    active offset, time index       Kafka makes them log.index.size.max.bytes long when it starts, filled with zeros
    checkpoints, partition.metadata Kafka writes a new file, and renames it into the place of the link

A link whose target has no other name in the log directory is not counted. A link to a .log file with batches in another
partition's directory is not counted either: `kcli verify` reports such a link by itself.

Source: LogLoader.load (resizeIndexes), AbstractIndex, ProducerStateManager.writeSnapshot, CheckpointFile.write.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from formats.file_name import FileKind, FileName, parse, parse_directory
from kcli.errors import StartRefused
from kcli.log.log_directory import LogDirectory

_ACTIVE_INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
_WRITTEN = (FileKind.LOG, *_ACTIVE_INDEXES, FileKind.TXN_INDEX, FileKind.PRODUCER_SNAPSHOT)


@dataclass(frozen=True)
class _Name:
    """A path in the log directory that leads to a file. directory: the path of the partition's directory that it is in;
    None for a file in the log directory itself."""

    path: Path
    name: FileName
    directory: Path | None

    @cached_property
    def is_active(self) -> bool:
        """Whether this is the .log file, or an offset or time index, of an active segment."""
        if self.directory is None or self.name.kind not in (FileKind.LOG, *_ACTIVE_INDEXES):
            return False
        found = (parse(each) for each in os.listdir(self.directory))  # noqa: PTH208
        logs = [each.base_offset or 0 for each in found if each and each.kind is FileKind.LOG and not each.state]
        return self.name.base_offset == max(logs, default=None)


@dataclass(frozen=True)
class LinkedFile:
    """A file with two or more names in a log directory: symbolic links, and at most one name that is no link. names:
    the one that is no link first, if there is one."""

    names: tuple[_Name, ...]

    @property
    def links(self) -> list[Path]:
        """The paths of the file that are symbolic links."""
        return [each.path for each in self.names if each.path.is_symlink()]

    @property
    def is_written(self) -> bool:
        """Whether Kafka writes into the file in place."""
        return any(each.name.kind in _WRITTEN for each in self.names)

    @property
    def outcome(self) -> str:
        """Return in words what follows from the file's several names: why Kafka does not start (`refusal`); or else, if
        Kafka writes into the file, what it does to the file; or else what happens if one of the names is deleted."""
        if self.refusal is not None:
            return self.refusal
        if self.is_written:
            return "Kafka starts, and what it writes to one changes all"
        return "deleting one breaks the others"

    @cached_property
    def refusal(self) -> str | None:
        """Return, in words, why Kafka does not start, or stops after it has written to the file; None if it starts and
        keeps running."""
        active = [each for each in self.names if each.is_active]
        index = next((each for each in active if each.name.kind in _ACTIVE_INDEXES), None)
        text = next((each for each in self.names if each.directory is None), None)
        if active and text is not None:
            if index is None:
                return f"Kafka writes batches to {_name(active[0])}, and a start ends as it finds them in {_name(text)}"
            return f"Kafka fills {_name(index)} with NULs, and ends as it reads them in {_name(text)}"
        log = next((each for each in self.names if each.name.kind is FileKind.LOG), None)
        if index is not None and log is not None:
            outcome = f"ends as it reads them in {_name(log)} (CorruptRecordException)"
            return f"Kafka fills {_name(index)} with NULs, and {outcome}"
        return None


def _name(each: _Name) -> str:
    return each.path.name if each.directory is None else f"{each.directory.name}/{each.path.name}"


def is_link_to_batches(path: Path) -> bool:
    """Whether a .log file is a symbolic link to a .log file with batches in the directory of another partition."""
    target = path.resolve()
    if parse_directory(target.parent.name) is None or target.parent == path.parent.resolve():
        return False
    name = parse(target.name)
    try:
        return name is not None and name.kind is FileKind.LOG and target.stat().st_size > 0
    except OSError:
        return False


def linked_files(home: Path) -> list[LinkedFile]:
    """Return the files that have two or more names in the log directory `home`, by symbolic links: first those with
    which Kafka does not start, then those that Kafka writes in place, then the others. Raises UnreadableInput."""
    directories: dict[Path, Path | None] = {home.resolve(): None}
    links = list(_links(home, None))
    partitions = sorted(LogDirectory(home).partitions(), key=lambda each: each.path.is_symlink())
    for each in partitions:
        try:
            resolved = each.path.resolve()
        except (OSError, RuntimeError):  # recovery reports this error when it plans this partition
            continue
        if each.name.state in ("", "future") and resolved not in directories:
            directories[resolved] = each.path
            links += _links(each.path, each.path)
    by_target: dict[Path, list[_Name]] = {}
    for link in links:
        try:
            target = link.path.resolve()
            is_file = stat.S_ISREG(target.stat().st_mode)
        except (OSError, RuntimeError):  # other checks report a link to nothing or in a circle
            continue
        if is_file and not (link.name.kind is FileKind.LOG and is_link_to_batches(link.path)):
            by_target.setdefault(target, []).append(link)
    for target, names in by_target.items():
        name = parse(target.name)
        if target.parent in directories and name is not None and not name.state:
            directory = directories[target.parent]
            names.insert(0, _Name((directory or home) / target.name, name, directory))
    files = [LinkedFile(tuple(names)) for names in by_target.values() if len(names) > 1]
    return sorted(files, key=lambda each: (each.refusal is None, not each.is_written))


def _links(path: Path, directory: Path | None) -> Iterator[_Name]:
    """Yield the symbolic links in the directory `path` that have names of Kafka's files. directory: the partition's
    directory that `path` is; None for the log directory."""
    try:
        with os.scandir(path) as entries:
            found = sorted(each.name for each in entries if each.is_symlink())
    except OSError:  # the checks of that directory report this error
        return
    for each in found:
        name = parse(each)
        if name is not None and not name.state and name.kind not in (FileKind.CLEAN_SHUTDOWN, FileKind.LOCK):
            yield _Name(path / each, name, directory)


def links_text(home: Path, files: Sequence[LinkedFile]) -> str:
    """Return in words how many links there are, the first of them, and what Kafka does with the file that it leads to.
    files: those that `linked_files` returned, at least one. home: the log directory."""
    found = [(file, link) for file in files for link in file.links]
    file, link = found[0]
    other = next(each.path for each in file.names if each.path != link)
    one = f"{link.relative_to(home)} and {other.relative_to(home)}"
    if len(found) == 1:
        text = f"a symbolic link, by which {one} are one file"
    else:
        text = f"{len(found):,} files are symbolic links to files that other names have, too, such as {one}"
    return f"{text}: {file.outcome}"


def start_with_links(home: Path) -> tuple[list[StartRefused], list[StartRefused]]:
    """Return two lists, of which at most one has an item: in the first, the reason why Kafka does not start because
    links share files; in the second, if Kafka starts, how it damages the shared files. home: the log directory. Raises
    UnreadableInput."""
    files = [each for each in linked_files(home) if each.is_written]
    if not files:
        return [], []
    told = [StartRefused(str(files[0].links[0].relative_to(home)), links_text(home, files))]
    return ([], told) if files[0].refusal is None else (told, [])

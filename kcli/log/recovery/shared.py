"""Partitions that share a directory, or files of segments: what a start of Kafka does with them, in words.

    two partitions share a directory    one is a symbolic link to the other, or one directory is mounted in two places
    two names share a segment's file    they are hard links of each other

Kafka looks only at names, and starts: it opens a log for each name, and what one log writes changes the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from formats.file_name import FileKind
from kcli.errors import StartRefused
from kcli.log.log_directory import LogDirectory, partition_named
from kcli.printable import names_text

NAMED_MAX = 12
"""The maximum number of names of one file that are told."""


def told_directories(holder: LogDirectory, shared: Mapping[Path, Path]) -> Iterator[StartRefused]:
    """Yield an error for each directory of a partition that is in fact the directory of another partition. shared: the
    path of the other partition's directory, by the path of each of these directories."""
    for path, other in shared.items():
        yield StartRefused(path.name, f"{shared_text(holder.path, path, other)}; a copy has {other.name} alone")


def shared_text(home: Path, path: Path, other: Path) -> str:
    """Return, in words, what Kafka does if the names of two partitions lead to one directory on disk, such as by a
    symbolic link. path, other: the paths of the two partitions. home: the log directory with `path`."""
    name = other.name if other.parent == home else str(other)
    what = f"a symbolic link to {path.readlink()}" if path.is_symlink() else "one directory, mounted in two places"
    shared = f"{what}: it is the directory of {name}"
    if _is_of_id(path, other):
        return f"{shared}: Kafka starts two logs on it: both serve the records of {name}, and write into the same files"
    return f"{shared}, whose topic id it has: Kafka starts, and does not serve {path.name}"


def _is_of_id(path: Path, other: Path) -> bool:
    """Return whether the topic id in the directory to which both paths lead is right for both partitions: by their
    names they are of one topic, or there is no partition.metadata."""
    names = partition_named(path.name), partition_named(other.name)
    is_one_topic = names[0] is not None and names[1] is not None and names[0].topic == names[1].topic
    return is_one_topic or not (path / FileKind.PARTITION_METADATA).exists()


def told_files(holder: LogDirectory) -> Iterator[StartRefused]:
    """Yield one error for all files of the log directory's segments that are hard links of each other; nothing if there
    are no such files."""
    shared = holder.shared_files()
    if shared:
        one = str(shared[0][0].relative_to(holder.path))
        files = hard_links_text(holder.path, shared)
        yield StartRefused(one, f"{files}: Kafka starts, and what it writes to one changes all")


def hard_links_text(home: Path, shared: Sequence[Sequence[Path]]) -> str:
    """Return, in words, which files of segments are hard links of each other: all names of the first file, and how many
    there are. shared: the paths of each file (see LogDirectory.shared_files). home: the log directory."""
    names = [path.relative_to(home) for path in shared[0]]
    one_file = f"{names_text(names, NAMED_MAX)} are one file"
    such_as = "" if len(shared) == 1 else f", as {len(shared) - 1:,} more are"
    return f"{sum(map(len, shared)):,} files of segments are hard links of each other: {one_file}{such_as}"

"""The files of a partition that a backup reads, while a broker appends, rolls, cleans and deletes.

A listing is consistent if the listing before it has the same closed segments: the cleaner or retention, if at work,
changes them between the two.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from formats.file_name import FileKind, parse
from kcli.errors import UnreadableInput


class Found(NamedTuple):
    """A file that was listed. inode: shows whether the cleaner has replaced the file since."""

    path: Path
    size: int
    inode: int


@dataclass(slots=True)
class Files:
    """The files of a partition that a listing found: for each kind the files by the offset in their names, and the
    KRaft snapshots by name. is_settled: whether no file was removed during the listing, and no `.swap` file of the
    cleaner was there."""

    directory: Path
    logs: dict[int, Found] = field(default_factory=dict)
    txn_indexes: dict[int, Found] = field(default_factory=dict)
    producers: dict[int, Found] = field(default_factory=dict)
    snapshots: dict[str, Found] = field(default_factory=dict)
    is_settled: bool = True

    @property
    def bases(self) -> list[int]:
        """The base offsets of the segments, in order."""
        return sorted(self.logs)

    @property
    def end(self) -> tuple[int, int]:
        """The base offset of the active segment, and its size in bytes; (0, 0) without a segment."""
        return (max(self.logs), self.logs[max(self.logs)].size) if self.logs else (0, 0)

    def active_size(self) -> int | None:
        """Return the present size of the active segment's .log file in bytes; None if it is gone."""
        if not self.logs:
            return 0
        try:
            return self.logs[max(self.logs)].path.stat().st_size
        except OSError:
            return None

    def end_at(self, size: int) -> None:
        """Set the size of the active segment's .log file, in bytes."""
        if self.logs:
            self.logs[max(self.logs)] = self.logs[max(self.logs)]._replace(size=size)

    def follows(self, earlier: Files) -> bool:
        """Whether, since the listing `earlier`, a broker has only appended to the partition and rolled segments."""
        known = earlier.bases
        if not (self.is_settled and earlier.is_settled) or self.bases[: len(known)] != known:
            return False
        same = all(self.logs[base].inode == earlier.logs[base].inode for base in known)
        closed = all(self.logs[base].size == earlier.logs[base].size for base in known[:-1])
        return same and closed and (not known or self.logs[known[-1]].size >= earlier.logs[known[-1]].size)


_KINDS: Mapping[FileKind, str] = {
    FileKind.LOG: "logs",
    FileKind.TXN_INDEX: "txn_indexes",
    FileKind.PRODUCER_SNAPSHOT: "producers",
}


def list_files(directory: Path) -> Files | None:
    """Return the files of a partition's directory; None if the directory is gone. Raises UnreadableInput."""
    files = Files(directory)
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                _add(files, entry)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableInput.of(directory, error) from None
    return files


def _add(files: Files, entry: os.DirEntry[str]) -> None:
    name = parse(entry.name)
    if name is None or name.remote_id is not None:
        return
    if name.state:
        files.is_settled = files.is_settled and (name.kind is not FileKind.LOG or name.state != "swap")
        return
    kind = _KINDS.get(name.kind)
    if kind is None and name.kind is not FileKind.KRAFT_SNAPSHOT:
        return
    try:
        stat = entry.stat()
    except FileNotFoundError:  # removed during the listing
        files.is_settled = False
        return
    found = Found(Path(entry.path), stat.st_size, stat.st_ino)
    if kind is None:
        files.snapshots[entry.name] = found
    else:
        assert name.base_offset is not None, "the names of these kinds have an offset"
        getattr(files, kind)[name.base_offset] = found

"""A view of a partition's directory: the files on disk, with changes that are not written yet.

Recovery works on a view, whose changes are then printed (a dry run), written to another directory (a copy) or applied
in place. This module does not write. The content of a file is a sequence of parts, each a range of a file on disk or
bytes in memory.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeGuard

from formats.archive import Archive
from formats.file_name import FileKind, build, parse
from kcli.errors import StartRefused, UnreadableInput
from kcli.log.flat_files import flat_files
from kcli.log.inflated import InflatedSource
from kcli.log.source import FileSource, Source
from kcli.log.text_mode import BeforeTextMode, TextMode

SMALL_FILE_BYTES = 64 << 20
INT_MAX = 2**31 - 1
MAPPED = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
"""The files that Kafka maps into memory."""
MOST_DIGITS = 100


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes [start, start + length) of a file on disk. text_mode: the transfer as text before which these were bytes of
    the file (see kcli.log.text_mode); None if these are its bytes as they are."""

    path: Path
    start: int
    length: int
    text_mode: TextMode | None = None


@dataclass(frozen=True, slots=True)
class InflatedRange(FileRange):
    """Bytes [start, start + length) of the decompressed content of a compressed file on disk."""

    archive: Archive = Archive.GZIP


Part = FileRange | bytes
"""A range of a file, or bytes in memory."""


def is_as_stored(part: Part) -> TypeGuard[FileRange]:
    """Whether the part is a range of a file with the bytes that are on disk: not decompressed, nor changed back to what
    they were before a transfer as text."""
    return isinstance(part, FileRange) and not isinstance(part, InflatedRange) and part.text_mode is None


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of a file: its parts, end to end."""

    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """The size in bytes."""
        if len(self.parts) == 1:  # most files have one part
            (part,) = self.parts
            return part.length if isinstance(part, FileRange) else len(part)
        return sum(part.length if isinstance(part, FileRange) else len(part) for part in self.parts)

    def between(self, start: int, end: int) -> Content:
        """Return the content of bytes [start, end)."""
        parts: list[Part] = []
        begin = 0
        for part in self.parts:
            length = part.length if isinstance(part, FileRange) else len(part)
            low, high = max(start, begin) - begin, min(end, begin + length) - begin
            if low < high and isinstance(part, FileRange):
                parts.append(replace(part, start=part.start + low, length=high - low))
            elif low < high and isinstance(part, bytes):
                parts.append(part[low:high])
            begin += length
        return Content(tuple(parts))


def paths_in(content: Content) -> tuple[Path, ...]:
    """Return the paths of the files on disk whose bytes a content has, in the order of its parts."""
    return tuple(part.path for part in content.parts if isinstance(part, FileRange))


class ContentSource:
    """A `Source` (see kcli.log.source) of the bytes of a `Content`: reads its parts from the files on disk or from
    memory. name: of the file, for messages. Raises UnreadableInput if one of the files on disk cannot be opened or
    read."""

    def __init__(self, name: str, content: Content) -> None:
        self.name = name
        self._size = content.size
        self._parts: list[tuple[int, int, Source | None, int, bytes]] = []
        self._opened: dict[tuple[str, str, TextMode | None], Source] = {}
        begin = 0
        try:
            for part in content.parts:
                if isinstance(part, bytes):
                    self._parts.append((begin, begin + len(part), None, 0, part))
                    begin += len(part)
                else:
                    self._parts.append((begin, begin + part.length, self._open(part), part.start, b""))
                    begin += part.length
        except UnreadableInput:
            self.close()
            raise

    def _open(self, part: FileRange) -> Source:
        """Return the source for a range of a file. Ranges of one file share a source: the file is opened once, and a
        compressed one is not decompressed again for each range. Raises UnreadableInput."""
        key = str(part.path), part.archive if isinstance(part, InflatedRange) else "", part.text_mode
        if key not in self._opened:
            if isinstance(part, InflatedRange):
                self._opened[key] = InflatedSource(part.path, part.archive)
            else:
                file = FileSource(part.path)
                self._opened[key] = file if part.text_mode is None else BeforeTextMode(file, part.text_mode)
        return self._opened[key]

    def size(self) -> int:
        """The size in bytes."""
        return self._size

    def read_at(self, position: int, buffer: memoryview) -> int:
        """Fill `buffer` from `position` on. Returns the bytes read: fewer than its length only at the end."""
        done = 0
        for begin, end, source, start, data in self._parts:
            at = position + done
            want = min(len(buffer) - done, end - at)
            if at < begin or want <= 0:
                continue
            if source is None:
                buffer[done : done + want] = data[at - begin : at - begin + want]
            else:
                got = source.read_at(start + at - begin, buffer[done : done + want])
                if got < want:
                    return done + got
            done += want
        return done

    def close(self) -> None:
        """Close the files that the parts lie in."""
        for source in self._opened.values():
            source.close()


class NotRegular(UnreadableInput):
    """A pipe, a socket or a device, or a link to one, has the name of one of Kafka's files."""


class NameTaken(StartRefused):
    """A file is to be created or opened, but a directory or the like has its name."""

    def __init__(self, file: str, outcome: str = "is to be made") -> None:
        super().__init__(file, f"{outcome}, and something that is no file has its name")


class PartitionView:
    """The files of one partition directory by name. original: as on disk; files: with the changes.

    in_the_way: the names of directories and of links to nothing in the directory. set_aside: the names of Kafka's files
    among these, which are to be renamed so that the files can be written. readable: by the name of each
    file that cannot be read as a whole, the content to use instead; with None, the view does not have the file. If
    there is no such directory, its files may lie flat beside the place where it should be (kcli.log.flat_files). Raises
    UnreadableInput, with the path of the directory or of the file in it that cannot be accessed.
    """

    def __init__(self, directory: Path, readable: Mapping[str, Content | None] | None = None) -> None:
        self.directory = directory
        readable = readable or {}
        self.original: dict[str, Content] = {name: each for name, each in readable.items() if each is not None}
        self.in_the_way: set[str] = set()
        self.set_aside: set[str] = set()
        path = directory
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.name in readable:
                        continue
                    path = directory / entry.name
                    if entry.is_file():
                        self.original[entry.name] = Content((FileRange(path, 0, entry.stat().st_size),))
                    else:
                        self.in_the_way.add(entry.name)
                        if parse(entry.name) is not None and _is_special(path):
                            raise NotRegular(str(path), "not a regular file")
                    path = directory
        except FileNotFoundError as error:
            flat = {name: each for name, each in flat_files(directory).items() if name not in readable}
            if path != directory or not flat:
                raise UnreadableInput.of(path, error) from error
            for name, each in flat.items():
                self.original[name] = Content((FileRange(each, 0, each.stat().st_size),))
        except OSError as error:
            raise UnreadableInput.of(path, error) from error
        self.files = dict(self.original)

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def exists(self, name: str) -> bool:
        """Whether a file or a directory has the name."""
        return name in self.files or self._is_directory(name)

    def check_opens(self, name: str) -> None:
        """Raise NameTaken if a directory has the name of a file that is to be opened."""
        if self._is_directory(name):
            raise NameTaken(name, "is to be opened")

    def _is_directory(self, name: str) -> bool:
        return name in self.in_the_way and (self.directory / name).is_dir()

    @property
    def taken_names(self) -> set[str]:
        """The names of Kafka's files under which the directory has a directory or a broken link instead of a file."""
        return {name for name in self.in_the_way if parse(name) is not None}

    def make_room(self) -> None:
        """Plan to rename the directories and broken links that have names of Kafka's files: move these names to
        `set_aside`."""
        self.set_aside |= self.taken_names
        self.in_the_way -= self.set_aside

    def unchanged(self) -> PartitionView:
        """Return a new view of the same directory, without the changes."""
        view = copy(self)
        view.files = dict(self.original)
        return view

    def with_changes(self) -> PartitionView:
        """Return a new view of the same directory, with the changes made so far; later changes of either do not change
        the other."""
        view = copy(self)
        view.files = dict(self.files)
        return view

    def check_access(self) -> None:
        """Raise UnreadableInput if this user may not read one of the files on disk."""
        for content in self.original.values():
            for part in content.parts:
                if isinstance(part, FileRange) and not os.access(part.path, os.R_OK):
                    raise UnreadableInput(str(part.path), os.strerror(errno.EACCES), errno.EACCES)

    def names(self) -> list[str]:
        """The names of all files, sorted."""
        return sorted(self.files)

    def size(self, name: str) -> int:
        """The size of a file in bytes."""
        return self.files[name].size

    def source(self, name: str) -> ContentSource:
        """Return a file as a source to read by position, which the caller closes. Raises UnreadableInput."""
        return ContentSource(str(self.directory / name), self.files[name])

    def read(self, name: str) -> bytes:
        """Return all bytes of a small file. Raises UnreadableInput, also for more than SMALL_FILE_BYTES, and
        StartRefused for an index that Kafka cannot map into memory (FileChannel.map)."""
        self.check_mappable(name)
        if self.size(name) > SMALL_FILE_BYTES:
            raise UnreadableInput(str(self.directory / name), f"{self.size(name):,} bytes are more than it can have")
        return _read(str(self.directory / name), self.files[name])

    def check_mappable(self, name: str) -> None:
        """Raise StartRefused if the file is an index with more bytes than Kafka can map into memory."""
        if name not in self.files or self.size(name) <= INT_MAX:
            return
        parsed = parse(name)
        if parsed is not None and parsed.kind in MAPPED:
            reason = f"{self.size(name):,} bytes: more than Kafka can map (Size exceeds Integer.MAX_VALUE)"
            raise StartRefused(name, reason)

    def write(self, name: str, data: bytes) -> None:
        """Create a file with these bytes, or replace it; a file that has these bytes on disk counts as unchanged.
        Raises NameTaken if a directory or the like has the name."""
        if name in self.in_the_way:
            raise NameTaken(name)
        before = self.original.get(name)
        if before is not None and before.size == len(data) <= SMALL_FILE_BYTES and _read(name, before) == data:
            self.files[name] = before
        else:
            self.files[name] = Content((data,))

    def put(self, name: str, content: Content) -> None:
        """Create a file with this content, or replace it."""
        self.files[name] = content

    def cut(self, name: str, size: int) -> None:
        """Cut a file to its first `size` bytes."""
        kept: list[Part] = []
        left = size
        for part in self.files[name].parts:
            if isinstance(part, FileRange):
                length = min(left, part.length)
                kept.append(replace(part, length=length))
            else:
                length = min(left, len(part))
                kept.append(part[:length])
            left -= length
            if left == 0:
                break
        self.files[name] = Content(tuple(kept))

    def remove(self, name: str) -> None:
        """Remove a file that may already be gone."""
        self.files.pop(name, None)

    def rename(self, name: str, to: str) -> None:
        """Rename a file; it replaces a file that has the name `to`."""
        self.files[to] = self.files.pop(name)

    def changed(self) -> Iterator[str]:
        """Yield the names of files in the view that are not on disk, or whose content differs from that on disk."""
        return (name for name in self.names() if self.original.get(name) != self.files[name])

    def removed(self) -> list[str]:
        """The names of files on disk that the view has removed."""
        return sorted(self.original.keys() - self.files.keys())

    def is_changed(self) -> bool:
        """Whether the view has a file that is new or differs, or has removed one, or has set something aside."""
        return any(True for _ in self.changed()) or bool(self.removed()) or bool(self.set_aside)


def _is_special(path: Path) -> bool:
    """Whether the path is a pipe, a socket or a device, or a link to one; Kafka would open such a file and read from
    it."""
    return path.exists() and not path.is_dir() and not path.is_file()


def _read(name: str, content: Content) -> bytes:
    if not content.size:
        return b""
    source = ContentSource(name, content)
    try:
        data = bytearray(content.size)
        return bytes(data[: source.read_at(0, memoryview(data))])
    finally:
        source.close()


def is_unread_log(name: str) -> bool:
    """Whether Kafka does not read a .log file because of its name, although the name has a base offset: too few or too
    many zeros, or a suffix in another case than Kafka's."""
    parsed = parse(name.lower())
    return parsed is not None and parsed.kind is FileKind.LOG and not parsed.state and build(parsed) != name


def offset_of(name: str) -> int:
    """Return the offset with which a file name begins, as Kafka reads it. Raises StartRefused if the
    name does not begin with an offset."""
    number = name.partition(".")[0]
    digits = number.removeprefix("-")
    if not (digits.isdecimal() and digits.isascii() and len(digits) <= MOST_DIGITS and abs(int(number)) < 2**63):
        raise StartRefused(name, "the name does not begin with an offset")
    return int(number)

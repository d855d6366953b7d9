"""A partition's directory as it would be: what is on disk, with changes on top that nobody has made yet.

Recovery works on a view. What comes out of it is told (a dry run), written elsewhere (a copy) or made true in place.
Nothing here writes. A file's content is parts end to end, each a range of a file on disk or bytes in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from formats.file_name import parse
from kcli.errors import KcliError, UnreadableInput
from kcli.log.source import FileSource, Source

SMALL_FILE_BYTES = 64 << 20
MOST_DIGITS = 100


class StartRefused(KcliError):
    """Kafka would not start with this file (its log directory would go offline)."""

    def __init__(self, file: str, reason: str, position: int | None = None) -> None:
        super().__init__(f"{file}: {reason}")
        self.file = file
        self.reason = reason
        self.position = position


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes [start, start + length) of a file on disk."""

    path: Path
    start: int
    length: int


Part = FileRange | bytes


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of a file: its parts, end to end."""

    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(part.length if isinstance(part, FileRange) else len(part) for part in self.parts)

    def is_start_of(self, other: Content) -> bool:
        """Is this `other`, or what is left of it when its end is cut off? Looks at ranges, not at bytes."""
        if len(self.parts) != 1 or len(other.parts) != 1:
            return self == other
        mine, theirs = self.parts[0], other.parts[0]
        if isinstance(mine, FileRange) and isinstance(theirs, FileRange):
            return (mine.path, mine.start) == (theirs.path, theirs.start) and mine.length <= theirs.length
        return mine == theirs


class ContentSource:
    """A Source over the parts of a Content. Raises UnreadableInput."""

    def __init__(self, name: str, content: Content) -> None:
        self.name = name
        self._size = content.size
        self._parts: list[tuple[int, int, Source | None, int, bytes]] = []
        begin = 0
        for part in content.parts:
            if isinstance(part, FileRange):
                self._parts.append((begin, begin + part.length, FileSource(part.path), part.start, b""))
                begin += part.length
            else:
                self._parts.append((begin, begin + len(part), None, 0, part))
                begin += len(part)

    def size(self) -> int:
        """Bytes in all."""
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
        """Give the descriptors back."""
        for _, _, source, _, _ in self._parts:
            if source is not None:
                source.close()


class PartitionView:
    """The files of one partition directory by name. `original` is what is on disk, `files` what would be."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.original: dict[str, Content] = {}
        self._in_the_way: set[str] = set()
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.is_file():
                        part = FileRange(directory / entry.name, 0, entry.stat().st_size)
                        self.original[entry.name] = Content((part,))
                    else:
                        self._in_the_way.add(entry.name)
                        if parse(entry.name) is not None and _is_special(directory / entry.name):
                            raise UnreadableInput(str(directory / entry.name), "not a regular file")
        except OSError as error:
            raise UnreadableInput(str(directory), error.strerror or str(error)) from error
        self.files = dict(self.original)

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def names(self) -> list[str]:
        """The names of all files, sorted."""
        return sorted(self.files)

    def size(self, name: str) -> int:
        """Bytes of a file."""
        return self.files[name].size

    def source(self, name: str) -> ContentSource:
        """A file to read by position; close it. Raises UnreadableInput."""
        return ContentSource(str(self.directory / name), self.files[name])

    def read(self, name: str) -> bytes:
        """All of a small file. Raises UnreadableInput, also where it is too large."""
        if self.size(name) > SMALL_FILE_BYTES:
            raise UnreadableInput(str(self.directory / name), f"{self.size(name):,} bytes are more than it can have")
        return _read(str(self.directory / name), self.files[name])

    def write(self, name: str, data: bytes) -> None:
        """Make a file, or replace it. Bytes that are there already are no change. Raises StartRefused where something
        has the name that is no file."""
        if name in self._in_the_way:
            raise StartRefused(name, "is to be made, and something that is no file has its name")
        before = self.original.get(name)
        if before is not None and before.size == len(data) <= SMALL_FILE_BYTES and _read(name, before) == data:
            self.files[name] = before
        else:
            self.files[name] = Content((data,))

    def put(self, name: str, content: Content) -> None:
        """Make a file of parts, or replace it."""
        self.files[name] = content

    def cut(self, name: str, size: int) -> None:
        """Cut a file to its first `size` bytes."""
        kept: list[Part] = []
        left = size
        for part in self.files[name].parts:
            if isinstance(part, FileRange):
                length = min(left, part.length)
                kept.append(FileRange(part.path, part.start, length))
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
        """Rename a file over what has the name."""
        self.files[to] = self.files.pop(name)

    def changed(self) -> Iterator[str]:
        """The names of files that would be there and are not so on disk."""
        return (name for name in self.names() if self.original.get(name) != self.files[name])

    def removed(self) -> list[str]:
        """The names of files on disk that would be gone."""
        return sorted(self.original.keys() - self.files.keys())


def _is_special(path: Path) -> bool:
    """Is it a pipe, a socket, a device, or a link to one? Kafka would read it."""
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


def offset_of(name: str) -> int:
    """The offset that a file name begins with, as Kafka reads it. Raises StartRefused."""
    number = name.partition(".")[0]
    digits = number.removeprefix("-")
    if not (digits.isdecimal() and digits.isascii() and len(digits) <= MOST_DIGITS and abs(int(number)) < 2**63):
        raise StartRefused(name, "the name does not begin with an offset")
    return int(number)

"""The bytes of a segment, by position: of a file, of memory, or of a pipe that is spooled as it is read."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import warnings
from pathlib import Path
from typing import Protocol

from kcli.errors import UnreadableInput

PIPE_CHUNK_BYTES = 1 << 20
ZEROS_WINDOW_BYTES = 1 << 20
SMALL_FILE_BYTES = 64 << 20
SEGMENT_BYTES_MAX = 2**31 - 1
"""The size in bytes of the largest segment that Kafka opens (FileRecords)."""
STDIN = Path("-")


class Source(Protocol):
    """Bytes addressed by position."""

    @property
    def name(self) -> str:
        """The name for messages."""

    def read_at(self, position: int, buffer: memoryview) -> int:
        """Fill `buffer` from `position` on. Returns the bytes read: fewer than its length only at the end."""

    def size(self) -> int:
        """The number of bytes; to count them, a pipe is read to its end."""

    def close(self) -> None:
        """Close the file."""


class FileSource:
    """A file, read with preadv: a running Kafka truncates its files, and reading a mapped page after the new end would
    raise SIGBUS.

    The size is taken when the file is opened, so that a growing file is read up to where it ended then. Raises
    UnreadableInput if the file cannot be opened or read, or is a pipe or a device. /dev/null is an empty file.
    Python gives a ResourceWarning for a source that nobody closed. fd: a descriptor of the file, which is duplicated;
    None: `path` is opened.
    """

    _fd = -1

    def __init__(self, path: Path, *, fd: int | None = None) -> None:
        self.name = str(path)
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK) if fd is None else os.dup(fd)
            found = os.fstat(self._fd)
        except OSError as error:
            raise UnreadableInput.of(self.name, error) from error
        if not (stat.S_ISREG(found.st_mode) or _is_null(found)):
            self.close()
            reason = os.strerror(errno.EISDIR) if stat.S_ISDIR(found.st_mode) else "not a regular file"
            raise UnreadableInput(self.name, reason)
        self._size = found.st_size
        self.inode = found.st_ino

    def size(self) -> int:
        return self._size

    def read_at(self, position: int, buffer: memoryview) -> int:
        buffer = buffer[: max(0, self._size - position)]
        done = 0
        try:
            while done < len(buffer):
                got = os.preadv(self._fd, [buffer[done:]], position + done)
                if got == 0:
                    break
                done += got
        except OSError as error:
            raise UnreadableInput(self.name, f"byte {position + done:,}: {error.strerror}", error.errno) from error
        return done

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if self._fd >= 0:
            warnings.warn(f"unclosed {self.name}", ResourceWarning, source=self, stacklevel=1)
            self.close()


class BytesSource:
    """Bytes in memory. name: for messages."""

    def __init__(self, data: bytes | memoryview, name: str) -> None:
        self.name = name
        self._data = memoryview(data)

    def size(self) -> int:
        return len(self._data)

    def read_at(self, position: int, buffer: memoryview) -> int:
        part = self._data[position : position + len(buffer)]
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._data.release()


class PipeSource:
    """A pipe, spooled to an unlinked temporary file as far as it has been read, so that earlier bytes can be read
    again.

    A pipe can be endless: reading ends one byte beyond the largest segment.
    """

    def __init__(self, fd: int, name: str) -> None:
        self.name = name
        self._pipe = fd
        self._spool = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed by close)
        self._spooled = 0
        self._ended = False

    def _fill(self, until: int) -> None:
        while not self._ended and self._spooled < until:
            try:
                chunk = os.read(self._pipe, PIPE_CHUNK_BYTES)
            except OSError as error:
                raise UnreadableInput.of(self.name, error) from error
            self._ended = not chunk
            try:
                while chunk:
                    written = self._spool.write(chunk)
                    self._spooled += written
                    chunk = chunk[written:]
            except OSError as error:
                error.filename = tempfile.gettempdir()
                raise

    def size(self) -> int:
        self._fill(SEGMENT_BYTES_MAX + 1)
        return self._spooled

    def read_at(self, position: int, buffer: memoryview) -> int:
        self._fill(position + len(buffer))
        done = 0
        while done < len(buffer):
            got = os.preadv(self._spool.fileno(), [buffer[done:]], position + done)
            if got == 0:
                break
            done += got
        return done

    def close(self) -> None:
        self._spool.close()


def _is_null(found: os.stat_result) -> bool:
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == Path(os.devnull).stat().st_rdev


class ObjectPath(Protocol):
    """The URL of an object of a store, with those methods of Path that a dump needs (kcli.tier.bucket_path)."""

    @property
    def name(self) -> str:
        """The last part of the URL."""

    @property
    def suffix(self) -> str:
        """The end of the name from its last dot on."""

    def with_name(self, name: str) -> ObjectPath:
        """Return the URL of another object beside this one."""

    def absolute(self) -> ObjectPath:
        """Return the URL itself."""

    def is_file(self) -> bool:
        """Whether this is the URL of an object, rather than a prefix of the URLs of objects."""

    def open_source(self) -> Source:
        """Return the object's bytes as a Source. Raises UnreadableInput."""


AnyPath = Path | ObjectPath
"""Where the bytes of a file are: on this machine, or in a store."""


def open_source(path: AnyPath) -> Source:
    """Return a source for a file. For a pipe (a named one, or `<(...)` of a shell) the source copies the bytes to a
    temporary file as it reads them. Raises UnreadableInput."""
    if not isinstance(path, Path):
        return path.open_source()
    try:
        found = path.stat()
        if stat.S_ISREG(found.st_mode):
            return FileSource(path)
        if stat.S_ISCHR(found.st_mode) and not _is_null(found):
            raise UnreadableInput(str(path), "a device, which may be endless")
        return PipeSource(os.open(path, os.O_RDONLY | os.O_CLOEXEC), str(path))
    except OSError as error:
        raise UnreadableInput.of(path, error) from error


def open_file(path: AnyPath) -> Source:
    """Return a source for a regular file, or for an object. Raises UnreadableInput."""
    return FileSource(path) if isinstance(path, Path) else path.open_source()


def read_whole(path: AnyPath, *, limit_bytes: int = SMALL_FILE_BYTES) -> bytes:
    """Return the bytes of a small file (an index, a snapshot, a checkpoint). Raises UnreadableInput, also for a file of
    more than limit_bytes."""
    return whole(open_file(path), limit_bytes)


def read_input(path: AnyPath) -> bytes:
    """Return the bytes of a small file that a command line names; the name STDIN stands for standard input. Raises as
    `read_whole` does."""
    if path != STDIN:
        return read_whole(path)
    source = open_stdin()
    if source.read_at(SMALL_FILE_BYTES, memoryview(bytearray(1))):  # a pipe is read up to this byte, and no further
        source.close()
        raise UnreadableInput(source.name, f"more than {SMALL_FILE_BYTES:,} bytes, which such a file cannot have")
    return whole(source, SMALL_FILE_BYTES)


def read_range(source: Source, start: int, stop: int) -> memoryview:
    """Return the bytes [start, stop) of a source, fewer at its end; the source is closed. Raises UnreadableInput."""
    try:
        data = memoryview(bytearray(max(0, min(stop, source.size()) - start)))
        return data[: source.read_at(start, data)]
    finally:
        source.close()


def whole(source: Source, limit_bytes: int, what: str = "a file") -> bytes:
    """Return all bytes of a small source, which is closed. what: the kind of source, for the error. Raises
    UnreadableInput, also for a source above the limit."""
    try:
        if source.size() > limit_bytes:
            raise UnreadableInput(source.name, f"{source.size():,} bytes are more than such {what} can have")
        data = bytearray(source.size())
        return bytes(data[: source.read_at(0, memoryview(data))])
    finally:
        source.close()


def open_stdin() -> Source:
    """Return standard input as a source: it is read by position if it is a file; if it is a pipe, its bytes are copied
    to a temporary file."""
    return FileSource(STDIN, fd=0) if stat.S_ISREG(os.fstat(0).st_mode) else PipeSource(0, str(STDIN))


def ends_in_zeros(source: Source, start: int) -> bool:
    """Whether all bytes of `source` from byte `start` on are zeros. They are read in pieces of 1 MiB. Raises
    UnreadableInput."""
    size, at = source.size(), start
    window = bytearray(min(size - start, ZEROS_WINDOW_BYTES))
    while at < size:
        got = source.read_at(at, memoryview(window))
        if not got or window.count(0, 0, got) != got:
            return False
        at += got
    return True

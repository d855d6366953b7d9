"""Where the bytes of a segment come from: a file read by position, or a pipe spooled as it is read."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import Protocol

from kcli.errors import UnreadableInput

PIPE_CHUNK_BYTES = 1 << 20
SMALL_FILE_BYTES = 64 << 20
STDIN = Path("-")


class Source(Protocol):
    """Bytes addressed by position."""

    @property
    def name(self) -> str:
        """What to call it in a message."""

    def read_at(self, position: int, buffer: memoryview) -> int:
        """Fill `buffer` from `position` on. Returns the bytes read: fewer than its length only at the end."""

    def size(self) -> int:
        """Bytes there are in all; a pipe is read to its end to tell."""

    def close(self) -> None:
        """Give the descriptor back."""


class FileSource:
    """A file, read with preadv: a live Kafka truncates its files, and a mapped page behind the new end is SIGBUS.

    Its size is taken once, so that a growing file is read up to where it ended when it was opened. Raises
    UnreadableInput where the file cannot be opened or read, or is a pipe. /dev/null is an empty file.
    """

    def __init__(self, path: Path, *, fd: int | None = None) -> None:
        self.name = str(path)
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK) if fd is None else os.dup(fd)
            found = os.fstat(self._fd)
        except OSError as error:
            raise UnreadableInput(self.name, error.strerror or str(error)) from error
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISCHR(found.st_mode)):
            os.close(self._fd)
            reason = os.strerror(errno.EISDIR) if stat.S_ISDIR(found.st_mode) else "not a regular file"
            raise UnreadableInput(self.name, reason)
        self._size = found.st_size

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
            raise UnreadableInput(self.name, f"byte {position + done:,}: {error.strerror}") from error
        return done

    def close(self) -> None:
        os.close(self._fd)


class BytesSource:
    """Bytes that are there already. name: what to call them in a message."""

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
    """A pipe, spooled to an unlinked temporary file as far as it has been asked for, so that one can look back."""

    def __init__(self, fd: int, name: str) -> None:
        self.name = name
        self._pipe = fd
        self._spool = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed by close)
        self._spooled = 0
        self._ended = False

    def _fill(self, until: int | None) -> None:
        while not self._ended and (until is None or self._spooled < until):
            try:
                chunk = os.read(self._pipe, PIPE_CHUNK_BYTES)
            except OSError as error:
                raise UnreadableInput(self.name, error.strerror or str(error)) from error
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
        self._fill(None)
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


def open_source(path: Path) -> Source:
    """A file by position; what has no positions (a named pipe, `<(...)` of a shell) spooled. Raises UnreadableInput."""
    try:
        if stat.S_ISREG(path.stat().st_mode):
            return FileSource(path)
        return PipeSource(os.open(path, os.O_RDONLY | os.O_CLOEXEC), str(path))
    except OSError as error:
        raise UnreadableInput(str(path), error.strerror or str(error)) from error


def read_whole(path: Path, *, limit_bytes: int = SMALL_FILE_BYTES) -> bytes:
    """The bytes of a small file (an index, a snapshot, a checkpoint). Raises UnreadableInput, also above the limit."""
    return _whole(FileSource(path), limit_bytes)


def read_input(path: Path) -> bytes:
    """The bytes of a small file that a command line names: STDIN is standard input. Raises as `read_whole` does."""
    if path != STDIN:
        return read_whole(path)
    source = open_stdin()
    if source.read_at(SMALL_FILE_BYTES, memoryview(bytearray(1))):  # so far a pipe is read, and no further
        source.close()
        raise UnreadableInput(source.name, f"more than {SMALL_FILE_BYTES:,} bytes, which such a file cannot have")
    return _whole(source, SMALL_FILE_BYTES)


def _whole(source: Source, limit_bytes: int) -> bytes:
    try:
        if source.size() > limit_bytes:
            raise UnreadableInput(source.name, f"{source.size():,} bytes are more than such a file can have")
        data = bytearray(source.size())
        return bytes(data[: source.read_at(0, memoryview(data))])
    finally:
        source.close()


def open_stdin() -> Source:
    """Standard input: by position where it is a file, else spooled."""
    return FileSource(STDIN, fd=0) if stat.S_ISREG(os.fstat(0).st_mode) else PipeSource(0, str(STDIN))

"""The content of a compressed file, as a source by position, decompressed while it is read: neither the file nor its
content is ever in memory as a whole."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from formats.archive import HEAD_BYTES, Archive, archive_named, inflated
from formats.errors import FormatError
from kcli.errors import UnreadableInput
from kcli.log.source import SEGMENT_BYTES_MAX, FileSource

CHUNK_BYTES = 1 << 20
KEPT_BYTES = 32 << 20
"""Bytes that lie at most this far before the end of the last read stay in memory in decompressed form, for reads that
go back; this is more than one window of batches. To read earlier bytes the file is decompressed again from its
beginning."""


def archive_of(path: Path) -> Archive | None:
    """Return the kind of a compressed file, by its first bytes; None for any other file. Raises UnreadableInput."""
    source = FileSource(path)
    head = bytearray(HEAD_BYTES)
    try:
        size = source.read_at(0, memoryview(head))
    finally:
        source.close()
    return archive_named(head[:size])


def inflated_size(path: Path, archive: Archive) -> int:
    """Return the size in bytes of the decompressed content of a file. Raises UnreadableInput, also for damage and for a
    size above that of the largest segment that Kafka opens."""
    source = InflatedSource(path, archive)
    buffer = memoryview(bytearray(CHUNK_BYTES))
    size = 0
    try:
        while (got := source.read_at(size, buffer)) and size <= SEGMENT_BYTES_MAX:
            size += got
    finally:
        source.close()
    if size > SEGMENT_BYTES_MAX:
        raise UnreadableInput(str(path), f"inflates to more than {SEGMENT_BYTES_MAX:,} bytes")
    return size


class InflatedSource:
    """The content of a compressed file. Reads raise UnreadableInput if the file is damaged or cannot be read."""

    def __init__(self, path: Path, archive: Archive) -> None:
        self.name = str(path)
        self._archive = archive
        self._file = FileSource(path)
        self._begin()

    def _begin(self) -> None:
        self._parts = inflated(self._archive, self._chunks())
        # The decompressed parts in memory, adjacent: the position of each in the content, and its bytes.
        self._kept: deque[tuple[int, bytes]] = deque()
        self._end = 0

    def _chunks(self) -> Iterator[bytes]:
        position = 0
        buffer = bytearray(CHUNK_BYTES)
        while size := self._file.read_at(position, memoryview(buffer)):
            yield bytes(buffer[:size])
            position += size

    def size(self) -> int:
        """Return the size in bytes of the largest possible segment: the size of the content is not known before all of
        it is decompressed."""
        return SEGMENT_BYTES_MAX

    def read_at(self, position: int, buffer: memoryview) -> int:
        """Fill `buffer` from `position` on. Returns the bytes read: fewer than its length only at the end."""
        if self._kept and position < self._kept[0][0]:
            self._begin()
        while self._end <= position and self._inflate():
            self._forget(self._end - KEPT_BYTES)
        done = 0
        while done < len(buffer):
            part = self._part_at(position + done)
            if part is None and not self._inflate():
                break
            if part is not None:
                taken = part[: len(buffer) - done]
                buffer[done : done + len(taken)] = taken
                done += len(taken)
        self._forget(position + done - KEPT_BYTES)
        return done

    def _part_at(self, position: int) -> memoryview | None:
        """Return the kept bytes from `position` to the end of the part that has them; None if the byte at `position` is
        not kept."""
        for start, part in reversed(self._kept):
            if start <= position:
                return memoryview(part)[position - start :] if position < start + len(part) else None
        return None

    def _inflate(self) -> bool:
        """Decompress the next part of the content, and keep it. Returns whether there was a next part."""
        try:
            part = next(self._parts, None)
        except FormatError as error:
            raise UnreadableInput(self.name, error.reason) from error
        if part is None:
            return False
        self._kept.append((self._end, part))
        self._end += len(part)
        return True

    def _forget(self, until: int) -> None:
        while len(self._kept) > 1 and self._kept[1][0] <= until:
            self._kept.popleft()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

"""The content of a compressed file, as a source by position, decompressed while it is read: neither the file nor its
content is ever in memory as a whole.

The files are those of gzip, zstd, xz, bzip2 and lz4, of one or more members, streams or frames. Only the module of the
program in use is imported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

from formats.errors import BadCompression, FormatError
from kcli.errors import UnreadableInput
from kcli.log.source import SEGMENT_BYTES_MAX, FileSource


class Archive(StrEnum):
    """The kind of a compressed file; the value is the name of the program that decompresses it."""

    GZIP = "gzip"
    ZSTD = "zstd"
    XZ = "xz"
    BZIP2 = "bzip2"
    LZ4 = "lz4"

    @property
    def suffix(self) -> str:
        """What the program appends to the name of a file."""
        return _SUFFIXES[self]


MAGICS = {
    b"\x1f\x8b\x08": Archive.GZIP,
    b"\x28\xb5\x2f\xfd": Archive.ZSTD,
    b"\xfd7zXZ\0": Archive.XZ,
    b"BZh": Archive.BZIP2,
    b"\x04\x22\x4d\x18": Archive.LZ4,
}
_SUFFIXES = {Archive.GZIP: ".gz", Archive.ZSTD: ".zst", Archive.XZ: ".xz", Archive.BZIP2: ".bz2", Archive.LZ4: ".lz4"}
CHUNK_BYTES = 1 << 20
GZIP_STEP, ZSTD_STEP = 16 << 10, 256
"""The bytes of a file that are decompressed in one call, for at most 16 MB."""
ZSTD_WINDOW_MAX = XZ_MEMORY_MAX = 128 << 20
KEPT_BYTES = 32 << 20
"""Bytes that lie at most this far before the end of the last read stay in memory in decompressed form, for reads that
go back; this is more than one window of batches. To read earlier bytes the file is decompressed again from its
beginning."""


def archive_of(path: Path) -> Archive | None:
    """Return the kind of a compressed file, by its first bytes; None for any other file. Raises UnreadableInput."""
    source = FileSource(path)
    head = bytearray(max(map(len, MAGICS)))
    try:
        size = source.read_at(0, memoryview(head))
    finally:
        source.close()
    return next((archive for magic, archive in MAGICS.items() if head[:size].startswith(magic)), None)


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


def inflated(archive: Archive, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the content of a compressed file part by part, each of at most 16 MB.

    chunks: the bytes of the file, in order; each is taken only when the ones before it are decompressed. Raises
    BadCompression for damage, for a file that ends inside a member, stream or frame, and for an empty file.
    """
    step, begin, damage = _DECOMPRESSORS[archive]()
    member, is_inside, position = begin(), False, 0
    for chunk in chunks:
        left = chunk
        while left:
            fed, left = left[:step], left[step:]
            try:
                yield from _decompressed(member, fed)
            except damage as error:
                raise BadCompression(f"not a sound compressed file: {error}", position) from None
            position += len(fed)
            is_inside = not member.eof
            if member.eof:
                unused = member.unused_data or b""
                left = unused + left
                position -= len(unused)
                member = begin()
    if is_inside or position == 0:
        raise BadCompression("the file ends inside a compressed member or frame", position)


def _decompressed(member: Any, fed: bytes) -> Iterator[bytes]:
    """Yield what the bytes `fed` decompress to, in parts of at most CHUNK_BYTES where the decompressor has a limit."""
    if not hasattr(member, "needs_input"):
        if out := member.decompress(fed):
            yield out
        return
    while True:
        if out := member.decompress(fed, CHUNK_BYTES):
            yield out
        if member.eof or member.needs_input:
            return
        fed = b""


_Decompressor = tuple[int, Callable[[], Any], type[Exception] | tuple[type[Exception], ...]]
"""How many bytes of a file to decompress in one call; a function that returns a decompressor of the next member, stream
or frame, with the interface of zlib's or of bz2's; and the exceptions that it raises for damage."""


def _gzip() -> _Decompressor:
    from isal import isal_zlib

    return GZIP_STEP, lambda: isal_zlib.decompressobj(wbits=31), isal_zlib.IsalError  # type: ignore[return-value]  # stub error


def _zstd() -> _Decompressor:
    import zstandard

    context = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_MAX)
    return ZSTD_STEP, context.decompressobj, zstandard.ZstdError


def _xz() -> _Decompressor:
    import lzma

    return CHUNK_BYTES, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, XZ_MEMORY_MAX), lzma.LZMAError


def _bzip2() -> _Decompressor:
    import bz2

    return CHUNK_BYTES, bz2.BZ2Decompressor, (OSError, ValueError)


def _lz4() -> _Decompressor:
    from lz4 import frame  # type: ignore[import-untyped]  # the package has no stubs

    return CHUNK_BYTES, frame.LZ4FrameDecompressor, RuntimeError


_DECOMPRESSORS: dict[Archive, Callable[[], _Decompressor]] = {
    Archive.GZIP: _gzip,
    Archive.ZSTD: _zstd,
    Archive.XZ: _xz,
    Archive.BZIP2: _bzip2,
    Archive.LZ4: _lz4,
}


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
        """Return the size in bytes of the largest possible segment: that of the content is not known before all of it
        is decompressed."""
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

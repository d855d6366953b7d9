"""Files that a compression program has made: gzip, zstd, xz, bzip2 and lz4 (frames), of one or more members, streams or
frames.

    archive_named(head)         the kind of a file, by its first bytes
    inflated(archive, chunks)   the content, part by part: neither the file nor its content need be in memory as a whole

Only the module of the program in use is imported. Source: RFC 1952, RFC 8878, the .xz file format, lz4_Frame_format.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any

from formats.compression import GZIP_STEP, ZSTD_STEP, ZSTD_WINDOW_MAX
from formats.errors import BadCompression


class Archive(StrEnum):
    """The kind of a compressed file; the value is the name of the program that decompresses it."""

    GZIP = "gzip"
    ZSTD = "zstd"
    XZ = "xz"
    BZIP2 = "bzip2"
    LZ4 = "lz4"

    @property
    def suffix(self) -> str:
        """The suffix that the program appends to the name of a file that it compresses."""
        return _SUFFIXES[self]


MAGICS = {
    b"\x1f\x8b\x08": Archive.GZIP,
    b"\x28\xb5\x2f\xfd": Archive.ZSTD,
    b"\xfd7zXZ\0": Archive.XZ,
    b"BZh": Archive.BZIP2,
    b"\x04\x22\x4d\x18": Archive.LZ4,
}
HEAD_BYTES = max(map(len, MAGICS))
_SUFFIXES = {Archive.GZIP: ".gz", Archive.ZSTD: ".zst", Archive.XZ: ".xz", Archive.BZIP2: ".bz2", Archive.LZ4: ".lz4"}
CHUNK_BYTES = 1 << 20
"""The largest part that a decompressor with a limit returns."""
XZ_MEMORY_MAX = 128 << 20
"""The memory in bytes that the dictionary of an xz file may take; `xz -9` makes it 64 MiB."""


def archive_named(head: bytes | bytearray) -> Archive | None:
    """Return the kind of a compressed file that begins with these bytes; None for any other file. head: at least
    HEAD_BYTES bytes, or the whole file."""
    return next((archive for magic, archive in MAGICS.items() if head.startswith(magic)), None)


def inflated(archive: Archive, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the content of a compressed file part by part, each of at most 16 MB.

    chunks: the bytes of the file, in order; a chunk is requested only when those before it are decompressed. Raises
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
    """Decompress the bytes `fed`. Yield the result in parts of at most CHUNK_BYTES, if the decompressor supports such a
    limit."""
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

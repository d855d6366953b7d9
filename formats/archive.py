"""Files that a program has made of others: gzip, zstd, xz, bzip2 and lz4 (frames), of one or more members, streams or
frames, compress them; base64, xxd and hexdump write their bytes as text (formats.text_form).

    archive_named(head)         the kind of a file, by its first bytes
    inflated(archive, chunks)   the content, part by part: neither the file nor its content need be in memory as a whole

Only the module of the program in use is imported. Source: RFC 1952, RFC 8878, the .xz file format, lz4_Frame_format.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any

from formats import text_form
from formats.compression import GZIP_STEP, ZSTD_STEP, ZSTD_WINDOW_MAX
from formats.errors import BadCompression


class Archive(StrEnum):
    """The kind of a file that a program has made of another one; the value is the name of the program."""

    GZIP = "gzip"
    ZSTD = "zstd"
    XZ = "xz"
    BZIP2 = "bzip2"
    LZ4 = "lz4"
    BASE64 = "base64"
    XXD = "xxd"
    HEX = "xxd -p"
    HEXDUMP = "hexdump -C"
    WORDS = "hexdump"
    UTF_16 = "UTF-16"

    @property
    def suffix(self) -> str:
        """The suffix that the program appends to the name of a file that it compresses, or one for its text."""
        return _SUFFIXES[self]

    @property
    def is_text(self) -> bool:
        """Whether the file is a text of the other's bytes."""
        return self in _TEXTS

    @property
    def undo(self) -> str:
        """The shell command that reads the file, and writes the other one."""
        return _UNDO.get(self, f"{self} -dc")


MAGICS = {
    b"\x1f\x8b\x08": Archive.GZIP,
    b"\x28\xb5\x2f\xfd": Archive.ZSTD,
    b"\xfd7zXZ\0": Archive.XZ,
    b"BZh": Archive.BZIP2,
    b"\x04\x22\x4d\x18": Archive.LZ4,
}
HEAD_BYTES = 512
"""How many bytes of a file tell its kind; the signatures of compressed files are shorter."""
_SUFFIXES = {
    Archive.GZIP: ".gz",
    Archive.ZSTD: ".zst",
    Archive.XZ: ".xz",
    Archive.BZIP2: ".bz2",
    Archive.LZ4: ".lz4",
    Archive.BASE64: ".b64",
    Archive.XXD: ".xxd",
    Archive.HEX: ".hex",
    Archive.HEXDUMP: ".hexdump",
    Archive.WORDS: ".hexdump",
    Archive.UTF_16: ".utf16",
}
_TEXTS: dict[Archive, text_form.Decoder] = {
    Archive.HEX: text_form.of_hex,
    Archive.BASE64: text_form.of_base64,
    Archive.XXD: text_form.of_xxd,
    Archive.HEXDUMP: text_form.of_hexdump,
    Archive.WORDS: text_form.of_words,
    Archive.UTF_16: text_form.of_utf_16,
}
_UNDO = {
    Archive.BASE64: "tr -d '\\r' | base64 -d",
    Archive.XXD: "xxd -r",
    Archive.HEX: "xxd -r -p",
    Archive.HEXDUMP: "sed 's/[|>].*//; s/  */ /g; s/ /: /' | xxd -r",
    Archive.WORDS: "sed 's/  */ /g; s/ /: /' | xxd -r | dd conv=swab status=none",
    Archive.UTF_16: "iconv -f UTF-16 -t ISO-8859-1",
}
CHUNK_BYTES = 1 << 20
"""The largest part that a decompressor with a limit returns."""
XZ_MEMORY_MAX = 128 << 20
"""The memory in bytes that the dictionary of an xz file may take; `xz -9` makes it 64 MiB."""


def archive_named(head: bytes | bytearray) -> Archive | None:
    """Return the kind of a compressed file that begins with these bytes, or of a text of a log; None for any other
    file. head: at least HEAD_BYTES bytes, or the whole file."""
    found = next((archive for magic, archive in MAGICS.items() if head.startswith(magic)), None)
    if found is not None or not (head[:1].isalnum() or head[:2] in text_form.BYTE_ORDER_MARKS):
        return found
    return next((each for each, decode in _TEXTS.items() if text_form.begins_log(decode, bytes(head))), None)


def inflated(archive: Archive, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the content of a compressed file, or the bytes of a text, part by part, each of at most 16 MB.

    chunks: the bytes of the file, in order; a chunk is requested only when those before it are decompressed. Raises
    BadCompression for damage, for a file that ends inside a member, stream or frame, and for an empty file.
    """
    if archive.is_text:
        yield from _TEXTS[archive](chunks)
        return
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

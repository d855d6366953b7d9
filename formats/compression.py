"""Compression: the codecs of batches and messages, and how Kafka frames them.

    id  codec   framing that Kafka reads (attributes bits 0..2 of a batch name the id)
     0  none    no framing
     1  gzip    one or more gzip members, RFC 1952
     2  snappy  xerial blocks, or one raw snappy block (never Google's "framing format")
     3  lz4     one LZ4 frame with independent blocks
     4  zstd    one or more zstd frames, skippable ones among them, RFC 8878

    xerial snappy   any number of: header | block
      header        16 bytes: 82 'SNAPPY' 00, int32 version (1), int32 lowest compatible version (1), big endian
      block         int32 length (big endian), then that many bytes of raw snappy
    lz4 frame       header, blocks, end mark, optional content checksum; integers little endian
      magic         int32 0x184d2204
      flags         int8  bits 6-7 version 1, 5 independent blocks (must be set), 4 block checksums, 3 content size,
                          2 content checksum (which Kafka skips)
      block size    int8  bits 4-6: 4 = 64 KiB, 5 = 256 KiB, 6 = 1 MiB, 7 = 4 MiB
      content size  int64 if flagged
      checksum      int8  second byte of xxHash32 of flags to content size. In a magic 0 message it covers the magic too
                          (KAFKA-3160) and Kafka leaves it unchecked
      block         int32 length (high bit: stored as it is; 0: end mark), bytes, int32 xxHash32 of them if flagged

Source: Kafka's compress package (GzipCompression, SnappyCompression, Lz4BlockInputStream, ZstdCompression), KIP-110.

A size that the bytes claim is checked to be possible before it is allocated, and the output exceeds `limit` by at most
one step of input. Only the codec in use is imported. Functions may be called from several threads; codecs release the
GIL.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from formats.damaged_block import lz4_prefix, snappy_prefix
from formats.errors import BadCodec, BadCompression, BytesBehind, FormatError, LimitExceeded

if TYPE_CHECKING:
    from zstandard import ZstdDecompressor

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
DEFAULT_LIMIT = 64 * 1024 * 1024
UNBOUNDED = 2**62
MOST_FOR_ONE = (1, 1032, 22, 255)
"""The most bytes that one compressed byte decompresses to, by codec id: deflate's longest match takes two bits,
snappy's 64 bytes take three bytes, an lz4 match grows by 255 for each byte of its length. For zstd _zstd_most computes
it."""
WHOLE = 2**62  # a `step` (the input bytes of one call) larger than any payload, so that one call takes all of it
PREFIX_STEP = 16  # input bytes at a time for `decompress_prefix`

Chunks = Iterator[bytes | memoryview]


def decompress(codec: int, data: bytes | memoryview, *, magic: int = 2, limit: int = DEFAULT_LIMIT) -> bytes:
    """Return the decompressed payload of one batch, or of one magic 0 or 1 message.

    codec: the codec id (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd). data: the compressed bytes. magic: that of the batch
    or message around them. limit: the most bytes that may come out.

    Raises BadCodec for another codec id, BadCompression for damage and for bytes behind the end of the stream,
    LimitExceeded; each with the position in `data` at which the faulty member, block or frame begins.
    """
    chunks = list(_codec(codec).decompress(memoryview(data), magic, limit, WHOLE))
    return bytes(chunks[0]) if len(chunks) == 1 else b"".join(chunks)


def decompress_prefix(
    codec: int, data: bytes | memoryview, *, magic: int = 2, limit: int = DEFAULT_LIMIT
) -> tuple[bytes, FormatError | None]:
    """Return the bytes that decompress before the first damage, and the error of that damage; None in place of the
    error if the payload is sound. Beyond `limit` bytes, the error is LimitExceeded.

    Arguments are as for `decompress`. With zstd, the bytes are those of the whole blocks before the damage (up to 128
    KiB each); with other codecs, only a few bytes before the damage are missing. The last bytes may be wrong, since
    codecs detect damage late. Raises BadCodec for another codec id.
    """
    prefix = BytesIO()  # getvalue shares its buffer: no second copy of the output
    try:
        prefix.writelines(_codec(codec).decompress(memoryview(data), magic, limit, PREFIX_STEP))
    except BadCodec:
        raise
    except FormatError as error:
        return prefix.getvalue(), error
    return prefix.getvalue(), None


def decompressed_parts(
    codec: int, data: bytes | memoryview, *, magic: int = 2, limit: int = DEFAULT_LIMIT
) -> Iterator[bytes | memoryview]:
    """Yield the decompressed payload part by part, so that it need not be in memory as a whole. Arguments and errors
    are as for `decompress`."""
    yield from _codec(codec).decompress(memoryview(data), magic, limit, GZIP_STEP)


def most_bytes(codec: int, data: bytes | memoryview) -> int:
    """Return an upper bound of the payload's decompressed size in bytes, without decompressing it.

    UNBOUNDED for several zstd frames, a damaged zstd frame, a zstd frame that has further blocks after 8 MiB of
    content, and an unknown codec.
    """
    if codec == ZSTD:
        return _zstd_most(memoryview(data))
    return MOST_FOR_ONE[codec] * len(data) if 0 <= codec < len(MOST_FOR_ONE) else UNBOUNDED


def compress(codec: int, data: bytes | memoryview, *, level: int | None = None, magic: int = 2) -> bytes:
    """Return the payload compressed as Kafka's producers do it: gzip, snappy in xerial's framing with blocks of 32
    KiB, lz4 with independent blocks of 64 KiB, zstd.

    codec: the codec id. level: the codec's own (gzip 1..9, lz4 1..17, zstd up to 22; snappy has none), None for its
    default. magic: that of the batch or message around the payload. Raises BadCodec.
    """
    return _codec(codec).compress(bytes(data), level, magic)


def _codec(codec: int) -> _Codec:
    if not 0 <= codec < len(_CODECS):
        raise BadCodec(f"unknown compression codec {codec}")
    return _CODECS[codec]


def _within(limit: int, size: int, position: int) -> int:
    if size > limit:
        raise LimitExceeded(f"decompresses to more than the limit of {limit:,} bytes", position)
    return size


def _not_a(part: str, error: Exception, position: int) -> str:
    behind = "bytes behind the end of the stream are " if position else ""
    return f"{behind}not a sound {part}: {error}"


# none: the payload as it is


def _none_decompress(data: memoryview, _magic: int, limit: int, _step: int) -> Chunks:
    _within(limit, len(data), 0)
    yield data


def _none_compress(data: bytes, _level: int | None, _magic: int) -> bytes:
    return data


# gzip: ISA-L inflates 2.5 times as fast as zlib (measured on 16 KiB and 1 MB batches)


GZIP_JAVA = b"\0\xff"  # extra flags and operating system in the header, as Java's GZIPOutputStream writes them
GZIP_MAGIC = b"\x1f\x8b\x08"
GZIP_IGNORED = 18  # header and trailer, in bytes: Java ignores up to this many bytes behind a member
GZIP_STEP = 16 * 1024  # input bytes of one call, for at most 16 MB of output: then other threads can run


def _gzip_decompress(data: memoryview, _magic: int, limit: int, step: int) -> Chunks:
    from isal import isal_zlib

    start, size = 0, 0
    while start < len(data) or start == 0:
        if start and (len(data) - start <= GZIP_IGNORED or data[start : start + 3] != GZIP_MAGIC):
            raise BytesBehind(f"{len(data) - start:,} bytes behind the end of the gzip stream are no member", start)
        member = isal_zlib.decompressobj(wbits=31)
        position = start
        while not member.eof:
            if position >= len(data):
                raise BadCompression("the gzip payload ends inside a member", start)
            fed = data[position : position + min(step, GZIP_STEP)]
            position += len(fed)
            try:
                out = member.decompress(fed, limit - size + 1)
            except isal_zlib.IsalError as error:  # type: ignore[misc]  # stub error
                raise BadCompression(_not_a("gzip member", error, start), start) from None
            size = _within(limit, size + len(out), start)
            yield out
        start = position - len(member.unused_data)


def _gzip_compress(data: bytes, level: int | None, _magic: int) -> bytes:
    member = zlib.compress(data, zlib.Z_DEFAULT_COMPRESSION if level is None else level, wbits=31)
    return member[:8] + GZIP_JAVA + member[10:]


# snappy: xerial blocks, or one raw block

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
XERIAL_BLOCK = 32 * 1024
# `decompress_prefix` skips a cut-off block whose stated length exceeds this: no producer writes so long a block
XERIAL_LENGTH_MAX = 64 * 1024


def _snappy_decompress(data: memoryview, _magic: int, limit: int, step: int) -> Chunks:
    if data[:8] != XERIAL_MAGIC:
        yield from _snappy_block(data, len(data), limit, 0, step)
        return
    position, size = 0, 0
    while position < len(data):
        if data[position : position + 8] == XERIAL_MAGIC:
            if len(data) - position < 16:
                raise BadCompression("the snappy payload ends inside a xerial header", position)
            if int.from_bytes(data[position + 8 : position + 12]) < 1:
                raise BadCompression("xerial version is below 1", position + 8)
            position += 16
            continue
        if len(data) - position < 4:  # Java's SnappyInputStream ends here, without an error
            raise BytesBehind(f"{len(data) - position} bytes behind the end of the snappy stream", position)
        length = int.from_bytes(data[position : position + 4])
        for out in _snappy_block(data[position + 4 : position + 4 + length], length, limit - size, position, step):
            size += len(out)
            yield out
        position += 4 + length


def _snappy_block(block: memoryview, length: int, limit: int, position: int, step: int) -> Chunks:
    try:
        yield _snappy_whole(block, length, limit, position)
    except BadCompression:
        if step != WHOLE and length <= max(len(block), XERIAL_LENGTH_MAX):
            yield snappy_prefix(block, limit)
        raise


def _snappy_whole(block: memoryview, length: int, limit: int, position: int) -> bytes:
    import cramjam

    if len(block) < length:
        raise BadCompression("the snappy payload ends inside a block, or bytes that are none follow it", position)
    try:
        claimed = cramjam.snappy.decompress_raw_len(block)
        _within(limit, claimed, position)
        if block and claimed <= 22 * len(block):  # three bytes of a snappy block make at most 64 bytes
            return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise BadCompression(str(error), position) from None
    raise BadCompression(f"a snappy block of {len(block):,} bytes cannot hold {claimed:,} bytes", position)


def _snappy_compress(data: bytes, _level: int | None, _magic: int) -> bytes:
    import cramjam

    parts = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK]))
        parts += (len(block).to_bytes(4), block)
    return b"".join(parts)


# lz4: the frame is parsed here, since Kafka's rules for it differ from liblz4's; liblz4 decompresses the blocks

LZ4_MAGIC = b"\x04\x22\x4d\x18"


def _lz4_decompress(data: memoryview, magic: int, limit: int, step: int) -> Chunks:
    import lz4.block  # type: ignore[import-untyped]

    position, block_max, block_checksums, content_checksum = _lz4_header(data, magic)
    size = 0
    while True:
        start = position
        word = int.from_bytes(_lz4_take(data, position, 4), "little")
        length, stored = word & 0x7FFFFFFF, word >> 31
        position += 4
        if length == 0:
            break
        if length > block_max:
            raise BadCompression(f"an lz4 block of {length:,} bytes in a frame of blocks up to {block_max:,}", start)
        block = data[position : position + length]
        try:
            _lz4_take(data, position, length)
            position += length
            if block_checksums:
                _lz4_check(block, _lz4_take(data, position, 4), start)
                position += 4
            out = block if stored else lz4.block.decompress(block, uncompressed_size=block_max)
        except (lz4.block.LZ4BlockError, BadCompression) as error:
            if step != WHOLE:
                yield block[: limit - size] if stored else lz4_prefix(block, min(block_max, limit - size))
            raise BadCompression(f"not a sound lz4 block: {error.args[0]}", start) from None
        size = _within(limit, size + len(out), start)
        yield out
    if content_checksum:
        _lz4_take(data, position, 4)
        position += 4
    if position < len(data):
        raise BytesBehind(f"{len(data) - position:,} bytes behind the end of the lz4 frame", position)


def _lz4_header(data: memoryview, magic: int) -> tuple[int, int, int, int]:
    """Return the first block's position, the size limit of blocks in bytes, a number that is 0 if there are no block
    checksums, and one that is 0 if there is no content checksum."""
    if len(data) < 7:
        raise BadCompression("the lz4 payload ends inside the frame header", 0)
    if data[:4] != LZ4_MAGIC:
        raise BadCompression("not an lz4 frame: wrong magic", 0)
    flags, block_size = data[4], data[5]
    if flags >> 6 != 1 or flags & 0b11:
        raise BadCompression(f"lz4 frame flags 0x{flags:02x} are not of version 1", 4)
    if not flags & 0x20:
        raise BadCompression("the lz4 blocks depend on each other, which Kafka does not read", 4)
    if block_size & 0x8F or block_size >> 4 < 4:
        raise BadCompression(f"lz4 block size byte 0x{block_size:02x} is none", 5)
    end = 14 if flags & 0x08 else 6
    checksum = _lz4_take(data, end, 1)
    if magic > 0:
        import xxhash

        if xxhash.xxh32_intdigest(data[4:end]) >> 8 & 0xFF != checksum[0]:
            raise BadCompression("wrong checksum of the lz4 frame header", end)
    return end + 1, 1 << 2 * (block_size >> 4) + 8, flags & 0x10, flags & 0x04


def _lz4_take(data: memoryview, position: int, size: int) -> memoryview:
    if len(data) - position < size:
        raise BadCompression("the lz4 payload ends inside its frame", position)
    return data[position : position + size]


def _lz4_check(block: memoryview, checksum: memoryview, position: int) -> None:
    import xxhash

    if xxhash.xxh32_intdigest(block) != int.from_bytes(checksum, "little"):
        raise BadCompression("wrong checksum of an lz4 block", position)


def _lz4_compress(data: bytes, level: int | None, magic: int) -> bytes:
    import lz4.frame  # type: ignore[import-untyped]

    frame: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level is None else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    if magic > 0:
        return frame
    import xxhash

    return frame[:6] + bytes([xxhash.xxh32_intdigest(frame[:6]) >> 8 & 0xFF]) + frame[7:]


# zstd: one or more frames

ZSTD_WINDOW_MAX = 128 * 1024 * 1024  # bytes; the largest window that Kafka's zstd-jni accepts
ZSTD_BLOCK = 128 * 1024  # the most bytes that a block decompresses to; a block itself takes at least 3 bytes
ZSTD_REPEATED, ZSTD_COMPRESSED = 1, 2  # types of blocks: one byte to repeat, compressed bytes
ZSTD_BLOCKS_COUNTED = 64
ZSTD_STEP = 256  # input bytes of one call: at most 85 blocks, 11 MB of output

_zstd_free: list[ZstdDecompressor] = []  # idle decompressors; append and pop are atomic, so no lock


def _zstd_decompress(data: memoryview, _magic: int, limit: int, step: int) -> Chunks:
    import zstandard

    try:
        context = _zstd_free.pop()
    except IndexError:
        context = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_MAX)
    try:
        whole = _zstd_whole(context, data, limit) if step == WHOLE else None
        if whole is None:
            yield from _zstd_stream(context, data, limit, min(step, ZSTD_STEP))
        else:
            yield whole
    finally:
        _zstd_free.append(context)


def _zstd_whole(context: ZstdDecompressor, data: memoryview, limit: int) -> bytes | None:
    """Return the content of `data` if it is one sound frame, as it usually is; else None, and `_zstd_stream` must
    decompress it."""
    import zstandard

    try:
        claimed = zstandard.frame_content_size(data)
        room = min(limit, 16 * len(data) + ZSTD_BLOCK) if claimed < 0 else claimed
        if claimed == 0 or room > min(limit, (len(data) // 3 + 1) * ZSTD_BLOCK):
            return None
        if claimed < 0 and _zstd_frame_end(data) != len(data):
            return None  # with no content size, `decompress` ignores bytes behind the frame
        return context.decompress(data, max_output_size=room, allow_extra_data=False)
    except zstandard.ZstdError:
        return None


def _zstd_frame_end(data: memoryview) -> int:
    """Return the position after the first frame, by the sizes of its blocks; len(data) + 1 if the frame is cut off."""
    import zstandard

    position = zstandard.frame_header_size(data)
    last = False
    while not last and position + 3 <= len(data):
        header = int.from_bytes(data[position : position + 3], "little")
        last = bool(header & 1)
        position += 3 + (1 if header >> 1 & 0b11 == 1 else header >> 3)  # a block of type 1 is one byte to repeat
    if not last:
        return len(data) + 1
    return position + (4 if data[4] & 0b100 else 0)  # this bit says that a content checksum of 4 bytes follows


def _zstd_most(data: memoryview) -> int:
    """Return the largest possible size in bytes of the content of `data`, by the sizes of its blocks, if it is one
    frame; UNBOUNDED for anything else, and for a frame that has further blocks after 8 MiB of content."""
    import zstandard

    try:
        position = zstandard.frame_header_size(data)
    except zstandard.ZstdError:
        return UNBOUNDED
    size, last = 0, False
    while not last:
        if position + 3 > len(data) or size > ZSTD_BLOCKS_COUNTED * ZSTD_BLOCK:
            return UNBOUNDED
        header = int.from_bytes(data[position : position + 3], "little")
        last = bool(header & 1)
        kind, length = header >> 1 & 0b11, header >> 3
        size += ZSTD_BLOCK if kind == ZSTD_COMPRESSED else length
        position += 3 + (1 if kind == ZSTD_REPEATED else length)
    behind = position + (4 if data[4] & 0b100 else 0)  # the flag: a content checksum of 4 bytes follows
    return size if behind == len(data) else UNBOUNDED


def _zstd_stream(context: ZstdDecompressor, data: memoryview, limit: int, step: int) -> Chunks:
    import zstandard

    start, size = 0, 0
    while start < len(data) or start == 0:
        position = start
        try:
            if bytes(data[start + 1 : start + 4]) != b"\x2a\x4d\x18":  # a skippable frame states no content size
                _within(limit, size + max(0, zstandard.frame_content_size(data[start:])), start)
            frame = context.decompressobj()
            while not frame.eof:
                if position >= len(data):
                    raise BadCompression("the zstd payload ends inside a frame", start)
                fed = data[position : position + step]
                position += len(fed)
                out = frame.decompress(fed)
                size = _within(limit, size + len(out), start)
                yield out
        except zstandard.ZstdError as error:
            raise BadCompression(_not_a("zstd frame", error, start), start) from None
        start = position - len(frame.unused_data)


def _zstd_compress(data: bytes, level: int | None, _magic: int) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)


class _Codec(NamedTuple):
    name: str
    decompress: Callable[[memoryview, int, int, int], Chunks]  # of data, magic, limit, step
    compress: Callable[[bytes, int | None, int], bytes]  # of data, level, magic


_CODECS = (
    _Codec("none", _none_decompress, _none_compress),
    _Codec("gzip", _gzip_decompress, _gzip_compress),
    _Codec("snappy", _snappy_decompress, _snappy_compress),
    _Codec("lz4", _lz4_decompress, _lz4_compress),
    _Codec("zstd", _zstd_decompress, _zstd_compress),
)
CODEC_NAMES: tuple[str, ...] = tuple(codec.name for codec in _CODECS)

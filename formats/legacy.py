"""Message sets of magic 0 and 1: the format before Kafka 0.11. Kafka 4 reads them from disk but does not write them.

    message     offset and size, then size bytes
      header    offset, size, CRC-32 (that of gzip) of all bytes behind it, magic, attributes, and
                in magic 1 a timestamp
      key       int32 length (-1: null), bytes
      value     int32 length (-1: null), bytes
    attributes  bits 0-2 codec (never zstd), bit 3 in magic 1: 0 create time, 1 log append time

    wrapper     a message with a codec: its key is null, its value holds compressed inner messages, its offset is that
                of the last inner message. Inner offsets are absolute in magic 0; in magic 1 they are relative (mostly
                from 0), and the last one stands for the wrapper's offset (KIP-31). With log append time all inner
                messages have the wrapper's timestamp (KIP-32)

Source: LegacyRecord, AbstractLegacyRecordBatch.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import construct

from formats import compression
from formats.errors import BadChecksum, BadCodec, BadCount, BadLength, BadMagic, BadValue, FormatError, Truncated
from formats.fixed import Field, FixedLayout
from formats.primitives import NullableBytesOfInt32, build, parse

MAGIC_AT = 16
SIZE_AT = 8
SIZE_FROM = 12  # the size field counts the bytes from here on
CRC_AT = 12
CRC_FROM = 16
SIZE_MIN = {0: 14, 1: 22}
NO_TIMESTAMP = -1

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08


class Header0(NamedTuple):
    """The fixed fields of a magic 0 message."""

    offset: int
    size: int
    crc: int
    magic: int
    attributes: int

    @property
    def timestamp(self) -> int:
        """The timestamp -1, as a magic 0 message has none."""
        return NO_TIMESTAMP


class Header1(NamedTuple):
    """The fixed fields of a magic 1 message."""

    offset: int
    size: int
    crc: int
    magic: int
    attributes: int
    timestamp: int


_COMMON = (
    Field("offset", "int64", "of the message; in a wrapper that of its last message; within one of magic 1 relative"),
    Field("size", "int32", "bytes behind this field"),
    Field("crc", "uint32", "CRC-32 of all that follows"),
    Field("magic", "int8", "0 or 1"),
    Field("attributes", "int8", "codec and timestamp type: see above"),
)
_HEADER_0 = FixedLayout("magic 0 message header", Header0, *_COMMON)
_HEADER_1 = FixedLayout(
    "magic 1 message header",
    Header1,
    *_COMMON,
    Field("timestamp", "int64", "ms since 1970, -1 for none; in a wrapper the largest of its messages"),
)
HEADERS: dict[int, FixedLayout[Header0] | FixedLayout[Header1]] = {0: _HEADER_0, 1: _HEADER_1}

Body = construct.Struct(
    "key" / NullableBytesOfInt32 * "any bytes",
    "value" / NullableBytesOfInt32 * "any bytes; in a wrapper the compressed messages, never null",
)


@dataclass(frozen=True, slots=True)
class Message:
    """One message. Offset and timestamp (ms since 1970, -1 for none) are as stored; key and value are None for null.

    `unwrap` returns inner messages with their absolute offsets and with the timestamps that the wrapper gives them.
    """

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def codec(self) -> int:
        """The codec id (formats.compression); a message with one above 0 is a wrapper of compressed messages."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether the broker set the timestamp (LogAppendTime), not the producer."""
        return self.magic > 0 and bool(self.attributes & LOG_APPEND_TIME)

    @property
    def size(self) -> int:
        """The size of the whole message in bytes, offset and size fields included."""
        return SIZE_FROM + SIZE_MIN[self.magic] + len(self.key or b"") + len(self.value or b"")


def parse_message(data: bytes | memoryview, position: int = 0) -> Message:
    """Return the message that begins at byte `position`; a wrapper is not decompressed. Raises FormatError."""
    if len(data) <= position + MAGIC_AT:
        raise Truncated(f"{max(0, len(data) - position)} bytes where a message should begin", position)
    magic = data[position + MAGIC_AT]
    if magic not in HEADERS:
        raise BadMagic(f"magic {magic}, not 0 or 1", position + MAGIC_AT)
    header = HEADERS[magic].unpack(data, position)
    if header.size < SIZE_MIN[magic]:
        raise BadLength(f"message size {header.size}, less than {SIZE_MIN[magic]}", position + SIZE_AT)
    end = position + SIZE_FROM + header.size
    if end > len(data):
        raise Truncated(f"a message of {header.size:,} bytes, {end - len(data):,} of them missing", position)
    computed = zlib.crc32(data[position + CRC_FROM : end])
    if computed != header.crc:
        raise BadChecksum(f"CRC is 0x{header.crc:08x}, bytes give 0x{computed:08x}", position + CRC_AT)
    start = position + HEADERS[magic].size
    try:
        body, used = parse(Body, data[start:end])
    except FormatError as error:
        raise error.at(start) from None
    if start + used < end:
        raise BadLength(f"{end - start - used:,} bytes behind the value", start + used)
    return Message(header.offset, magic, header.attributes, header.timestamp, body.key, body.value)


def parse_messages(data: bytes | memoryview) -> tuple[Message, ...]:
    """Return the messages that lie in `data` end to end; wrappers are not decompressed.

    Raises FormatError at the first message that is not sound.
    """
    messages: list[Message] = []
    position = 0
    while position < len(data):
        messages.append(parse_message(data, position))
        position += messages[-1].size
    return tuple(messages)


def unwrap(message: Message, *, limit: int = compression.DEFAULT_LIMIT) -> tuple[Message, ...]:
    """Return the messages inside a wrapper, with absolute offsets; for any other message, a tuple of that message.

    limit: the most bytes that the value may decompress to. Raises FormatError. Its position is counted from
    the start of the compressed bytes; for a fault of an inner message it is None, and the reason has the position in
    the decompressed messages.
    """
    if message.codec == compression.NONE:
        return (message,)
    if message.codec == compression.ZSTD:
        raise BadCodec(f"zstd in a message of magic {message.magic}")
    if message.value is None:
        raise BadValue("a compressed message without a value")
    plain = compression.decompress(message.codec, message.value, magic=message.magic, limit=limit)
    try:
        inner = parse_messages(plain)
    except FormatError as error:
        raise type(error)(f"{error.reason}, at byte {error.position} of the decompressed messages") from None
    if not inner:
        raise BadCount("a compressed message with no messages inside")
    if any(each.codec != compression.NONE for each in inner):
        raise BadCodec("a compressed message inside a compressed message")
    base = 0
    if message.magic == 1 and message.offset != 0:
        base = message.offset - inner[-1].offset
        if base < 0:
            raise BadValue(f"wrapper offset {message.offset:,} is less than {inner[-1].offset:,}, its last message's")
    return tuple(_placed(each, base, message) for each in inner)


def _placed(inner: Message, base: int, wrapper: Message) -> Message:
    attributes, timestamp = inner.attributes, inner.timestamp
    if inner.magic == 1:
        attributes = wrapper.attributes & LOG_APPEND_TIME
        timestamp = wrapper.timestamp if wrapper.is_log_append_time else timestamp
    return Message(base + inner.offset, inner.magic, attributes, timestamp, inner.key, inner.value)


def build_message(message: Message) -> bytes:
    """Return the bytes of one message, with size and CRC computed. Raises BadValue."""
    if message.magic not in HEADERS:
        raise BadValue(f"magic {message.magic}, not 0 or 1")
    body = build(Body, {"key": message.key, "value": message.value})
    values = [message.offset, SIZE_MIN[message.magic] - 8 + len(body), 0, message.magic, message.attributes]
    values += [message.timestamp] * message.magic
    head = HEADERS[message.magic].pack(values)
    crc = zlib.crc32(head[CRC_FROM:] + body)
    return head[:CRC_AT] + crc.to_bytes(4) + head[CRC_FROM:] + body


def wrap(messages: Sequence[Message], codec: int, *, level: int | None = None) -> Message:
    """Return the wrapper of messages of one magic whose offsets rise; in magic 1 the inner offsets are made relative.

    codec, level: as for `formats.compression.compress`. Raises BadCount for no messages, BadCodec, BadValue.
    """
    if not messages:
        raise BadCount("no messages to compress")
    last = messages[-1]
    base = messages[0].offset if last.magic == 1 else 0
    inner = [
        Message(each.offset - base, each.magic, each.attributes, each.timestamp, each.key, each.value)
        for each in messages
    ]
    value = compression.compress(codec, b"".join(map(build_message, inner)), level=level, magic=last.magic)
    timestamp = max(each.timestamp for each in messages)
    return Message(last.offset, last.magic, codec | last.attributes & LOG_APPEND_TIME, timestamp, None, value)

"""The offsets of a message of magic 0 or 1: each message is a batch of its own, whose header has only the offset of its
last record.

The first offset of a compressed message is known only after it is decompressed.
"""

from __future__ import annotations

from typing import NamedTuple

from formats.errors import FormatError
from formats.legacy import CRC_AT, CRC_FROM, HEADERS, MAGIC_AT, SIZE_AT, SIZE_FROM, parse_message, unwrap
from kcli.log.segment_reader import MAX_BATCH_BYTES
from kcli.log.source import Source


class LegacyMessage(NamedTuple):
    """A message: first and last offset, size of the whole message in bytes, CRC, and timestamp (ms since 1970, -1:
    none), which for a compressed message is the largest one inside."""

    first: int
    last: int
    size: int
    crc: int
    timestamp: int


def message_at(source: Source, position: int) -> LegacyMessage | None:
    """Return the message of magic 0 or 1 that begins at byte `position`; None if there is none that is whole and
    sound. Raises UnreadableInput."""
    data = bytearray(MAGIC_AT + 1)
    if source.read_at(position, memoryview(data)) < len(data) or data[MAGIC_AT] not in HEADERS:
        return None
    size = SIZE_FROM + int.from_bytes(data[SIZE_AT:SIZE_FROM], signed=True)
    if not SIZE_FROM < size <= min(MAX_BATCH_BYTES, source.size() - position):
        return None
    data = bytearray(size)
    read_bytes = source.read_at(position, memoryview(data))
    try:
        message = parse_message(memoryview(data)[:read_bytes])
        first = unwrap(message)[0].offset
    except FormatError:
        return None
    crc = int.from_bytes(data[CRC_AT:CRC_FROM])
    return LegacyMessage(first, message.offset, size, crc, message.timestamp)

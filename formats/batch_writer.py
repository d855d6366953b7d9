"""One record batch of magic 2 from keys and values, quickly: what a broker writes by itself.

All records have the same time and no headers; nothing is compressed. What the bytes are is in formats.record_batch.
"""

import struct
from collections.abc import Iterable

from formats.kernels.log import crc32c
from formats.varint import put_uvarint

Pair = tuple[bytes | None, bytes | None]
"""Key and value of a record."""

_HEADER = struct.Struct(">qiibIhiqqqhii")
_BEFORE_LENGTH = 12
_CRC_AT = 17
_CRC_FROM = 21
_NULL = b"\x01"
_NO_HEADERS = 0


def write_batch(
    records: Iterable[Pair],
    timestamp_ms: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    """The bytes of a batch with these records, at least one, at consecutive offsets.

    attributes: formats.record_batch.TRANSACTIONAL and CONTROL.
    """
    out = bytearray(_HEADER.size)
    count = 0
    for key, value in records:
        body = bytearray(b"\0\0")  # attributes, timestamp delta
        put_uvarint(body, 2 * count)
        for part in (key, value):
            if part is None:
                body += _NULL
            else:
                put_uvarint(body, 2 * len(part))
                body += part
        body.append(_NO_HEADERS)
        put_uvarint(out, 2 * len(body))
        out += body
        count += 1
    assert count, "a batch has records"
    _HEADER.pack_into(
        out,
        0,
        base_offset,
        len(out) - _BEFORE_LENGTH,
        leader_epoch,
        2,
        0,
        attributes,
        count - 1,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    struct.pack_into(">I", out, _CRC_AT, crc32c(memoryview(out)[_CRC_FROM:]))
    return out

"""Encodes parts of responses without kio: lengths and strings, for flexible versions and for others.

Source: Kafka's protocol guide, KIP-482 (compact lengths: one more than the length, as a varint).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from formats.varint import uvarint
from kcli.broker.wire.answers import Encoded, Laid
from kcli.broker.wire.messages import Messages

NO_TAGS = b"\0"


def length(count: int, *, flexible: bool) -> bytes:
    """Return the encoded length of an array of `count` items, or of `count` bytes."""
    return uvarint(count + 1) if flexible else count.to_bytes(4)


def string(text: str | None, *, flexible: bool) -> bytes:
    """Return the encoded string; the encoded null for None."""
    if text is None:
        return b"\0" if flexible else b"\xff\xff"
    data = text.encode()
    return (uvarint(len(data) + 1) if flexible else struct.pack(">h", len(data))) + data


def framed(kind: Messages, correlation_id: int, parts: Iterable[bytes], *, throttle_since: int) -> Laid:
    """Return the frame of a response as one bytearray: the length, the header, a throttle time of 0 as the first field,
    the fields in `parts`, and an empty section of tagged fields if the version is flexible.

    parts: the encoded fields without the throttle time and the tagged fields. throttle_since: the first version with a
    throttle time: from this version on, `set_throttle` of the returned frame can replace the 0; an earlier version has
    no such field.
    """
    has_throttle = kind.version >= throttle_since
    frame = bytearray(4) + kind.response_header(correlation_id)
    throttle_at = len(frame)
    if has_throttle:
        frame += b"\0\0\0\0"
    for part in parts:
        frame += part
    if kind.flexible:
        frame += NO_TAGS
    frame[:4] = (len(frame) - 4).to_bytes(4)
    answer = (Laid if has_throttle else Encoded)([frame])
    answer.throttle_at = throttle_at
    return answer

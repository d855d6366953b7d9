"""Parts of answers that are laid out by hand: lengths and strings, with and without tagged fields.

Source: Kafka's protocol guide, KIP-482 (compact lengths: one more than the length, as a varint).
"""

from __future__ import annotations

import struct

NO_TAGS = b"\0"


def unsigned_varint(value: int) -> bytes:
    """A number below 2^35 in 7-bit groups, the lowest first."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def length(count: int, *, flexible: bool) -> bytes:
    """The length of an array, or of bytes."""
    return unsigned_varint(count + 1) if flexible else count.to_bytes(4)


def string(text: str | None, *, flexible: bool) -> bytes:
    """A string, or null."""
    if text is None:
        return b"\0" if flexible else b"\xff\xff"
    data = text.encode()
    return (unsigned_varint(len(data) + 1) if flexible else struct.pack(">h", len(data))) + data

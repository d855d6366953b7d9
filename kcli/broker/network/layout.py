"""Parts of answers that are laid out by hand: lengths and strings, with and without tagged fields.

Source: Kafka's protocol guide, KIP-482 (compact lengths: one more than the length, as a varint).
"""

from __future__ import annotations

import struct

from formats.varint import uvarint

NO_TAGS = b"\0"


def length(count: int, *, flexible: bool) -> bytes:
    """The length of an array, or of bytes."""
    return uvarint(count + 1) if flexible else count.to_bytes(4)


def string(text: str | None, *, flexible: bool) -> bytes:
    """A string, or null."""
    if text is None:
        return b"\0" if flexible else b"\xff\xff"
    data = text.encode()
    return (uvarint(len(data) + 1) if flexible else struct.pack(">h", len(data))) + data

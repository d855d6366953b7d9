"""The first bytes of a batch, and of a message of magic 0 or 1, which tell whether one may begin there.

base_offset  int64
length       int32   bytes behind this field
(4 bytes)            leader epoch; of a message the CRC
magic        int8    0, 1 or 2
"""

from __future__ import annotations

import struct

PREFIX = struct.Struct(">qiib")
OFFSET_BOUND = 1 << 60
"""An offset that no log reaches; text and the signatures of archives give larger ones."""
SMALLEST_LENGTH = 14
MAGICS = range(3)


def size_at(data: bytes) -> int | None:
    """Return the size in bytes of the batch or message that may begin with these bytes; None if none may, or if they
    are too few to tell."""
    if len(data) < PREFIX.size:
        return None
    offset, length, _, magic = PREFIX.unpack_from(data)
    is_one = 0 <= offset < OFFSET_BOUND and length >= SMALLEST_LENGTH and magic in MAGICS
    return 12 + length if is_one else None

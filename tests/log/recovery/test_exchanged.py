"""Exchanged logs are found with indexes of any size."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from kcli.log.recovery.exchanged import last_entry

ENTRY = struct.Struct(">ii")


@pytest.mark.parametrize("size", [0, 8, 64, 50 << 30])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_the_last_entry_before_the_unused_rest(tmp_path: Path, count: int, size: int) -> None:
    """The files are sparse, since the larger ones would not fit into memory."""
    path = tmp_path / "00000000000000000000.index"
    path.write_bytes(b"".join(ENTRY.pack(number, number * 100) for number in range(1, count + 1)))
    os.truncate(path, count * ENTRY.size + size)
    assert last_entry(path) == ((count, count * 100) if count else None)

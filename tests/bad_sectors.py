"""A disk with bad sectors: reads of some bytes of a file fail with EIO, for root, too."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

SECTOR_BYTES = 512


def break_sectors(monkeypatch: pytest.MonkeyPatch, path: Path, sectors: Sequence[int]) -> None:
    """Let reads by position of these sectors of a file fail; a read that reaches one returns the bytes before it."""
    inode, bad = path.stat().st_ino, set(sectors)
    pread, preadv = os.pread, os.preadv

    def readable(fd: int, size: int, position: int) -> int:
        """The number of bytes before the first bad sector. Raises OSError where that is the first."""
        if os.fstat(fd).st_ino != inode:
            return size
        for sector in range(position // SECTOR_BYTES, -(-(position + size) // SECTOR_BYTES)):
            if sector in bad:
                if sector * SECTOR_BYTES <= position:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                return sector * SECTOR_BYTES - position
        return size

    def broken_pread(fd: int, size: int, position: int) -> bytes:
        return pread(fd, readable(fd, min(size, 1 << 30), position), position)

    def broken_preadv(fd: int, buffers: Sequence[Any], position: int, flags: int = 0) -> int:
        (buffer,) = buffers
        return preadv(fd, [buffer[: readable(fd, len(buffer), position)]], position, flags)

    monkeypatch.setattr(os, "pread", broken_pread)
    monkeypatch.setattr(os, "preadv", broken_preadv)

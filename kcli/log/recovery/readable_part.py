"""The readable part of a file on a failing disk: reads fail for the blocks of bad sectors, and only for these."""

from __future__ import annotations

import os
from pathlib import Path

from kcli.log.partition_view import Content, FileRange, Part
from kcli.log.source import SEGMENT_BYTES_MAX

BLOCK_BYTES = 4096
CHUNK_BYTES = 1 << 20
BAD_RANGES_MAX = 256
"""The maximum number of ranges of bad blocks that are looked for. The part of a file after them counts as bad, because
each failed read may take the disk seconds."""
UNREAD = bytes(CHUNK_BYTES)


def readable_part(path: Path) -> Content:
    """Return the content of a file with zeros in place of the bytes that cannot be read; empty content if the file
    cannot be opened. Bytes beyond the size of the largest segment that Kafka opens count as unreadable."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return Content(())
    try:
        size = os.fstat(fd).st_size
        bad = _bad_ranges(fd, min(size, SEGMENT_BYTES_MAX))
    finally:
        os.close(fd)
    parts: list[Part] = []
    end = 0
    for start, stop in [*bad, (min(size, SEGMENT_BYTES_MAX), size)]:
        if end < start:
            parts.append(FileRange(path, end, start - end))
        parts += [UNREAD[: stop - at] for at in range(start, stop, CHUNK_BYTES)]
        end = stop
    return Content(tuple(parts))


def unread_bytes(content: Content) -> int:
    """Return the number of bytes of a file that could not be read. content: what `readable_part` returned for it."""
    return sum(len(part) for part in content.parts if isinstance(part, bytes))


def _bad_ranges(fd: int, size: int) -> list[tuple[int, int]]:
    """Return the ranges of bytes in blocks that cannot be read, in order; adjacent ones are joined."""
    bad: list[tuple[int, int]] = []
    for start in range(0, size, CHUNK_BYTES):
        stop = min(start + CHUNK_BYTES, size)
        if _reads(fd, start, stop):
            continue
        for at in range(start, stop, BLOCK_BYTES):
            end = min(at + BLOCK_BYTES, stop)
            if _reads(fd, at, end):
                continue
            if bad and bad[-1][1] == at:
                bad[-1] = bad[-1][0], end
            elif len(bad) == BAD_RANGES_MAX:
                return [*bad, (at, size)]
            else:
                bad.append((at, end))
    return bad


def _reads(fd: int, start: int, stop: int) -> bool:
    """Return whether bytes [start, stop) of a file can be read, or all up to the file's end if that comes first."""
    try:
        while start < stop and (got := len(os.pread(fd, stop - start, start))):
            start += got
    except OSError:
        return False
    return True

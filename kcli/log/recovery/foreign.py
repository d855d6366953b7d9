"""Finding the partition that a .log file belongs to, if the file was copied into another partition's directory.

A file was copied if a .log file of another partition has a batch with the same header (offset, CRC, producer) at the
same byte, and a base offset in its name that fits the batch's offset better. A base offset at or below the batch's
offset fits better than one above it; of two base offsets at or below it, the larger one fits better.

Bytes were appended from another partition's log if all bytes from a gap between offsets on are those of that log, from
the batch with the same header on.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path

from formats.file_name import FileKind, parse
from formats.kernels.batches import FAULT_BAD_CRC, FAULT_SHORT_HEADER
from formats.kernels.columns import BASE_OFFSET, POSITION, BatchRow
from kcli.log.log_directory import LogDirectory, is_log_directory
from kcli.log.partition_view import Content, ContentSource
from kcli.log.recovery.stray_copies import is_named_copy
from kcli.log.segment_reader import Damage, read_segment
from kcli.log.source import FileSource, Source

HEADER_BYTES = 61
FIRST_BYTES = 1 << 16
COMPARED_AT_ONCE_BYTES = 1 << 20
OFFSET = struct.Struct(">q")


def foreign_owner(directory: Path, name: str, content: Content) -> str | None:
    """Return the .log file of another partition from which the file `name` in `directory` was copied, as
    <directory>/<file>; None if it is no copy. content: the content of the file `name`. Raises UnreadableInput."""
    base = int(name.partition(".")[0])
    source = ContentSource(name, content)
    try:
        found = _first_header(source)
    finally:
        source.close()
    if found is None:
        return None
    row, header = found
    for path, other in _logs_beside(directory):
        is_better = other <= row.base_offset and (row.base_offset < base or base < other)
        if is_better and _bytes_at(path, row.position) == header:
            return f"{path.parent.name}/{path.name}"
    return None


def appended_from(log: Path, position: int, start_of: Callable[[Path, int], int]) -> str | None:
    """Return the .log file of another partition that has all bytes of the .log file `log` from the batch at `position`
    on, as <directory>/<file>; None if there is none. start_of: returns the byte of a .log file from which to look for
    an offset. Raises UnreadableInput, OSError."""
    header = _bytes_at(log, position)
    if len(header) < HEADER_BYTES:
        return None
    (offset,) = OFFSET.unpack_from(header)
    nearest: dict[Path, tuple[int, Path]] = {}  # by directory, the .log file that may have the offset
    for path, base in _logs_beside(log.parent):
        if base <= offset and not path.samefile(log):
            nearest[path.parent] = max(nearest.get(path.parent, (0, path)), (base, path))
    for _, path in nearest.values():
        found = _position_of(path, offset, start_of(path, offset))
        if found is not None and _bytes_at(path, found) == header and _has_rest(path, found, log, position):
            return f"{path.parent.name}/{path.name}"
    return None


def _position_of(log: Path, offset: int, start: int) -> int | None:
    """Return the byte at which the batch with this base offset begins in a .log file; None if no batch from byte
    `start` on and before damage has it."""
    source = FileSource(log)
    try:
        for part in read_segment(source, start=start):
            if isinstance(part, Damage):
                return None
            table = part.batches
            at = bisect_left(range(table.count), offset, key=lambda i: table.field(i, BASE_OFFSET))
            if at < table.count:
                return table.field(at, POSITION) if table.field(at, BASE_OFFSET) == offset else None
            part.release()
    finally:
        source.close()
    return None


def _has_rest(path: Path, begin: int, log: Path, position: int) -> bool:
    """Whether a file has, from byte `begin` on, all bytes of `log` from byte `position` on."""
    with path.open("rb") as mine, log.open("rb") as other:
        mine.seek(begin)
        other.seek(position)
        while part := other.read(COMPARED_AT_ONCE_BYTES):
            if mine.read(len(part)) != part:
                return False
    return True


def is_of_another(source: Source, directory: Path) -> bool:
    """Return whether a file that is no segment's .log file is a copy of a .log file of another partition than that of
    `directory`: whether such a .log file has the first sound batch of the file at the same byte. Raises
    UnreadableInput."""
    found = _first_header(source)
    if found is None:
        return False
    row, header = found
    return any(_bytes_at(path, row.position) == header for path, _ in _logs_beside(directory))


def _first_header(source: Source) -> tuple[BatchRow, bytearray] | None:
    """Return the first sound batch that is not a control batch, and the bytes of its header; None if there is none.
    Control batches do not count because a transaction writes the same marker to all its partitions."""
    for part in read_segment(source, window_bytes=FIRST_BYTES):
        if isinstance(part, Damage):
            continue
        for i in range(part.batches.count):
            row = BatchRow._make(part.batches.row(i))
            if not row.faults & (FAULT_BAD_CRC | FAULT_SHORT_HEADER) and not row.is_control:
                header = bytearray(HEADER_BYTES)
                source.read_at(row.position, memoryview(header))
                return row, header
    return None


def _logs_beside(directory: Path) -> Iterator[tuple[Path, int]]:
    """Yield the .log files of the other partitions in the log directory, with their base offsets. Copies of the
    directory, such as orders-0-20261128 of orders-0, are no other partitions. Yields nothing if the parent directory is
    no log directory, because the directories in it may then be copies of one partition."""
    home = directory.absolute().parent
    for each in LogDirectory(home).partitions() if is_log_directory(home) else ():
        if each.path.name == directory.absolute().name or is_named_copy(each.path, directory):
            continue
        try:
            paths = sorted(each.path.iterdir())
        except OSError:  # the plan of that partition reports this error
            continue
        for path in paths:
            parsed = parse(path.name)
            if parsed is not None and parsed.kind is FileKind.LOG and path.is_file():
                yield path, parsed.base_offset or 0


def _bytes_at(path: Path, position: int) -> bytes:
    try:
        with path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), HEADER_BYTES, position)
    except OSError:
        return b""

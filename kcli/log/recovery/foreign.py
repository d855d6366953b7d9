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
from collections.abc import Iterator
from pathlib import Path

from formats.file_name import FileKind, parse
from formats.kernels.batches import FAULT_BAD_CRC, FAULT_SHORT_HEADER
from formats.kernels.columns import BatchRow
from kcli.errors import UnreadableInput
from kcli.log.index_entries import OFFSET_ENTRY_BYTES, OffsetIndexReader
from kcli.log.log_directory import LogDirectory, is_log_directory
from kcli.log.partition_view import Content, ContentSource
from kcli.log.recovery.stray_copies import is_named_copy
from kcli.log.segment_reader import SMALLEST_LENGTH, Damage, read_segment
from kcli.log.source import Source, read_whole

HEADER_BYTES = 61
FIRST_BYTES = 1 << 16
COMPARED_AT_ONCE_BYTES = 1 << 20
HEADERS_MAX = 1 << 20
"""The maximum number of batches whose headers are read to find one offset."""
OFFSET = struct.Struct(">q")
PREFIX = struct.Struct(">qi")  # base offset, length
MAGIC_AT, MAGIC = 16, 2


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
    for path, other in logs_beside(directory):
        is_better = other <= row.base_offset and (row.base_offset < base or base < other)
        if is_better and bytes_at(path, row.position) == header:
            return f"{path.parent.name}/{path.name}"
    return None


def appended_from(log: Path, position: int) -> str | None:
    """Return the .log file of another partition that has all bytes of the .log file `log` from the batch at `position`
    on, as <directory>/<file>; None if there is none. Raises OSError."""
    header = bytes_at(log, position)
    if len(header) < HEADER_BYTES:
        return None
    (offset,) = OFFSET.unpack_from(header)
    nearest: dict[Path, tuple[int, Path]] = {}  # by directory, the .log file that may have the offset
    for path, base in logs_beside(log.parent):
        if base <= offset and not path.samefile(log):
            nearest[path.parent] = max(nearest.get(path.parent, (0, path)), (base, path))
    for base, path in nearest.values():
        found = position_of(path, base, offset)
        if found is not None and bytes_at(path, found) == header and _has_rest(path, found, log, position):
            return f"{path.parent.name}/{path.name}"
    return None


def position_of(log: Path, base: int, offset: int) -> int | None:
    """Return the byte at which the batch with this base offset begins in a .log file; None if the file has no such
    batch before damage. The headers are read from that batch on to which the offset index leads; no CRC is checked.
    base: the base offset of the .log file."""
    at, found = _header_before(log, base, offset)
    return at if found == offset else None


def has_damage_before(log: Path, base: int, offset: int) -> bool:
    """Return whether bytes that are no batch follow the batches with lower offsets in a .log file. The headers are read
    as by `position_of`."""
    at, found = _header_before(log, base, offset)
    return found is None and bool(bytes_at(log, at, 1))


def _header_before(log: Path, base: int, offset: int) -> tuple[int, int | None]:
    """Return the byte of the first batch with this or a higher base offset in a .log file, and its base offset; None in
    place of this offset if the batches before it end at that byte, or if there are more than HEADERS_MAX."""
    at = _indexed_position(log, base, offset)
    for _ in range(HEADERS_MAX):
        head = bytes_at(log, at, MAGIC_AT + 1)
        if len(head) <= MAGIC_AT or head[MAGIC_AT] != MAGIC:
            return at, None
        found, length = PREFIX.unpack_from(head)
        if found >= offset:
            return at, found
        if length < SMALLEST_LENGTH:
            return at, None
        at += PREFIX.size + length
    return at, None


def _indexed_position(log: Path, base: int, offset: int) -> int:
    """Return the position in the last entry of a .log file's offset index that is at or before this offset, if a batch
    at or before the offset begins there; else 0."""
    try:
        entries = read_whole(log.with_suffix(FileKind.OFFSET_INDEX)).rstrip(b"\0")
    except UnreadableInput:
        return 0
    entries = entries.ljust(-(-len(entries) // OFFSET_ENTRY_BYTES) * OFFSET_ENTRY_BYTES, b"\0")
    at = OffsetIndexReader(entries, base).position_of(offset)
    head = bytes_at(log, at) if at > 0 else b""
    is_batch = len(head) == HEADER_BYTES and head[MAGIC_AT] == MAGIC and base <= OFFSET.unpack_from(head)[0] <= offset
    return at if is_batch else 0


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
    return any(bytes_at(path, row.position) == header for path, _ in logs_beside(directory))


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


def logs_beside(directory: Path) -> Iterator[tuple[Path, int]]:
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


def bytes_at(path: Path, position: int, size: int = HEADER_BYTES) -> bytes:
    """Return the bytes of a file from a position on, fewer than `size` at its end; none if it cannot be read."""
    try:
        with path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), size, position)
    except OSError:
        return b""

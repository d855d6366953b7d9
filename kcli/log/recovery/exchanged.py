"""Exchanged logs: .log files of two or more partitions, each at the path of another.

A .log file fits a path if its first offset is not below the base offset in the path's name, and if most entries of the
indexes at that path point to batches in the file that end at the entries' offsets; if there are no entries, the first
offset must equal the base offset. So one damaged batch, even the first or the last, does not hide to which path the
file belongs. A .log file that does not fit its own path belongs at another path if it fits only that one among the
paths of such files. Kafka does not check whether sound batches fit the path: it serves the records of one partition as
those of the other.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path

from formats.file_name import METADATA_TOPIC, FileKind, parse
from kcli.log.log_directory import PartitionDirectory

HEADER = struct.Struct(">qiibIhi")
"""The beginning of a batch: base offset, length, leader epoch, magic, CRC, attributes, last offset delta."""
INDEX_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
MAGIC = 2
ENTRIES_MAX = 32
"""The maximum number of entries of an offset index, evenly apart, that are compared with a .log file."""
LENGTH_EXTRA_BYTES = 12
"""The number of bytes at the beginning of a batch that its length field does not count."""
MAX_TIMESTAMP_AT = 35
HEADERS_READ_BYTES = 1 << 20
"""The maximum number of bytes of a .log file that are read to find the batch of a time index entry. That is enough for
most files: if an offset index has no entry, the .log file is rarely larger."""


def exchanged_logs(directories: Sequence[PartitionDirectory]) -> dict[Path, Path]:
    """Return the exchanged logs: path at which a .log file belongs -> path at which it is now. directories: those of
    partitions in a log directory."""
    places = [
        path
        for each in directories
        if each.name.topic != METADATA_TOPIC and not each.name.state
        for path in _logs(each.path)
        if not _fits(path, path)
    ]
    found = {}
    for place in places:
        fitting = [log for log in places if log.parent != place.parent and _fits(log, place)]
        if len(fitting) == 1:
            found[place] = fitting[0]
    # The file at the path `log` belongs at the path `place`. Keep this entry only if another entry moves a file to
    # `log`, and another one moves the file that is now at `place`. Repeat until no entry is left out: the rest are
    # cycles.
    while found.keys() != set(found.values()):
        found = {place: log for place, log in found.items() if log in found and place in found.values()}
    return found


def _logs(directory: Path) -> list[Path]:
    """Return the .log files in a directory, sorted; an empty list if the directory cannot be read."""
    try:
        paths = sorted(directory.iterdir())
    except OSError:  # the plan of the partition reports this error
        return []
    names = [(path, parse(path.name)) for path in paths]
    logs = [path for path, name in names if name is not None and name.kind is FileKind.LOG and not name.state]
    return [path for path in logs if path.is_file()]  # opening a named pipe would block


def _fits(log: Path, place: Path) -> bool:
    """Return whether the .log file at `log` fits the path `place` (see the module's docstring). If the first batch of a
    file cannot be read, and the indexes have no entry, the file fits only its own path."""
    name = parse(place.name)
    base = None if name is None else name.base_offset
    if base is None:
        return log == place
    first = batch_at(log, 0)
    is_indexed = indexes_fit(place, log, base)
    if first is None:
        return log == place if is_indexed is None else is_indexed
    return first[0] == base if is_indexed is None else is_indexed and first[0] >= base


def indexes_fit(place: Path, log: Path, base: int, damage: Sequence[range] = ()) -> bool | None:
    """Return whether most entries of the indexes beside the path `place` point to batches of the .log file `log`,
    assuming that `base` is the base offset of that .log file; None if these indexes have no entry. damage: bytes of the
    .log file; an entry that points into them does not count.

    If the offset index has no entry, as when the .log file is smaller than index.interval.bytes, the last entry of the
    time index decides.
    """
    entries = _sample(place.with_suffix(FileKind.OFFSET_INDEX), INDEX_ENTRY, ENTRIES_MAX)
    entries = [each for each in entries if not any(each[1] in bad for bad in damage)]
    if entries:
        batches = ((batch_at(log, position), relative) for relative, position in entries)
        fitting = sum(batch is not None and batch[1] == base + relative for batch, relative in batches)
        return fitting > len(entries) // 2
    times = _sample(place.with_suffix(FileKind.TIME_INDEX), TIME_ENTRY, 1)
    if not times:
        return None
    timestamp, relative = times[0]
    return _has_batch(log, base + relative, timestamp)


def _has_batch(log: Path, offset: int, max_timestamp: int) -> bool:
    """Return whether the first batch whose last offset is `offset` or higher has exactly that last offset, and this
    largest timestamp (ms)."""
    data = _bytes_at(log, 0, HEADERS_READ_BYTES)
    position = 0
    while position + MAX_TIMESTAMP_AT + 8 <= len(data):
        base_offset, length, _, magic, _, _, last_offset_delta = HEADER.unpack_from(data, position)
        if magic != MAGIC or length < HEADER.size:
            return False
        if base_offset + last_offset_delta >= offset:
            largest = int.from_bytes(data[position + MAX_TIMESTAMP_AT :][:8], signed=True)
            return base_offset + last_offset_delta == offset and largest == max_timestamp
        position += length + LENGTH_EXTRA_BYTES
    return False


def batch_at(log: Path, position: int) -> tuple[int, int] | None:
    """Return first and last offset of the batch whose header is at byte `position`; None if there is no header of magic
    2 at that byte.

    The CRC is not checked.
    """
    data = _bytes_at(log, position, HEADER.size)
    if len(data) < HEADER.size:
        return None
    base_offset, _, _, magic, _, _, last_offset_delta = HEADER.unpack(data)
    return (base_offset, base_offset + last_offset_delta) if magic == MAGIC else None


def last_entry(index: Path) -> tuple[int, int] | None:
    """Return relative offset and position in the last entry of an offset index, without the zeros of a preallocated
    file; None if the index has no entry or cannot be read."""
    found = _sample(index, INDEX_ENTRY, 1)
    return found[0] if found else None


def _sample(index: Path, entry: struct.Struct, most: int) -> list[tuple[int, int]]:
    """Return the last entry of an index and others before it, evenly apart, at most `most` in all; an empty list if the
    index cannot be read.

    Zeros after the entries are the unused part of a preallocated file. A binary search finds the first of them, so
    that only a few entries are read from an index of any size.
    """
    if not index.is_file():
        return []
    try:
        with index.open("rb", buffering=0) as file:
            low, high = 0, os.fstat(file.fileno()).st_size // entry.size
            while low < high:
                middle = (low + high) // 2
                if any(os.pread(file.fileno(), entry.size, middle * entry.size)):
                    low = middle + 1
                else:
                    high = middle
            numbers = range(low - 1, -1, -max(1, -(-low // most)))
            found = [entry.unpack(os.pread(file.fileno(), entry.size, number * entry.size)) for number in numbers]
    except (OSError, struct.error):  # the file cannot be read; or it was cut while it was read
        return []
    return found


def _bytes_at(path: Path, position: int, size: int) -> bytes:
    try:
        with path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), size, position) if position >= 0 else b""
    except OSError:
        return b""

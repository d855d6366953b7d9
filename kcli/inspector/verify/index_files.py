"""Checks of offset and time index files: length, zeros after the entries, and each entry against the .log file."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding, Severity
from kcli.inspector.verify.zeros import of_zeros
from kcli.log.source import FileSource

REBUILD = "stop the broker; recovery rebuilds the index from the log, with --in-place for --dry-run"
INT_MAX = 2**31 - 1
REBUILT = "nothing to do: Kafka rebuilds it when it next opens the log"
MISSING_INDEX = ("index-missing", "timeindex-missing")
MAX_INDEX_BYTES = 64 << 20  # six times the default of segment.index.bytes; further bytes of a file are not read

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12

TOO_OLD, TOO_YOUNG = "timeindex-too-old", "timeindex-too-young"

INTERVAL_BYTES = 4096  # the default of index.interval.bytes
CLOSINGS_MANY = 5
ENTRIES_COMPARED = 1000

IndexEvent = tuple[int, str, int]


@dataclass(slots=True)
class IndexFile:
    """An index file: its entries without the zeros after them, and its size in bytes."""

    path: Path
    entry_bytes: int
    entries: bytes
    size: int

    @property
    def prefix(self) -> str:
        """The prefix of the kinds of findings in this index."""
        return "index" if self.entry_bytes == OFFSET_ENTRY_BYTES else "timeindex"

    @property
    def count(self) -> int:
        """The number of entries."""
        return len(self.entries) // self.entry_bytes

    def fields(self, number: int) -> tuple[int, int]:
        """Entry `number`: (relative offset, position) or (timestamp, relative offset)."""
        entry = self.entries[number * self.entry_bytes :][: self.entry_bytes]
        return int.from_bytes(entry[:-4], signed=True), int.from_bytes(entry[-4:], signed=True)

    def all_fields(self) -> Iterator[tuple[int, int]]:
        """Yield `fields` of each entry."""
        layout = struct.Struct(">ii" if self.entry_bytes == OFFSET_ENTRY_BYTES else ">qi")
        return layout.iter_unpack(self.entries[: self.count * self.entry_bytes])

    @property
    def last_timestamp(self) -> int:
        """The timestamp in a time index's last entry, as Kafka takes it: zeros are entries, too. -1 without an
        entry."""
        slots = self.size // TIME_ENTRY_BYTES
        return -1 if not slots else self.fields(slots - 1)[0] if self.count == slots else 0

    def ascends(self) -> bool:
        """Whether no field is negative, and both fields of each entry are above those of the entry before, as in each
        index that Kafka writes."""
        return all(first >= 0 <= second for first, second in self.all_fields()) and not any(
            _goes_back(before, entry) for before, entry in pairwise(self.all_fields())
        )

    def offset_of(self, number: int, base: int) -> int:
        """The absolute offset of entry `number`. base: the base offset of the segment."""
        first, second = self.fields(number)
        return base + (first if self.entry_bytes == OFFSET_ENTRY_BYTES else second)


def read_file(path: Path, limit: int) -> tuple[bytes, int]:
    """The first `limit` bytes of a file and its size. Raises UnreadableInput."""
    source = FileSource(path)
    try:
        data = bytearray(min(source.size(), limit))
        got = source.read_at(0, memoryview(data))
        return bytes(data[:got]), source.size()
    finally:
        source.close()


def load(path: Path, entry_bytes: int) -> tuple[IndexFile, list[Finding]]:
    """Read an index file. Returns it, and findings about its length and the zeros after its entries.

    Raises UnreadableInput.
    """
    data, size = read_file(path, MAX_INDEX_BYTES)
    findings: list[Finding] = []
    whole = len(data) // entry_bytes * entry_bytes
    used = -(-len(data[:whole].rstrip(b"\0")) // entry_bytes) * entry_bytes
    index = IndexFile(path, entry_bytes, data[:used], size)

    def add(kind: str, severity: Severity, start: int, end: int, expected: str, found: str, action: str) -> None:
        findings.append(
            Finding(
                path=str(path),
                kind=f"{index.prefix}-{kind}",
                severity=severity,
                position=start,
                length=end - start,
                expected=expected,
                found=found,
                action=action,
                command=None if severity == "info" else _rebuild(path),
            )
        )

    if size > INT_MAX:
        found = f"{size:,} bytes: Kafka cannot map it into memory, and fails when it opens it (Integer.MAX_VALUE)"
        add("length", "error", whole, size, f"{MAX_INDEX_BYTES:,} bytes or less", found, REBUILD)
    elif size > MAX_INDEX_BYTES:
        action = "check segment.index.bytes; entries behind this byte were not checked"
        expected = f"{MAX_INDEX_BYTES:,} bytes or less"
        add("length", "warning", whole, size, expected, f"{size:,} bytes", action)
    elif whole < size:
        found = f"{size:,} bytes, {size - whole} of them behind the last whole entry"
        add("length", "error", whole, size, f"a multiple of {entry_bytes} bytes", found, REBUILD)
    if used < whole:
        found = f"{whole - used:,} bytes of zeros behind {used // entry_bytes:,} entries"
        action = "nothing to do: Kafka trims them when it rolls or closes the segment"
        add("slack", "info", used, whole, "no zeros in a closed segment", found, action)
    return index, findings


_CAUSES = {
    "not-at-batch": ("position", "the byte where a batch begins", "the offset that a batch ends with"),
    "wrong-offset": ("offset", "offset {expected:,}, the last of the batch there", ""),
    "wrong-timestamp": ("timestamp", "", "timestamp {expected:,}, the largest of the batch there"),
    "not-largest": ("timestamp", "", "the largest timestamp so far, {expected:,}"),
    "beyond-end": ("position", "a byte inside the log", "an offset that the log has"),
    "order": (
        "order",
        "offset and position above those of the entry before",
        "timestamp and offset above those before",
    ),
}


def judged(index: IndexFile, base_offset: int, events: list[IndexEvent], more: int) -> Iterator[Finding]:
    """Yield a finding for each entry that the .log file contradicts.

    events: from LogCheck: the number of the entry, the cause (a key of _CAUSES), the expected value. more: the number
    of such entries that `events` leaves out.
    """
    is_offset = index.entry_bytes == OFFSET_ENTRY_BYTES
    for number, cause, expected in events:
        suffix, offset_text, time_text = _CAUSES[cause]
        first, second = index.fields(number)
        relative = first if is_offset else second
        if suffix == "position" and not is_offset:
            suffix = "offset"
        if number and _goes_back(index.fields(number - 1), (first, second)):
            suffix = "order"
        yield Finding(
            path=str(index.path),
            kind=f"{index.prefix}-{suffix}",
            severity="error",
            position=number * index.entry_bytes,
            length=index.entry_bytes,
            offset=base_offset + relative,
            expected=(offset_text if is_offset else time_text).format(expected=expected),
            found=f"offset {base_offset + relative:,}, "
            + (f"position {second:,}" if is_offset else f"timestamp {first:,}"),
            action=REBUILD,
            command=_rebuild(index.path),
        )
    if more:
        yield Finding(
            path=str(index.path),
            kind="more-findings",
            severity="error",
            found=f"{more:,} more entries that the log contradicts",
            action=REBUILD,
            command=_rebuild(index.path),
        )


def _rebuild(path: Path) -> str:
    return next_steps.recover(path.parent)


def _goes_back(before: tuple[int, int], entry: tuple[int, int]) -> bool:
    return entry[0] <= before[0] or entry[1] <= before[1]


def too_few(offsets: IndexFile, last_position: int) -> Iterator[Finding]:
    """Yield a finding if the offset index of a sound .log file lacks entries. last_position: the byte where the last
    batch begins.

    index.interval.bytes at the time of writing is not known, but it is less than the distance between any two adjacent
    entries. The finding has severity "info", as a sound index may lack an entry, too: when a log is closed and opened
    again, the bytes since the last entry are counted from 0.
    """
    positions = [offsets.fields(number)[1] for number in range(min(offsets.count, ENTRIES_COMPARED))]
    interval = min((b - a for a, b in pairwise(positions)), default=INTERVAL_BYTES)
    covered = offsets.fields(offsets.count - 1)[1] if offsets.count else 0
    if last_position - covered > max(interval, 0):
        expected = f"an entry every {interval:,} bytes"
        yield _missing(offsets, "info", f"{expected}: the log goes on for {last_position - covered:,} bytes")


def too_few_times(times: IndexFile, offsets: IndexFile | None, max_timestamp: int) -> Iterator[Finding]:
    """Yield a finding if an index has no entries but should have some: the time index of a segment with timestamps; or
    the offset index, if the time index has at least CLOSINGS_MANY entries (closing a log may add an entry only to the
    time index). max_timestamp: the largest timestamp in the segment, in ms; -1 if there is none."""
    if times.count == 0 and max_timestamp >= 0:
        if times.size == 0:
            yield _missing(times, "warning", "the segment's largest timestamp")
        elif offsets is not None and offsets.count and max_timestamp > 0:
            yield _missing(times, "warning", f"entries, as the offset index has {offsets.count:,}")
    if offsets is not None and offsets.count == 0 and times.count >= CLOSINGS_MANY:
        yield _missing(offsets, "warning", f"entries, as the time index has {times.count:,}")


def too_old(times: Path, stated: int, right: int, retention_ms: int, lost: tuple[int, int]) -> Finding:
    """Return the finding that Kafka takes a segment to be older than retention.ms, and it is not. times: the path of
    its time index, which need not exist. stated, right: its largest timestamp, as Kafka takes it and by its batches.
    lost: the first and the last offset of the segment."""
    first, last = lost
    return Finding(
        path=str(times),
        kind=TOO_OLD,
        severity="error",
        offset=first,
        expected=f"{right:,}, the largest of its batches",
        found=f"Kafka takes {stated:,} for the largest timestamp of the segment, which retention.ms ({retention_ms:,}) "
        "then deletes",
        lost_first_offset=first,
        lost_last_offset=last,
        action=REBUILD,
        command=_rebuild(times),
    )


def too_young(times: Path, stated: int, right: int, base: int) -> Finding:
    """Return the finding that Kafka takes the largest timestamp of a segment to be in the future. times, stated, right:
    as in `too_old`. base: the base offset of the segment."""
    return Finding(
        path=str(times),
        kind=TOO_YOUNG,
        severity="error",
        offset=base,
        expected=f"{right:,}, the largest of its batches",
        found=f"Kafka takes {stated:,} for the largest timestamp of the segment, which is in the future",
        action=REBUILD,
        command=_rebuild(times),
    )


def exchanged(offsets: IndexFile, times: IndexFile, log_bytes: int) -> Finding | None:
    """Return a finding if the offset index has the entries of the time index, and the time index those of the offset
    index; else None.

    log_bytes: the size of the .log file. Raises UnreadableInput.
    """
    if not offsets.count or not times.count or _is_offset_index(offsets, log_bytes):
        return None
    others, _ = load(times.path, OFFSET_ENTRY_BYTES)
    stamps, _ = load(offsets.path, TIME_ENTRY_BYTES)
    if not _is_offset_index(others, log_bytes) or not all(map(_ascends, *_adjacent(stamps))):
        return None
    aside = offsets.path.with_name(f"{offsets.path.name}.moved")
    return Finding(
        path=str(offsets.path),
        kind="index-swapped",
        severity="error",
        position=0,
        expected="an offset index, as the name says",
        found=f"the entries of {times.path.name}, which has those of this file: the two are exchanged",
        action="stop the broker, and give the files each other's names",
        command=next_steps.move([(offsets.path, aside), (times.path, offsets.path), (aside, times.path)]),
    )


def _is_offset_index(index: IndexFile, log_bytes: int) -> bool:
    """Whether the first entries, read as those of an offset index, ascend and lie in the .log file."""
    begins = [index.fields(number) for number in range(min(index.count, ENTRIES_COMPARED))]
    return all(entry[0] >= 0 and 0 <= entry[1] < log_bytes for entry in begins) and not any(
        map(_goes_back, *_adjacent(index))
    )


def _adjacent(index: IndexFile) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the first ENTRIES_COMPARED entries without the last one of them, and the entry that follows each."""
    begins = [index.fields(number) for number in range(min(index.count, ENTRIES_COMPARED))]
    return begins[:-1], begins[1:]


def _ascends(before: tuple[int, int], entry: tuple[int, int]) -> bool:
    return entry[0] >= before[0] and entry[1] >= before[1] >= 0


def _missing(index: IndexFile, severity: Severity, expected: str) -> Finding:
    return Finding(
        path=str(index.path),
        kind=f"{index.prefix}-missing-entries",
        severity=severity,
        position=len(index.entries),
        length=0,
        expected=expected,
        found=f"{index.count:,} entries" if index.entries or not index.size else of_zeros(index.size),
        action=REBUILD,
        command=_rebuild(index.path),
    )

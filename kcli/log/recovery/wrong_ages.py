"""Segments that retention.ms deletes soon after a start, because their time indexes say that they are older than they
are.

A start that does not recover a segment takes its largest timestamp from the last entry of its time index, of which
zeros at the end are entries, too. Without an entry, or if that timestamp is negative, the last change of the .log file
counts instead. No start compares either with the batches. 30 seconds later, by default, Kafka deletes segments from the
first one on, as long as they are older than retention.ms.

Source: LogSegment.largestTimestamp, UnifiedLog.deletableSegments, LogManager.startup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from formats.file_name import FileKind, parse
from kcli.errors import StartRefused, UnreadableInput
from kcli.log.config import LogConfig
from kcli.log.index_entries import TIME_ENTRY_BYTES
from kcli.log.partition_view import PartitionView, is_as_stored
from kcli.log.recovery.loader import LoadedOffsets
from kcli.log.recovery.retention import NEVER, Retention
from kcli.log.recovery.segment import RecoverySegment
from kcli.log.retention import AgedSegment, AnySegment, find_due


@dataclass(frozen=True, slots=True)
class Aged:
    """A segment with the time from which Kafka counts its age (see kcli.log.retention.AgedSegment)."""

    base_offset: int
    size: int
    age_timestamp: int


class Expired(NamedTuple):
    """The offsets that retention.ms deletes by mistake, from `first` to `last`. file: the first time index that is
    wrong. segments: how many are deleted. stated: the largest timestamp that Kafka takes for the segment of this index.
    right: a larger one that the segment has. retention_ms: retention.ms."""

    first: int
    last: int
    file: str
    segments: int
    stated: int
    right: int
    retention_ms: int

    @property
    def reason(self) -> str:
        """What Kafka does, in words."""
        largest = f"{self.stated:,} for its largest timestamp, and its batches have {self.right:,}"
        deleted = f"{self.segments:,} segment{'s' if self.segments > 1 else ''}, offsets {self.first:,}..{self.last:,}"
        return f"Kafka takes {largest}: 30 s after a start, retention.ms ({self.retention_ms:,}) deletes {deleted}"

    @property
    def fields(self) -> dict[str, int]:
        """The offsets and counts, by the names that they have in JSON."""
        offsets = {"lost_first_offset": self.first, "lost_last_offset": self.last}
        return offsets | {"segments": self.segments, "largest_timestamp": self.right, "stated_timestamp": self.stated}


def wrongly_due(
    segments: Sequence[AnySegment],
    right: Callable[[AnySegment], int],
    retention: Retention,
    now_ms: int,
    log_start_offset: int,
    log_end_offset: int,
) -> Sequence[AnySegment]:
    """Return the segments of a log that retention deletes only because of wrong ages. right: returns a timestamp that a
    segment has, NEVER if it has none; one in the future, as a damaged batch has, proves nothing."""
    config = LogConfig({"retention.bytes": str(retention.max_bytes), "retention.ms": str(retention.max_ms)})

    def due(aged: Sequence[AgedSegment]) -> int:
        found = find_due(
            aged,
            config,
            now_ms,
            log_start_offset=log_start_offset,
            high_watermark=log_end_offset,
            log_end_offset=log_end_offset,
        )
        return len(found.segments)

    def age(segment: AnySegment) -> Aged:
        proven = right(segment)
        timestamp = max(proven, segment.age_timestamp) if proven <= now_ms else segment.age_timestamp
        return Aged(segment.base_offset, segment.size, timestamp)

    stated = due(segments)
    ages = [age(each) for each in segments[:stated]]
    return segments[due([*ages, *segments[stated:]]) : stated]


def expired(view: PartitionView, retention: Retention, offsets: LoadedOffsets, now_ms: int) -> Expired | None:
    """Return the offsets of a log that retention.ms deletes by mistake after a start; None if there are none. view: the
    directory after the start. offsets: those of the log. Raises UnreadableInput."""
    bases = sorted(name.base_offset or 0 for name in map(parse, view.names()) if name and name.kind is FileKind.LOG)
    segments = [_Loaded(view, base, now_ms) for base in bases]
    start, end = offsets.log_start_offset, offsets.log_end_offset
    found = wrongly_due(segments, lambda each: each.late_timestamp, retention, now_ms, start, end)
    if not found:
        return None
    behind = [each for each in bases if each > found[-1].base_offset]
    wrong = next(each for each in found if each.late_timestamp > each.age_timestamp)
    return Expired(
        max(found[0].base_offset, start),
        (behind[0] if behind else end) - 1,
        wrong.files.time_index_name,
        len(found),
        wrong.age_timestamp,
        wrong.late_timestamp,
        retention.max_ms,
    )


class _Loaded:
    """A segment in a view of its partition, whose files are read when they are needed (see
    kcli.log.retention.AgedSegment)."""

    def __init__(self, view: PartitionView, base_offset: int, now_ms: int) -> None:
        self._view = view.with_changes()
        self.files = RecoverySegment(self._view, base_offset)
        self._now_ms = now_ms

    @property
    def base_offset(self) -> int:
        return self.files.base_offset

    @property
    def size(self) -> int:
        return self.files.size

    @cached_property
    def age_timestamp(self) -> int:
        stated = self._stated()
        return stated if stated >= 0 else self._modified_ms()

    @cached_property
    def late_timestamp(self) -> int:
        """The largest timestamp of the first batch and the last ones; NEVER if they have none, or are not found."""
        try:
            return self.files.late_timestamp()
        except StartRefused:  # an offset index that leads nowhere: another finding or event is about it
            return NEVER

    def _stated(self) -> int:
        """Return the timestamp in the last entry of the time index; NEVER if it has none."""
        name = self.files.time_index_name
        entries = self._view.size(name) // TIME_ENTRY_BYTES if name in self._view else 0
        if not entries:
            return NEVER
        source, entry = self._view.source(name), bytearray(TIME_ENTRY_BYTES)
        try:
            source.read_at((entries - 1) * TIME_ENTRY_BYTES, memoryview(entry))
        finally:
            source.close()
        return int.from_bytes(entry[:-4], signed=True)

    def _modified_ms(self) -> int:
        """Return the last change of the .log file; now if the start changes it."""
        parts = self._view.files[self.files.log_name].parts
        if len(parts) != 1 or not is_as_stored(parts[0]):
            return self._now_ms
        return modified_ms(parts[0].path)


def modified_ms(log: Path) -> int:
    """Return the time of the last change of a .log file. Raises UnreadableInput."""
    try:
        return log.stat().st_mtime_ns // 1_000_000
    except OSError as error:
        raise UnreadableInput.of(log, error) from None

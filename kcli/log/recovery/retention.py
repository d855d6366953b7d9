"""Whether retention can have deleted segments that a log lacks before its first one.

Kafka deletes the first segment of a log whose cleanup.policy has `delete` in two cases:

    retention.bytes    the segments behind it have at least this size
    retention.ms       its largest timestamp is older than this

The size of the segments behind it only grows, so it can be compared now. The time at which Kafka compared the timestamp
is not known; it was not later than the last time at which the node appended to its metadata log, which it does twice a
second while it runs. If the first segment that is left was then older than retention.ms, too, retention has not deleted
the one before it: it would have deleted both. A lower retention.bytes or retention.ms of the past is not considered.

Source: UnifiedLog.deleteRetentionSizeBreachedSegments, deleteRetentionMsBreachedSegments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from formats.file_name import METADATA_DIRECTORY, FileKind
from kcli.errors import UnreadableInput
from kcli.log.config import LogConfig
from kcli.log.partition_directory import files_of_kind
from kcli.log.segment_reader import sound_batches
from kcli.log.source import FileSource, Source

CHECK_INTERVAL_MS = 300_000
"""Kafka's default of log.retention.check.interval.ms."""
NEVER = -1
"""A limit that retention.bytes or retention.ms does not set, and the timestamp of a batch without one."""


@dataclass(frozen=True, slots=True)
class Retention:
    """The retention of a topic's log: max_bytes and max_ms are retention.bytes and retention.ms, NEVER for no limit.
    homes: the log directories of the node, one of which may have the metadata log."""

    max_bytes: int
    max_ms: int
    homes: Sequence[Path] = ()

    @classmethod
    def of(cls, config: LogConfig, homes: Sequence[Path]) -> Retention | None:
        """Return the retention of a log with this configuration; None if cleanup.policy has no `delete`."""
        return cls(config.retention_bytes, config.retention_ms, homes) if config.delete else None

    def by_size(self, kept_bytes: int) -> str:
        """Return why retention.bytes can have deleted the segments before those that the log has, in words; "" if it
        cannot. kept_bytes: the size of the .log files that the log has."""
        if self.max_bytes < 0 or kept_bytes < self.max_bytes:
            return ""
        return f"the log has {kept_bytes:,} bytes, and retention.bytes is {self.max_bytes:,}"

    def by_time(self, timestamp: int, following: int) -> str:
        """Return why retention.ms can have deleted a segment with this largest timestamp (ms; NEVER if it has none), in
        words; "" if it cannot, or if it is not known when the node ran. following: the largest timestamp of the first
        segment that the log still has."""
        if self.max_ms < 0 or timestamp < 0:
            return ""
        ran_ms = max(map(_last_append, self.homes), default=NEVER)
        if ran_ms - timestamp <= self.max_ms or ran_ms - following > self.max_ms + CHECK_INTERVAL_MS:
            return ""
        return f"when the node last ran, they were {ran_ms - timestamp:,} ms old, and retention.ms is {self.max_ms:,}"


def largest_timestamp(source: Source) -> int:
    """Return the largest timestamp of the sound batches of a .log file; NEVER if it has none. Raises
    UnreadableInput."""
    return max((batch.max_timestamp for batch in sound_batches(source)), default=NEVER)


def timestamp_of(log: Path) -> int:
    """Return the same as `largest_timestamp`, for a path; NEVER if the file cannot be read."""
    try:
        if not log.is_file():  # opening a named pipe would block
            return NEVER
        source = FileSource(log)
    except (OSError, UnreadableInput):
        return NEVER
    try:
        return largest_timestamp(source)
    except UnreadableInput:
        return NEVER
    finally:
        source.close()


def _last_append(home: Path) -> int:
    """Return the timestamp of the last append to the metadata log in a log directory; NEVER if there is none, or if it
    cannot be read."""
    logs = files_of_kind(home / METADATA_DIRECTORY, FileKind.LOG)
    return timestamp_of(max(logs)[1]) if logs else NEVER

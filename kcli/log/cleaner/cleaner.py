"""Cleans one partition: retention, then passes for as long as Kafka's cleaner would select the log, then
retention again.

When the offset map gets full, the next pass cleans the offsets after the last one in the map. Without a directory to
write to, only the counts of the first pass are computed, as later passes read what the first one writes. Source:
LogCleaner.CleanerThread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kcli.log.cleaner.cleaning_pass import CleaningPass, Pass
from kcli.log.cleaner.partition import CleanerLog, StoredSegment, Uncleanable
from kcli.log.cleaner.progress import Progress, silent
from kcli.log.cleaner.retention import delete_old
from kcli.log.cleaner.rewrite import CleanCounts
from kcli.log.cleaner.selection import Selection, select
from kcli.log.cleaner.swap import swap_in
from kcli.log.config import CleanerConfig, LogConfig
from kcli.log.disk import Disk
from kcli.log.retention import find_due


@dataclass(slots=True)
class Cleaning:
    """The result of cleaning a partition. selection: the part of the log to clean, as chosen before the first pass.
    bytes_before, bytes_after: the size of all segments' .log files. retired: the segments that retention deleted."""

    selection: Selection
    bytes_before: int
    bytes_after: int = 0
    passes: list[Pass] = field(default_factory=list)
    retired: list[StoredSegment] = field(default_factory=list)
    checkpoint: int | None = None  # the offset to write to the cleaner's checkpoint; None: leave the entry as it is

    @property
    def counts(self) -> CleanCounts:
        """The counts, summed over all passes."""
        total = CleanCounts()
        for each in self.passes:
            total.add(each.counts)
        return total


class PartitionCleaner:
    """Cleans one partition. target: the directory to write to, which may be the log's own; None: write nothing, and
    only count what a pass would keep and remove."""

    def __init__(
        self,
        log: CleanerLog,
        config: LogConfig,
        broker: CleanerConfig,
        *,
        now_ms: int,
        disk: Disk,
        target: Path | None,
        progress: Progress = silent,
    ) -> None:
        self.log = log
        self.config = config
        self._broker = broker
        self._now_ms = now_ms
        self._disk = disk
        self._target = target
        self._progress = progress

    def clean(self, checkpoint: int | None) -> Cleaning:
        """Clean the partition, and return what was done. checkpoint: the partition's entry in
        cleaner-offset-checkpoint, None if it has none. Raises Uncleanable, UnreadableInput, OSError."""
        bytes_before = self.log.size
        retired = self._retire()
        selection = select(self.log, self.config, checkpoint, self._now_ms)
        cleaning = Cleaning(selection, bytes_before, retired=retired)
        if selection.reset:
            cleaning.checkpoint = selection.first_dirty_offset
        while self.config.compact and selection.worth_it:
            one = self._pass(selection)
            cleaning.passes.append(one)
            cleaning.checkpoint = one.end_offset
            if self._target is None:
                cleaning.bytes_after = self.log.size - one.counts.bytes_read + one.counts.bytes_written
                return cleaning
            selection = select(self.log, self.config, one.end_offset, self._now_ms)
            if selection.worth_it and one.end_offset <= one.selection.first_dirty_offset:
                reason = "the offset map is too small to get on: raise log.cleaner.dedupe.buffer.size"
                raise Uncleanable(self.log.directory, reason)
        cleaning.retired += self._retire()
        cleaning.bytes_after = self.log.size
        return cleaning

    def _retire(self) -> list[StoredSegment]:
        log = self.log
        expired = find_due(
            log.segments,
            self.config,
            self._now_ms,
            log_start_offset=log.log_start_offset,
            high_watermark=log.high_watermark,
            log_end_offset=log.log_end_offset,
        ).segments
        delete_old(self.log, expired, self._disk, self._target)
        return expired

    def _pass(self, selection: Selection) -> Pass:
        one = CleaningPass(
            self.log,
            self.config,
            self._broker,
            selection,
            now_ms=self._now_ms,
            disk=self._disk,
            target=self._target,
            progress=self._progress,
        )
        for group in one.groups():
            cleaned = one.clean(group)
            if cleaned is not None:
                swap_in(self._disk, cleaned.segment, [each for each in group if each.directory == self._target])
                self.log.replace(group, [cleaned.segment])
        return one.done()

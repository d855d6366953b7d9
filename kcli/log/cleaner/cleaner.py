"""One partition, cleaned as often as Kafka's cleaner would pick it: retention, passes while it is dirty, retention.

A pass cleans what its offset map reaches; a full map leaves the rest to the next one. With no directory to write to,
nothing is changed: the first pass is counted, what would come behind it is not known before it is done.
Source: Cleaner.doClean, LogCleaner.CleanerThread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from formats.kernels.log import CleanedTransactions
from kcli.log.cleaner.grouping import group_segments
from kcli.log.cleaner.offset_map import build_offset_map, new_map
from kcli.log.cleaner.partition import PartitionLog, Segment, Uncleanable
from kcli.log.cleaner.pipeline import thread_count
from kcli.log.cleaner.progress import Progress, silent
from kcli.log.cleaner.retention import deletable, delete_old
from kcli.log.cleaner.rewrite import CleanCounts, CleanedSegment, Rules, clean_group
from kcli.log.cleaner.selection import Selection, select
from kcli.log.cleaner.swap import swap_in
from kcli.log.config import CleanerConfig, LogConfig
from kcli.log.disk import Disk


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass did: up to which offset, whether the map was full, segments before and after."""

    selection: Selection
    end_offset: int
    map_full: bool
    map_entries: int
    counts: CleanCounts
    segments_before: int
    segments_after: int


@dataclass(slots=True)
class Cleaning:
    """What was done with a partition. `selection` is how it stood before; bytes are those of all its segments."""

    selection: Selection
    bytes_before: int
    bytes_after: int = 0
    passes: list[Pass] = field(default_factory=list)
    retired: list[Segment] = field(default_factory=list)
    checkpoint: int | None = None  # for the cleaner's checkpoint; None: leave it

    @property
    def counts(self) -> CleanCounts:
        """The sums over all passes."""
        total = CleanCounts()
        for each in self.passes:
            total.add(each.counts)
        return total


class PartitionCleaner:
    """Cleans one partition. target: the directory to write to, which may be the log's own; None: only count."""

    def __init__(
        self,
        log: PartitionLog,
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
        self._threads = thread_count()

    def clean(self, checkpoint: int | None) -> Cleaning:
        """Do it. checkpoint: up to where it was cleaned before. Raises Uncleanable, UnreadableInput, OSError."""
        bytes_before = self.log.size
        retired = self._retire()
        selection = select(self.log, self.config, checkpoint, self._now_ms)
        done = Cleaning(selection, bytes_before, retired=retired)
        if selection.reset:
            done.checkpoint = selection.first_dirty_offset
        while self.config.compact and selection.worth_it:
            one = self._pass(selection)
            done.passes.append(one)
            done.checkpoint = one.end_offset
            if self._target is None:
                done.bytes_after = self.log.size - one.counts.bytes_read + one.counts.bytes_written
                return done
            selection = select(self.log, self.config, one.end_offset, self._now_ms)
            if selection.worth_it and one.end_offset <= one.selection.first_dirty_offset:
                reason = "the offset map is too small to get on: raise log.cleaner.dedupe.buffer.size"
                raise Uncleanable(self.log.directory, reason)
        done.retired += self._retire()
        done.bytes_after = self.log.size
        return done

    def _retire(self) -> list[Segment]:
        gone = deletable(self.log, self.config, self._now_ms)
        delete_old(self.log, gone, self._disk, self._target)
        return gone

    def _pass(self, selection: Selection) -> Pass:
        log, config = self.log, self.config
        start, stop = selection.first_dirty_offset, selection.first_uncleanable_offset
        cleaned_before = log.between(0, start)
        horizon = cleaned_before[-1].modified_ms - config.delete_retention_ms if cleaned_before else 0
        offset_map = new_map(self._broker.map_bytes, self._broker.dedupe_load_factor)
        full = build_offset_map(log, start, stop, offset_map, threads=self._threads, progress=self._progress)
        end_offset = offset_map.reach + 1
        rules = Rules(
            offset_map=offset_map,
            now_ms=self._now_ms,
            delete_retention_ms=config.delete_retention_ms,
            legacy_horizon_ms=horizon,
            end_offset=stop,
            index_interval_bytes=config.index_interval_bytes,
            threads=self._threads,
            progress=self._progress,
        )
        segments = log.between(0, end_offset)
        groups = group_segments(
            segments,
            max_bytes=config.segment_bytes,
            max_index_bytes=config.max_index_bytes,
            first_uncleanable_offset=stop,
        )
        transactions = CleanedTransactions()
        counts = CleanCounts()
        for group in groups:
            counts.add(self._clean_group(group, transactions, rules))
        return Pass(selection, end_offset, full, len(offset_map), counts, len(segments), len(groups))

    def _clean_group(self, group: list[Segment], transactions: CleanedTransactions, rules: Rules) -> CleanCounts:
        if self._target is None:
            return clean_group(self.log, group, transactions, rules, None)
        cleaned = CleanedSegment(self._disk, self._target, group[0].base_offset, rules.index_interval_bytes)
        try:
            counts = clean_group(self.log, group, transactions, rules, cleaned)
        except BaseException:
            cleaned.discard()
            raise
        swap_in(self._disk, cleaned.segment, [each for each in group if each.directory == self._target])
        self.log.replace(group, [cleaned.segment])
        return counts

"""One pass of the cleaner: the offset map is built, then segments are cleaned group by group.

    one = CleaningPass(...)
    for group in one.groups():
        cleaned = one.clean(group)     a `.cleaned` segment to be swapped in; None if nothing is to be written
        one.log.replace(...)           after the swap, so that the next group is made of the new segments

A pass cleans the log up to the last offset in its offset map. Source: Cleaner.doClean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from formats.kernels.cleaner.transactions import CleanedTransactions
from kcli.log.cleaner.grouping import group_segments
from kcli.log.cleaner.offset_map import SurveyedWindows, build_offset_map, new_map
from kcli.log.cleaner.partition import LAST_OFFSET, NONE_BEHIND, CleanerLog, StoredSegment, Uncleanable
from kcli.log.cleaner.progress import Progress, silent
from kcli.log.cleaner.rewrite import CleanCounts, CleanedSegment, Rules, clean_group
from kcli.log.cleaner.selection import Selection
from kcli.log.config import CleanerConfig, LogConfig
from kcli.log.disk import Disk
from kcli.log.threads import thread_count


@dataclass(frozen=True, slots=True)
class Pass:
    """The result of one pass. end_offset: the pass cleaned the log below this offset. map_full: whether the offset map
    got full before the end of the cleanable part. map_entries: the number of keys in the map. segments_before,
    segments_after: the number of segments below end_offset before and after the pass."""

    selection: Selection
    end_offset: int
    map_full: bool
    map_entries: int
    counts: CleanCounts
    segments_before: int
    segments_after: int


class CleaningPass:
    """One pass over a log. target: the directory to write to, which may be the log's own; None: write nothing, only
    count."""

    def __init__(
        self,
        log: CleanerLog,
        config: LogConfig,
        broker: CleanerConfig,
        selection: Selection,
        *,
        now_ms: int,
        disk: Disk,
        target: Path | None,
        progress: Progress = silent,
    ) -> None:
        self.log = log
        self._config = config
        self._broker = broker
        self._selection = selection
        self._now_ms = now_ms
        self._disk = disk
        self._target = target
        self._progress = progress
        self._counts = CleanCounts()
        self._transactions = CleanedTransactions()

    def groups(self) -> Iterator[list[StoredSegment]]:
        """Build the offset map, then yield the groups of segments to clean, in order. Raises Uncleanable,
        UnreadableInput."""
        log, config, selection, threads = self.log, self._config, self._selection, thread_count()
        start, stop = selection.first_dirty_offset, selection.first_uncleanable_offset
        cleaned_before = log.between(0, start)
        horizon = cleaned_before[-1].modified_ms - config.delete_retention_ms if cleaned_before else 0
        self._map = new_map(self._broker.map_bytes, self._broker.dedupe_load_factor)
        surveyed: SurveyedWindows = {}
        self._map_full = build_offset_map(
            log, start, stop, self._map, threads=threads, progress=self._progress, surveyed=surveyed
        )
        if self._map.reach == LAST_OFFSET:
            raise Uncleanable(log.directory, NONE_BEHIND)
        if not self._map.mark(start):
            surveyed.clear()
        self.end_offset = self._map.reach + 1
        self._rules = Rules(
            offset_map=self._map,
            now_ms=self._now_ms,
            delete_retention_ms=config.delete_retention_ms,
            legacy_horizon_ms=horizon,
            end_offset=stop,
            index_interval_bytes=config.index_interval_bytes,
            threads=threads,
            progress=self._progress,
            surveyed=surveyed,
        )
        segments = log.between(0, self.end_offset)
        groups = group_segments(
            segments,
            max_bytes=config.segment_bytes,
            max_index_bytes=config.max_index_bytes,
            first_uncleanable_offset=stop,
        )
        self._before, self._after = len(segments), len(groups)
        yield from groups

    def clean(self, group: list[StoredSegment]) -> CleanedSegment | None:
        """Rewrite the segments of a group into a `.cleaned` segment, and return it. A pass without a target directory
        only counts the records that it would keep and remove, and returns None. After an error, the files written so
        far are removed. Raises Uncleanable, OSError."""
        cleaned = None
        if self._target is not None:
            interval = self._rules.index_interval_bytes
            cleaned = CleanedSegment(self._disk, self._target, group[0].base_offset, interval)
        try:
            self._counts.add(clean_group(self.log, group, self._transactions, self._rules, cleaned))
        except BaseException:
            if cleaned is not None:
                cleaned.discard()
            raise
        return cleaned

    def done(self) -> Pass:
        """Return the result of the pass; call it when all groups are cleaned."""
        return Pass(
            self._selection,
            self.end_offset,
            self._map_full,
            len(self._map),
            self._counts,
            self._before,
            self._after,
        )

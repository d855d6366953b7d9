"""Compaction of a log that is open: one pass of the cleaner, group by group, while appends and reads go on.

    compaction = log.begin_compaction(...)                         the thread of the log; None: not dirty enough
    while (group := compaction.clean_next()) is not None:          any thread: reads old segments, writes `.swap`
        removals += compaction.swap(group, now_ms)                 the thread of the log
    checkpoint = compaction.done().end_offset                      for the cleaner's checkpoint

The pass is aborted (CompactionAborted) if a segment that it cleans is truncated or removed, or the directory is
renamed. The files of the current group are then removed; groups that were swapped in before stay. Source:
LogCleanerManager (abortCleaning, checkCleaningAborted), LocalLog.replaceSegments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from formats.file_name import FileKind
from kcli.errors import KcliError
from kcli.log.cleaner.partition import CleanerLog, StoredSegment
from kcli.log.cleaner.progress import Progress, silent
from kcli.log.cleaner.selection import Selection
from kcli.log.cleaner.swap import change_state
from kcli.log.config import CleanerConfig, LogConfig
from kcli.log.disk import Disk
from kcli.log.live.segments import Removal

if TYPE_CHECKING:
    from kcli.log.cleaner.cleaning_pass import Pass
    from kcli.log.cleaner.rewrite import CleanedSegment

Replace = Callable[[StoredSegment, Sequence[int], int], list[Removal]]


class CompactionAborted(KcliError):
    """The log was truncated or renamed, or segments were removed, during the pass: the cleaner may try again later."""


@dataclass(frozen=True, slots=True)
class CleanedGroup:
    """The segments of a group, and the segment that is to replace them."""

    old: tuple[StoredSegment, ...]
    cleaned: CleanedSegment


class LiveCompaction:
    """A pass of the cleaner over an open log; the module's docstring shows the calls in order.

    replace: PartitionLog.replace_segments. pace(size): called with the number of bytes just read; may wait, to limit
    the rate.
    """

    def __init__(
        self,
        log: CleanerLog,
        config: LogConfig,
        broker: CleanerConfig,
        selection: Selection,
        *,
        now_ms: int,
        disk: Disk,
        replace: Replace,
        pace: Progress = silent,
    ) -> None:
        from kcli.log.cleaner.cleaning_pass import CleaningPass

        self.selection = selection
        self.is_aborted = False
        self.is_over = False
        self._log = log
        self._replace = replace
        self._pace = pace
        self._disk = disk
        self._guard = Lock()
        self._staged: CleanedSegment | None = None
        self._must_sync = False
        self._pass = CleaningPass(
            log, config, broker, selection, now_ms=now_ms, disk=disk, target=log.directory, progress=self._go_on
        )
        self._groups = self._pass.groups()

    def _go_on(self, size: int) -> None:
        if self.is_aborted:
            raise CompactionAborted(f"{self._log.directory}: the log has changed while it was cleaned")
        self._pace(size)

    def abort(self) -> None:
        """Abort the pass: the next call of `clean_next` or `swap` raises CompactionAborted. Any thread may call it.
        Raises OSError."""
        self.is_aborted = True
        with self._guard:
            staged, self._staged = self._staged, None
            if staged is not None:
                change_state(self._disk, staged.segment, "swap", "cleaned")
                staged.discard()
                self._disk.sync_directory(self._log.directory)

    def abandon(self) -> None:
        """Abort the pass, but leave its files: the next start of the broker removes them."""
        self.is_aborted = True

    def clean_next(self) -> CleanedGroup | None:
        """Clean the next group into a segment with the suffix `.swap`, and return the group with that segment; None
        when all groups are done.

        The segments swapped in before this call are durable when it returns. Raises CompactionAborted, Uncleanable
        (Kafka then no longer cleans the partition), UnreadableInput, OSError.
        """
        try:
            if self._must_sync:
                self._must_sync = False
                self._disk.sync_directory(self._log.directory)
            self._go_on(0)
            group = next(self._groups, None)
            if group is None:
                self.is_over = True
                return None
            cleaned = self._pass.clean(group)
            assert cleaned is not None, "a pass with a target writes"
            self._stage(cleaned)
        except BaseException as error:
            self.is_over = True
            # The error may come from a file that was removed when the log was truncated and the pass aborted.
            if self.is_aborted and isinstance(error, (KcliError, OSError)):
                raise CompactionAborted(f"{self._log.directory}: {error}") from error
            raise
        return CleanedGroup(tuple(group), cleaned)

    def _stage(self, cleaned: CleanedSegment) -> None:
        """Rename `.cleaned` to `.swap`: after a crash from here on, the next start puts the new segment in place."""
        with self._guard:
            if self.is_aborted:
                cleaned.discard()
                self._go_on(0)
            self._staged = cleaned
            change_state(self._disk, cleaned.segment, "cleaned", "swap")
            self._disk.sync_directory(self._log.directory)

    def swap(self, group: CleanedGroup, now_ms: int) -> list[Removal]:
        """Put the cleaned segment in the place of the old ones, without waiting for the disk, and return the removals
        of the old files; run these only after the next `clean_next`. Raises CompactionAborted, OSError."""
        if self.is_aborted:
            self.is_over = True
            self._go_on(0)
        self._staged, self._must_sync = None, True
        cleaned = group.cleaned.segment
        removals = self._replace(cleaned, [segment.base_offset for segment in group.old], now_ms)
        self._log.replace(group.old, [cleaned])
        return removals

    def done(self) -> Pass:
        """Return the result of the pass, once clean_next has returned None."""
        return self._pass.done()


def remove_cleaned(disk: Disk, directory: Path) -> None:
    """Remove the files of an aborted pass from a directory that has been renamed. Raises OSError."""
    for path in directory.glob(f"*{FileKind.LOG}.cleaned"):
        for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX, FileKind.LOG):
            disk.remove(path.with_name(path.name.replace(FileKind.LOG, kind)))

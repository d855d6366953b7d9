"""Compaction of a log that is open: one pass of the cleaner, group by group, while appends and reads go on.

    compaction = log.begin_compaction(...)                         the thread of the log; None: nothing is worth it
    while (group := compaction.clean_next()) is not None:          any thread: reads old segments, writes `.swap`
        removals += compaction.swap(group, now_ms)                 the thread of the log
    checkpoint = compaction.done().end_offset                      for the cleaner's checkpoint

What truncates or removes a segment of the pass, or gives the directory another name, aborts it: CompactionAborted, and
of the group in work nothing stays; groups that were swapped in before stand. Source: LogCleanerManager (abortCleaning,
checkCleaningAborted), LocalLog.replaceSegments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from formats.file_name import FileKind
from kcli.errors import KcliError
from kcli.log.cleaner.partition import CleanerLog, Segment
from kcli.log.cleaner.progress import Progress, silent
from kcli.log.cleaner.selection import Selection
from kcli.log.cleaner.swap import change_state
from kcli.log.config import CleanerConfig, LogConfig
from kcli.log.disk import Disk
from kcli.log.live_segments import Removal

if TYPE_CHECKING:
    from kcli.log.cleaner.cleaning_pass import Pass
    from kcli.log.cleaner.rewrite import CleanedSegment

Replace = Callable[[Segment, Sequence[int], int], list[Removal]]


class CompactionAborted(KcliError):
    """The log was cut or moved below the cleaner's hands: it may be tried again later."""


@dataclass(frozen=True, slots=True)
class CleanedGroup:
    """Segments, and the one to be swapped in for them."""

    old: tuple[Segment, ...]
    cleaned: CleanedSegment


class LiveCompaction:
    """See above. replace: PartitionLog.replace_segments; pace(size) hears of bytes read, and may wait."""

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
        """End it at the next opportunity. Any thread may call it. Raises OSError."""
        self.is_aborted = True
        with self._guard:
            staged, self._staged = self._staged, None
            if staged is not None:
                change_state(self._disk, staged.segment, "swap", "cleaned")
                staged.discard()
                self._disk.sync_directory(self._log.directory)

    def abandon(self) -> None:
        """As `abort`, and leave what is on the disk to the next start."""
        self.is_aborted = True

    def clean_next(self) -> CleanedGroup | None:
        """Clean the next group into a segment that bears `.swap`; None when all are done. What was swapped in before is
        durable then.

        Raises CompactionAborted, Uncleanable (Kafka then leaves the partition alone), UnreadableInput, OSError.
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
            if self.is_aborted and isinstance(error, (KcliError, OSError)):  # what it read was no longer there
                raise CompactionAborted(f"{self._log.directory}: {error}") from error
            raise
        return CleanedGroup(tuple(group), cleaned)

    def _stage(self, cleaned: CleanedSegment) -> None:
        """From here on a crash leaves the new segment in the place of the old ones: unless it is aborted before."""
        with self._guard:
            if self.is_aborted:
                cleaned.discard()
                self._go_on(0)
            self._staged = cleaned
            change_state(self._disk, cleaned.segment, "cleaned", "swap")
            self._disk.sync_directory(self._log.directory)

    def swap(self, group: CleanedGroup, now_ms: int) -> list[Removal]:
        """Put the cleaned segment in the place of the old ones; it waits for no disk. The removals must not be run
        before `clean_next` has been called again. Raises CompactionAborted, OSError."""
        if self.is_aborted:
            self.is_over = True
            self._go_on(0)
        self._staged, self._must_sync = None, True
        cleaned = group.cleaned.segment
        removals = self._replace(cleaned, [segment.base_offset for segment in group.old], now_ms)
        self._log.replace(group.old, [cleaned])
        return removals

    def done(self) -> Pass:
        """What was done, when clean_next has given None."""
        return self._pass.done()


def remove_cleaned(disk: Disk, directory: Path) -> None:
    """Remove what a pass that was aborted leaves in a directory which has another name now. Raises OSError."""
    for path in directory.glob(f"*{FileKind.LOG}.cleaned"):
        for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX, FileKind.LOG):
            disk.remove(path.with_name(path.name.replace(FileKind.LOG, kind)))

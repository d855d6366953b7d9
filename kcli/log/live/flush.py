"""A flush of an open log, in three steps, so that the middle one can run in another thread while appends go on.

    flush = log.begin_flush(...)   the thread of the log: what is to be made durable; None: nothing
    flush.run()                    any thread: it waits for the disk
    log.end_flush(flush, now_ms)   the thread of the log: the recovery point moves

Files that are deleted or closed in the meantime need no sync. Source: UnifiedLog.flush, LocalLog.flush.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kcli.log.disk import Disk
from kcli.log.live.segment import LiveSegment


@dataclass(frozen=True, slots=True)
class Flush:
    """What a flush makes durable: the log below `offset`. cuts: how many times the log had been truncated when the
    flush began. snapshots: the file names of the producer snapshots to sync. with_names: whether the directory must be
    synced, too. write_epochs: writes leader-epoch-checkpoint if the file is out of date."""

    offset: int
    cuts: int
    directory: Path
    snapshots: tuple[str, ...]
    segments: tuple[LiveSegment, ...]
    with_names: bool
    disk: Disk
    write_epochs: Callable[[], None]

    def run(self) -> None:
        """Make the leader epochs, the segments, the snapshots and the directory durable. Raises OSError."""
        self.write_epochs()
        for name in self.snapshots:
            try:
                with self.disk.open(self.directory / name) as file:
                    file.sync()
            except FileNotFoundError:  # the snapshot was deleted meanwhile
                continue
        for segment in self.segments:
            try:
                segment.sync()
            except OSError:
                if not segment.is_closed:
                    raise
        if self.with_names and self.directory.exists():
            self.disk.sync_directory(self.directory)

"""A flush of an open log, in three steps, so that the middle one can run in another thread while appends go on.

    flush = log.begin_flush(...)   the thread of the log: what is to be made durable; None: nothing
    flush.run()                    any thread: it waits for the disk
    log.end_flush(flush, now_ms)   the thread of the log: the recovery point moves

What is deleted or closed meanwhile is no matter any more. Source: UnifiedLog.flush, LocalLog.flush.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kcli.log.disk import Disk
from kcli.log.live_segment import LiveSegment


@dataclass(frozen=True, slots=True)
class Flush:
    """offset: below it all will be durable; cuts: how often the log had been truncated; snapshots: names of files."""

    offset: int
    cuts: int
    directory: Path
    snapshots: tuple[str, ...]
    segments: tuple[LiveSegment, ...]
    with_names: bool
    disk: Disk

    def run(self) -> None:
        """Do it. Raises OSError."""
        for name in self.snapshots:
            try:
                with self.disk.open(self.directory / name) as file:
                    file.sync()
            except FileNotFoundError:  # deleted meanwhile
                continue
        for segment in self.segments:
            try:
                segment.sync()
            except OSError:
                if not segment.is_closed:
                    raise
        if self.with_names and self.directory.exists():
            self.disk.sync_directory(self.directory)

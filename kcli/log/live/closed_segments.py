"""Rolled segments of an open log, as they are copied to tiered storage.

    closed_segments   returns the rolled segments: offsets, sizes and the names of their files
    open              opens the files before they are read, in another thread if need be. A log that is open renames
                      its files (the partition's directory is moved, retention adds `.deleted`) and removes them;
                      what is open stays readable through both

Only bytes below `size` of the .log file belong to the segment. Nothing is written to a rolled segment any more, unless
the log is truncated below the high watermark. Source: RemoteLogManager.copyLogSegment.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self


@dataclass(frozen=True, slots=True)
class ClosedSegment:
    """A segment that is no longer appended to. size: bytes of the .log file. next_offset: the base offset of the next
    segment. max_timestamp_ms: the largest timestamp of a record; if there is none, the last change of the .log file.

    txn_index_path: None if the segment has no aborted transaction. producer_snapshot_path: the snapshot at next_offset,
    None if there is none.
    """

    base_offset: int
    next_offset: int
    size: int
    max_timestamp_ms: int
    log_path: Path
    offset_index_path: Path
    time_index_path: Path
    txn_index_path: Path | None
    producer_snapshot_path: Path | None

    def open(self) -> OpenSegment:
        """Open all files of the segment; the caller closes them. Raises OSError; FileNotFoundError if the segment was
        deleted or the partition's directory renamed since `closed_segments` was called: the caller calls it again."""
        with ExitStack() as opening:

            def opened(path: Path) -> BinaryIO:
                return opening.enter_context(path.open("rb"))

            segment = OpenSegment(
                self,
                opened(self.log_path),
                opened(self.offset_index_path),
                opened(self.time_index_path),
                None if self.txn_index_path is None else opened(self.txn_index_path),
                None if self.producer_snapshot_path is None else opened(self.producer_snapshot_path),
            )
            opening.pop_all()
            return segment


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """The files of a rolled segment, open for reading. `close` it, or use it in a `with` statement."""

    segment: ClosedSegment
    log: BinaryIO
    offset_index: BinaryIO
    time_index: BinaryIO
    txn_index: BinaryIO | None
    producer_snapshot: BinaryIO | None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files."""
        for file in (self.log, self.offset_index, self.time_index, self.txn_index, self.producer_snapshot):
            if file is not None:
                file.close()

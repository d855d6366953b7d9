"""One partition directory: its segments in order, and every file beside them against the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.file_name import FileKind, parse_directory
from formats.kernels.log import LogCheck
from kcli.inspector.verify import index_files
from kcli.inspector.verify.findings import Finding, Severity
from kcli.inspector.verify.index_files import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, IndexFile
from kcli.inspector.verify.log_findings import LogFindings
from kcli.inspector.verify.segment import check_control, check_log
from kcli.log.source import FileSource

if TYPE_CHECKING:  # imported where there are such files
    from kcli.inspector.verify.snapshot_file import SnapshotFile
    from kcli.inspector.verify.txn_index_file import TxnIndexCheck

NEVER = 2**63 - 1
GROUPS = "__consumer_offsets"
INDEX_KINDS = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
REBUILT = "nothing to do: Kafka rebuilds it when it next opens the log"


class LogBounds(NamedTuple):
    """What a partition's files say of its log: base offset of the first segment, offset behind the last sound batch,
    and whether nothing in it is faulty."""

    first: int
    end: int
    is_sound: bool


@dataclass(slots=True)
class Segment:
    """The files of one segment: by kind, and the base offset in their names."""

    base: int
    files: dict[FileKind, Path] = field(default_factory=dict)


def _is_coordinators(segment: Segment) -> bool:
    """Is it of a topic where a coordinator writes what producers have it write?"""
    directories = (parse_directory(path.parent.name) for path in segment.files.values())
    return any(name is not None and name.topic == GROUPS for name in directories)


class LogVerifier:
    """Segments of one log in order; `snapshots` by the offset in their names, in order.

    Afterwards `bounds` says how far the log goes and `epochs` which leader epochs its batches have.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        snapshots: Sequence[tuple[int, Path]],
        advance: Callable[[int], None],
        *,
        is_whole: bool = True,
        control: Callable[[bytes], tuple[int, int, str | None]] = check_control,
    ) -> None:
        self._segments = segments
        self._snapshots = _load(snapshots)
        self._advance = advance
        self._is_whole = is_whole
        self._check = LogCheck(control, sequences=not any(map(_is_coordinators, segments)))
        self._reached = 0
        self._errors = False
        self._found: list[Finding] = []
        self._txn: TxnIndexCheck | None = None
        self.epochs: list[tuple[int, int]] = []
        self.bounds: LogBounds | None = None

    def findings(self) -> Iterator[Finding]:
        """Run. Raises UnreadableInput."""
        for _, snapshot in self._snapshots:
            self._found += snapshot.alone()
        for number, segment in enumerate(self._segments):
            is_last = number + 1 == len(self._segments)
            self._segment(segment, NEVER if is_last else self._segments[number + 1].base)
            yield from self._take()
        if self._segments:
            first = self._segments[0].base
            end = max(self._check.next_offset, self._segments[-1].base)
            self.bounds = LogBounds(first, end, not self._errors)
            self._finish_snapshots(end)
            yield from self._take()

    def _take(self) -> list[Finding]:
        taken, self._found = self._found, []
        return taken

    def _segment(self, segment: Segment, next_base: int) -> None:
        offsets = self._index(segment, FileKind.OFFSET_INDEX, OFFSET_ENTRY_BYTES)
        times = self._index(segment, FileKind.TIME_INDEX, TIME_ENTRY_BYTES)
        self._missing_files(segment)
        check = self._check
        check.begin(segment.base, next_base, offsets.entries if offsets else b"", times.entries if times else b"")
        path = segment.files[FileKind.LOG]
        txn_path = segment.files.get(FileKind.TXN_INDEX)
        named = txn_path or path.with_suffix(FileKind.TXN_INDEX)
        self._txn = None
        if self._is_whole or txn_path:
            from kcli.inspector.verify.txn_index_file import TxnIndexCheck

            self._txn = TxnIndexCheck(txn_path, named, check.breaks)
            self._found += self._txn.alone()
        log_findings = LogFindings(str(path))
        source = FileSource(path)
        try:
            check_log(
                source,
                check,
                log_findings,
                advance=self._advance,
                until=self._next_snapshot,
                reached=self._compare_snapshot,
                after_window=self._after_window,
            )
        finally:
            source.close()
        of_log = log_findings.close(check.sound_batches, check.sound_bytes)
        has_errors = any(finding.severity == "error" for finding in of_log)
        self._errors = self._errors or has_errors
        self._found += of_log
        self.epochs += log_findings.epochs
        for index, events, more in (
            (offsets, check.offset_index_events, check.more_index_events[0]),
            (times, check.time_index_events, check.more_index_events[1]),
        ):
            if index is not None:
                self._found += index_files.judged(index, segment.base, events, more)
        if offsets is not None and not has_errors:
            self._found += index_files.too_few(offsets, check.last_position)
        if times is not None:
            self._found += index_files.too_few_times(times, offsets, check.max_timestamp)
        if self._txn is not None:
            self._found += self._txn.end(breaks=check.breaks, reaches=max(check.next_offset, segment.base))

    def _index(self, segment: Segment, kind: FileKind, entry_bytes: int) -> IndexFile | None:
        path = segment.files.get(kind)
        if path is None:
            return None
        index, findings = index_files.load(path, entry_bytes)
        self._found += findings
        return index

    def _missing_files(self, segment: Segment) -> None:
        """Of the two indexes that every segment has, one without the other is odd; neither is a bare log."""
        both = FileKind.OFFSET_INDEX, FileKind.TIME_INDEX
        here = [kind in segment.files for kind in both]
        if not self._is_whole or all(here):
            return
        severity: Severity = "warning" if any(here) else "info"
        for kind, is_here in zip(both, here, strict=True):
            if not is_here:
                path = segment.files[FileKind.LOG].with_suffix(kind)
                name = f"{kind[1:]}-missing"
                self._found.append(
                    Finding(
                        path=str(path), kind=name, severity=severity, expected="a file", found="none", action=REBUILT
                    )
                )

    def _after_window(self) -> None:
        aborted = self._check.aborted()
        if self._txn is not None:
            self._found += self._txn.take(aborted)

    def _next_snapshot(self) -> int | None:
        return self._snapshots[self._reached][0] if self._reached < len(self._snapshots) else None

    def _compare_snapshot(self) -> None:
        """The log has come to the offset of the next snapshot."""
        offset, snapshot = self._snapshots[self._reached]
        self._reached += 1
        if offset == self._check.next_offset:  # else records before it are gone, and what they said of their producers
            self._found += snapshot.against(self._check.producer)

    def _finish_snapshots(self, end: int) -> None:
        while self._reached < len(self._snapshots):
            offset, snapshot = self._snapshots[self._reached]
            if offset > end:
                self._found.append(snapshot.beyond(offset, end))
                self._reached += 1
            else:
                self._compare_snapshot()


def _load(snapshots: Sequence[tuple[int, Path]]) -> list[tuple[int, SnapshotFile]]:
    if not snapshots:
        return []
    from kcli.inspector.verify.snapshot_file import SnapshotFile

    return [(offset, SnapshotFile(path)) for offset, path in snapshots]

"""One partition directory: its segments in order, and every file beside them against the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.file_name import FileKind, parse_directory
from formats.kernels.log import LogCheck
from kcli.errors import UnreadableInput
from kcli.inspector.verify import index_files, next_start, next_steps
from kcli.inspector.verify.causes import Causes
from kcli.inspector.verify.findings import Finding, Severity, offsets_text
from kcli.inspector.verify.index_files import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, IndexFile
from kcli.inspector.verify.log_findings import TAIL_DAMAGE, LogFindings
from kcli.inspector.verify.lost_offsets import (
    REFETCH,
    Known,
    between,
    cut_log,
    judged,
    missing_segment,
    short_log,
)
from kcli.inspector.verify.segment import check_control, check_log
from kcli.inspector.verify.segment_names import Segment, ends_with, log_name, place
from kcli.inspector.verify.surroundings import Gaps
from kcli.log.source import FileSource

if TYPE_CHECKING:  # imported where there are such files
    from kcli.inspector.verify.snapshot_file import SnapshotFile
    from kcli.inspector.verify.txn_index_file import TxnIndexCheck

NO_NEXT = 2**63 - 1  # no batch reaches it: it is no offset
GROUPS = "__consumer_offsets"
REBUILT = "nothing to do: Kafka rebuilds it when it next opens the log"
HELD_MAX = 20_000  # findings of one partition that wait for their cause
FOREIGN_LEAST = 4  # entries that fit no batch: so many are no accident
LINKED = (  # what a log that is not this partition's makes of the state of its producers and epochs
    "producer-sequence",
    "producer-epoch",
    "leader-epoch",
    "snapshot-state",
    "checkpoint-epoch",
    "offsets-order",
    "offsets-overlap",
)


class LogBounds(NamedTuple):
    """What a partition's files say of its log: base offset of the first segment, offset behind the last sound batch,
    whether nothing in it is faulty, and whether it is told that the log ends too early."""

    first: int
    end: int
    is_sound: bool
    is_short: bool = False


def _is_coordinators(segment: Segment) -> bool:
    """Is it of a topic where a coordinator writes what producers have it write?"""
    directories = (parse_directory(path.parent.name) for path in segment.files.values())
    return any(name is not None and name.topic == GROUPS for name in directories)


class LogVerifier:
    """Segments of one log; `snapshots` by the offset in their names, in order; `orphans`: index files without a log.

    known: what others say of the log. Afterwards `bounds` says how far the log goes, `epochs` which leader epochs its
    batches have, `unreadable` what could not be read.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        snapshots: Sequence[tuple[int, Path]],
        advance: Callable[[int], None],
        *,
        is_whole: bool = True,
        control: Callable[[bytes], tuple[int, int, str | None]] = check_control,
        orphans: Sequence[Segment] = (),
        known: Known | None = None,
    ) -> None:
        self._segments = segments
        self._snapshots = _load(snapshots)
        self._advance = advance
        self._is_whole = is_whole
        self._check = LogCheck(control, sequences=not any(map(_is_coordinators, segments)))
        self._orphans = {orphan.base: orphan for orphan in orphans}
        self._known = known or Known()
        self._causes = Causes()
        self._gaps: list[tuple[int, int, Path]] = []
        self._tail: tuple[Finding, Segment, int] | None = None
        self._reached = 0
        self._errors = False
        self._found: list[Finding] = []
        self._txn: TxnIndexCheck | None = None
        self.epochs: list[tuple[int, int]] = []
        self.bounds: LogBounds | None = None
        self.unreadable: list[UnreadableInput] = []

    def findings(self) -> Iterator[Finding]:
        """Run: causes first. Raises UnreadableInput."""
        for _, snapshot in self._snapshots:
            self._found += snapshot.alone()
        if self._is_whole:
            self._place()
        for number, segment in enumerate(self._segments):
            self._begin(number)
            following = self._segments[number + 1].base if number + 1 < len(self._segments) else None
            try:
                self._segment(segment, following)
            except UnreadableInput as error:
                self.unreadable.append(error)
            if len(self._found) > HELD_MAX:
                yield from self._take()
        if not self._segments:
            self._finish_empty()
        elif not self.unreadable:  # where a log ends that cannot be read, nobody knows
            first = self._segments[0].base
            end = max(self._check.next_offset, self._segments[-1].base)
            is_short = self._is_whole and self._finish(first, end)
            self.bounds = LogBounds(first, end, not self._errors, is_short)
            self._finish_snapshots(end)
        self._finish_orphans()
        yield from self._take()

    def _take(self) -> list[Finding]:
        taken, self._found = self._found, []
        gaps = Gaps.NORMAL if self._check.cleaned else self._known.gaps
        if self._is_whole:
            taken = [judged(each, gaps) if each.kind == "offset-gap" else each for each in taken]
        return self._causes.settle(taken)

    def _place(self) -> None:
        """Put segments under wrong names where they belong."""
        try:
            placed = place(self._segments, self._orphans, (offset for offset, _ in self._snapshots))
        except UnreadableInput:
            return  # it is told with the segment
        self._segments = placed.segments
        for offset in placed.used:
            self._orphans.pop(offset, None)
        for finding, stems in placed.wrong:
            self._errors = True
            self._causes.add(finding, partial(_is_about, stems))

    def _begin(self, number: int) -> None:
        """What lies between a segment and the one before it."""
        segment, end = self._segments[number], self._check.next_offset
        if number == 0 or not self._is_whole:
            return
        before = self._segments[number - 1]
        end = max(end, before.base)
        if self._tail is not None:
            self._close_tail(segment.base)
        elif end < segment.base:
            self._gaps.append((end, segment.base, segment.files[FileKind.LOG]))

    def _close_tail(self, until: int | None) -> None:
        """The segment whose end is lost is followed by one that begins at `until`, or by what others say there was."""
        assert self._tail is not None, "there is such a segment"
        cause, segment, end = self._tail
        self._tail = None
        last = None if until is None else until - 1
        if last is not None and last >= end:
            found = f"{cause.found}; {offsets_text(end, last)} in no sound batch"
            cause = replace(cause, found=found, lost_first_offset=end, lost_last_offset=last)
        stem = segment.files[FileKind.LOG].stem
        directory = str(segment.files[FileKind.LOG].parent)

        def follows(other: Finding) -> bool:
            if other.path == cause.path:
                return other.next_valid_position is None and other.position is not None
            if other.path.endswith(str(FileKind.LOG)):
                return False
            if Path(other.path).stem == stem:
                return other.offset is None or other.offset >= end
            is_behind = other.offset is not None and (last is None or other.offset <= last + 1) and other.offset >= end
            return is_behind and Path(other.path).parent == Path(directory)

        self._causes.add(cause, follows)

    def _segment(self, segment: Segment, following: int | None) -> None:
        offsets = self._index(segment, FileKind.OFFSET_INDEX, OFFSET_ENTRY_BYTES)
        times = self._index(segment, FileKind.TIME_INDEX, TIME_ENTRY_BYTES)
        self._missing_files(segment)
        check = self._check
        is_behind_gap = 0 < check.next_offset < segment.base
        next_base = NO_NEXT if following is None else following
        check.begin(segment.base, next_base, offsets.entries if offsets else b"", times.entries if times else b"")
        if is_behind_gap:
            check.damage(0, 0)  # what producers did in between is not known
        path = segment.files[FileKind.LOG]
        self._begin_txn(segment)
        log_findings = LogFindings(str(path))
        source = FileSource(path)
        try:
            size = source.size()
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
        start = next_start.of_segment(self._known, following)
        of_log = [next_start.of_log(self._in_its_file(each), start, self._known.home) for each in of_log]
        self.epochs += log_findings.epochs
        end = max(check.next_offset, segment.base)
        of_indexes: list[Finding] = []
        for index, events, more in (
            (offsets, check.offset_index_events, check.more_index_events[0]),
            (times, check.time_index_events, check.more_index_events[1]),
        ):
            if index is not None:
                of_index = list(index_files.judged(index, segment.base, events, more))
                if not has_errors:
                    of_index = self._as_foreign(segment, index, of_index, len(events) + more, following, end)
                of_indexes += of_index
        if offsets is not None and not has_errors:
            of_indexes += index_files.too_few(offsets, check.last_position)
        if times is not None:
            of_indexes += index_files.too_few_times(times, offsets, check.max_timestamp)
        if self._is_whole:
            of_log = self._as_appended(path, following, of_log)
            of_log = self._find_tail(segment, of_log, cut_log(path, size, end, offsets, times, segment.base), end)
        if not has_errors:
            of_indexes = [next_start.of_index(each, start, segment, is_active=following is None) for each in of_indexes]
        self._found += of_log + of_indexes
        if self._txn is not None:
            self._found += self._txn.end(breaks=check.breaks, reaches=end)

    def _in_its_file(self, finding: Finding) -> Finding:
        """A leader epoch shows to be odd by the batch behind it, which may be in the next segment."""
        offset = finding.offset
        if finding.kind != "leader-epoch" or offset is None:
            return finding
        holders = [each for each in self._segments if each.base <= offset]
        return replace(finding, path=str(holders[-1].files[FileKind.LOG])) if holders else finding

    def _begin_txn(self, segment: Segment) -> None:
        path, txn_path = segment.files[FileKind.LOG], segment.files.get(FileKind.TXN_INDEX)
        self._txn = None
        if self._is_whole or txn_path:
            from kcli.inspector.verify.txn_index_file import TxnIndexCheck

            self._txn = TxnIndexCheck(txn_path, txn_path or path.with_suffix(FileKind.TXN_INDEX), self._check.breaks)
            self._found += self._txn.alone()

    def _as_appended(self, path: Path, following: int | None, of_log: list[Finding]) -> list[Finding]:
        """A log that ends with the bytes of the next one: what is told of either from there on follows from it."""
        overlaps = (each for each in of_log if each.kind == "offsets-overlap" and each.offset == following)
        overlap = next(overlaps, None)
        if overlap is None or following is None:
            return of_log
        at = overlap.position or 0
        other = next(each.files[FileKind.LOG] for each in self._segments if each.base == following)
        if not ends_with(path, at, other):
            return of_log
        cause = replace(
            overlap,
            expected=f"the end of the file: {other.name} begins with offset {following:,}",
            found=f"from here on a copy of {other.name}",
            action="stop the broker, and put the file up to this byte in its place",
            command=next_steps.shorten(path, at),
        )

        def follows(finding: Finding) -> bool:
            if finding.path == cause.path:
                return (finding.position or 0) >= at
            is_later = (finding.offset or 0) >= following and Path(finding.path).parent == path.parent
            return is_later and finding.kind in LINKED

        self._causes.add(cause, follows)
        return [each for each in of_log if each is not overlap and not self._causes.takes(each)]

    def _find_tail(self, segment: Segment, of_log: list[Finding], cut: Finding | None, end: int) -> list[Finding]:
        """Is the end of the segment lost, with damage or without? Returns the findings that are no cause of it."""
        at_end = [each for each in of_log if each.severity == "error" and each.next_valid_position is None]
        if at_end and at_end[0].kind in TAIL_DAMAGE:
            self._tail = at_end[0], segment, end
            self._errors = True
        elif cut is not None:
            self._errors = True
            self._tail = cut, segment, end
            return of_log
        else:
            return of_log
        return [each for each in of_log if each is not at_end[0]]

    def _as_foreign(
        self, segment: Segment, index: IndexFile, found: list[Finding], wrong: int, following: int | None, end: int
    ) -> list[Finding]:
        """An index of which most entries fit no batch of a sound log is another segment's, or the log is."""
        behind = sum(index.offset_of(number, segment.base) >= end for number in range(index.count))
        if wrong < FOREIGN_LEAST or 2 * wrong <= index.count or 2 * behind >= wrong:
            return found
        log = segment.files[FileKind.LOG]
        is_in_place = following is None or following == end or self._check.cleaned
        others = [kind for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX) if kind in segment.files]
        paths = {str(segment.files[kind]) for kind in others}
        told = f"{wrong:,} of {index.count:,} entries fit none of the log's batches"
        expected = f"the index of {log.name}" if is_in_place else f"the log that {index.path.name} belongs to"
        cause = Finding(
            path=str(index.path if is_in_place else log),
            kind=f"{index.prefix}-foreign" if is_in_place else "log-foreign",
            severity="error",
            position=0,
            expected=expected,
            found=told if is_in_place else f"the log is sound in itself, but {told}: it is another segment's",
            action=index_files.REBUILD if is_in_place else REFETCH,
            command=next_steps.recover(log.parent),
        )
        if is_in_place:
            return [cause]
        self._errors = True
        base = segment.base

        def follows(other: Finding) -> bool:
            if other.path in paths or Path(other.path).parent != log.parent:
                return other.path in paths
            is_later = other.offset is None or other.offset >= base
            return is_later and (other.kind in LINKED or other.kind.startswith("txnindex-"))

        self._causes.add(cause, follows)
        return []

    def _finish(self, first: int, end: int) -> bool:
        """The gaps between segments, what is lost before the first and behind the last one. Returns whether it is told
        that the log ends too early."""
        directory = self._segments[0].files[FileKind.LOG].parent
        self._finish_front(directory, first)
        for gap_first, until, log in self._gaps:
            self._finish_gap(directory, gap_first, until, log)
        behind = [base for base in self._orphans if base >= end]
        snapshots = [offset for offset, _ in self._snapshots]
        short = short_log(self._segments[-1].files[FileKind.LOG], end, self._known, snapshots, directory)
        last = None if short is None else short.lost_last_offset
        if self._tail is not None:
            self._close_tail(None if last is None else last + 1)
            return True
        if behind and (short is not None or min(behind) == end):
            offset = min(*behind, end)
            self._miss(directory, offset, last, "error", f"the log of {log_name(offset)[:-4]}.index")
            return True
        if short is not None:
            self._errors = True
            self._causes.add(short, lambda other: _is_beside_log(other) and (other.offset or 0) > end)
            return True
        return False

    def _finish_empty(self) -> None:
        """No log is here at all, and others say that there was one."""
        last = max(self._known.ends.values(), default=0) - 1
        starts = [*self._orphans, *(start for _, start in self._known.epochs)]
        if self._known.directory is None or (last < 0 and not self._orphans):
            return
        why = f"a log up to {last + 1:,}" if last >= 0 else "the logs of the index files"
        self._miss(self._known.directory, min(starts, default=0), last if last >= 0 else None, "error", why)

    def _finish_front(self, directory: Path, first: int) -> None:
        """The leader epochs of a log begin where the log does; a part of it may be in tiered storage."""
        below = [base for base in self._orphans if base < first]
        starts = [start for _, start in self._known.epochs[:1] if start < first]
        if below:
            self._miss(directory, min(below), first - 1, "error", f"the log of {log_name(min(below))[:-4]}.index")
        elif starts and self._known.is_tiered is not True:
            severity: Severity = "warning" if self._known.is_tiered is None else "error"
            why = f"a log from {starts[0]:,} on, where its leader epochs begin; it begins at {first:,}"
            self._miss(directory, starts[0], first - 1, severity, why)

    def _finish_gap(self, directory: Path, first: int, until: int, log: Path) -> None:
        orphans = [base for base in self._orphans if first <= base < until]
        snapshots = [offset for offset, _ in self._snapshots if first <= offset < until]
        gaps = Gaps.NORMAL if self._check.cleaned else self._known.gaps
        if gaps is Gaps.NORMAL and not orphans:
            self._found.append(between(log, first, until - 1))
            return
        is_sure = bool(orphans or snapshots) or gaps is Gaps.LOSS
        why = f"a segment of offsets {first:,}..{until - 1:,}"
        why += "" if is_sure else f" ({gaps.value})"
        self._miss(directory, first, until - 1, "error" if is_sure else "warning", why)

    def _miss(self, directory: Path, first: int, last: int | None, severity: Severity, why: str) -> None:
        cause = missing_segment(directory, first, last, severity=severity, why=why, home=self._known.home)
        self._errors = True

        def follows(other: Finding) -> bool:
            stem = Path(other.path).stem
            is_within = stem.isdecimal() and first <= int(stem) and (last is None or int(stem) <= last + 1)
            return is_within and other.kind in ("orphan-file", "snapshot-offset", "snapshot-state")

        self._causes.add(cause, follows)

    def _finish_orphans(self) -> None:
        for _, orphan in sorted(self._orphans.items()):
            for _, path in sorted(orphan.files.items()):
                self._found.append(no_log(path, path.with_suffix(FileKind.LOG)))

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
        is_bare = not any(kind in each.files for each in self._segments for kind in both)
        severity: Severity = "info" if is_bare else "warning"
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


def _is_beside_log(finding: Finding) -> bool:
    return not finding.path.endswith(str(FileKind.LOG))


def no_log(path: Path, log: Path) -> Finding:
    """An index file whose log is not there."""
    action = "nothing to do: Kafka deletes it when it next opens the log"
    return Finding(
        path=str(path), kind="orphan-file", severity="warning", expected=log.name, found="no such file", action=action
    )


def _is_about(stems: set[str], finding: Finding) -> bool:
    """Is it about files of these names, or about offsets lost where one of them should have them?"""
    first = finding.lost_first_offset
    is_lost = finding.kind in ("log-end", "log-missing") and first is not None and f"{first:020}" in stems
    return is_lost or (_is_beside_log(finding) and Path(finding.path).stem in stems)

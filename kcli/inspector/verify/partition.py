"""Checks a partition's directory: its segments in order, and all other files against the log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.file_name import METADATA_DIRECTORY, FileKind, parse, parse_directory
from formats.kernels.columns import BatchRow
from formats.kernels.log_check import LogCheck
from kcli.errors import UnreadableInput
from kcli.inspector.verify import index_files, last_offsets, next_start, next_steps
from kcli.inspector.verify.causes import Causes
from kcli.inspector.verify.disk_damage import as_preallocated, bytes_of, is_damage, repeated_bytes, with_causes
from kcli.inspector.verify.findings import Finding, Severity, offsets_text
from kcli.inspector.verify.foreign_bytes import told_apart
from kcli.inspector.verify.gaps import Gaps
from kcli.inspector.verify.index_files import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, IndexFile
from kcli.inspector.verify.log_findings import (
    PUTS_BACK,
    REORDER,
    REORDER_TORN,
    SALVAGE,
    TAIL_DAMAGE,
    LogFindings,
    flipped_epoch,
)
from kcli.inspector.verify.lost_offsets import (
    REFETCH,
    Known,
    believed,
    between,
    cut_log,
    early_epoch,
    empty_log,
    empty_segment,
    judged,
    missing_segment,
    older_log,
    older_version,
    or_shorter,
    returned_segments,
    short_log,
    superseded_log,
    with_renamed,
    without_marker,
    without_older_topics,
    witnesses,
)
from kcli.inspector.verify.segment import check_log
from kcli.inspector.verify.segment_names import SegmentFiles, ends_with, file_beside, first_header, log_name, place
from kcli.inspector.verify.text_mode import as_text_mode
from kcli.log.partition_view import Content, FileRange
from kcli.log.recovery.batch_epochs import RightEpoch, right_last_epoch, wrong_last_epoch
from kcli.log.recovery.retention import NEVER, timestamp_of
from kcli.log.recovery.wrong_ages import modified_ms, wrongly_due
from kcli.log.segment_reader import Window, sound_batches
from kcli.log.source import FileSource

if TYPE_CHECKING:  # imported at run time only if a log has the files or batches that these modules check
    from formats.kernels.records import RecordTable
    from kcli.inspector.verify.renamed_logs import Gap, RenamedLog
    from kcli.inspector.verify.segment import Look
    from kcli.inspector.verify.snapshot_file import SnapshotFile
    from kcli.inspector.verify.txn_index_file import TxnIndexCheck
    from kcli.log.recovery.displaced_blocks import Displaced
    from kcli.log.recovery.misdirected import Home, Run
    from kcli.log.recovery.salvage import PutBack

NO_NEXT = 2**63 - 1  # above every offset of a batch
GROUPS = "__consumer_offsets"
ENTRY_BYTES = {FileKind.OFFSET_INDEX: OFFSET_ENTRY_BYTES, FileKind.TIME_INDEX: TIME_ENTRY_BYTES}
ROLLED_FACTOR = 0.9
"""Closed segments have about the same size if none is smaller than another by more than this factor."""
PUT_BACK_MAX = 20  # the maximum number of batches of one log whose right base offset is looked for
HELD_MAX = 20_000  # the maximum number of findings of one partition that are kept to be matched with causes
FOREIGN_LEAST = 4  # the least number of entries that fit no batch for an index to count as foreign
DAMAGED_SNAPSHOT = ("snapshot-crc", "snapshot-version", "snapshot-count", "snapshot-truncated", "snapshot-content")
WHOLE_INSIDE = ("log-compressed", "log-text-mode")
"""Kinds of findings of a .log file that was changed as a whole (compressed, or by a text-mode transfer) but lost no
batch."""
# If a .log file holds the batches of another .log file, later files of the partition have findings of these kinds. The
# batches of these files do not continue the offsets, producer sequences, producer epochs and leader epochs of the
# misplaced batches; the snapshots and checkpoints differ from the producers and leader epochs of the misplaced batches.
LINKED = (
    "producer-sequence",
    "producer-epoch",
    "leader-epoch",
    "snapshot-state",
    "checkpoint-epoch",
    "offsets-order",
    "offsets-overlap",
)
OF_PRODUCERS = ("producer-sequence", "producer-epoch", "leader-epoch", "snapshot-state", "checkpoint-epoch")
"""Kinds of findings that batches out of order cause, in the same file and in later files."""


class LogBounds(NamedTuple):
    """The bounds of a partition's log. first: the base offset of the first segment. end: the last offset of the last
    sound batch plus 1.

    is_sound: whether the log has no error. is_short: whether a finding says that the log ends too early. leader_epoch:
    the leader epoch of the last sound batch; -1 if there is no batch. short_by: the kind of checkpoint that alone says
    that the log ends too early; None if no checkpoint says so, or if other files say so, too. reached: the log end
    offset in the checkpoints (the higher one); 0 if they have no entry. is_dense: whether the log has a batch for each
    offset, as compaction has removed none.
    """

    first: int
    end: int
    is_sound: bool
    is_short: bool = False
    leader_epoch: int = -1
    short_by: FileKind | None = None
    reached: int = 0
    is_dense: bool = False


class _Aged(NamedTuple):
    """A segment with the time from which Kafka counts its age (see kcli.log.retention.AgedSegment). right: the largest
    timestamp of its batches, NEVER if it has none. finding: for the case that Kafka deletes it, as it takes it to be
    older than it is."""

    base_offset: int
    size: int
    age_timestamp: int
    right: int
    finding: Finding


def _is_coordinators(segment: SegmentFiles) -> bool:
    """Whether the segment is one of __consumer_offsets, in which the coordinator writes batches with the producer ids
    of transactional producers."""
    directories = (parse_directory(path.parent.name) for path in segment.files.values())
    return any(name is not None and name.topic == GROUPS for name in directories)


def _is_in(path: str, finding: Finding) -> bool:
    return finding.path == path


def _check_control(batch: bytes) -> tuple[int, int, str | None]:
    from kcli.log.producer_state import check_control  # imported only if a log has control batches

    return check_control(batch)


def _sound_batches(log: Path) -> Iterator[BatchRow]:
    """Yield the batches of a .log file with a right CRC; none of a file that cannot be read."""
    with suppress(UnreadableInput), closing(FileSource(log)) as source:
        yield from sound_batches(source)


def _deleted_logs(directory: Path, first: int) -> Iterator[Path]:
    """Yield the .log files with the suffix .deleted and a base offset below `first`."""
    for path in directory.glob(f"*{FileKind.LOG}.deleted"):
        name = parse(path.name)
        if name is not None and (name.base_offset or 0) < first:
            yield path


class LogVerifier:
    """Checks the segments of one log.

    snapshots: the producer snapshots, (offset in its name, path), by offset. is_whole: whether these are all segments
    of the log. control: checks a control batch, as kcli.log.producer_state.check_control does. orphans: index files
    without a .log file. known: what other files say about the log. causes: collects the causes of findings in the log;
    may have causes already.

    Attributes that `findings` sets: bounds of the log; epochs of its batches (leader epoch, first offset); unreadable
    files; renamed: the .log files that have other names; lost: the first and last offset of each range that no .log
    file under its own name has (last is None if it is not known); replaced: the files of segments that the cleaner has
    replaced (see Placed); last_epoch: the last batch, if a bit of its leader epoch was flipped.
    """

    def __init__(
        self,
        segments: Sequence[SegmentFiles],
        snapshots: Sequence[tuple[int, Path]],
        advance: Callable[[int], None],
        *,
        is_whole: bool = True,
        control: Callable[[bytes], tuple[int, int, str | None]] = _check_control,
        orphans: Sequence[SegmentFiles] = (),
        known: Known | None = None,
        causes: Causes | None = None,
    ) -> None:
        self._segments = segments
        self.unreadable: list[UnreadableInput] = []
        self._snapshots = list(self._load(snapshots))
        self._advance = advance
        self._is_whole = is_whole
        self._check = LogCheck(control, sequences=not any(map(_is_coordinators, segments)))
        self._orphans = {orphan.base: orphan for orphan in orphans}
        self._known = known or Known()
        # whether the current segment has batches of its own partition, and whether it has batches of others
        self._has_own = self._has_foreign = False
        self._of_others: list[Run] = []  # the batches of other partitions in the current segment
        self._causes = Causes() if causes is None else causes
        self._gaps: list[tuple[int, int, Path]] = []
        self._tail: tuple[Finding, SegmentFiles, int] | None = None
        self._short_by: FileKind | None = None
        self._reached = 0
        self._end: int | None = None
        self._put_back_end = 0
        self._is_end_wrong = False  # whether the current segment's last batch has a wrong last offset
        self._errors = False
        self._found: list[Finding] = []
        self._of_indexes: list[Finding] = []  # the findings in the indexes of the current segment
        self._ages: list[_Aged] = []
        self._now_ms = time.time_ns() // 1_000_000
        self._txn: TxnIndexCheck | None = None
        self.epochs: list[tuple[int, int]] = []
        self.bounds: LogBounds | None = None
        self.renamed: list[RenamedLog] = []
        self.lost: list[tuple[int, int | None]] = []
        self.replaced: Mapping[str, str] = {}
        self.last_epoch: RightEpoch | None = None

    def _load(self, snapshots: Sequence[tuple[int, Path]]) -> Iterator[tuple[int, SnapshotFile]]:
        """Yield the producer snapshots that can be read, with their offsets."""
        if not snapshots:
            return
        from kcli.inspector.verify.snapshot_file import SnapshotFile

        for offset, path in snapshots:
            try:
                yield offset, SnapshotFile(path)
            except UnreadableInput as error:
                self.unreadable.append(error)

    def findings(self) -> Iterator[Finding]:
        """Run all checks. Yields the findings, causes first. Raises UnreadableInput."""
        unread_snapshots = len(self.unreadable)
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
                self._found += self._of_indexes
            if len(self._found) > HELD_MAX:
                yield from self._take()
        if not self._segments:
            self._finish_empty()
        elif len(self.unreadable) == unread_snapshots:  # the end of a log that cannot be read is not known
            first = self._segments[0].base
            end = self._end or max(self._check.next_offset, self._segments[-1].base)
            is_short = self._is_whole and self._finish(first, end)
            self._judge_last_epoch()
            leader_epoch = self.epochs[-1][0] if self.epochs else -1
            is_sound = not self._errors
            is_dense = is_sound and not self._check.cleaned and self._known.gaps is Gaps.LOSS
            self.bounds = LogBounds(
                first, end, is_sound, is_short, leader_epoch, self._short_by, self._known_end, is_dense
            )
            self._finish_snapshots(end)
            self._finish_ages(first, end)
        self._finish_orphans()
        yield from self._take()

    def _judge_last_epoch(self) -> None:
        """If a bit of the last batch's leader epoch was flipped, set `last_epoch`, add the finding, and take the epoch
        out of `epochs`. Raises UnreadableInput."""
        if not (self._is_whole and self.epochs and self._known.epochs):
            return
        (epoch, offset), (stated, start) = self.epochs[-1], self._known.epochs[-1]
        before = self.epochs[-2][0] if len(self.epochs) > 1 else None
        right = right_last_epoch(epoch, before, stated, self._known.leader_epoch)
        logs = [(each.base, each.files[FileKind.LOG]) for each in self._segments]
        logs = [(base, path) for base, path in logs if path.stat().st_size][-2:]
        if right is None or not logs or not logs[-1][0] <= offset >= start:  # else an earlier file has the epoch, too
            return
        contents = [(log_name(base), Content((FileRange(path, 0, path.stat().st_size),))) for base, path in logs]
        found = wrong_last_epoch(contents, (stated, start), self._known.leader_epoch)
        if found is None:
            return
        path = logs[-1][1]
        self.last_epoch = found
        self.epochs.pop()
        if epoch > stated:  # LogCheck has reported an epoch that decreases
            self._found.append(flipped_epoch(path, found, offset, self._known.leader_epoch))

    def _take(self) -> list[Finding]:
        taken, self._found = self._found, []
        gaps = Gaps.NORMAL if self._check.cleaned else self._known.gaps
        if self._is_whole:
            taken = [judged(each, gaps) if each.kind == "offset-gap" else each for each in taken]
        return self._causes.settle(taken)

    def _place(self) -> None:
        """Sort the segments by their true base offsets. Findings of wrong file names become causes of other
        findings."""
        try:
            is_compacted = {Gaps.NORMAL: True, Gaps.LOSS: False}.get(self._known.gaps)
            snapshots = (offset for offset, _ in self._snapshots)
            self._leave_out_empty()
            placed = place(self._segments, self._orphans, snapshots, is_compacted=is_compacted)
        except UnreadableInput:
            return  # the check of the segment reports this error
        self._segments = placed.segments
        self.replaced = {**self.replaced, **placed.replaced}
        for offset in placed.used:
            self._orphans.pop(offset, None)
        for finding, stems in placed.wrong:
            self._errors = True
            self._causes.add(finding, partial(is_about_segments, stems))

    def _leave_out_empty(self) -> None:
        """Leave out the empty .log files that no broker has made, each with a finding that becomes a cause of others.
        Raises UnreadableInput."""
        if len(self._segments) < 2 or all(each.files[FileKind.LOG].stat().st_size for each in self._segments):
            return
        from kcli.log.recovery.empty_logs import empty_logs  # imported only if a .log file is empty

        parts = [*self._segments, *self._orphans.values()]
        paths = {f"{each.base:020}{kind}": path for each in parts for kind, path in each.files.items()}
        directory = self._segments[0].files[FileKind.LOG].parent
        kinds = FileKind.PRODUCER_SNAPSHOT, FileKind.KRAFT_SNAPSHOT, FileKind.LEADER_EPOCHS
        paths |= {path.name: path for kind in kinds for path in directory.glob(f"*{kind}")}
        files = {
            name: Content((FileRange(path, 0, path.stat().st_size),)) for name, path in paths.items() if path.is_file()
        }
        found = empty_logs(
            files,
            reached=self._known_end,
            is_compacted=self._known.gaps is not Gaps.LOSS,
            is_metadata=self._is_metadata,
        )
        for each in found:
            segment = next(one for one in self._segments if one.base == each.base_offset)
            self._segments = [one for one in self._segments if one is not segment]
            self.replaced = {**self.replaced, **{path.name: each.what for path in segment.files.values()}}
            self._errors = True
            cause = empty_log(segment.files[FileKind.LOG], each, [*segment.files.values()])
            self._causes.add(cause, partial(is_about_segments, {segment.files[FileKind.LOG].stem}))

    @property
    def _is_metadata(self) -> bool:
        """Whether the log is the metadata log."""
        directory = self._known.directory
        return directory is not None and directory.absolute().name == METADATA_DIRECTORY

    def _begin(self, number: int) -> None:
        """Note the offsets that are missing between segment `number` and the segment before it. If damage or a cut has
        lost the end of the earlier segment, add the finding of that damage or cut as a cause instead."""
        segment, end = self._segments[number], self._check.next_offset
        if number == 0 or not self._is_whole:
            return
        before = self._segments[number - 1]
        end = max(end, before.base, self._put_back_end)
        if self._tail is not None:
            self._close_tail(segment.base)
        elif end < segment.base:
            self._gaps.append((end, segment.base, segment.files[FileKind.LOG]))

    def _close_tail(self, until: int | None) -> None:
        """Add the finding of a segment whose end is lost (`_tail`), as a cause of other findings.

        until: the offset at which the next segment begins, or the log end offset that other files state.
        """
        assert self._tail is not None, "there is such a segment"
        cause, segment, end = self._tail
        self._tail = None
        last = None if until is None else until - 1
        if last is not None and last >= end and cause.kind not in WHOLE_INSIDE:
            found = f"{cause.found}; {offsets_text(end, last)} in no sound batch"
            cause = replace(cause, found=found, lost_first_offset=end, lost_last_offset=last)
            self.lost.append((end, last))
        stem = segment.files[FileKind.LOG].stem
        directory = str(segment.files[FileKind.LOG].parent)

        def follows(other: Finding) -> bool:
            if other.path == cause.path:
                return other.next_valid_position is None and other.position is not None
            if other.path.endswith(str(FileKind.LOG)):
                return False
            if Path(other.path).stem == stem:
                is_alone = other.kind in DAMAGED_SNAPSHOT
                return (other.offset is None and not is_alone) or (other.offset is not None and other.offset >= end)
            is_behind = other.offset is not None and (last is None or other.offset <= last + 1) and other.offset >= end
            return is_behind and Path(other.path).parent == Path(directory)

        self._causes.add(cause, follows)

    def _segment(self, segment: SegmentFiles, following: int | None) -> None:
        self._of_indexes = []
        offsets = self._index(segment, FileKind.OFFSET_INDEX, OFFSET_ENTRY_BYTES)
        times = self._index(segment, FileKind.TIME_INDEX, TIME_ENTRY_BYTES)
        self._missing_files(segment)
        check = self._check
        is_behind_gap = 0 < check.next_offset < segment.base
        next_base = NO_NEXT if following is None else following
        check.begin(segment.base, next_base, offsets.entries if offsets else b"", times.entries if times else b"")
        if is_behind_gap:
            check.damage(0, 0)  # makes the check forget producers: their sequences and epochs in the gap are not known
        path = segment.files[FileKind.LOG]
        self._begin_txn(segment)
        log_findings = LogFindings(str(path))
        size = self._check_log(segment, log_findings, following)
        of_log = log_findings.close(check.sound_batches, check.sound_bytes)
        of_log = as_preallocated(path, size, of_log, self._known.preallocated_bytes if following is None else 0)
        of_log = self._as_compressed(segment, following, list(with_causes(path, told_apart(path, of_log))))
        of_log = as_text_mode(path, of_log)
        has_errors = any(finding.severity == "error" for finding in of_log)
        self._errors = self._errors or has_errors
        start = next_start.of_segment(self._known, following)
        is_whole = following == check.next_offset
        in_file = map(self._in_its_file, of_log)
        of_log = [next_start.of_log(each, start, self._known.home, is_whole=is_whole) for each in in_file]
        of_log = self._with_order(path, size, segment.base, following, of_log)
        has_errors = has_errors or self._end is not None
        self.epochs += [each for each in log_findings.epochs if not self._is_of_others(each[1])]
        end = self._end or max(check.next_offset, segment.base)
        self._note_age(segment, times, size, start, following, is_sound=not has_errors)
        exchanged = self._exchanged(offsets, times, size)
        if exchanged is not None:
            offsets = times = None
        may_be_cut = self._is_whole and not self._is_end_wrong
        cut = self._cut(segment, size, offsets, times, following, is_sound=not has_errors) if may_be_cut else None
        if cut is None and may_be_cut and following is None:
            cut = self._without_marker(path, size, end)
        of_entries = self._of_entries(
            segment, offsets, times, following, end, is_sound=not has_errors, is_cut=cut is not None
        )
        self._of_indexes += of_entries if exchanged is None else [*of_entries, exchanged]
        if offsets is not None and not has_errors:
            self._of_indexes += index_files.too_few(offsets, check.last_position)
        if times is not None:
            self._of_indexes += index_files.too_few_times(times, offsets, check.max_timestamp)
        self._end_txn(path, end)
        if self._is_whole:
            of_log = self._as_appended(path, following, of_log)
            of_log = self._find_tail(segment, of_log, cut, end)
        self._find_wrong_timestamp(of_log)
        self._find_cause_of_indexes(of_log, {str(each) for each in segment.files.values()} - {str(path)})
        self._found += of_log
        self._found += self._with_start(start, segment, is_active=following is None, is_sound=not has_errors)

    @property
    def _expires(self) -> bool:
        """Whether retention.ms deletes segments of the log."""
        known = self._known
        is_served = known.directory is not None and not known.is_tiered
        return self._is_whole and is_served and known.retention is not None and known.retention.max_ms >= 0

    def _note_age(
        self,
        segment: SegmentFiles,
        times: IndexFile | None,
        size: int,
        start: next_start.NextStart,
        following: int | None,
        *,
        is_sound: bool,
    ) -> None:
        """Note the age of the segment that was just checked, as Kafka takes it at its next start. times: its time
        index. size: bytes of its .log file. following: as in `_segment`. is_sound: whether the .log file is sound.
        Raises UnreadableInput."""
        if not self._expires:
            return
        log, right = segment.files[FileKind.LOG], self._check.max_timestamp
        until = max(self._end or self._check.next_offset, segment.base) if following is None else following
        stated = NEVER if times is None else times.last_timestamp
        is_rebuilt = self._txn is not None and self._txn.is_rebuilt(segment.base)
        if start is next_start.NextStart.RECOVERS or is_rebuilt or FileKind.OFFSET_INDEX not in segment.files:
            stated = right
        stated = stated if stated >= 0 else modified_ms(log)
        retention_ms = NEVER if self._known.retention is None else self._known.retention.max_ms
        path = file_beside(log, FileKind.TIME_INDEX)
        is_young = 0 <= right < self._now_ms < stated
        finding = next_start.of_index(
            index_files.too_young(path, stated, right, segment.base)
            if is_young
            else index_files.too_old(path, stated, right, retention_ms, (segment.base, until - 1)),
            start,
            segment,
            is_active=following is None,
            is_sound=is_sound,
            is_rebuilt=is_rebuilt,
        )
        self._ages.append(_Aged(segment.base, size, stated, right, finding))

    def _finish_ages(self, first: int, end: int) -> None:
        """Add a finding for each segment that Kafka deletes because it takes it to be older than it is, or keeps
        because it takes it to be of the future, as the cause of others in its time index. first, end: the offsets where
        the log begins and ends."""
        if not self._ages or self._known.retention is None:
            return
        due = wrongly_due(self._ages, lambda aged: aged.right, self._known.retention, self._now_ms, first, end)
        wrong = [each for each in due if each.right > each.age_timestamp]
        for each in (*wrong, *(each for each in self._ages if 0 <= each.right < self._now_ms < each.age_timestamp)):
            self._causes.add(each.finding, partial(_is_in, each.finding.path))

    def _with_start(
        self, start: next_start.NextStart, segment: SegmentFiles, *, is_active: bool, is_sound: bool
    ) -> Iterator[Finding]:
        """Yield the findings in the indexes of the segment, each with what Kafka does with the segment when it
        starts."""
        is_rebuilt = self._txn is not None and self._txn.is_rebuilt(segment.base)
        for each in self._of_indexes:
            yield next_start.of_index(
                each, start, segment, is_active=is_active, is_sound=is_sound, is_rebuilt=is_rebuilt
            )

    def _as_compressed(self, segment: SegmentFiles, following: int | None, of_log: list[Finding]) -> list[Finding]:
        """Return one finding in place of the findings in a .log file, if that file is compressed; else return `of_log`.
        Raises UnreadableInput."""
        if not of_log or of_log[0].severity != "error" or of_log[0].position != 0:
            return of_log
        from kcli.inspector.verify import renamed_logs  # imported only if logs are damaged

        path = segment.files[FileKind.LOG]
        found = renamed_logs.compressed(path, segment.base, following)
        if found is None:
            return of_log
        self.renamed.append(renamed_logs.RenamedLog(path, segment.base, str(found.command)))
        return [found]

    def _cut(
        self,
        segment: SegmentFiles,
        size: int,
        offsets: IndexFile | None,
        times: IndexFile | None,
        following: int | None,
        *,
        is_sound: bool,
    ) -> Finding | None:
        """Return the finding that the .log file of a segment was cut or emptied; None if it was not. size: bytes of the
        file. offsets, times: the segment's indexes. following: the base offset of the next segment; None for the last
        segment."""
        check, known = self._check, self._known
        end = max(check.next_offset, segment.base)
        events = check.offset_index_events, check.time_index_events
        both = [
            believed(index, of_index, segment.base, end, check.max_timestamp, is_sound=is_sound)
            for index, of_index in zip((offsets, times), events, strict=True)
        ]
        if following is None:
            reached = [*known.ends.values(), *(start for _, start in known.epochs), *(at for at, _ in self._snapshots)]
        else:
            is_gap_loss = known.gaps is not Gaps.NORMAL and not check.cleaned
            reached = [following] if is_gap_loss else [at for at, _ in self._snapshots if at <= following]
        return cut_log(
            segment.files[FileKind.LOG],
            size,
            end,
            segment.base,
            offsets=both[0],
            times=both[1],
            until=following,
            is_confirmed=any(each > end for each in reached),
        )

    def _without_marker(self, log: Path, size: int, end: int) -> Finding | None:
        """Return the finding that the last segment's .log file was cut, because the transaction index has an entry of a
        transaction that is still open in the log; None if it has no such entry. size: bytes of the file. end: the last
        offset of its last batch plus 1."""
        entry = None if self._txn is None else self._txn.lost_marker(self._check.open_transactions(), end)
        return None if entry is None else without_marker(log, size, end, entry)

    def _check_log(self, segment: SegmentFiles, found: LogFindings, following: int | None) -> int:
        """Check the batches of a segment's .log file. following: the base offset of the next segment. Returns the
        file's size in bytes. Raises UnreadableInput."""
        path = segment.files[FileKind.LOG]
        self._of_others = []
        source = FileSource(path)
        try:
            check_log(
                source,
                self._check,
                found,
                advance=self._advance,
                until=self._next_snapshot,
                reached=self._compare_snapshot,
                after_window=self._after_window,
                look=None if self._known.keys is None else self._look_at_keys(self._known.keys),
            )
            size = source.size()
        finally:
            source.close()
        self._find_foreign_records(path, size, segment.base, following)
        return size

    def _look_at_keys(self, home: Home) -> Look:
        """Return a function to be called by `check_log` with each window of records of a segment. From the records'
        keys it notes in _has_own and _has_foreign whether the segment has batches of its own partition, `home`, and of
        other partitions."""
        from kcli.log.recovery.misdirected import has_both

        self._has_own = self._has_foreign = False

        def look(window: Window, records: RecordTable, buffer: memoryview) -> None:
            own, foreign = has_both(home, window, records, buffer)
            self._has_own = self._has_own or own
            self._has_foreign = self._has_foreign or foreign

        return look

    def _find_foreign_records(self, path: Path, size: int, base: int, following: int | None) -> None:
        """Add the finding of batches of other partitions as a cause, unless the whole file is known to be another
        partition's. following: the base offset of the next segment. Raises UnreadableInput."""
        home = self._known.keys
        if home is None or not self._has_foreign or base in self._known.foreign:
            return
        from kcli.inspector.verify.foreign_records import runs_by_keys  # imported only if there are such records

        self._add_foreign_records(path, runs_by_keys(path, size, home, following, has_own=self._has_own))

    def _find_displaced_blocks(self, path: Path, size: int, base: int, following: int | None) -> list[Displaced]:
        """Add the blocks of a damaged .log file that lie in another .log file as causes, and return them. Raises
        UnreadableInput."""
        from kcli.inspector.verify.displaced_blocks import displaced  # imported only if a log is damaged

        found: list[Displaced] = []
        for cause, follows, block in displaced(path, size, base, following):
            self._errors = True
            self._causes.add(cause, follows)
            found.append(block)
        return found

    def _find_foreign_blocks(self, path: Path, size: int, following: int | None, blocks: Sequence[Displaced]) -> None:
        """Add the finding of batches of other partitions in a damaged .log file, which these partitions have, too, as a
        cause, unless the keys of the records have shown such batches. If the log ends with them, it ends before them.
        blocks: where such batches lie instead of the file's own, which have been found. Raises UnreadableInput."""
        if self._known.keys is not None and self._has_own and self._has_foreign:
            return
        from kcli.inspector.verify.foreign_records import runs_by_logs  # imported only if a log is damaged

        found = runs_by_logs(path, size)
        found = [run for run in found if not any(each.begin <= run.position < each.end for each in blocks)]
        self._add_foreign_records(path, found)
        if found and following is None and found[-1].own_next is None:
            self._end = found[-1].own_end

    def _add_foreign_records(self, path: Path, found: Sequence[Run]) -> None:
        """Add the finding of batches of other partitions in a .log file as a cause, if there are any."""
        if not found:
            return
        from kcli.inspector.verify.foreign_records import foreign_records

        self._errors = True
        self._of_others += found
        self._causes.add(*foreign_records(path, found, self._known_end))

    def _is_of_others(self, offset: int) -> bool:
        """Whether the batch with this offset in the current segment is another partition's."""
        return any(run.first_offset <= offset <= run.last_offset for run in self._of_others)

    def _find_cause_of_indexes(self, of_log: list[Finding], indexes: set[str]) -> None:
        """Add the first damage of a .log file as the cause of findings in the entries of its indexes, because batches
        after the damage have other positions. indexes: the paths of the indexes."""
        cause = next((each for each in of_log if each.severity == "error" and each.kind in TAIL_DAMAGE), None)
        if cause is None:
            return
        of_log.remove(cause)
        first = cause.offset

        def follows(other: Finding) -> bool:
            is_behind = other.offset is not None and (first is None or other.offset >= first)
            return other.path in indexes and is_behind

        self._causes.add(cause, follows)

    def _find_wrong_timestamp(self, of_log: list[Finding]) -> None:
        """Add the finding of a wrong max timestamp in a batch as the cause of the finding in the time index, whose
        entry has the right timestamp."""
        wrong = next((each for each in of_log if each.kind == "max-timestamp"), None)
        if wrong is not None:
            of_log.remove(wrong)
            self._causes.add(wrong, lambda other: other.kind == "timeindex-timestamp" and _is_beside(other, wrong))

    def _in_its_file(self, finding: Finding) -> Finding:
        """Return the finding with the path of the segment that contains its offset: a wrong leader epoch is noticed
        only at the next batch, which may be in the next segment."""
        offset = finding.offset
        if finding.kind != "leader-epoch" or offset is None:
            return finding
        holders = [each for each in self._segments if each.base <= offset]
        return replace(finding, path=str(holders[-1].files[FileKind.LOG])) if holders else finding

    def _begin_txn(self, segment: SegmentFiles) -> None:
        path, txn_path = segment.files[FileKind.LOG], segment.files.get(FileKind.TXN_INDEX)
        self._txn = None
        if self._is_whole or txn_path:
            from kcli.inspector.verify.txn_index_file import TxnIndexCheck

            self._txn = TxnIndexCheck(txn_path, txn_path or file_beside(path, FileKind.TXN_INDEX), self._check.breaks)
            self._of_indexes += self._txn.alone()

    def _end_txn(self, log: Path, end: int) -> None:
        if self._txn is not None:
            batches = partial(_sound_batches, log)
            self._of_indexes += self._txn.end(breaks=self._check.breaks, reaches=end, batches=batches)

    @property
    def _known_end(self) -> int:
        """Return the log end offset that the checkpoints state; 0 if they have no entry for the partition."""
        return max(self._known.ends.values(), default=0)

    def _with_order(
        self, path: Path, size: int, base: int, following: int | None, of_log: list[Finding]
    ) -> list[Finding]:
        """Add the blocks of a damaged .log file that lie in another one, and the batches of other partitions in it, as
        causes, and replace the findings of wrong offsets by their one cause, if that is found. Returns the other
        findings. Raises UnreadableInput."""
        if self._known.home is not None and any(map(is_damage, of_log)):
            blocks = self._find_displaced_blocks(path, size, base, following)
            self._find_foreign_blocks(path, size, following, blocks)
        of_log = self._with_last_offsets(path, size, base, following, of_log)
        if self._is_whole:
            found = of_log  # a finding may come from the wrong offsets of several batches
            for put_back in self._put_back(path, base, following, found):
                explained = self._as_put_back(put_back, following, found)
                of_log = [each for each in of_log if each not in explained]
        return self._as_disordered(path, size, base, of_log)

    def _with_last_offsets(
        self, path: Path, size: int, base: int, following: int | None, of_log: list[Finding]
    ) -> list[Finding]:
        """Make each wrong last offset of a batch of a .log file the cause of all findings that come from it. Returns
        the other findings in the file. size: bytes of the file. base, following: as in `_put_back`. Raises
        UnreadableInput."""
        self._is_end_wrong = False
        check, reached = self._check, None
        known = max([self._known_end, *(offset for offset, _ in self._snapshots)])
        if following is None and check.sound_batches and 0 < known < check.next_offset:
            reached = known if last_offsets.ends_sparsely(path, check.last_position) else None
        logs = [each.files[FileKind.LOG] for each in self._segments]
        for wrong in last_offsets.wrong_last_offsets(logs, path, base, following, reached, of_log):
            parts = [each for each in of_log if last_offsets.is_part(each, wrong)]
            own = next((each for each in parts if each.position == wrong.position), None)
            if own is None and wrong.position != check.last_position:
                continue
            own = own or self._of_last_batch(path, size)
            is_last = (own.position or 0) + (own.length or 0) == size
            cause = last_offsets.cause(path, wrong, own, is_last=is_last and following is None)
            self._errors = True
            self._causes.add(cause, partial(last_offsets.follows, path=path, wrong=wrong))
            self._put_back_end = wrong.last_offset + 1
            if is_last:
                self._is_end_wrong = True
                self._end = wrong.last_offset + 1 if following is None else self._end
            of_log = [each for each in of_log if each not in parts]
        return of_log

    def _of_last_batch(self, path: Path, size: int) -> Finding:
        """Return a finding about the last batch of a .log file, which only says where it is."""
        check = self._check
        return Finding(
            path=str(path),
            kind="",
            severity="info",
            position=check.last_position,
            length=size - check.last_position,
            action=SALVAGE,
            valid_batches_before=check.sound_batches - 1,
            valid_bytes_before=check.sound_bytes - (size - check.last_position),
            valid_batches_behind=0,
            valid_bytes_behind=0,
        )

    def _put_back(self, path: Path, base: int, following: int | None, of_log: list[Finding]) -> list[PutBack]:
        """Return the batches of a .log file whose base offset has a flipped bit, each with the right base offset.

        A batch is returned only if a finding shows that its base offset is wrong, and if exactly as many offsets as it
        spans are free between the batches before and after it. For the first batch, these offsets begin at `base`; for
        the last batch, they end before `following`, in the last file before the log end offset in the checkpoints.
        Only the first PUT_BACK_MAX batches with a flipped bit are considered. Raises UnreadableInput.

        base: the base offset in the file's name. following: that of the next .log file, None for the last file. of_log:
        the findings in the file, which are not changed.
        """
        reached = self._known_end or None
        noticed = {each.position for each in of_log if _is_out_of_place(each)}
        if following is None and reached:
            at_end = [each for each in of_log if each.next_valid_position in (None, each.position)]
            noticed |= {each.position for each in at_end if each.kind in ("offset-gap", "offset-range")}
        if not noticed:
            return []
        from kcli.log.recovery.misdirected import Home
        from kcli.log.recovery.salvage import is_log, put_back, topic_of  # imported only if an offset is wrong

        paths = [each.files[FileKind.LOG] for each in self._segments]
        logs = {each.name: Content((FileRange(each, 0, each.stat().st_size),)) for each in paths if is_log(each.name)}
        if path.name not in logs:
            return []
        room = base, reached if following is None else following
        found = islice(put_back(logs, path.name, Home(topic_of(path.parent)), room), PUT_BACK_MAX)
        back = [each.offset for each in of_log if each.kind == "offsets-order" and each.offset is not None]
        return [each for each in found if each.position in noticed or any(offset in each.overlapped for offset in back)]

    def _as_put_back(self, put_back: PutBack, following: int | None, of_log: list[Finding]) -> list[Finding]:
        """Make the wrong base offset of a batch the cause of all findings about that batch, and of those about later
        batches with offsets that this batch seems to have. Returns these findings. of_log: all in the .log file."""
        own = [each for each in of_log if each.position == put_back.position]
        behind = [each for each in of_log if (each.position or 0) > put_back.position and each.offset is not None]
        covered = [each for each in behind if each.kind == "offsets-order" and each.offset in put_back.overlapped]
        noticed = own[0] if own else _moved_to(put_back.position, covered[0])
        log = Path(noticed.path)
        is_last = following is None and noticed.next_valid_position in (None, noticed.position)
        place = "which the batches beside it leave for it"
        if is_last:
            place = f"behind the batch before it: the log had reached {self._known_end:,}"
        outcome = noticed.action
        if noticed.kind == "offset-gap" and not covered:
            outcome = "consumers see its records at wrong offsets"
        elif covered or _is_out_of_place(noticed):
            skipped = "the batches behind it" if put_back.before > put_back.base_offset else "it"
            outcome = f"Kafka keeps this batch as it is, and consumers skip {skipped}"
        cause = replace(
            noticed,
            kind="offsets-order",
            severity="error",
            offset=put_back.before,
            expected=f"{put_back.base_offset:,}, {place}",
            found=f"base offset {put_back.before:,}, a flipped bit, which no CRC covers",
            lost_first_offset=None,
            lost_last_offset=None,
            action=f"{outcome}{PUTS_BACK}",
            command=next_steps.salvage(log.parent),
            next_valid_position=put_back.position,
            valid_batches_behind=(noticed.valid_batches_behind or 0) + len(covered),
            valid_bytes_behind=(noticed.valid_bytes_behind or 0) + sum(each.length or 0 for each in covered),
        )

        def follows(other: Finding) -> bool:
            if other.path == cause.path:
                return other.position == put_back.position or other.kind == "log-end"
            if Path(other.path).parent != log.parent:
                return False
            is_of_index = Path(other.path).stem == log.stem and other.kind.startswith(("index-", "timeindex-"))
            return is_of_index or other.kind in ("snapshot-offset", *OF_PRODUCERS)

        if is_last:
            self._end = self._known_end
        self._put_back_end = put_back.last_offset + 1
        self._errors = True
        self._causes.add(cause, follows)
        return [*own, *covered]

    def _as_disordered(self, path: Path, size: int, base: int, of_log: list[Finding]) -> list[Finding]:
        """If sound batches of a .log file are not in the order of their offsets, add one finding of that as the cause
        of the other findings of wrong offsets in the file, and of findings in later files. Returns the other findings.
        Raises UnreadableInput."""
        noticed = next((each for each in of_log if each.kind == "offsets-order"), None)
        if noticed is None:
            return of_log
        from kcli.inspector.verify.disorder import disorder  # imported only if a log is out of order

        found = disorder(path, size)
        if found is None:
            return of_log

        def is_part(other: Finding) -> bool:
            if other.kind == "offset-gap":
                return (other.lost_first_offset, other.lost_last_offset) not in found.missing
            return is_damage(other) and not found.edges.isdisjoint(bytes_of(other))

        parts = [each for each in of_log if each.kind in ("offsets-order", "offsets-overlap") or is_part(each)]
        kinds = Counter(each.kind for each in parts if each is not noticed)
        lost = found.lost or (None, None)
        disk = repeated_bytes(parts)
        disk_text = "" if disk is None else f"{disk}: "
        missing_text = "" if found.lost is None else f"; {offsets_text(*found.lost)} in no batch"
        torn = min((each.position or 0 for each in of_log if is_damage(each)), default=None)
        torn_text = "" if torn is None else f"; the batch at byte {torn:,} is torn"
        cause = replace(
            noticed,
            expected="batches in the order of their offsets",
            found=f"{disk_text}{found.text}{missing_text}{torn_text}",
            lost_first_offset=lost[0],
            lost_last_offset=lost[1],
            action=REORDER if torn is None else REORDER_TORN,
            command=next_steps.salvage(path.parent),
            consequences=kinds,
        )

        def follows(other: Finding) -> bool:
            if other.path == cause.path:
                return other.kind in (*OF_PRODUCERS, "offset-gap")
            if _is_beside(other, cause):
                return other.kind not in DAMAGED_SNAPSHOT
            is_later = (other.offset is None or other.offset >= base) and Path(other.path).parent == path.parent
            return is_later and other.kind in OF_PRODUCERS

        self._causes.add(cause, follows)
        return [each for each in of_log if each not in parts]

    def _as_appended(self, path: Path, following: int | None, of_log: list[Finding]) -> list[Finding]:
        """If a .log file ends with a copy of the next one, make the copy the cause of the findings in its bytes, and of
        those in later files that follow from it. Returns the other findings of the .log file."""
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

    def _find_tail(self, segment: SegmentFiles, of_log: list[Finding], cut: Finding | None, end: int) -> list[Finding]:
        """If damage or a cut has lost the end of the segment, store the finding of that damage or cut in `_tail`.
        Returns the other findings in the segment's .log file."""
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

    def _exchanged(self, offsets: IndexFile | None, times: IndexFile | None, log_bytes: int) -> Finding | None:
        """Return the finding that the offset index and the time index are exchanged, which replaces all other findings
        in these two files; None if they are not exchanged."""
        if offsets is None or times is None:
            return None
        if not (self._check.offset_index_events or self._check.time_index_events):
            return None
        found = index_files.exchanged(offsets, times, log_bytes)
        if found is not None:
            both = str(offsets.path), str(times.path)
            self._of_indexes = [each for each in self._of_indexes if each.path not in both]
        return found

    def _of_entries(
        self,
        segment: SegmentFiles,
        offsets: IndexFile | None,
        times: IndexFile | None,
        following: int | None,
        end: int,
        *,
        is_sound: bool,
        is_cut: bool,
    ) -> list[Finding]:
        """Return the findings about the entries of both indexes of a segment. is_sound: whether the .log file is sound.
        is_cut: whether the end of the file was cut off."""
        check, found = self._check, []
        may_be = is_sound and not is_cut and (following == end or check.cleaned)
        is_log_foreign = may_be and self._has_foreign_log(segment, offsets, times, following)
        for index, events, more in (
            (offsets, check.offset_index_events, check.more_index_events[0]),
            (times, check.time_index_events, check.more_index_events[1]),
        ):
            if index is not None:
                of_index = list(index_files.judged(index, segment.base, events, more))
                if is_sound and not is_log_foreign:
                    wrong = len(events) + more
                    of_index = self._as_foreign(segment, index, of_index, wrong, following, end, is_cut=is_cut)
                found += of_index
        return found

    def _has_foreign_log(
        self, segment: SegmentFiles, offsets: IndexFile | None, times: IndexFile | None, following: int | None
    ) -> bool:
        """If a segment's indexes and a third file agree against its sound .log file, add the finding that the .log file
        is foreign, as the cause of the findings in these files. Returns whether it was added. Raises UnreadableInput.
        """
        check = self._check
        counts = [
            (index, len(events) + more)
            for index, events, more in (
                (offsets, check.offset_index_events, check.more_index_events[0]),
                (times, check.time_index_events, check.more_index_events[1]),
            )
            if index is not None and 2 * (len(events) + more) > index.count
        ]
        if following is None or times is None or all(index is not times for index, _ in counts):
            return False
        if max(number for _, number in counts) < FOREIGN_LEAST or not all(index.ascends() for index, _ in counts):
            return False
        if any(index.offset_of(index.count - 1, segment.base) >= following for index, _ in counts):
            return False
        from kcli.inspector.verify import foreign_logs  # imported only if indexes do not fit their log

        log = segment.files[FileKind.LOG]
        snapshot = next((each for offset, each in self._snapshots if offset == following), None)
        agreeing: str | None
        if snapshot is not None and foreign_logs.snapshot_agrees(times, snapshot.entries, check.max_timestamp):
            agreeing = f"{following:020}{FileKind.PRODUCER_SNAPSHOT} has the time index's last timestamp"
        else:
            logs = {each.base: each.files[FileKind.LOG] for each in self._segments}
            before = max((base for base in logs if base < segment.base), default=None)
            earlier = None if before is None else logs[before]
            agreeing = foreign_logs.neighbour_agrees(times, log, earlier, logs[following], check.max_timestamp)
        if agreeing is None:
            return False
        wrong = [f"{number:,} of {index.count:,} entries of {index.path.name}" for index, number in counts]
        cause = foreign_logs.foreign_log(log, segment.base, following, wrong, agreeing)
        self._add_foreign_log(segment, cause)
        return True

    def _as_foreign(
        self,
        segment: SegmentFiles,
        index: IndexFile,
        found: list[Finding],
        wrong: int,
        following: int | None,
        end: int,
        *,
        is_cut: bool,
    ) -> list[Finding]:
        """Return one finding in place of `found`, the findings in an index, if most of its entries fit no batch of a
        sound .log file; else return `found`. wrong: the number of entries that fit no batch.

        Either the index or the .log file is that of another segment: the .log file, if it does not end at the next
        segment and the index does not contradict itself; else the index.
        """
        behind = sum(index.offset_of(number, segment.base) >= end for number in range(index.count)) if is_cut else 0
        inside, wrong_inside = index.count - behind, wrong - behind
        # If the .log file was cut, its own index has entries beyond its end, too: only entries below the end show
        # whether the index is another segment's.
        if wrong_inside < FOREIGN_LEAST or 2 * wrong_inside <= inside:
            return found
        log = segment.files[FileKind.LOG]
        is_in_place = following is None or following == end or self._check.cleaned or not index.ascends()
        mismatch = f"{wrong:,} of {index.count:,} entries fit none of the log's batches"
        if is_in_place and index.entry_bytes == OFFSET_ENTRY_BYTES:
            from kcli.inspector.verify.foreign_logs import fits_former_index  # imported only if an index does not fit

            former = index.path.with_name(f"{index.path.name}.deleted")
            if fits_former_index(log, segment.base, former):
                mismatch += (
                    f", and all {former.name} has do: the log is the one from before Kafka replaced it, put back"
                )
        expected = f"the index of {log.name}" if is_in_place else f"the log that {index.path.name} belongs to"
        cause = Finding(
            path=str(index.path if is_in_place else log),
            kind=f"{index.prefix}-foreign" if is_in_place else "log-foreign",
            severity="error",
            position=0,
            expected=expected,
            found=mismatch if is_in_place else f"the log is sound in itself, but {mismatch}: it is another segment's",
            action=index_files.REBUILD if is_in_place else REFETCH,
            command=next_steps.recover(log.parent),
        )
        if is_in_place:
            return [cause]
        self._add_foreign_log(segment, cause)
        return []

    def _add_foreign_log(self, segment: SegmentFiles, cause: Finding) -> None:
        """Add the finding of a foreign .log file as the cause of those in its indexes and in later files."""
        self._errors = True
        log, base = segment.files[FileKind.LOG], segment.base
        paths = {
            str(segment.files[kind]) for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX) if kind in segment.files
        }

        def follows(other: Finding) -> bool:
            if other.path in paths or Path(other.path).parent != log.parent:
                return other.path in paths
            is_later = other.offset is None or other.offset >= base
            return is_later and (other.kind in LINKED or other.kind.startswith("txnindex-"))

        self._causes.add(cause, follows)

    def _finish(self, first: int, end: int) -> bool:
        """Add findings for lost offsets before the first segment, between segments, and after the last.

        Returns whether a finding says that the log ends too early.
        """
        directory = self._known.directory or self._segments[0].files[FileKind.LOG].parent
        self._finish_front(directory, first)
        returned_below = self._returned_below()
        if returned_below is not None:
            self._finish_returned(returned_below)
        for gap_first, until, log in self._gaps:
            if returned_below is not None and until <= returned_below:
                continue
            if not self._finish_older_log(gap_first, until, log):
                self._finish_gap(directory, gap_first, until, log)
        behind = [base for base in self._orphans if base >= end]
        snapshots = [snapshot.reached(offset) for offset, snapshot in self._snapshots]
        known = self._known if self._has_own_epochs() else replace(self._known, epochs=())
        last_log, last_base = self._segments[-1].files[FileKind.LOG], self._segments[-1].base
        is_rolled = end in {last_base, *(offset for offset, _ in self._snapshots)}
        beyond = witnesses(end, known, max(snapshots, default=0), is_rolled=is_rolled)
        beyond = without_older_topics(beyond, directory, known.strays)
        short = short_log(last_log, self._segments[0].base, end, beyond, known)
        last = None if short is None else short.lost_last_offset
        if self._tail is not None:
            self._close_tail(None if last is None else last + 1)
            return True
        if behind and (short is not None or min(behind) == end):
            is_normal = self._check.cleaned or self._known.gaps is Gaps.NORMAL
            lost = min(behind) if is_normal else end
            self._miss(directory, lost, last, "error", _log_of(min(behind)), base=min(behind))
            return True
        if short is not None:
            self._errors = True
            renamed = self._renamed(directory, end, last, None)
            short = with_renamed(short, directory, renamed) if renamed else short
            self._short_by = beyond[0][0] if len(beyond) == 1 and not renamed else None
            self._causes.add(short, lambda other: _is_beside_log(other) and (other.offset or 0) > end)
            return True
        return self._finish_moved_end(directory, first, end)

    def _finish_moved_end(self, directory: Path, first: int, end: int) -> bool:
        """Add, as a cause, the finding that the segment behind the end of the log lies elsewhere. One checkpoint beyond
        the end, which alone is too little evidence for lost offsets, shows this if a file has the name and offsets of
        that segment. Returns whether there is such a finding."""
        beyond = [(kind, offset) for kind, offset in self._known.ends.items() if offset > end]
        renamed = self._renamed(directory, end, None) if beyond else []
        short = short_log(self._segments[-1].files[FileKind.LOG], first, end, beyond, self._known)
        if short is None or not renamed:
            return False
        self._errors = True
        self._causes.add(with_renamed(short, directory, renamed), _is_beside_log)
        return True

    def _returned_below(self) -> int | None:
        """Return the base offset of the segment below which Kafka had deleted all segments, although some exist
        again; None if there is no such segment. The evidence is a gap right below the segment to which the first start
        offset in leader-epoch-checkpoint belongs: Kafka removes the entries below the log start offset. Batches of a
        later leader epoch than the first entry cannot have been deleted before it."""
        known = self._known
        if self._check.cleaned or known.gaps is Gaps.NORMAL or not known.epochs:
            return None
        epoch, start = known.epochs[0]
        begin = max((each.base for each in self._segments if each.base <= start), default=-1)
        is_later = any(each > epoch for each, offset in self.epochs if offset < begin)
        return begin if not is_later and any(until == begin for _, until, _ in self._gaps) else None

    def _finish_returned(self, begin: int) -> None:
        """Add, as a cause, the finding of the segments below `begin` that were deleted and exist again."""
        files = [segment.files for segment in self._segments if segment.base < begin]
        cause = returned_segments([each[FileKind.LOG] for each in files], begin)
        stems = {each[FileKind.LOG].stem for each in files}
        self._errors = True
        self._causes.add(cause, lambda other: Path(other.path).stem in stems or other.kind == "checkpoint-epoch")

    def _finish_older_log(self, first: int, until: int, log: Path) -> bool:
        """Add, as a cause, the finding that the segments behind a gap are those of an older log: their leader epoch is
        lower than all those before the gap, as no flipped bit of one batch makes it. Returns whether there is such a
        finding: not in a compacted log.

        first: the first offset of the gap. until, log: base offset and .log file of the segment behind it.
        """
        before = [epoch for epoch, offset in self.epochs if offset < until]
        behind = [epoch for epoch, offset in self.epochs if offset >= until]
        is_compacted = self._check.cleaned or self._known.gaps is Gaps.NORMAL
        if is_compacted or not before or not behind or min(before) <= behind[0]:
            return False
        self._errors = True
        cause = older_log(log, first, until, before[-1], behind[0])
        self._causes.add(cause, lambda other: other.kind in {"leader-epoch", "checkpoint-epoch"})
        return True

    def _has_own_epochs(self) -> bool:
        """Return whether the leader-epoch-checkpoint is that of this log: at least half of the batches' epochs agree
        with it; a single batch may differ, since no CRC covers its epoch. The checkpoint of another partition would not
        show where this log ended."""
        right = wrong = 0
        for epoch, offset in self.epochs:
            stated = [each for each, start in self._known.epochs if start <= offset]
            right += bool(stated) and stated[-1] == epoch
            wrong += bool(stated) and stated[-1] != epoch
        return wrong <= right

    def _finish_empty(self) -> None:
        """Add a finding if the partition has no log, but other files say that it had one."""
        last = self._known_end - 1
        starts = [*self._orphans, *(start for _, start in self._known.epochs)]
        if self._known.directory is None or (last < 0 and not self._orphans):
            return
        if self._was_empty():
            empty = empty_segment(self._known.directory, is_clean=self._known.is_clean)
            self._causes.add(empty, lambda other: other.kind == "orphan-file")
            return
        why = f"a log up to {last + 1:,}" if last >= 0 else "the logs of the index files"
        first = min(starts, default=0)
        base = min(self._orphans, default=0 if 0 in starts else None)
        self._miss(self._known.directory, first, last if last >= 0 else None, "error", why, base=base)

    def _was_empty(self) -> bool:
        """Return whether the only missing .log file is the one with base offset 0, and had no batch: the recovery point
        is 0, after a crash the high watermark, too, no other file has an offset above 0, and the indexes have no
        entry."""
        kinds = {FileKind.RECOVERY_POINTS} | (set() if self._known.is_clean else {FileKind.REPLICATION_OFFSETS})
        if set(self._orphans) != {0} or not kinds <= self._known.ends.keys():
            return False
        reached = [*self._known.ends.values(), *(start for _, start in self._known.epochs)]
        if any(reached) or any(offset for offset, _ in self._snapshots):
            return False
        files = self._orphans[0].files
        return all(
            kind in ENTRY_BYTES and not index_files.load(files[kind], ENTRY_BYTES[kind])[0].count for kind in files
        )

    def _finish_front(self, directory: Path, first: int) -> None:
        """Add a finding if leader epochs or index files begin before the first segment, unless the earlier segments may
        be in tiered storage. If only leader epochs do, and retention can have deleted the earlier segments, or its
        configuration is not known, the finding is about leader-epoch-checkpoint."""
        below = [base for base in self._orphans if base < first]
        starts = [start for _, start in self._known.epochs[:1] if start < first]
        if below:
            self._miss(directory, min(below), first - 1, "error", _log_of(min(below)), base=min(below))
        elif not starts or self._known.is_tiered is True:
            return
        elif (why := self._why_expired(directory, first)) and not self._elsewhere(directory, starts[0], first - 1):
            kept = max(_deleted_logs(directory, first), default=None)
            self._found.append(early_epoch(directory, self._known.epochs, first, why, kept))
        else:
            is_cleaned = self._known.may_be_cleaned(first - 1)  # the missing segment may have had no batch left
            severity: Severity = "warning" if is_cleaned or self._known.is_tiered is None else "error"
            why = f"a log from {starts[0]:,} on, where its leader epochs begin; it begins at {first:,}"
            why += f" ({Gaps.NORMAL.value})" if is_cleaned else ""
            self._miss(directory, starts[0], first - 1, severity, why, base=0 if starts[0] == 0 else None)

    def _why_expired(self, directory: Path, first: int) -> str:
        """Return, in words, the evidence that retention can have deleted the segments before the first one, whose base
        offset is `first`; "" if it cannot. The largest timestamp of the segment right before is taken from its .deleted
        file; without one, from the first batch of the log."""
        start = self._known.epochs[0][1]
        if start < 0 or self._known.has_superseded(start, first - 1):
            return ""
        if self._known.is_tiered is None and self._known.gaps is not Gaps.NORMAL:
            return "the topic's configuration is not known"
        retention = self._known.retention
        if retention is None:
            return ""
        logs = [each.files[FileKind.LOG] for each in self._segments]
        if why := retention.by_size(sum(each.stat().st_size for each in logs)):
            return why
        kept = max(_deleted_logs(directory, first), default=None)
        header = None if kept is not None else first_header(logs[0])
        timestamp = timestamp_of(kept) if kept is not None else NEVER if header is None else header.max_timestamp
        return retention.by_time(timestamp, timestamp_of(logs[0]))

    def _finish_gap(self, directory: Path, first: int, until: int, log: Path) -> None:
        orphans = [base for base in self._orphans if first <= base < until]
        gaps = Gaps.NORMAL if self._check.cleaned else self._known.gaps
        snapshots = [offset for offset in self._snapshots_of_segments(gaps) if first <= offset < until]
        if gaps is Gaps.NORMAL:
            self._finish_normal_gap(directory, first, until, log, min(orphans or snapshots, default=None))
            return
        traces = {*orphans, *snapshots}
        last = max((each for each in self._segments if each.base <= first), key=lambda each: each.base)
        before = last.base
        is_sure = bool(traces) or gaps is Gaps.LOSS
        why = f"a segment of offsets {first:,}..{until - 1:,}"
        # An index at `first` proves that a segment began there. A snapshot does not, since a shutdown leaves one at the
        # end of a log, too: then the segment before the gap may have been longer.
        shorter = None if first in orphans else last.files[FileKind.LOG]
        older = self._older_version(before) if not traces - {first} and shorter else None
        why += "" if is_sure else f" ({gaps.value})"
        base = first if gaps is Gaps.LOSS and before < first else min(traces, default=None)
        severity: Severity = "error" if is_sure else "warning"
        self._miss(directory, first, until - 1, severity, why, base=base, shorter=shorter, older=older)

    def _older_version(self, base: int) -> str | None:
        """Return the evidence that the .log file with this base offset, which another segment follows, is an older
        version of the segment, copied while Kafka still wrote it; None if there is none.

        Kafka cuts the zeros after the entries of an index when it begins the next segment. It begins one when the
        segment would grow beyond segment.bytes: so if all other segments before the last one have about the same size,
        this one had it too.
        """
        files = next(each.files for each in self._segments if each.base == base)
        for kind, entry_bytes in ENTRY_BYTES.items():
            if kind in files:
                index, _ = index_files.load(files[kind], entry_bytes)
                if index.count and index.size > len(index.entries):
                    return f"{files[kind].name} still has the zeros of the segment that Kafka writes to"
        size = files[FileKind.LOG].stat().st_size
        others = [each.files[FileKind.LOG].stat().st_size for each in self._segments[:-1] if each.base != base]
        if len(others) > 1 and size < ROLLED_FACTOR * min(others) and ROLLED_FACTOR * max(others) < min(others):
            return f"it has {size:,} bytes, and the other closed segments {min(others):,} to {max(others):,}"
        return None

    def _finish_normal_gap(self, directory: Path, first: int, until: int, log: Path, base: int | None) -> None:
        """Add the finding of a gap in a compacted log.

        base: the base offset of a segment of which there is an index or a snapshot; None if there is no such file. That
        no batch is left below `base` is normal after compaction. An index shows that the .log file with base offset
        `base` is missing (an error). A snapshot alone makes this probable (a warning): the cleaner may have removed the
        segment, but then Kafka's start would have deleted the snapshot.
        """
        if base is None or base > first:
            self._found.append(between(log, first, until - 1 if base is None else base - 1))
        if base in self._orphans:
            self._miss(directory, base, until - 1, "error", _log_of(base), base=base)
        elif base is not None:
            snapshot = f"{base:020}.snapshot is that of a segment"
            why = f"a segment of offsets {base:,}..{until - 1:,} ({Gaps.NORMAL.value}): {snapshot}"
            self._miss(directory, base, until - 1, "warning", why, base=base)

    def _snapshots_of_segments(self, gaps: Gaps) -> Iterator[int]:
        """Yield the offsets of the producer snapshots that show that a segment with this base offset is missing.

        Kafka takes a snapshot when it begins a segment, at the segment's base offset. It also takes one at the log end
        offset at a shutdown or truncation, and keeps it when the cleaner removes the segment that contains this offset.
        A leader epoch begins at the offset of such a snapshot, unless the replica was a follower at the shutdown. So
        the offsets at which a segment or a leader epoch begins are not yielded.

        gaps: what a gap in the log means. With Gaps.NORMAL, nothing is yielded if the partition has other replicas, as
        this one may have been a follower, or if no leader epochs are left.
        """
        if gaps is Gaps.NORMAL and (self._known.is_replicated or not self._known.epochs):
            return
        explained = {start for _, start in self._known.epochs} | {each.base for each in self._segments}
        yield from (offset for offset, _ in self._snapshots if offset not in explained)

    def _miss(
        self,
        directory: Path,
        first: int,
        last: int | None,
        severity: Severity,
        why: str,
        *,
        base: int | None,
        shorter: Path | None = None,
        older: str | None = None,
    ) -> None:
        """Add, as a cause, the finding that the segment with these offsets is missing. base: see `missing_segment`.
        shorter: the .log file before the missing one, if that file may have had the offsets at its end; else None.
        older: what shows that it had them (see `_older_version`). If a compacted topic needs no record of the segment,
        a note is added instead."""
        if last is not None and self._known.has_superseded(first, last):
            self._found.append(superseded_log(directory, first, last))
            return
        is_followed = last is None or any(each.base > last for each in self._segments)
        renamed = self._renamed(directory, first, *((last,) if is_followed else (last, None)))
        self.lost.append((first, last))
        cause = missing_segment(
            directory,
            first,
            last,
            base=base,
            severity=severity,
            why=why,
            known=self._known,
            renamed=renamed,
        )
        if shorter is not None and older is not None and not renamed:
            cause = older_version(cause, shorter, [self._known.home or directory, *self._known.beside], older)
        elif shorter is not None:
            cause = or_shorter(cause, shorter)
        self._errors = True

        def follows(other: Finding) -> bool:
            stem = Path(other.path).stem
            is_within = stem.isdecimal() and first <= int(stem) and (last is None or int(stem) <= last + 1)
            return is_within and other.kind in ("orphan-file", "snapshot-offset", "snapshot-state")

        self._causes.add(cause, follows)

    def _renamed(self, directory: Path, first: int, *lasts: int | None) -> list[RenamedLog]:
        """Return the same as `_elsewhere`, and add the files to `renamed`."""
        found = self._elsewhere(directory, first, *lasts)
        self.renamed += found
        return found

    def _elsewhere(self, directory: Path, first: int, *lasts: int | None) -> list[RenamedLog]:
        """Return the files with other names that have the batches of the offsets from `first` up to the first of
        `lasts` for which there are any. None in `lasts`: all offsets from `first` on."""
        from kcli.inspector.verify import renamed_logs  # imported only if logs are damaged

        gaps = (self._gap(first, last) for last in lasts)
        return renamed_logs.find(directory, self._known.home, *gaps, beside=self._known.beside)

    def _gap(self, first: int, last: int | None) -> Gap:
        from kcli.inspector.verify import renamed_logs

        until = None if last is None else last + 1
        orphans = {
            base: orphan.files
            for base, orphan in self._orphans.items()
            if first <= base and (until is None or base < until)
        }
        is_exact = not self._check.cleaned and self._known.gaps is not Gaps.NORMAL
        reached = self._known_end if until is None else 0
        return renamed_logs.Gap(
            first,
            until,
            orphans,
            is_exact,
            self._known.foreign,
            is_whole=not self._segments,
            reached=reached if reached > first else 0,
            keys=self._known.keys,
        )

    def _finish_orphans(self) -> None:
        for _, orphan in sorted(self._orphans.items()):
            for _, path in sorted(orphan.files.items()):
                self._found.append(no_log(path, path.with_suffix(FileKind.LOG)))

    def _index(self, segment: SegmentFiles, kind: FileKind, entry_bytes: int) -> IndexFile | None:
        path = segment.files.get(kind)
        if path is None:
            return None
        index, findings = index_files.load(path, entry_bytes)
        self._of_indexes += findings
        return index

    def _missing_files(self, segment: SegmentFiles) -> None:
        """Add a finding for a missing offset or time index: a warning, or a note if no segment has any index.

        If the offset index is missing, Kafka rebuilds all indexes of the segment. If only the time index is missing,
        Kafka creates an empty one.
        """
        both = FileKind.OFFSET_INDEX, FileKind.TIME_INDEX
        log = segment.files[FileKind.LOG]
        has_index = [kind in segment.files or file_beside(log, kind).is_symlink() for kind in both]  # a link to nothing
        if not self._is_whole or all(has_index):
            return
        is_bare = not any(kind in each.files for each in self._segments for kind in both)
        severity: Severity = "info" if is_bare else "warning"
        for kind, is_present in zip(both, has_index, strict=True):
            if not is_present:
                missing = Finding(
                    path=str(file_beside(log, kind)),
                    kind=f"{kind[1:]}-missing",
                    severity=severity,
                    expected="a file",
                    found="none",
                    action=index_files.REBUILT,
                )
                if FileKind.OFFSET_INDEX in segment.files:
                    command = next_steps.recover(log.parent)
                    missing = replace(missing, action=index_files.REBUILD, command=command)
                self._of_indexes.append(missing)

    def _after_window(self) -> None:
        aborted = self._check.aborted()
        if self._txn is not None:
            self._of_indexes += self._txn.take(aborted)

    def _next_snapshot(self) -> int | None:
        return self._snapshots[self._reached][0] if self._reached < len(self._snapshots) else None

    def _compare_snapshot(self) -> None:
        """Compare the next snapshot with the producer state of the log, now that the check of the log has reached the
        snapshot's offset."""
        offset, snapshot = self._snapshots[self._reached]
        self._reached += 1
        if self._segments:
            self._found += snapshot.against(offset, self._check, self._segments[0].base)

    def _finish_snapshots(self, end: int) -> None:
        while self._reached < len(self._snapshots):
            offset, snapshot = self._snapshots[self._reached]
            if offset > end:
                self._found.append(snapshot.beyond(offset, end))
                self._reached += 1
            else:
                self._compare_snapshot()


def _log_of(base: int) -> str:
    return f"the log of {log_name(base)[: -len(FileKind.LOG)]}{FileKind.OFFSET_INDEX}"


def _is_out_of_place(finding: Finding) -> bool:
    """Return whether the finding is about a batch that Kafka keeps although its offsets are not between those of the
    batches before and after it."""
    return finding.kind in ("offsets-order", "offsets-overlap") or (
        finding.kind == "offset-range" and finding.action == SALVAGE
    )


def _moved_to(position: int, noticed: Finding) -> Finding:
    """Return the finding `noticed` of a batch, changed to be about the batch before it: the wrong base offset of that
    earlier batch is the reason for the finding. position: the byte at which the earlier batch begins."""
    length = (noticed.position or 0) - position
    return replace(
        noticed,
        position=position,
        length=length,
        valid_batches_before=(noticed.valid_batches_before or 0) - 1,
        valid_bytes_before=(noticed.valid_bytes_before or 0) - length,
    )


def _is_beside_log(finding: Finding) -> bool:
    return not finding.path.endswith(str(FileKind.LOG))


def no_log(path: Path, log: Path) -> Finding:
    """Return the finding of an index file without its .log file."""
    action = "nothing to do: Kafka deletes it when it next opens the log"
    return Finding(
        path=str(path), kind="orphan-file", severity="warning", expected=log.name, found="no such file", action=action
    )


def _is_beside(finding: Finding, other: Finding) -> bool:
    """Whether both findings are about files of the same segment."""
    return Path(finding.path).with_suffix("") == Path(other.path).with_suffix("")


def is_about_segments(stems: set[str], finding: Finding) -> bool:
    """Return whether the finding is about a file with one of these names (without suffix), or about offsets that one of
    these files should have."""
    first = finding.lost_first_offset
    stem = Path(finding.path).stem if first is None else f"{first:020}"
    is_lost = finding.kind in ("log-end", "log-missing") and stem in stems
    return is_lost or (_is_beside_log(finding) and Path(finding.path).stem in stems)

"""The steps of Kafka's start on the directory of a partition, simulated on a view of it.

    1  all files must be readable; .deleted and .cleaned files are deleted, and so are .swap files with an offset at or
       above that of a .cleaned file
    2  the segments that a swap file replaces are deleted; .swap files lose the suffix
    3  indexes without a .log file are deleted; a segment without an offset index, or with a corrupt transaction index,
       is recovered
    4  without the clean-shutdown marker, segments from the recovery point on are recovered, in order; if one is cut,
       all segments after it are deleted
    5  a log that ends below its log start offset is deleted; a log without segments gets an empty one
    6  leader epochs, producer state and snapshots are truncated to the log start and end offsets

Then, as at a clean shutdown, the indexes of the active segment are trimmed. Source: LogLoader, UnifiedLog (KIP-98 for
producers, KIP-101 for epochs).
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from formats.checkpoint import parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import FileKind, FileName, build
from formats.kernels.columns import BASE_OFFSET, LAST_OFFSET, POSITION
from formats.txn_index import parse as parse_txn_index
from kcli.errors import StartRefused
from kcli.log.index_entries import DEFAULT_INTERVAL_BYTES, DEFAULT_MAX_INDEX_BYTES
from kcli.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.log.partition_view import Content, ContentSource, NameTaken, PartitionView, is_unread_log, offset_of
from kcli.log.producer_state import DEFAULT_EXPIRATION_MS, ProducerStateManager
from kcli.log.recovery.offset_ranges import OffsetRanges
from kcli.log.recovery.segment import (
    INT_MAX,
    LONG_MAX,
    OFFSET_MAX,
    CorruptIndex,
    Fault,
    MissingIndex,
    OffsetsOutOfOrder,
    Recovered,
    RecoverySegment,
    SegmentOverflow,
)
from kcli.log.segment_reader import Damage
from kcli.log.source import ends_in_zeros

if TYPE_CHECKING:  # imported at run time only for a coordinator's topic
    from kcli.log.recovery.misdirected import Home
    from kcli.log.recovery.retention import Retention

Result = TypeVar("Result")
COMPARED_BYTES_MAX = 64 << 20
"""The size of the largest indexes whose bytes are compared: larger ones count as different."""
INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex")


class EventKind(StrEnum):
    """The kind of a change that a start makes to a file; PASSED_OVER is for a fault that the start does not notice."""

    CUT = "cut"
    TRIMMED = "trimmed"
    EMPTIED = "emptied"
    SEGMENT_REMOVED = "segment-removed"
    LEFTOVER_REMOVED = "leftover-removed"
    REPLACED = "replaced"
    SWAP_COMPLETED = "swap-completed"
    INDEX_REMOVED = "index-removed"
    INDEX_REBUILT = "index-rebuilt"
    SNAPSHOT_REMOVED = "snapshot-removed"
    SNAPSHOT_WRONG = "snapshot-wrong"
    SPLIT = "segment-split"
    OFFSETS_USED_UP = "offsets-used-up"
    END_HIDDEN = "end-hidden"
    PASSED_OVER = "passed-over"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Event:
    """One change that a start makes, or one fault that the start does not notice (PASSED_OVER).

    position: the byte from which on the file is cut. offset: the log end offset after the change. bytes: how many bytes
    are removed. fault: the kind of the segment.Fault at which the file is cut. These are None or 0 where they do not
    apply. content: the file's content before the change; set only if records are lost. from_offset: records below this
    offset are not lost. offsets: if set, only records at these offsets are lost.
    """

    kind: EventKind
    file: str
    reason: str
    position: int | None = None
    offset: int | None = None
    bytes: int = 0
    fault: str | None = None
    content: Content | None = field(default=None, repr=False)
    from_offset: int = 0
    offsets: OffsetRanges | None = None

    @property
    def is_loss(self) -> bool:
        """Whether the change loses records, or bytes of a log."""
        return self.content is not None


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a partition is loaded. The offsets come from the checkpoints of the log directory, the sizes from the topic's
    configurations."""

    now_ms: int
    clean: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0
    index_interval_bytes: int = DEFAULT_INTERVAL_BYTES
    max_index_bytes: int = DEFAULT_MAX_INDEX_BYTES
    producer_expiration_ms: int = DEFAULT_EXPIRATION_MS
    is_metadata: bool = False  # the metadata log: its start has further steps, see kcli.log.recovery.metadata_start
    reached: int = 0  # the largest offset that the checkpoints and the producer snapshots have for the log
    reached_by: str = ""  # the files that have this offset, in words
    checkpointed: int = 0  # the largest offset that the checkpoints have for the log
    is_compacted: bool = False  # a compacted log may have gaps between segments
    keeps_all: bool = False  # the topic was never compacted: a swap file has all batches of the logs that it replaces
    finds_gaps: bool = False  # as keeps_all, and the plan names the offsets between two segments that no file has
    is_deleted: bool = False  # the directory's name ends in -delete: its log is not recovered
    is_tiered: bool = False  # the log may begin in remote storage, below its first local segment
    indexes_swaps: bool = False  # salvage rebuilds the indexes of a .log.swap file that lacks one; Kafka does not
    home: Home | None = None  # the partition; None if its topic's number of partitions is not known
    retention: Retention | None = None  # None: it deletes no segments, or its configuration is not known
    foreign: Container[str] = ()  # the .log files of the directory that are another partition's
    preallocated_bytes: int = 0  # the size with which a segment begins; 0: it is not preallocated


@dataclass(frozen=True, slots=True)
class LoadedOffsets:
    """The log's start and end, and the offset below which it is known to be flushed."""

    log_start_offset: int
    log_end_offset: int
    recovery_point: int


@dataclass
class LogLoader:
    """Loads one partition as Kafka's start does, by the steps in the module's docstring.

    events: the changes made, kept even if `load` raises an error. segments: those of the log, by base offset. replaced:
    the content of the .log files that swap files replaced, by name. ends_below_start: whether the whole log was deleted
    because it ends below its log start offset. reads_no_producers: whether the producer state is empty because a clean
    start found no snapshot of it. loaded_snapshot: the last producer snapshot that was loaded as it is on disk; None if
    none was. advance(size): called with the number of bytes just checked.
    """

    view: PartitionView
    options: LoadOptions
    advance: Callable[[int], None] = lambda _: None
    events: list[Event] = field(default_factory=list)
    segments: dict[int, RecoverySegment] = field(default_factory=dict)
    replaced: dict[str, Content] = field(default_factory=dict)
    _split_from: dict[int, str] = field(default_factory=dict)
    ends_below_start: bool = False
    reads_no_producers: bool = False
    loaded_snapshot: str | None = None
    _swapped: list[int] = field(default_factory=list)
    _passed_over: set[str] = field(default_factory=set)

    def load(self) -> LoadedOffsets:
        """Simulate the start on the view. Raises StartRefused, UnreadableInput."""
        self.epochs = self._leader_epochs()
        self.producers = self._producer_state()
        self.tidy()
        self._retry(self._load_segments)
        recovered = (0, 0) if self.options.is_deleted else self._retry(self._recover_log)
        if not self.segments:
            self._create(0)
        recovery_point, end_offset = recovered
        self._check_offsets_left(end_offset)
        self.segments[max(self.segments)].trim_indexes()
        self.epochs.truncate_from_end(end_offset)
        start_offset = self.options.log_start_offset
        if not self.options.is_tiered:
            start_offset = max(start_offset, min(self.segments))
        self.epochs.truncate_from_start(self.options.log_start_offset)
        if self.epochs.changed:
            self._write_epochs()
        self.producers.remove_stray_snapshots(list(self.segments))
        self._rebuild_producers(self.producers, self.segments, start_offset, end_offset, clean=self.options.clean)
        return LoadedOffsets(start_offset, end_offset, recovery_point)

    def tidy(self) -> None:
        """Perform only steps 1 and 2 of the module's docstring. Raises StartRefused, UnreadableInput."""
        self.view.check_access()
        self._swap(self._remove_leftovers())

    def _event(self, kind: EventKind, file: str, reason: str, **more: int | str | Content | None) -> None:
        self.events.append(Event(kind, file, reason, **more))  # type: ignore[arg-type]

    def _leader_epochs(self) -> LeaderEpochCache:
        if LEADER_EPOCHS not in self.view:
            self.view.write(LEADER_EPOCHS, b"")
            return LeaderEpochCache()
        try:
            return LeaderEpochCache(parse_leader_epochs(self.view.read(LEADER_EPOCHS)))
        except FormatError as error:
            raise StartRefused(LEADER_EPOCHS, error.reason, error.position) from None
        except ValueError as error:
            raise StartRefused(LEADER_EPOCHS, str(error)) from None

    def _write_epochs(self) -> None:
        """Write the leader epochs as Kafka does, through a `.tmp` file, which overwrites a `.tmp` file left by a
        crash."""
        unfinished = f"{LEADER_EPOCHS}.tmp"
        if unfinished in self.view:
            size = self.view.size(unfinished)
            self._event(EventKind.LEFTOVER_REMOVED, unfinished, "of a write that was not complete", bytes=size)
            self.view.remove(unfinished)
        self.view.write(LEADER_EPOCHS, self.epochs.to_bytes())
        self.epochs.changed = False

    def _producer_state(self) -> ProducerStateManager:
        def corrupt(name: str, error: FormatError) -> None:
            self._event(EventKind.SNAPSHOT_REMOVED, name, f"producer snapshot is corrupt: {error.reason}")

        return ProducerStateManager(
            self.view,
            self.options.now_ms,
            expiration_ms=self.options.producer_expiration_ms,
            on_corrupt=corrupt,
        )

    def _segment(self, base_offset: int, *, state: str = "") -> RecoverySegment:
        return RecoverySegment(
            self.view,
            base_offset,
            index_interval_bytes=self.options.index_interval_bytes,
            max_index_bytes=self.options.max_index_bytes,
            state=state,
            advance=self.advance,
        )

    def _create(self, base_offset: int) -> None:
        self.segments[base_offset] = self._segment(base_offset)
        self.segments[base_offset].create()

    # steps 1 and 2: the files of an interrupted cleaning or deletion

    def _remove_leftovers(self) -> list[str]:
        swaps, cleaned = [], []
        for name in self.view.names():
            if name.endswith(".deleted") and not name.endswith(".checkpoint.deleted"):
                self._event(EventKind.LEFTOVER_REMOVED, name, "was to be deleted", bytes=self.view.size(name))
                self.view.remove(name)
            elif name.endswith(".cleaned"):
                cleaned.append(name)
            elif name.endswith(".swap"):
                swaps.append(name)
        lowest = min(map(offset_of, cleaned), default=INT_MAX << 32)
        for name in [each for each in swaps if offset_of(each) >= lowest]:
            self._event(EventKind.LEFTOVER_REMOVED, name, "of a swap that was not complete", bytes=self.view.size(name))
            self.view.remove(name)
        for name in cleaned:
            self._event(EventKind.LEFTOVER_REMOVED, name, "the cleaner had not ended", bytes=self.view.size(name))
            self.view.remove(name)
        return [name for name in swaps if name in self.view]

    def _swap(self, swaps: list[str]) -> None:
        ranges = []
        lacking, made = set(), set()  # names of .log files whose indexes stay wrong, and of indexes that Kafka makes
        for name in swaps:
            if name.endswith(".log.swap"):
                segment = self._segment(offset_of(name), state="swap")
                if name != segment.log_name:
                    raise StartRefused(name, "a swap file whose name is not of 20 digits")
                self._swapped.append(segment.base_offset)
                if segment.index_name in self.view:
                    ranges.append((segment.base_offset, segment.read_next_offset()))
                else:  # Kafka creates a missing index of full size
                    created = bytes(self.options.max_index_bytes // 8 * 8)
                    self.view.write(segment.index_name, created)
                    made.add(segment.index_name)
                    ranges.append((segment.base_offset, segment.read_next_offset(b"")))
                if segment.index_name in made or segment.time_index_name not in self.view:
                    if self.options.clean or ranges[-1][1] <= self.options.recovery_point:
                        lacking.add(name)
                    if self.options.indexes_swaps:
                        self.view.remove(segment.index_name)  # without it a start rebuilds all the indexes
        if ranges:
            lowest, highest = min(first for first, _ in ranges), max(end for _, end in ranges)
            for name in self.view.names():
                number = name.partition(".")[0]
                if not name.endswith(".swap") and number.isdecimal() and lowest <= int(number) < highest:
                    self._event(
                        EventKind.REPLACED, name, "replaced by the swap that follows", bytes=self.view.size(name)
                    )
                    if name.endswith(".log"):
                        self.replaced[name] = self.view.files[name]
                    self.view.remove(name)
        self._complete_swaps(lacking, made)

    def _complete_swaps(self, lacking: Container[str], made: Container[str]) -> None:
        """Rename all swap files. lacking: the .log.swap files whose indexes stay wrong. made: the .index.swap files
        that this start has made."""
        for name in [each for each in self.view.names() if each.endswith(".swap")]:
            is_alone = self._is_index_alone(name)
            if is_alone and self.options.indexes_swaps:
                reason = "without a .log.swap file, and the index of its name is there: both are made anew"
                self._event(EventKind.LEFTOVER_REMOVED, name, reason, bytes=self.view.size(name))
                self.view.remove(name)
                self.view.remove(f"{name.partition('.')[0]}.index")  # without it a start rebuilds all the indexes
                continue
            if is_alone and not self._is_to_be_recovered(offset_of(name)):
                self._event(EventKind.PASSED_OVER, name, self._harm_of_index_swap(name))
            if name not in made:
                more = "; it lacks an index, and gets an empty one, which no start fills"
                reason = f"renamed: a swap was interrupted{more if name in lacking else ''}"
                self._event(EventKind.SWAP_COMPLETED, name, reason)
            self.view.rename(name, name.removesuffix(".swap"))

    def _is_index_alone(self, name: str) -> bool:
        """Whether a swap file of an index has no .log.swap file beside it, and would replace an index with other bytes.
        No cleaning leaves that: it renames the old index to .deleted before it renames the swap file."""
        place = name.removesuffix(".swap")
        if not place.endswith(INDEX_SUFFIXES) or offset_of(name) in self._swapped or place not in self.view:
            return False
        sizes = {self.view.size(name), self.view.size(place)}
        return len(sizes) > 1 or max(sizes) > COMPARED_BYTES_MAX or self.view.read(name) != self.view.read(place)

    def _is_to_be_recovered(self, base_offset: int) -> bool:
        """Whether the start recovers the segment, and so rebuilds its indexes."""
        logs = (offset_of(each) for each in self.view.names() if each.endswith(".log"))
        following = min((each for each in logs if each > base_offset), default=INT_MAX << 32)
        return not self.options.clean and following > self.options.recovery_point

    def _harm_of_index_swap(self, name: str) -> str:
        """Return, in words, what the start does with a swap file for which `_is_index_alone`, and what follows."""
        place = name.removesuffix(".swap")
        reason = f"takes the place of {place}, which is another, and no .log.swap file is beside it"
        if not place.endswith(".txnindex") or max(map(self.view.size, (name, place))) > COMPARED_BYTES_MAX:
            return f"{reason}: Kafka uses it unchecked, so that reads may begin at wrong bytes, or be slow"
        try:
            lost = len({*parse_txn_index(self.view.read(place))} - {*parse_txn_index(self.view.read(name))})
        except FormatError as error:
            return f"{reason}: {error.reason}"
        aborted = f"{lost:,} aborted transaction{'s' if lost != 1 else ''}"
        return f"{reason}: without its entries, read_committed consumers get the records of {aborted}"

    # step 3: segments

    def _load_segments(self) -> None:
        self.segments.clear()
        for name in self.view.names():
            if name not in self.view:
                continue
            if name.endswith((*INDEX_SUFFIXES, ".log")) and offset_of(name) < 0:
                self._pass_over(name, "a name with an offset below 0")
            elif name.endswith(INDEX_SUFFIXES):
                log = build(FileName(FileKind.LOG, offset_of(name)))
                if log not in self.view:
                    self._event(EventKind.INDEX_REMOVED, name, "an index without a log", bytes=self.view.size(name))
                    self.view.remove(name)
            elif name.endswith(".log"):
                if name != build(FileName(FileKind.LOG, offset_of(name))):
                    self._pass_over(name, "a name that is not of 20 digits")
                self._load_segment(offset_of(name))
            elif is_unread_log(name) and not (name.lower() in self.view and self.view.size(name.lower())):
                self._pass_over(name, "a suffix that is not in lower case")

    def _pass_over(self, name: str, reason: str) -> None:
        """Note a .log file that Kafka ignores because of its name. Kafka sees only a suffix in lower case, parses the
        offset in the name, and opens the file with the name of 20 digits that it builds from this offset."""
        if name.lower().endswith(".log") and self.view.size(name) and name not in self._passed_over:
            self._passed_over.add(name)
            outcome = "Kafka starts, and reads nothing of it"
            self._event(EventKind.PASSED_OVER, name, f"{reason}: {outcome}", bytes=self.view.size(name))

    def _load_segment(self, base_offset: int) -> None:
        segment = self._segment(base_offset)
        if segment.log_name not in self.view:  # Kafka creates a missing log
            self.view.write(segment.log_name, b"")
        if (size := self.view.size(segment.log_name)) > INT_MAX:
            raise StartRefused(segment.log_name, f"{size:,} bytes, and Kafka opens no segment of more than {INT_MAX:,}")
        try:
            segment.sanity_check(time_index_is_new=not self.view.exists(segment.time_index_name))
        except MissingIndex:
            self._event(EventKind.INDEX_REBUILT, segment.index_name, "the offset index is missing")
            self._rebuild_indexes(segment)
        except CorruptIndex as error:
            self._event(EventKind.INDEX_REBUILT, segment.txn_index_name, str(error))
            self._rebuild_indexes(segment)
        self.segments[base_offset] = segment

    def _rebuild_indexes(self, segment: RecoverySegment) -> None:
        try:
            self._recover_segment(segment)
        except OffsetsOutOfOrder as error:  # Kafka handles this error only in step 4
            raise StartRefused(segment.log_name, error.reason, error.position) from None

    def _recover_segment(self, segment: RecoverySegment) -> int:
        """Recover one segment (RecoverySegment.recover), after loading the producer state below it. Returns the number
        of bytes cut off."""
        before = self.view.files[segment.log_name]
        producers = self._producer_state()
        self._rebuild_producers(
            producers, self.segments, self.options.log_start_offset, segment.base_offset, clean=False
        )
        recovered = segment.recover(producers, self.epochs)
        producers.take_snapshot()
        self._cut(segment, recovered, before)
        return recovered.cut_bytes

    def _cut(self, segment: RecoverySegment, recovered: Recovered, before: Content) -> None:
        if recovered.cut_bytes and self._is_preallocated(segment, before):
            reason = "preallocated bytes behind the last batch"
            self._event(EventKind.TRIMMED, segment.log_name, reason, position=segment.size, bytes=recovered.cut_bytes)
        elif recovered.cut_bytes:
            fault = recovered.fault or Fault("tail", segment.size, "bytes behind the last batch")
            self._event(
                EventKind.CUT,
                segment.log_name,
                fault.reason,
                position=segment.size,
                offset=recovered.next_offset,
                bytes=recovered.cut_bytes,
                fault=fault.kind,
                content=before,
            )
            self._lost_by_swap(segment.base_offset, recovered.next_offset)

    def _is_preallocated(self, segment: RecoverySegment, before: Content) -> bool:
        """Return whether the .log file of a segment, which is cut, has the size with which a segment begins, and only
        zeros behind the cut."""
        if before.size != self.options.preallocated_bytes:
            return False
        source = ContentSource(segment.log_name, before)
        try:
            return ends_in_zeros(source, segment.size)
        finally:
            source.close()

    def _lost_by_swap(self, base: int, end: int) -> None:
        """Mark records as lost because the segment with base offset `base` is cut at offset `end`. If the segment came
        from a swap file, the .log files that the swap file replaced had the records from `end` on, too; now no file has
        them."""
        if base not in self._swapped:
            return
        behind = min((each for each in self._swapped if each > base), default=LONG_MAX)
        for at, event in enumerate(self.events):
            content = self.replaced.get(event.file) if event.kind is EventKind.REPLACED else None
            if content is not None and base <= offset_of(event.file) < behind:
                self.events[at] = replace(event, position=0, offset=end, content=content, from_offset=end)

    # steps 4 and 5: the log

    def _recover_log(self) -> tuple[int, int]:
        if not self.options.clean:
            self._recover_unflushed()
        end_offset = self._end_unless_below_start()
        if not self.segments:
            self._create(self.options.log_start_offset)
        if end_offset is not None and self.options.clean:
            return end_offset, end_offset
        if end_offset is None:
            end_offset = self.segments[max(self.segments)].read_next_offset()
        return min(self.options.recovery_point, end_offset), end_offset

    def _recover_unflushed(self) -> None:
        unflushed = self._from(self.options.recovery_point)
        for number, base_offset in enumerate(unflushed):
            segment = self.segments[base_offset]
            before = self.view.files[segment.log_name]
            try:
                cut_bytes = self._recover_segment(segment)
            except (OffsetsOutOfOrder, NameTaken) as error:
                cut_bytes = segment.empty()
                is_order = isinstance(error, OffsetsOutOfOrder)
                self._event(
                    EventKind.EMPTIED,
                    segment.log_name,
                    f"{error.reason} (byte {error.position:,})" if is_order else str(error),
                    position=0,
                    offset=base_offset,
                    bytes=cut_bytes,
                    fault="order" if is_order else "name",
                    content=before,
                )
                self._lost_by_swap(base_offset, base_offset)
            if cut_bytes:
                reason = f"segment {base_offset:,} before it was cut"
                self._remove_segments(unflushed[number + 1 :], reason)
                return

    def _from(self, offset: int) -> list[int]:
        """Return the base offsets of the segments, from the segment that contains `offset` on."""
        bases = sorted(self.segments)
        floor = max((base for base in bases if base <= offset), default=0)
        return [base for base in bases if base >= floor]

    def _remove_segments(self, bases: list[int], reason: str) -> None:
        for base in bases:
            segment = self.segments.pop(base)
            for name in segment.names:
                if name in self.view:
                    if name == segment.log_name:
                        self._lost(EventKind.SEGMENT_REMOVED, segment, reason, base)
                    self.view.remove(name)
            self.producers.remove_snapshot(base)

    def _lost(self, kind: EventKind, segment: RecoverySegment, reason: str, offset: int) -> None:
        content = self.view.files[segment.log_name]
        self._event(kind, segment.log_name, reason, position=0, offset=offset, bytes=content.size, content=content)

    def _end_unless_below_start(self) -> int | None:
        if not self.segments:
            return None
        last = self.segments[max(self.segments)]
        end_offset = last.read_next_offset()
        if end_offset >= self.options.log_start_offset:
            if end_offset == last.base_offset and last.size:
                reason = f"the offset index leads to no batch: the log would end at {end_offset:,}"
                self._lost(EventKind.END_HIDDEN, last, reason, end_offset)
            return end_offset
        reason = f"the log ends at {end_offset:,}, below its log start offset {self.options.log_start_offset:,}"
        self._remove_all(reason, self.options.log_start_offset)
        self.ends_below_start = True
        return None

    def _remove_all(self, reason: str, offset: int) -> None:
        self._remove_segments(sorted(self.segments), reason)
        self.epochs.clear()
        self.producers.truncate_fully_and_start_at(offset)

    def truncate_fully(self, offset: int, reason: str) -> None:
        """Delete the whole log, after `load`; the log then begins and ends at `offset`. If the log is already empty and
        begins there, no event is added. reason: why, in words, for the events."""
        events_before = len(self.events)
        is_empty_there = [(base, segment.size) for base, segment in self.segments.items()] == [(offset, 0)]
        self._remove_all(reason, offset)
        if is_empty_there:
            del self.events[events_before:]
        self._write_epochs()
        self._create(offset)
        self.segments[offset].trim_indexes()

    # step 6: producer state and snapshots

    def _rebuild_producers(
        self,
        producers: ProducerStateManager,
        segments: dict[int, RecoverySegment],
        start: int,
        end: int,
        *,
        clean: bool,
    ) -> None:
        bases = sorted(segments)
        to_snapshot = [*bases[-2:], end]
        if clean and producers.latest_snapshot_offset is None:
            self.reads_no_producers = True
            for offset in to_snapshot:
                producers.map_end_offset = offset
                producers.take_snapshot()
            return
        was_empty = not len(producers.table) and producers.map_end_offset >= end
        producers.truncate_and_reload(start, end)
        loaded = producers.loaded
        if loaded is not None and self.view.files[loaded] == self.view.original.get(loaded):
            self.loaded_snapshot = loaded
        if end > producers.map_end_offset and not was_empty:
            first = max((base for base in bases if base <= producers.map_end_offset), default=-1)
            last = max((base for base in bases if base <= end), default=None)
            for base in [each for each in bases if first <= each < end]:
                producers.map_end_offset = max(base, producers.map_end_offset, start)
                if base in to_snapshot:
                    producers.take_snapshot()
                from_offset = producers.map_end_offset
                segments[base].load_producers(producers, from_offset, end if base == last else None)
        producers.map_end_offset = end
        producers.take_snapshot()

    # splitting segments with relative offsets beyond an int32

    def _retry(self, step: Callable[[], Result]) -> Result:
        while True:
            try:
                return step()
            except SegmentOverflow as overflow:
                self._split(overflow)

    def _split(self, overflow: SegmentOverflow) -> None:
        """Split the segment in `overflow`, which has offsets beyond an int32 relative to its base offset: Kafka before
        2.0 may have written such a segment."""
        old = overflow.segment
        end = old.read_next_offset(overflow.index)
        if not old.base_offset < end - INT_MAX:
            raise StartRefused(old.log_name, overflow.reason, overflow.position)
        content = self.view.files[old.log_name]
        pieces = self._pieces(old, content)
        for name in old.names:
            self.view.remove(name)
        self.segments.pop(old.base_offset, None)
        if old.base_offset not in pieces:
            self.producers.remove_snapshot(old.base_offset)
        for base_offset, piece in pieces.items():
            segment = self._segment(base_offset)
            self.view.put(segment.log_name, piece)
            segment.index_anew()
            self.segments[base_offset] = segment
            self._split_from[base_offset] = self._split_from.get(old.base_offset, old.log_name)
        names = ", ".join(f"{base:,}" for base in pieces)
        self._event(EventKind.SPLIT, old.log_name, f"offsets beyond an int32 from its base: split at {names}")

    def _check_offsets_left(self, end_offset: int) -> None:
        """Add an event if the log end offset is so high that no offsets are left for appends. Damage may cause this,
        since no CRC covers a batch's base offset."""
        if end_offset <= OFFSET_MAX:
            return
        last = max(self.segments)
        file = self._split_from.get(last, self.segments[last].log_name)
        reason = f"the log ends at offset {end_offset:,}: Kafka starts, and has no offsets for what producers send"
        self._event(EventKind.OFFSETS_USED_UP, file, reason)

    def _pieces(self, old: RecoverySegment, content: Content) -> dict[int, Content]:
        starts: list[tuple[int, int]] = []
        for part in old.windows():
            if isinstance(part, Damage):
                raise StartRefused(old.log_name, f"cannot be split: {part.error.reason}", part.position)
            for i in range(part.batches.count):
                position, base, last = (part.batches.field(i, each) for each in (POSITION, BASE_OFFSET, LAST_OFFSET))
                if not starts or last - starts[-1][0] > INT_MAX or last < starts[-1][0]:
                    if not 0 <= last - base <= INT_MAX:
                        raise StartRefused(old.log_name, "cannot be split: a batch too long", position)
                    starts.append((base, position))
        ends = [position for _, position in starts[1:]] + [content.size]
        return {base: content.between(start, end) for (base, start), end in zip(starts, ends, strict=True)}

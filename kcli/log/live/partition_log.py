"""One partition's log, open: what the broker appends to and reads from.

    offsets   log start <= last stable <= high watermark <= log end; below the recovery point everything is flushed
    tier      with tiered storage, segments below the local log start offset are in remote storage alone; the log start
              offset is that of all of the log (KIP-405)
    append    as a leader: check the batch, set its offsets, recognise duplicates; as a follower: append the leader's
              bytes unchanged
    read      return whole batches as a region of a file, which sendfile sends without a copy
    roll      begin a new segment by size or time, or when an index is full or an offset would not fit
    compact   swap in segments that were cleaned in another thread
    remove    truncate, delete records, retention; files get the suffix `.deleted`, the caller removes them later

No clock: times are arguments, later work is returned (Removal, flush_due). One thread uses the object, but data-plane
threads append plain batches through its runway, and hold the log meanwhile (LogState.hold): each method that changes
what an append needs or changes is marked `@_held`. After an OSError the log must not be used any more: its directory is
offline. Source: UnifiedLog, LocalLog.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import wraps
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from formats.checkpoint import EpochEntry, build_leader_epochs
from formats.kernels.append import LogState, Runway, survey_batches
from formats.kernels.batches import BatchTable
from formats.kernels.columns import ATTRIBUTES, PRODUCER_ID, BatchRow
from formats.kernels.producers import producer_entry
from formats.kernels.scan import SCAN_BAD_LENGTH, scan
from formats.producer_snapshot import ProducerEntry
from formats.txn_index import AbortedTxn
from kcli.errors import KcliError
from kcli.log.cleaner.partition import CleanerLog, StoredSegment, active_producers
from kcli.log.cleaner.progress import Progress, silent
from kcli.log.cleaner.selection import Selection, select
from kcli.log.cleaner.swap import change_state
from kcli.log.config import CleanerConfig, LogConfig
from kcli.log.disk import Disk
from kcli.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from kcli.log.live.closed_segments import ClosedSegment
from kcli.log.live.compaction import LiveCompaction, remove_cleaned
from kcli.log.live.flush import Flush
from kcli.log.live.producer_check import Duplicate, check_producer
from kcli.log.live.producer_recall import recall
from kcli.log.live.producers import LiveProducers, LiveView
from kcli.log.live.schema_rules import SchemaRules
from kcli.log.live.segment import INT_MAX, FoundRecord, LiveSegment, SegmentLimits
from kcli.log.live.segments import LiveSegments, LogRead, Removal
from kcli.log.live.validator import (
    CODEC_MASK,
    AppendRefused,
    AppendRules,
    CheckedBatch,
    Origin,
    ValidBatch,
    append_rules,
    place,
    validate,
)
from kcli.log.live.verification import Verification
from kcli.log.producer_state import DEFAULT_EXPIRATION_MS
from kcli.log.recovery.apply import start_in_place
from kcli.log.recovery.loader import LoadOptions
from kcli.log.retention import Tier, find_due
from kcli.protocol.error_code import ErrorCode

P = ParamSpec("P")
T = TypeVar("T")
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
NONE = -1
LONG_MAX = 2**63 - 1
CLOSED_SEGMENTS_MAX = 100
"""How many segments `closed_segments` returns at most."""


class OffsetOutOfRange(KcliError):
    """The offset lies outside of the log, above the high watermark (`delete_records`), or in a leader epoch that the
    log does not know."""


class OffsetTiered(OffsetOutOfRange):
    """The records at the offset are in remote storage alone: log_start_offset <= offset < local_log_start_offset."""

    def __init__(self, offset: int, log_start_offset: int, local_log_start_offset: int) -> None:
        super().__init__(f"offset {offset:,} lies below the local log start offset {local_log_start_offset:,}")
        self.log_start_offset = log_start_offset
        self.local_log_start_offset = local_log_start_offset


class LogFailed(KcliError):
    """An earlier write failed: the state in memory includes records that may not be on disk, and nothing more may be
    appended."""


class UnexpectedOffsets(KcliError):
    """A follower's batches do not continue its log, or are out of order."""

    def __init__(self, reason: str, first_offset: int, log_end_offset: int) -> None:
        super().__init__(reason)
        self.first_offset = first_offset
        self.log_end_offset = log_end_offset


class Isolation(Enum):
    """Below which offset a reader may read: a follower below the log end offset, a consumer below the high watermark,
    or with read_committed below the last stable offset."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    TXN_COMMITTED = "last stable offset"


class Appended(NamedTuple):
    """The offsets that an append gave to a batch, or to the first and last record of a follower's batches; -1 if
    nothing was appended. For a duplicate, the offsets of the batch in the log that it repeats. max_timestamp and
    log_append_time in ms since 1970; log_append_time is -1 with CreateTime."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time: int
    log_start_offset: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """How a log is opened. The offsets come from the log directory's checkpoints; clean: whether the log was shut down
    cleanly. jitter(most): returns a random number in [0, most), the ms by which a segment is rolled early
    (segment.jitter.ms). may_be_tiered: whether the log has tiered storage if its configuration says so: the broker has
    remote.log.storage.system.enable, and the topic is not one of NEVER_TIERED.
    """

    clean: bool = True
    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0
    producer_expiration_ms: int = DEFAULT_EXPIRATION_MS
    jitter: Callable[[int], int] = lambda _: 0
    may_be_tiered: bool = False


def _held(
    method: Callable[Concatenate[PartitionLog, P], T],
) -> Callable[Concatenate[PartitionLog, P], T]:
    """Return the method, during which no other thread appends to the log."""

    @wraps(method)
    def held(log: PartitionLog, /, *args: P.args, **kwargs: P.kwargs) -> T:
        log.hold()
        try:
            return method(log, *args, **kwargs)
        finally:
            log.let_go()

    return held


class PartitionLog(LogState):
    """The log of one partition. Methods that change it may raise OSError, and take now_ms if they need the time.

    runway: compiled code that appends ordinary batches after a few checks; None if the next batches need all checks.
    on_stale_epochs: called when leader-epoch-checkpoint must be written again. By default it is `write_stale_epochs`,
    which writes the file at once; the owner of the log may set another function, which has the file written later.
    is_tiered: whether the log has tiered storage. highest_tiered_offset: the last offset that is in remote storage; -1
    if none is, or it is not known yet.
    """

    def __init__(
        self, directory: Path, disk: Disk, config: LogConfig, now_ms: int, options: OpenOptions | None = None
    ) -> None:
        """Open the log in `directory`, which may be empty. After an unclean shutdown it is recovered first.

        Raises StartRefused, UnreadableInput, OSError.
        """
        options = OpenOptions() if options is None else options
        self.directory = directory
        self._disk = disk
        self._jitter = options.jitter
        self._failed = ""
        self._recalled: set[int] = set()  # producers whose earlier batches were read from the log (see _check_producer)
        self._cuts = 0  # how often the log was truncated: `end_flush` ignores a flush that began before
        self._epochs_guard = Lock()
        self.on_stale_epochs: Callable[[], None] = self.write_stale_epochs
        self._compaction: LiveCompaction | None = None
        self._producer_expiration_ms = options.producer_expiration_ms
        self._may_be_tiered = options.may_be_tiered
        self.highest_tiered_offset = NONE
        self._schemas: SchemaRules | None = None
        self.set_config(config)
        loader, loaded, self._epochs_are_stale = start_in_place(
            directory,
            disk,
            LoadOptions(
                now_ms,
                clean=options.clean,
                recovery_point=options.recovery_point,
                log_start_offset=options.log_start_offset,
                index_interval_bytes=config.index_interval_bytes,
                max_index_bytes=config.max_index_bytes,
                producer_expiration_ms=options.producer_expiration_ms,
                is_tiered=self.is_tiered,
                preallocated_bytes=config.preallocated_bytes,
            ),
        )
        self._epochs = loader.epochs
        view = LiveView(loader.view, disk)
        self.producers = LiveProducers(
            view, loader.producers, now_ms=now_ms, expiration_ms=options.producer_expiration_ms
        )
        self._segments = LiveSegments(
            [
                self._segment(base_offset, segment.size, now_ms)
                for base_offset, segment in sorted(loader.segments.items())
            ]
        )
        self.log_start_offset = loaded.log_start_offset
        self._local_log_start = max(self.log_start_offset, self.first_base_offset)
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = max(loaded.recovery_point, self.local_log_start_offset)
        self.last_flush_ms = now_ms
        self.high_watermark = self.log_start_offset
        self.update_high_watermark(options.high_watermark)

    @_held
    def set_config(self, config: LogConfig) -> None:
        """Change the configuration; existing segments keep their index interval and sizes."""
        self.config = config
        self.is_tiered = self._may_be_tiered and config.remote_storage and not config.compact
        if not self.is_tiered:  # the log's segments in remote storage may be deleted before it is tiered again
            self.highest_tiered_offset = NONE
        self._limits = SegmentLimits(
            config.index_interval_bytes,
            config.max_index_bytes,
            config.preallocated_bytes,
        )
        self._segment_bytes = config.segment_bytes
        self._segment_ms = config.max_segment_ms
        self._flush_messages = config.flush_messages
        self._rules = append_rules(config, self._schemas)
        self.runway = None

    @_held
    def set_schemas(self, schemas: SchemaRules | None) -> None:
        """Change the rules for the schema ids of a leader's records; None: records need no schema id."""
        self._schemas = schemas
        self._rules = append_rules(self.config, schemas)
        self.runway = None

    # appending batches

    @_held
    def append_as_leader(
        self,
        data: bytearray | memoryview,
        leader_epoch: int,
        now_ms: int,
        *,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
        checked: CheckedBatch | None = None,
    ) -> Appended:
        """Append the one batch in `data`, whose bytes may be changed. Raises AppendRefused, LogFailed.

        leader_epoch: is written to the batch's header. origin: some checks are made only for a client's batch.
        transaction_version: for a marker, the version of the transaction that it ends. checked: the result of `check`
        on the batch, if another thread has called it.
        """
        self._check_usable()
        if checked is not None and checked.rules == self._rules:
            valid = place(checked, self.log_end_offset, leader_epoch)
            return self._append_valid(valid, leader_epoch, now_ms, origin, transaction_version)
        appended = self._append_plain(data, leader_epoch, now_ms)
        if appended is not None:
            return appended
        valid = validate(bytearray(data), self.log_end_offset, leader_epoch, now_ms, self._rules, origin=origin)
        return self._append_valid(valid, leader_epoch, now_ms, origin, transaction_version)

    def _append_plain(self, data: bytearray | memoryview, leader_epoch: int, now_ms: int) -> Appended | None:
        """Append a plain batch through the Runway (formats/kernels/append), which makes only the checks that a plain
        batch needs. Return None, with nothing changed, if the batch needs all checks."""
        runway = self.runway
        if runway is None or runway.leader_epoch != leader_epoch:
            return None
        appended = runway.append(data, now_ms)
        return None if appended is None else Appended(*appended, NONE, self.log_start_offset)

    def _write_failed(self, error: OSError) -> None:
        """Refuse all further appends, as the Runway could not write batches or their index entries."""
        self.runway = None
        self._failed = str(error)

    def _new_runway(self, table: BatchTable) -> Runway | None:
        """Return the Runway for the batches that follow the one in `table`; None if they need all checks."""
        rules, active = self._rules, self._segments.active
        epoch, first_timestamp = self._epochs.latest_epoch, active.first_timestamp
        is_odd = table.field(0, ATTRIBUTES) & ~CODEC_MASK
        if is_odd or rules.log_append_time or rules.schemas is not None or epoch is None or first_timestamp < 0:
            return None
        last_before_flush = self.recovery_point + self._flush_messages - 2
        return Runway(
            self,
            active,
            active.log,
            (active.offsets, active.times, active.indexer),
            self.producers.table,
            self._write_failed,
            epoch,
            size_max=self._segment_bytes,
            offset_max=min(active.base_offset + INT_MAX, last_before_flush, LONG_MAX),
            timestamp_max=min(first_timestamp + self._segment_ms - active.jitter_ms, LONG_MAX),
            keyed=rules.compacted,
            codec=NONE if rules.codec is None else rules.codec,
            before_max_ms=rules.before_max_ms,
            after_max_ms=rules.after_max_ms,
            max_message_bytes=rules.max_message_bytes,
            verifications=self.producers.verifications,
        )

    @property
    def append_rules(self) -> AppendRules:
        """The rules by which batches are validated, from the topic's configuration."""
        return self._rules

    def _append_valid(
        self, valid: ValidBatch, leader_epoch: int, now_ms: int, origin: Origin, transaction_version: int
    ) -> Appended:
        data, table = valid.data, valid.batches
        self._assign_epoch(leader_epoch, valid.base_offset)
        self._check_size(len(data))
        self._roll_if_due(len(data), valid.base_offset, valid.last_offset, valid.max_timestamp, now_ms)
        append_time = now_ms if self._rules.log_append_time else NONE
        if table.field(0, PRODUCER_ID) >= 0:
            row = BatchRow._make(table.row(0))
            verification = self.producers.verifications.get(row.producer_id)
            earlier = self._check_producer(row, data, origin, transaction_version, verification)
            if earlier is not None:
                first, last, timestamp = earlier
                return Appended(first, last, timestamp, timestamp, self.log_start_offset, duplicate=True)
            if verification is not None and row.is_transactional:
                self.producers.end_verification(row)
        self._write(data, table, valid.last_offset, now_ms)
        self.runway = self._new_runway(table)
        return Appended(valid.base_offset, valid.last_offset, valid.max_timestamp, append_time, self.log_start_offset)

    def _check_producer(
        self,
        row: BatchRow,
        data: bytearray,
        origin: Origin,
        transaction_version: int,
        verification: Verification | None,
    ) -> Duplicate | None:
        """Check the batch's sequence, producer epoch and transaction. Returns the batch in the log that it repeats;
        None if it repeats none. Arguments and errors are those of `check_producer`. Raises AppendRefused.

        Before a batch with an unexpected sequence is refused, the producer's earlier batches are read from the log, as
        a snapshot has only the last batch of each producer; this is done once for each producer.
        """
        table = self.producers.table
        try:
            return check_producer(table, row, data, origin, transaction_version, verification)
        except AppendRefused as refused:
            if refused.error != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or row.producer_id in self._recalled:
                raise
            self._recalled.add(row.producer_id)
            if not recall(self._segments, table, row.producer_id):
                raise
            return check_producer(table, row, data, origin, transaction_version, verification)

    @_held
    def append_as_follower(self, data: bytes | bytearray | memoryview, leader_epoch: int, now_ms: int) -> Appended:
        """Append the leader's batches in `data` as they are, without an incomplete one at its end.

        leader_epoch: the partition's leader epoch, as this replica knows it; batches of a later epoch are left out,
        too.

        Raises AppendRefused, UnexpectedOffsets, LogFailed.
        """
        self._check_usable()
        appended = self._follow_plain(data, leader_epoch)
        if appended is not None:
            return appended
        table = BatchTable()
        behind, how, _ = scan(data, 0, len(data), 0, table)
        size, bad, in_order, max_timestamp, epochs = survey_batches(table, leader_epoch)
        if bad >= 0:
            row = BatchRow._make(table.row(bad))
            raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {row.crc})")
        if how == SCAN_BAD_LENGTH and size == behind:
            raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, f"no batch has the length at byte {behind:,}")
        if table.count == 0:
            return Appended(NONE, NONE, NONE, NONE, self.log_start_offset)
        first, last = BatchRow._make(table.row(0)), BatchRow._make(table.row(table.count - 1))
        start = first.base_offset if first.magic >= 2 else first.last_offset
        if not in_order or start < self.log_end_offset:
            reason = (
                f"offsets {start:,} to {last.last_offset:,} do not continue a log that ends at {self.log_end_offset:,}"
            )
            raise UnexpectedOffsets(reason, first.base_offset, self.log_end_offset)
        # No segment can hold offsets this far apart. A base offset may be damaged: the CRC does not cover it. The log
        # end offset, one more than the last offset, must be an int64.
        if last.last_offset - start > INT_MAX or last.last_offset >= LONG_MAX:
            reason = f"offsets {start:,} and {last.last_offset:,} do not fit into one segment"
            raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, reason)
        for epoch, offset in epochs:
            self._assign_epoch(epoch, offset)
        self._check_size(size)
        roll_offset = start if first.magic >= 2 else last.last_offset - INT_MAX
        self._roll_if_due(size, roll_offset, last.last_offset, max_timestamp, now_ms)
        self._write(memoryview(data)[:size], table, last.last_offset, now_ms)
        if self.producers.verifications:  # they began while this replica was the leader
            self.producers.end_verifications(table)
        self.runway = self._new_runway(table)
        return Appended(first.base_offset, last.last_offset, max_timestamp, NONE, self.log_start_offset)

    def _follow_plain(self, data: bytes | bytearray | memoryview, leader_epoch: int) -> Appended | None:
        """Append ordinary batches of the leader through the Runway, as `_append_plain` does those of a producer. Return
        None, with nothing changed, if the batches need all checks."""
        found = None if self.runway is None else self.runway.follow(data, leader_epoch)
        return None if found is None else Appended(*found, NONE, self.log_start_offset)

    def _assign_epoch(self, epoch: int, offset: int) -> None:
        if epoch >= 0:
            self._epochs.assign(epoch, offset)
        elif self._epochs.entries:
            self._epochs.clear()
        self._write_epochs()

    def _write_epochs(self) -> None:
        if self._epochs.changed:
            self.runway = None
            self._epochs.changed = False
            self._epochs_are_stale = True
            self.on_stale_epochs()

    def write_stale_epochs(self) -> None:
        """Write leader-epoch-checkpoint if the file lacks an epoch of the log, or has an epoch whose batches were
        removed. Any thread may call this; a flush calls it before the recovery point moves. If it is not called, the
        next start removes the epochs without batches, and recovery adds those above the recovery point. Raises
        OSError."""
        with self._epochs_guard:
            if self._epochs_are_stale:
                self._epochs_are_stale = False
                directory = self.directory
                try:
                    self._disk.write_file(directory / LEADER_EPOCHS, self._epochs.to_bytes())
                except OSError as error:
                    self._epochs_are_stale = True
                    if not isinstance(error, FileNotFoundError) or directory.exists():
                        raise  # no error if the directory is gone: deleted or renamed meanwhile

    def _cut_epochs(self, log_start_offset: int) -> None:
        """Drop the epochs below the log start offset from the cache; leader-epoch-checkpoint is written later
        (KAFKA-16541)."""
        must_write = self._epochs.changed
        self._epochs.truncate_from_start(log_start_offset)
        if self._epochs.changed and not must_write:
            self._epochs.changed = False
            self._epochs_are_stale = True

    def _check_usable(self) -> None:
        if self._failed:
            raise LogFailed(f"{self.directory}: {self._failed}")

    def _check_size(self, size: int) -> None:
        if size > self._segment_bytes:
            reason = f"batches of {size:,} bytes are more than a segment holds ({self._segment_bytes:,})"
            raise AppendRefused(ErrorCode.RECORD_LIST_TOO_LARGE, reason)

    def _roll_if_due(self, size: int, first_offset: int, last_offset: int, max_timestamp: int, now_ms: int) -> None:
        active = self._segments.active
        if (
            active.size > self._segment_bytes - size
            or (active.size and active.waited_ms(now_ms, max_timestamp) > self._segment_ms - active.jitter_ms)
            or active.is_full_for(last_offset)
        ):
            self.roll(now_ms, first_offset)

    def _write(self, data: bytearray | memoryview, table: BatchTable, last_offset: int, now_ms: int) -> None:
        """Write batches, whose rows are in `table`, and update producers, leader epochs and offsets. data: the bytes of
        the batches. last_offset: that of the last batch."""
        self.runway = None
        aborted = self.producers.follow(table, data)
        if aborted is None:
            reason = self.producers.table.reason or "contradicts the state of its producer"
            self._rebuild_producers(now_ms)
            raise AppendRefused(ErrorCode.INVALID_TXN_STATE, reason)
        active = self._segments.active
        try:
            active.append(data, table)
            if aborted:
                active.add_aborted(aborted)
        except OSError as error:
            self._failed = str(error)
            raise
        self.log_end_offset = self.producers.map_end_offset = last_offset + 1
        if self.log_end_offset - self.recovery_point >= self._flush_messages:
            self.flush(now_ms)

    @_held
    def roll(self, now_ms: int, expected_offset: int = 0) -> None:
        """Begin a new segment at the log's end, or at `expected_offset` if that is above the log's end."""
        self.runway = None
        base_offset = max(expected_offset, self.log_end_offset)
        active = self._segments.active
        if active.base_offset == base_offset:
            assert active.size == 0, "a segment with batches ends behind its base offset"
            active.close(keep_entries=False)
            self._segments.all[-1] = self._segment(base_offset, None, now_ms)
        else:
            active.deactivate()
            self._segments.all.append(self._segment(base_offset, None, now_ms))
        self.producers.map_end_offset = base_offset
        self.producers.take_snapshot()

    def _segment(self, base_offset: int, size: int | None, now_ms: int) -> LiveSegment:
        return LiveSegment(
            self._disk,
            self.directory,
            base_offset,
            self._limits,
            size=size,
            created_ms=now_ms,
            jitter_ms=self._draw_jitter(),
        )

    def _draw_jitter(self) -> int:
        most = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return self._jitter(most) if most else 0

    # the log's offsets and leader epochs

    @property
    def is_in_use(self) -> bool:
        """Whether the active segment's files are open, as they are once the log has been appended to."""
        return self._segments.active.is_open

    @property
    def size(self) -> int:
        """The bytes that batches take up in all segments' .log files, without preallocated bytes."""
        return self._segments.size

    @property
    def base_offsets(self) -> list[int]:
        """The base offsets of the segments."""
        return [segment.base_offset for segment in self._segments.all]

    @property
    def first_base_offset(self) -> int:
        """The base offset of the first segment."""
        return self._segments.all[0].base_offset

    @property
    def active_base_offset(self) -> int:
        """The base offset of the segment that is appended to."""
        return self._segments.active.base_offset

    @property
    def local_log_start_offset(self) -> int:
        """The first offset that is read from the local segments; the log start offset if the log is not tiered."""
        return max(self._local_log_start, self.log_start_offset) if self.is_tiered else self.log_start_offset

    @property
    def last_stable_offset(self) -> int:
        """The offset below which read_committed consumers read."""
        unstable = self.producers.first_unstable_offset
        return (
            self.high_watermark if unstable is None else min(max(unstable, self.log_start_offset), self.high_watermark)
        )

    @_held
    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark to `offset`, or to the local log start or log end offset if it lies outside of these.
        Returns the high watermark."""
        self.high_watermark = max(self.local_log_start_offset, min(offset, self.log_end_offset))
        self.producers.replicated_to(self.high_watermark)
        return self.high_watermark

    @property
    def latest_epoch(self) -> int | None:
        """The last leader epoch; None if there is none."""
        return self._epochs.latest_epoch

    @property
    def leader_epochs(self) -> tuple[EpochEntry, ...]:
        """The leader epochs of the log from the log start offset on, each with its first offset."""
        return self._epochs.entries

    def start_by_epochs(self) -> int | None:
        """Return where the first leader epoch begins, if that is above the log start offset, else None.

        That was the log start offset before a crash: leader-epoch-checkpoint may be newer than
        log-start-offset-checkpoint, which is written once a minute. Returns None for a log with older batches that have
        no leader epoch (magic 0 and 1). Raises OSError.
        """
        begin = self._epochs.entries[0].start_offset if self._epochs.entries else NONE
        if begin <= self.log_start_offset:
            return None
        head = next(self._segments.all[0].heads(0), None)
        return None if head is not None and head.base_offset < begin and head.leader_epoch < 0 else begin

    def epochs_to(self, offset: int) -> bytes:
        """Return the bytes of a leader-epoch-checkpoint with the epochs that begin below `offset`."""
        return build_leader_epochs(self._epochs.entries_in(NONE, offset))

    def epoch_starts(self, base_offset: int, next_offset: int) -> tuple[EpochEntry, ...]:
        """Return the leader epochs of the offsets from base_offset to below next_offset; the first one begins at
        base_offset."""
        return self._epochs.entries_in(base_offset, next_offset)

    @_held
    def start_epoch(self, epoch: int) -> None:
        """Begin a leader epoch at the log end offset. leader-epoch-checkpoint is written with the epoch's first batch,
        or when the log is closed: until then no record needs the entry."""
        self.runway = None
        self._epochs.assign(epoch, self.log_end_offset)

    def offset_for_leader_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest known epoch not above `epoch`, and its end offset; for the other cases see
        LeaderEpochCache.end_offset_for."""
        return self._epochs.end_offset_for(epoch, self.log_end_offset)

    def offset_for_timestamp(self, timestamp: int) -> FoundRecord | None:
        """Return what ListOffsets returns for EARLIEST, LATEST, MAX_TIMESTAMP and the like, or for a timestamp (ms):
        the first record in the local segments that has this timestamp or a later one.

        The result's timestamp is -1 for an offset that is not that of a found record, such as the log end offset.
        Returns None if no record is found.
        """
        if timestamp == EARLIEST or (timestamp == EARLIEST_LOCAL and not self.is_tiered):
            return self._earliest()
        if timestamp == LATEST:
            latest = self._epochs.latest_epoch
            return FoundRecord(NONE, self.log_end_offset, NONE if latest is None else latest)
        if timestamp == EARLIEST_LOCAL:
            return self._with_epoch(self.local_log_start_offset)
        if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            tiered = self.highest_tiered_offset if self.is_tiered else NONE
            if timestamp == LATEST_TIERED:
                return self._with_epoch(tiered)
            if tiered != NONE:
                return self._with_epoch(max(tiered + 1, self.log_start_offset))
            is_whole = self.is_tiered and self.local_log_start_offset == self.log_start_offset
            return self._earliest() if is_whole else FoundRecord(NONE, NONE, NONE)
        if timestamp == MAX_TIMESTAMP:
            return self._segments.find_largest()
        return self._segments.find_time(timestamp, self.local_log_start_offset)

    def _earliest(self) -> FoundRecord:
        first = self._epochs.entries[:1]
        epoch = first[0].epoch if first and first[0].start_offset <= self.log_start_offset else NONE
        return FoundRecord(NONE, self.log_start_offset, epoch)

    def _with_epoch(self, offset: int) -> FoundRecord:
        epoch = self._epochs.epoch_for(offset)
        return FoundRecord(NONE, offset, NONE if epoch is None else epoch)

    # reading batches

    def read(
        self,
        offset: int,
        max_bytes: int,
        isolation: Isolation = Isolation.HIGH_WATERMARK,
        *,
        min_one_batch: bool = True,
    ) -> LogRead:
        """Return whole batches of one segment, from the batch with `offset` on, of at most max_bytes in all; with
        min_one_batch the first batch is returned even if it is larger.

        The result's region stays readable until the Removal of its segment is run. isolation: which offset the batches
        must be below. Raises OffsetTiered, OffsetOutOfRange.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            reason = f"offset {offset:,} is not within {self.log_start_offset:,} to {self.log_end_offset:,}"
            raise OffsetOutOfRange(reason)
        if offset < self.local_log_start_offset:
            raise OffsetTiered(offset, self.log_start_offset, self.local_log_start_offset)
        limit = self._limit_of(isolation)
        if offset >= limit:
            return LogRead(None)
        return self._segments.read(
            offset,
            limit,
            self.log_end_offset,
            max_bytes,
            min_one_batch=min_one_batch,
            with_aborted=isolation is Isolation.TXN_COMMITTED,
        )

    def _limit_of(self, isolation: Isolation) -> int:
        if isolation is Isolation.LOG_END:
            return self.log_end_offset
        return self.high_watermark if isolation is Isolation.HIGH_WATERMARK else self.last_stable_offset

    def aborted_transactions(self, from_offset: int, to_offset: int) -> list[AbortedTxn]:
        """Return the aborted transactions with records in [from_offset, to_offset)."""
        return self._segments.aborted(self._segments.index_of(from_offset), from_offset, to_offset)

    # removing batches and segments

    @_held
    def truncate_to(self, offset: int, now_ms: int) -> list[Removal]:
        """Remove the batch with `offset` and all batches after it. Returns the removals of whole segments."""
        if offset >= self.log_end_offset:
            self._epochs.truncate_from_end(self.log_end_offset)
            self._write_epochs()
            return []
        if offset < self._segments.all[0].base_offset:
            return self.truncate_fully_and_start_at(offset, now_ms)
        self._abort_compaction(offset)
        self._cuts += 1
        behind = [segment for segment in self._segments.all if segment.base_offset > offset]
        removals = self._remove(behind[::-1])  # the last one first: after a crash the log has no gap
        self._segments.active.truncate(offset, now_ms)
        self._segments.forget_places()
        self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self._epochs.truncate_from_end(offset)
        self._write_epochs()
        self.log_start_offset = min(self.log_start_offset, offset)
        self._local_log_start = min(self._local_log_start, offset)
        self._rebuild_producers(now_ms)
        self.update_high_watermark(self.high_watermark)
        return removals

    @_held
    def truncate_fully_and_start_at(
        self, offset: int, now_ms: int, *, log_start_offset: int | None = None
    ) -> list[Removal]:
        """Remove all records, so that the next one gets `offset`. Returns the removals of the files. log_start_offset:
        the new log start offset, if remote storage has the records below `offset`; None for `offset` itself."""
        self._cuts += 1
        removals = self._remove(self._segments.all[::-1], keep_snapshots=True)
        self._segments = LiveSegments([self._segment(offset, None, now_ms)])
        self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self._epochs.clear()
        self._write_epochs()
        self.producers.truncate_fully_and_start_at(offset)
        self.log_start_offset = offset if log_start_offset is None else log_start_offset
        self._local_log_start = offset
        self._rebuild_producers(now_ms)
        self.update_high_watermark(offset)
        return removals

    @_held
    def delete_records(self, offset: int) -> bool:
        """Move the log start offset forward to `offset`. Returns whether it moved: False if it is at `offset` or above
        already. No segment is deleted: `delete_old_segments` deletes those below `offset`. Raises OffsetOutOfRange if
        `offset` is above the high watermark."""
        if offset > self.high_watermark:
            raise OffsetOutOfRange(f"offset {offset:,} is above the high watermark {self.high_watermark:,}")
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.recovery_point = max(self.recovery_point, offset)
        self._cut_epochs(offset)
        self.producers.start_moved(offset)
        return True

    def advance_log_start(self, offset: int) -> bool:
        """Move the log start offset forward to `offset`, because remote storage has deleted what is below it. Returns
        whether it moved; False also if the log is not tiered (any more). Raises OffsetOutOfRange."""
        return self.is_tiered and self.delete_records(offset)

    @_held
    def delete_old_segments(self, now_ms: int) -> list[Removal]:
        """Delete old segments: those below the log start offset; if cleanup.policy has `delete`, also those beyond
        retention.bytes and retention.ms. With tiered storage, only segments that have been copied there are deleted, if
        they are beyond local.retention.bytes and local.retention.ms, and the local log start offset moves instead of
        the log start offset (see kcli.log.retention). Returns the removals of the files."""
        due = find_due(
            self._segments.all,
            self.config,
            now_ms,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
            log_end_offset=self.log_end_offset,
            tier=Tier(self.local_log_start_offset, self.highest_tiered_offset) if self.is_tiered else None,
        )
        if due.rolls or (due.segments and len(due.segments) == len(self._segments.all)):
            self.roll(now_ms)
        if not due.segments:
            return []
        start = self._segments.all[len(due.segments)].base_offset
        if self.is_tiered and self.config.remote_copy:
            self._local_log_start = max(self._local_log_start, start)
        else:
            self.delete_records(start)
        return self._remove(due.segments)

    def _remove(self, segments: list[LiveSegment], *, keep_snapshots: bool = False) -> list[Removal]:
        """Take segments out of the log, and give their files the suffix `.deleted`. keep_snapshots: whether the
        producer snapshots at their base offsets stay. Returns the removals of the files."""
        if not segments:
            return []
        self._abort_compaction(min(segment.base_offset for segment in segments))
        paths: list[Path] = []
        for segment in segments:
            paths += segment.mark_deleted()
            self._segments.all.remove(segment)
            paths += [] if keep_snapshots else self._delete_snapshot(segment.base_offset)
        return [self._removal(segments, paths)]

    def _delete_snapshot(self, offset: int) -> list[Path]:
        name = self.producers.mark_deleted(offset)
        return [] if name is None else [self.directory / name]

    def _removal(self, segments: Sequence[LiveSegment], paths: Sequence[Path]) -> Removal:
        return Removal(self.config.file_delete_delay_ms, tuple(paths), tuple(segments), self._disk)

    # tiered storage

    def update_highest_tiered(self, offset: int) -> None:
        """Note that everything up to `offset` is in remote storage. Nothing changes if a higher offset is known, or if
        the log is not tiered."""
        if self.is_tiered:
            self.highest_tiered_offset = max(self.highest_tiered_offset, offset)

    @property
    def untiered_bytes(self) -> int:
        """The size in bytes of the local segments that remote storage lacks: they begin at or after the last offset
        there."""
        return sum(each.size for each in self._segments.all if each.base_offset >= self.highest_tiered_offset)

    def closed_segments(
        self, from_offset: int, below_offset: int, *, count_max: int = CLOSED_SEGMENTS_MAX
    ) -> list[ClosedSegment]:
        """Return the segments to copy to remote storage: from the one that has from_offset on, those that end at or
        below below_offset, the last stable offset. The active segment is none of them. count_max: the largest number of
        segments returned, as a few system calls are made for each. The caller opens a segment's files before it reads
        them (`ClosedSegment.open`). Raises OSError."""
        found: list[ClosedSegment] = []
        segments = self._segments.since(from_offset)
        for segment, behind in pairwise(segments):
            if behind.base_offset > below_offset or len(found) == count_max:
                break
            if behind.base_offset > from_offset:
                segment.write_waiting()
                log, offset_index, time_index, txn_index = segment.paths
                found.append(
                    ClosedSegment(
                        segment.base_offset,
                        behind.base_offset,
                        segment.size,
                        segment.age_timestamp,
                        log,
                        offset_index,
                        time_index,
                        txn_index if txn_index.exists() else None,
                        self.producers.snapshot_path(behind.base_offset),
                    )
                )
        return found

    @_held
    def start_from_tier(
        self,
        local_start: int,
        log_start: int,
        epochs: Sequence[EpochEntry],
        snapshot: bytes | None,
        now_ms: int,
    ) -> list[Removal]:
        """Remove all records of a follower, so that the next one gets the offset local_start, and take over the state
        of the log below it from remote storage. log_start: the leader's log start offset. epochs: the leader epochs of
        the log below local_start. snapshot: the bytes of the producer snapshot at local_start; None if there is none,
        and one that cannot be read counts as none, as in Kafka. Returns the removals of the files. Raises OSError.

        Source: TierStateMachine.buildRemoteLogAuxState.
        """
        removals = self.truncate_fully_and_start_at(local_start, now_ms, log_start_offset=log_start)
        for entry in epochs:
            if entry.start_offset < local_start:
                self._epochs.assign(entry.epoch, entry.start_offset)
        self._epochs.truncate_from_start(log_start)
        self._write_epochs()
        if snapshot is not None:
            self.producers.take_over(local_start, snapshot)
            self._rebuild_producers(now_ms)
            self.update_high_watermark(local_start)
        return removals

    # compaction

    @_held
    def cleaner_view(self, now_ms: int) -> CleanerLog:
        """Return the log as the cleaner sees it now. Raises OSError."""
        segments = [
            StoredSegment(self.directory, each.base_offset, each.size, each.modified_ms) for each in self._segments.all
        ]
        segments[-1] = replace(segments[-1], known_aborted=tuple(self._segments.active.aborted()))
        return CleanerLog(
            self.directory,
            segments,
            self.log_start_offset,
            self.log_end_offset,
            self.high_watermark,
            self.producers.first_unstable_offset,
            active_producers(self.producers.table, now_ms, self._producer_expiration_ms),
        )

    def cleanable(self, checkpoint: int | None, now_ms: int) -> Selection:
        """Return the part of the log that may be cleaned now, which also says whether it is dirty enough. checkpoint:
        the partition's entry in cleaner-offset-checkpoint; None if it has none.

        Raises Uncleanable, OSError.
        """
        return select(self.cleaner_view(now_ms), self.config, checkpoint, now_ms)

    def begin_compaction(
        self, broker: CleanerConfig, checkpoint: int | None, now_ms: int, *, pace: Progress = silent
    ) -> LiveCompaction | None:
        """Return one pass of the cleaner, which runs in steps; None if Kafka would not clean the log now. A log has at
        most one pass at a time. checkpoint: as for `cleanable`. pace(size): called with the number of bytes just read;
        may wait. broker: the configuration of the broker's cleaner. Raises Uncleanable, OSError."""
        self._check_usable()
        assert self._compaction is None or self._compaction.is_over, "one compaction at a time"
        view = self.cleaner_view(now_ms)
        selection = select(view, self.config, checkpoint, now_ms)
        if not (self.config.compact and selection.worth_it):
            return None
        self._compaction = LiveCompaction(
            view,
            self.config,
            broker,
            selection,
            now_ms=now_ms,
            disk=self._disk,
            replace=self.replace_segments,
            pace=pace,
        )
        return self._compaction

    def replace_segments(self, cleaned: StoredSegment, replaced: Sequence[int], now_ms: int) -> list[Removal]:
        """Put the segment `cleaned`, whose files have the suffix `.swap`, in the place of those with the base offsets
        `replaced`. Returns the removal of the replaced files; until it is run, a FileRegion of these files can still be
        read. Raises LogFailed, OSError."""
        self._check_usable()
        old = [segment for segment in self._segments.all if segment.base_offset in replaced]
        assert self._segments.active not in old, "the active segment is not cleaned"
        paths: list[Path] = []
        try:
            for segment in old:
                paths += segment.mark_deleted()
            change_state(self._disk, cleaned, "swap", "")
            for segment in old:
                if segment.base_offset != cleaned.base_offset:
                    paths += self._delete_snapshot(segment.base_offset)
        except OSError as error:
            self._failed = str(error)
            raise
        self._segments.replace(old, self._segment(cleaned.base_offset, cleaned.size, now_ms))
        return [self._removal(old, paths)]

    def _abort_compaction(self, from_offset: int) -> None:
        """Abort the compaction under way, unless all offsets that it cleans lie below from_offset."""
        compaction = self._compaction
        if compaction is not None and from_offset < compaction.selection.first_uncleanable_offset:
            compaction.abort()

    @_held
    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that have been silent for producer.id.expiration.ms. Returns how many."""
        self._recalled.clear()
        return self.producers.expire(now_ms)

    @_held
    def producer_entries(self) -> tuple[ProducerEntry, ...]:
        """Return the state of each producer, by producer id."""
        return tuple(ProducerEntry._make(each) for each in self.producers.table.entries())

    @_held
    def producer_entry(self, producer_id: int) -> ProducerEntry | None:
        """Return the state of a producer; None if the log does not know the producer id."""
        entry = producer_entry(self.producers.table, producer_id)
        return None if entry is None else ProducerEntry._make(entry)

    def _rebuild_producers(self, now_ms: int) -> None:
        self.runway = None
        self._recalled.clear()
        self.producers.rebuild(self._segments.all, self.log_start_offset, self.log_end_offset, now_ms)

    # flushing, closing, renaming, deleting

    def flush(self, now_ms: int, to_offset: int | None = None, *, including: bool = False) -> None:
        """Make the log below to_offset (None: all of it) durable; with `including`, also the segment that begins at
        to_offset."""
        flush = self.begin_flush(to_offset, including=including)
        if flush is not None:
            flush.run()
            self.end_flush(flush, now_ms)

    @_held
    def begin_flush(self, to_offset: int | None = None, *, including: bool = False) -> Flush | None:
        """Return a flush of the log below `to_offset` (None: of all of it), which runs in steps; None if that is
        durable already. including: also flush the segment that begins at `to_offset`."""
        offset = self.log_end_offset if to_offset is None else to_offset
        if offset + including <= self.recovery_point:
            return None
        since = self._segments.since(self.recovery_point)
        segments = tuple(segment for segment in since if segment.base_offset < offset + including)
        for segment in segments:
            segment.write_waiting()
        with_names = any(segment.base_offset >= self.recovery_point for segment in segments)
        snapshots = self.producers.take_unsynced()
        write_epochs = self.write_stale_epochs
        return Flush(offset, self._cuts, self.directory, snapshots, segments, with_names, self._disk, write_epochs)

    def end_flush(self, flush: Flush, now_ms: int) -> None:
        """Move the recovery point up to the offset of `flush`, which has run; do nothing if the log was truncated after
        the flush began."""
        if flush.cuts == self._cuts:
            self.recovery_point = max(self.recovery_point, flush.offset)
            self.last_flush_ms = now_ms

    def begin_due_flush(self, now_ms: int) -> Flush | None:
        """Return the flush that is due: one of the whole log if the last flush was flush.ms ago, else one of the rolled
        segments that are not flushed. Returns None if no flush is due."""
        if self.log_end_offset > self.recovery_point and now_ms - self.last_flush_ms >= self.config.flush_ms:
            return self.begin_flush()
        rolled = self.active_base_offset
        return self.begin_flush(rolled) if rolled > self.recovery_point else None

    def flush_due(self, now_ms: int) -> bool:
        """Run the flush that is due. Returns whether a flush was due."""
        flush = self.begin_due_flush(now_ms)
        if flush is None:
            return False
        flush.run()
        self.end_flush(flush, now_ms)
        return True

    @_held
    def close(self, now_ms: int) -> None:
        """Shut the log down cleanly: flush it, write a snapshot, trim the indexes.

        The descriptors are closed even if an earlier step fails. The log cannot be used any more. Raises OSError.
        """
        self.runway = None
        try:
            self._abort_compaction(NONE)
            self._epochs_are_stale |= self._epochs.changed
            self.write_stale_epochs()
            self.flush(now_ms, including=True)
            self.producers.take_snapshot()
            self.producers.sync()
            for segment in self._segments.all:
                segment.close()
        except BaseException:
            self.close_handles()
            raise

    @_held
    def rename(self, directory: Path) -> None:
        """Rename the partition's directory: to -delete, -future, -stray, or back. The log stays in use."""
        self._abort_compaction(NONE)
        self._disk.rename(self.directory, directory)
        self._disk.sync_directory(directory.parent)
        remove_cleaned(self._disk, directory)
        self.directory = directory
        self.producers.move(directory)
        for segment in self._segments.all:
            segment.move(directory)

    @_held
    def delete(self) -> None:
        """Remove the directory and all files in it. The caller calls this file.delete.delay.ms after the directory was
        renamed to -delete."""
        self.close_handles()
        for path in sorted(self.directory.iterdir()):
            self._disk.remove(path)
        self._disk.remove_directory(self.directory)

    def release_handles(self) -> None:
        """Close the descriptors of rolled and flushed segments; they are opened again at their next use."""
        for segment in self._segments.all[:-1]:
            if segment.base_offset < self.recovery_point:
                segment.release()

    @_held
    def close_handles(self) -> None:
        """Close all descriptors and leave the files as they are, as after an OSError."""
        self.runway = None
        if self._compaction is not None:
            self._compaction.abandon()
        for segment in self._segments.all:
            segment.close(keep_entries=False)

"""The metadata log of a node that is its only voter: `__cluster_metadata-0`, the image that it makes, its snapshots.

    start    recover the log, replay the last snapshot and what follows it, lead a new epoch, write what a controller
             writes when it becomes active
    append   encode, apply to the draft, queue; one turn at a time: write all that waits, flush once in a thread, move
             the high watermark, apply to the image, tell listeners
    snapshot by bytes or time since the last one: records taken at once, written in a thread
    clean    old snapshots go by size or age, with the log up to the next one

The draft is the image ahead of what is committed: decisions are made on it, so that two that are made during one flush
know of each other. What is served, and what partitions follow, is the image.

Within a turn nothing else changes the log. Source: KafkaRaftClient, KafkaRaftLog, QuorumController, MetadataLoader,
SnapshotGenerator; KIP-500, KIP-595, KIP-630, KIP-868.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from formats.batch_writer import write_batch
from formats.file_name import FileKind, FileName, build
from formats.properties import PartitionMetadata, build_partition_metadata
from kcli.broker.activation import BEGIN, END, TRANSACTIONS, activation, read_bootstrap
from kcli.broker.clock import Clock
from kcli.broker.metadata_records import (
    BATCH_BYTES_MAX,
    CONTROL,
    Replayed,
    decode_value,
    encode,
    read_batches,
    split,
)
from kcli.broker.metadata_snapshots import Retention, SnapshotId, Snapshots, read_snapshot, snapshot_batches
from kcli.broker.quorum import Quorum
from kcli.errors import KcliError, UnreadableInput
from kcli.log.config import LogConfig
from kcli.log.disk import Disk
from kcli.log.log_directory import METADATA_TOPIC
from kcli.log.partition_log import OpenOptions, PartitionLog
from kcli.log.validator import Origin
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.snapshot import snapshot

METADATA_DIRECTORY: Final = f"{METADATA_TOPIC}-0"
METADATA_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
DELETE_DELAY_MS: Final = 60_000
CLEAN_INTERVAL_S: Final = 60.0
NO_OP: Final[Record] = ("NoOpRecord", 0, {})
BEGIN_PARTS: Final[Record] = (BEGIN[0], 0, {"name": "Records of several batches"})
TIMESTAMP: Final = slice(35, 43)
"""Where a batch has its largest timestamp."""

Listener = Callable[[Sequence[Record]], None]
"""Hears of the records of one append, once they are committed and in the image."""

logger = logging.getLogger("kcli.broker")


class MetadataLogFailed(KcliError):
    """A write or a flush failed: the node must stop. What was waiting may or may not be in the log."""


class MetadataLogClosed(KcliError):
    """The node is shutting down."""


class TooManyRecords(KcliError):
    """More records than fit into one batch, at a metadata.version without transactions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLogConfig:
    """What a broker's properties say of its metadata log; Kafka's names, with _ in place of dots, and defaults.

    min_insync_replicas: what the first start makes the default of all brokers. batch_bytes_max:
    internal.metadata.max.batch.size.in.bytes; segment_bytes may be below the 8 MiB that Kafka asks for, for tests.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    max_record_bytes_between_snapshots: int = 20 << 20
    max_snapshot_interval_ms: int = 3_600_000
    max_retention_bytes: int = 100 << 20
    max_retention_ms: int = 604_800_000
    max_idle_interval_ms: int = 500
    batch_bytes_max: int = BATCH_BYTES_MAX
    min_insync_replicas: int = 1

    @property
    def log_config(self) -> LogConfig:
        """The configuration of the log itself."""
        return LogConfig(
            {
                "max.message.bytes": str(self.batch_bytes_max),
                "internal.segment.bytes": str(self.segment_bytes),
                "segment.ms": str(self.segment_ms),
                "file.delete.delay.ms": str(DELETE_DELAY_MS),
                "retention.ms": "-1",
                "retention.bytes": "-1",
            }
        )


@dataclass(slots=True)
class _Append:
    """Records on their way. first_offset: of the first of them."""

    records: list[Record]
    first_offset: int
    batches: list[bytearray]
    done: asyncio.Future[int]


@dataclass(slots=True)
class _Since:
    """What came since the last snapshot."""

    ms: int
    bytes: int = 0


@dataclass(slots=True)
class _Background:
    """What runs beside appends: timers, one snapshot at a time, files that are to go."""

    timers: dict[str, asyncio.TimerHandle] = field(default_factory=dict)
    removals: dict[asyncio.TimerHandle, Callable[[], None]] = field(default_factory=dict)
    snapshot: asyncio.Task[None] | None = None
    turn: asyncio.Task[None] | None = None


class MetadataLog:
    """See above. After `start_background`, and for `append`, an event loop must run; all calls come from its thread."""

    def __init__(
        self,
        log_directory: Path,
        *,
        node_id: int,
        directory_id: str,
        config: MetadataLogConfig | None = None,
        disk: Disk | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Open, or begin, the log in metadata.log.dir, which must be formatted and locked; lead it in a new epoch.

        directory_id: that of meta.properties in log_directory. Blocks for some flushes. Raises StartRefused,
        UnreadableInput, NotTheOnlyVoter, InconsistentRecord, OSError.
        """
        self.config = MetadataLogConfig() if config is None else config
        self.directory = log_directory / METADATA_DIRECTORY
        self.image = MetadataImage()
        self.draft = MetadataImage()
        self.quorum = Quorum(node_id, directory_id)
        self.listeners: list[Listener] = []
        self.on_failure: Callable[[Exception], None] | None = None
        self._disk = Disk() if disk is None else disk
        self._clock = Clock() if clock is None else clock
        self._failure: Exception | None = None
        self._closed = False
        self._queue: list[_Append] = []
        self._clean_due = False
        self._background = _Background()
        self._last_timestamp_ms = 0
        self._since = _Since(self._clock.now_ms())
        self._log, self.snapshots = self._open()
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metadata-log")
        self.next_offset = self._log.log_end_offset
        self._lead(read_bootstrap(log_directory))

    # start

    def _open(self) -> tuple[PartitionLog, Snapshots]:
        now_ms = self._clock.now_ms()
        self._disk.make_directory(self.directory)
        topic_id = self.directory / FileKind.PARTITION_METADATA
        if not topic_id.exists():
            self._disk.write_file(topic_id, build_partition_metadata(PartitionMetadata(0, METADATA_TOPIC_ID)))
        log = PartitionLog(self.directory, self._disk, self.config.log_config, now_ms, OpenOptions(clean=False))
        snapshots = Snapshots(self._disk, self.directory)
        snapshots.load(log.log_start_offset)
        latest = snapshots.latest
        if latest is not None and (latest.epoch, latest.offset) > (log.latest_epoch or 0, log.log_end_offset):
            removals = log.truncate_fully_and_start_at(latest.offset, now_ms)
            for removal in removals:
                removal.run()
            for path in snapshots.forget_before(latest):
                self._disk.remove(path)
        log.update_high_watermark(log.log_end_offset)
        self._replay(log, snapshots)
        return log, snapshots

    def _replay(self, log: PartitionLog, snapshots: Snapshots) -> None:
        latest = snapshots.latest
        if latest is not None:
            path = snapshots.path(latest)
            for batch in read_snapshot(path):
                self._take(path, batch, latest.offset - 1)
        from_offset = 0 if latest is None else latest.offset
        for base_offset in log.base_offsets:
            path = self.directory / build(FileName(FileKind.LOG, base_offset))
            for batch in read_batches(path):
                if batch.base_offset >= from_offset:
                    self._take(path, batch, None)
                    self._since.bytes += batch.size_bytes

    def _take(self, path: Path, batch: Replayed, snapshot_offset: int | None) -> None:
        """Replay one batch; snapshot_offset: that of all its records, where it is of a snapshot."""
        self.quorum.follow(batch.controls, batch.base_offset if snapshot_offset is None else snapshot_offset)
        for header in batch.controls:
            self._last_timestamp_ms = header.value.get("lastContainedLogTimestamp", self._last_timestamp_ms)
        if snapshot_offset is None:
            self._last_timestamp_ms = batch.timestamp_ms
        for i, (name, _, value) in enumerate(batch.records):
            offset = batch.base_offset + i if snapshot_offset is None else snapshot_offset
            try:
                self.image.apply(name, value, offset)
                self.draft.apply(name, value, offset)
            except KcliError as error:
                raise UnreadableInput(str(path), f"offset {offset:,}: {error}") from None

    def _lead(self, bootstrap: Sequence[Record]) -> None:
        latest = self.snapshots.latest
        last_epoch = self._log.latest_epoch
        if last_epoch is None:
            last_epoch = 0 if latest is None else latest.epoch
        now_ms = self._clock.now_ms()
        begin = self.quorum.begin_epoch(self._disk, self.directory, last_epoch)
        if len(begin) > 1:
            self.quorum.voters_offset = self.next_offset
        self._write(write_batch(begin, now_ms, attributes=CONTROL))
        self.next_offset += len(begin)
        records = activation(self.image, bootstrap, self.config.min_insync_replicas)
        if records:
            records, batches = self._prepare(records)
            self._apply(self.draft, records, self.next_offset)
            self._apply(self.image, records, self.next_offset)
            self.next_offset += len(records)
            for data in batches:
                self._write(data)
        self._log.flush(now_ms)
        self._log.update_high_watermark(self._log.log_end_offset)
        self.draft.take_changes()

    # what is known

    @property
    def epoch(self) -> int:
        """The leader epoch of this start."""
        return self.quorum.epoch

    @property
    def high_watermark(self) -> int:
        """The offset behind the last committed record."""
        return self._log.high_watermark

    @property
    def log(self) -> PartitionLog:
        """The log itself, to be read; only this class changes it."""
        return self._log

    # appending

    def append(self, records: Sequence[Record]) -> asyncio.Future[int]:
        """Append records, all or none of them; the draft has them at once. Nothing is changed where this raises.

        The future gives the offset of the last one, once the image has them and listeners were told; without records,
        once all that was appended before is. It fails with MetadataLogFailed. Raises FormatError for what a schema does
        not allow, InconsistentRecord (the log is not to be used then), TooManyRecords, MetadataLogFailed,
        MetadataLogClosed.
        """
        loop = asyncio.get_running_loop()
        self._check_usable()
        done: asyncio.Future[int] = loop.create_future()
        if not records:
            if self._queue or self._background.turn is not None:
                self._queue.append(_Append([], self.next_offset, [], done))
            else:
                done.set_result(self.next_offset - 1)
            return done
        prepared, batches = self._prepare(records)
        first_offset = self.next_offset
        try:
            self._apply(self.draft, prepared, first_offset)
        except KcliError as error:
            self._fail(error)
            raise
        self.draft.take_changes()
        self.next_offset += len(prepared)
        self._queue.append(_Append(prepared, first_offset, batches, done))
        self._take_turns()
        return done

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise MetadataLogFailed(str(self._failure))
        if self._closed:
            raise MetadataLogClosed("the metadata log is closed")

    def _prepare(self, records: Sequence[Record]) -> tuple[list[Record], list[bytearray]]:
        """The records with all their fields, as a replay will read them, and their batches."""
        values = [encode(record) for record in records]
        parts = list(split(values, bytes_max=self.config.batch_bytes_max))
        if len(parts) > 1 and records[0][0] != BEGIN[0]:
            if self.draft.metadata_version < TRANSACTIONS:
                raise TooManyRecords(f"{len(records):,} records do not fit into a batch")
            values = [encode(BEGIN_PARTS), *values, encode(END)]
            parts = list(split(values, bytes_max=self.config.batch_bytes_max))
        now_ms = self._clock.now_ms()
        batches = [write_batch([(None, value) for value in part], now_ms) for part in parts]
        return [decode_value(value) for value in values], batches

    def _apply(self, image: MetadataImage, records: Sequence[Record], first_offset: int) -> None:
        for offset, (name, _, value) in enumerate(records, first_offset):
            image.apply(name, value, offset)

    def _write(self, data: bytearray) -> None:
        self._last_timestamp_ms = int.from_bytes(data[TIMESTAMP])
        self._since.bytes += len(data)
        self._log.append_as_leader(data, self.quorum.epoch, self._clock.now_ms(), origin=Origin.COORDINATOR)

    def _take_turns(self) -> None:
        if self._background.turn is None:
            self._background.turn = asyncio.get_running_loop().create_task(self._turns())

    async def _turns(self) -> None:
        try:
            while self._queue or self._clean_due:
                if self._queue:
                    await self._commit()
                if self._clean_due:
                    self._clean_due = False
                    self._clean()
        except Exception as error:  # noqa: BLE001 (whatever it is, the log is not to be used any more)
            self._fail(error)
        finally:
            self._background.turn = None

    async def _commit(self) -> None:
        """Write, flush and apply all that waits."""
        group = self._queue[:]
        for each in group:
            for data in each.batches:
                self._write(data)
        now_ms = self._clock.now_ms()
        await asyncio.get_running_loop().run_in_executor(self._executor, self._log.flush, now_ms)
        self._log.update_high_watermark(self._log.log_end_offset)
        for each in group:
            self._apply(self.image, each.records, each.first_offset)
            if each.records:
                self._tell(each.records)
            if not each.done.done():
                each.done.set_result(each.first_offset + len(each.records) - 1)
        del self._queue[: len(group)]
        self._snapshot_if_due()

    def _tell(self, records: Sequence[Record]) -> None:
        for listener in self.listeners:
            try:
                listener(records)
            except Exception:
                logger.exception("a listener of the metadata log failed")

    def _fail(self, error: Exception) -> None:
        """Nothing can be appended any more: tell all who wait."""
        self._failure = error
        self._stop_timers()
        logger.error("the metadata log failed: %s", error)
        for each in self._queue:
            if not each.done.done():
                each.done.set_exception(MetadataLogFailed(str(error)))
        self._queue.clear()
        if self.on_failure is not None:
            self.on_failure(error)

    # snapshots

    def _snapshot_if_due(self) -> None:
        now_ms = self._clock.now_ms()
        interval_ms = self.config.max_snapshot_interval_ms
        by_time = interval_ms > 0 and now_ms - self._since.ms >= interval_ms
        if (by_time or self._since.bytes >= self.config.max_record_bytes_between_snapshots) and self._can_snapshot:
            _ = self.take_snapshot()

    @property
    def _can_snapshot(self) -> bool:
        return self._background.snapshot is None and not self.image.in_transaction and not self._closed

    def take_snapshot(self) -> asyncio.Task[None]:
        """Begin a snapshot of the image as it is now. One at a time, and not within a transaction."""
        assert self._can_snapshot, "there is a time for snapshots"
        self._since = _Since(self._clock.now_ms())
        which = SnapshotId(self._log.high_watermark, self.quorum.epoch)
        records = list(snapshot(self.image))
        batches = snapshot_batches(
            records, which.epoch, self._clock.now_ms(), self._last_timestamp_ms, self.quorum.controls()
        )

        async def write() -> None:
            try:
                await asyncio.get_running_loop().run_in_executor(None, self.snapshots.write, which, batches)
            except OSError:
                logger.exception("snapshot %s failed", which.file_name)
            else:
                self.snapshots.added(which)
                self._clean_due = True
                self._take_turns()
            finally:
                self._background.snapshot = None

        self._background.snapshot = asyncio.get_running_loop().create_task(write())
        return self._background.snapshot

    def _clean(self) -> None:
        """Let old snapshots go, and the log that lies below those that stay."""
        now_ms = self._clock.now_ms()
        limits = Retention(self.config.max_retention_bytes, self.config.max_retention_ms)
        while self.snapshots.oldest_is_due(limits, self._log.size, now_ms):
            keep = self.snapshots.ids[1]
            if not self._log.delete_records(keep.offset):
                return
            for removal in self._log.delete_old_segments(now_ms):
                self._remove_later(removal.run)
            for path in self.snapshots.forget_before(keep):
                self._remove_later(partial(self._disk.remove, path))

    def _remove_later(self, remove: Callable[[], None]) -> None:
        def run() -> None:
            del self._background.removals[timer]
            self._remove(remove)

        timer = asyncio.get_running_loop().call_later(DELETE_DELAY_MS / 1000, run)
        self._background.removals[timer] = remove

    def _remove(self, remove: Callable[[], None]) -> None:
        try:
            remove()
        except OSError:
            logger.exception("%s: an old file stays", self.directory)

    # background

    def start_background(self) -> None:
        """Write a record where none was written for metadata.max.idle.interval.ms (0: never); look at retention."""
        if self.config.max_idle_interval_ms:
            self._expect_records()
        self._clean_sometimes()

    def _expect_records(self) -> None:
        seen_offset = self.next_offset

        def idle() -> None:
            if self.next_offset == seen_offset:
                self.append([NO_OP]).add_done_callback(asyncio.Future.exception)
            self._expect_records()

        self._again("idle", self.config.max_idle_interval_ms / 1000, idle)

    def _clean_sometimes(self) -> None:
        self._clean_due = True
        self._take_turns()
        self._again("clean", CLEAN_INTERVAL_S, self._clean_sometimes)

    def _again(self, name: str, delay_s: float, call: Callable[[], None]) -> None:
        self._background.timers[name] = asyncio.get_running_loop().call_later(delay_s, call)

    def _stop_timers(self) -> None:
        for timer in self._background.timers.values():
            timer.cancel()

    # end

    async def close(self) -> None:
        """Commit what waits, then leave the log as after a clean shutdown. Raises OSError."""
        if self._closed:
            return
        self._closed = True
        self._stop_timers()
        while (task := self._background.turn or self._background.snapshot) is not None:
            await asyncio.wait([task])
        for timer, remove in self._background.removals.items():
            timer.cancel()
            self._remove(remove)
        if self._failure is not None:
            self._log.close_handles()
        else:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._log.close, self._clock.now_ms())
        self._executor.shutdown()

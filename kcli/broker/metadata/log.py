"""The metadata log of a node, `__cluster_metadata-0`, and its metadata image: the base class for a single voter and for
a quorum.

    append   the active controller encodes records, applies them to the draft, writes them; once they are committed they
             are applied to the image, and the listeners are called
    image    the committed metadata, on every node; responses to clients and the state of partitions come from it
    draft    the image with the uncommitted records: the active controller decides by it, so that each decision takes
             uncommitted ones into account; other nodes have no draft
    upkeep   snapshots, retention; the active controller writes a NoOpRecord after metadata.max.idle.interval.ms without
             a record

If a node is the only voter, records are committed once they are on its disk (alone.py), else once a majority of the
voters has them (replicated.py). Source: KafkaRaftClient, QuorumController, MetadataLoader; KIP-500, KIP-595, KIP-630,
KIP-868.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from formats.batch_writer import Pair, write_batch
from formats.control_record import ControlRecord
from formats.file_name import METADATA_DIRECTORY
from kcli.broker.metadata.activation import BEGIN, END, TRANSACTIONS
from kcli.broker.metadata.config import MetadataLogConfig
from kcli.broker.metadata.errors import (
    MetadataLogClosed,
    MetadataLogFailed,
    NotController,
    RecordTooLarge,
    TooManyRecords,
)
from kcli.broker.metadata.load import open_log
from kcli.broker.metadata.quorum_view import QuorumView
from kcli.broker.metadata.upkeep import Upkeep
from kcli.broker.process.clock import Clock
from kcli.errors import KcliError, error_text
from kcli.log.disk import Disk
from kcli.log.live.partition_log import PartitionLog
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.snapshot import snapshot
from kcli.metadata_log.records import HEADER_BYTES, OVERHEAD_BYTES, decode_value, encode, split
from kcli.metadata_log.snapshot_file import SnapshotId, snapshot_batches

CLEAN_INTERVAL_S: Final = 60.0
SLICE_RECORDS: Final = 1000
"""The greatest number of records that one turn of the event loop processes."""
NO_OP: Final[Record] = ("NoOpRecord", 0, {})
BEGIN_PARTS: Final[Record] = (BEGIN[0], 0, {"name": "Records of several batches"})

Listener = Callable[[Sequence[Record]], None]
"""A function that is called with records once they are committed and in the image."""

logger = logging.getLogger("kcli.broker")


@dataclass(frozen=True, slots=True)
class Append:
    """Records, or control records, that are not committed yet. first_offset: the offset of the first record. batches:
    the records, encoded. done: a future that gets the offset of the last record at the commit."""

    records: Sequence[Record]
    first_offset: int
    batches: Sequence[bytearray]
    done: asyncio.Future[int]
    controls: Sequence[ControlRecord] = ()

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        return self.first_offset + len(self.records) + len(self.controls)


class MetadataLog(ABC):
    """A node's metadata log. It is used on the event loop's thread; the constructor and the methods that only read need
    no running loop.

    image: the committed metadata.
    next_offset: the offset of the next record.
    listeners: called with records once they are committed and in the image.
    on_leadership: called when this node becomes the active controller, and when it resigns.
    on_leader: called when the leader of the quorum has changed.
    on_failure: called once, when the log has failed.
    """

    def __init__(
        self,
        log_directory: Path,
        *,
        config: MetadataLogConfig | None = None,
        disk: Disk | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Open or create the log in metadata.log.dir, which must be formatted and locked. Raises StartRefused,
        UnreadableInput, OSError."""
        self.config = MetadataLogConfig() if config is None else config
        self.image = MetadataImage()
        self.next_offset = 0
        self.listeners: list[Listener] = []
        self.on_leadership: list[Callable[[], None]] = []
        self.on_leader: list[Callable[[], None]] = []
        self.on_failure: Callable[[Exception], None] | None = None
        self._draft: MetadataImage | None = None
        self._clock = Clock() if clock is None else clock
        self._failure: Exception | None = None
        self._closed = False
        self._queue: list[Append] = []
        self._snapshot: asyncio.Future[None] | None = None
        self._last_timestamp_ms = 0
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metadata-log")
        self._disk = Disk() if disk is None else disk
        self._waits = self._disk.waits
        self._directory = log_directory
        now_ms = self._clock.now_ms()
        self._log, self._snapshots = open_log(log_directory / METADATA_DIRECTORY, self._disk, self.config, now_ms)

    def _start_upkeep(self, bytes_since: int) -> None:
        """Begin to watch whether a snapshot is due. bytes_since: the size of the batches after the latest snapshot."""
        now_ms = self._clock.now_ms()
        self._upkeep = Upkeep(self._disk, self._snapshots, self.config, bytes_since=bytes_since, now_ms=now_ms)

    # state

    @property
    def draft(self) -> MetadataImage:
        """The image with the uncommitted records applied. Raises NotController."""
        if self._draft is None:
            raise NotController("this node is not the active controller")
        return self._draft

    @property
    @abstractmethod
    def is_leader(self) -> bool:
        """Whether this node is the active controller."""

    @property
    @abstractmethod
    def leader_id(self) -> int | None:
        """The id of the active controller; None if unknown."""

    @property
    @abstractmethod
    def leader_address(self) -> tuple[str, int] | None:
        """The host and port of the active controller's listener for brokers; None if unknown."""

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The latest leader epoch of the quorum that this node knows."""

    @property
    @abstractmethod
    def kraft_version(self) -> int:
        """The level of kraft.version."""

    @abstractmethod
    def kraft_upgrade(self, *, validate_only: bool) -> Callable[[int], None]:
        """Return a function that raises kraft.version to a given level, or with `validate_only` only checks that level.
        The returned function may raise Refused. A later `append` waits for the commit of the new level."""

    @property
    @abstractmethod
    def view(self) -> QuorumView:
        """Return the state of the quorum, which only its leader knows, for DescribeQuorum. Raises NotController."""

    @property
    def high_watermark(self) -> int:
        """The offset after the last committed record."""
        return self._log.high_watermark

    @property
    def log(self) -> PartitionLog:
        """The log, for reading only."""
        return self._log

    @property
    def snapshots(self) -> Sequence[SnapshotId]:
        """The ids of the snapshots, from the oldest to the latest."""
        return self._upkeep.snapshots.ids

    # appending

    def append(self, records: Sequence[Record]) -> asyncio.Future[int]:
        """Append all of the records or none; they are in the draft when this method returns.

        Return a future with the offset of the last record, which is done once the records are committed and in the
        image, and the listeners were called; if `records` is empty, once this holds for all earlier records. The future
        raises MetadataLogFailed, or NotController if another node became the active controller before the commit.

        Raises FormatError, RecordTooLarge and TooManyRecords, after which nothing has changed; InconsistentRecord,
        after which the log has failed; MetadataLogFailed, MetadataLogClosed, NotController.
        """
        if self._failure is not None:
            raise MetadataLogFailed(str(self._failure))
        if self._closed:
            raise MetadataLogClosed("the metadata log is closed")
        draft = self.draft
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        prepared, batches = self._prepare(draft, records)
        if not prepared and not self._queue:
            done.set_result(self.next_offset - 1)
            return done
        try:
            apply(draft, prepared, self.next_offset)
        except KcliError as error:
            self._fail(error)
            raise
        draft.take_changes()
        one = Append(prepared, self.next_offset, batches, done)
        self._queue.append(one)
        self.next_offset += len(prepared)
        self._appended(one)
        return done

    @abstractmethod
    def _appended(self, one: Append) -> None:
        """Begin to write the records of `one`, which are in the queue and in the draft already."""

    def _prepare(self, image: MetadataImage, records: Sequence[Record]) -> tuple[list[Record], list[bytearray]]:
        """Return the records with all their fields, as a replay decodes them, and the encoded batches to write. If
        there is more than one batch, the records are enclosed in a BeginTransactionRecord and an EndTransactionRecord.
        Raises FormatError, RecordTooLarge, TooManyRecords."""
        values = [encode(record) for record in records]
        record_bytes_max = self.config.batch_bytes_max - HEADER_BYTES - OVERHEAD_BYTES
        for value, (name, _, _) in zip(values, records, strict=True):
            if len(value) > record_bytes_max:
                raise RecordTooLarge(f"a {name} of {len(value):,} bytes, a batch takes {record_bytes_max:,}")
        parts = list(split(values, bytes_max=self.config.batch_bytes_max))
        if len(parts) > 1 and records[0][0] != BEGIN[0]:
            if image.metadata_version < TRANSACTIONS:
                raise TooManyRecords(f"{len(records):,} records do not fit into a batch")
            values = [encode(BEGIN_PARTS), *values, encode(END)]
            parts = list(split(values, bytes_max=self.config.batch_bytes_max))
        now_ms = self._clock.now_ms()
        batches = [write_batch([(None, value) for value in part], now_ms) for part in parts]
        return [decode_value(value) for value in values], batches

    async def _in_thread(self, work: Callable[[], object]) -> None:
        """Run `work`, which waits for the disk, in a thread; or without a thread if the disk does not wait."""
        if self._waits:
            await asyncio.get_running_loop().run_in_executor(self._executor, work)
        else:
            work()

    def _call_listeners(self, records: Sequence[Record]) -> None:
        for listener in self.listeners:
            try:
                listener(records)
            except Exception:
                logger.exception("a listener of the metadata log failed")

    def _call_all(self, calls: Sequence[Callable[[], None]]) -> None:
        for each in list(calls):
            try:
                each()
            except Exception:
                logger.exception("a listener of the quorum failed")

    def _fail(self, error: Exception) -> None:
        """Stop the log after an error: no more records can be appended, uncommitted appends fail with
        MetadataLogFailed, and `on_failure` is called."""
        self._failure = error
        self._stop_timers()
        logger.error("the metadata log failed: %s", error_text(error))
        self._end_queue(MetadataLogFailed(error_text(error)))
        if self._snapshot is not None:
            self._snapshot.cancel()
            self._snapshot = None
        if self.on_failure is not None:
            self.on_failure(error)

    def _end_queue(self, error: Exception) -> None:
        """Let the uncommitted appends fail with `error`."""
        for each in self._queue:
            if not each.done.done():
                each.done.set_exception(error)
                each.done.exception()
        self._queue.clear()

    # upkeep

    def take_snapshot(self) -> asyncio.Future[None]:
        """Write a snapshot of the image soon; only one snapshot is written at a time. Return a future that is done when
        the snapshot is written, or when writing it has failed, which is logged. The future is cancelled if the log
        fails before the snapshot is written."""
        if self._snapshot is None:
            self._snapshot = asyncio.get_running_loop().create_future()
            self._take_turns()
        return self._snapshot

    @abstractmethod
    def _take_turns(self) -> None:
        """Begin to write the snapshot that `take_snapshot` has requested."""

    @property
    def _can_snapshot(self) -> bool:
        return self._snapshot is not None and self._upkeep.writing is None and not self.image.in_transaction

    async def _begin_snapshot(self) -> None:
        """Copy the image's records, a slice in each turn of the event loop, and let a thread write them. No records may
        be applied to the image until the last slice is copied."""
        done, self._snapshot = self._snapshot, None
        assert done is not None, "a snapshot was requested"
        records: list[Record] = []
        for record in snapshot(self.image):
            records.append(record)
            if len(records) % SLICE_RECORDS == 0:
                await asyncio.sleep(0)
        now_ms = self._clock.now_ms()
        which, controls = self._snapshot_at()
        batches = snapshot_batches(records, which.epoch, now_ms, self._last_timestamp_ms, controls)

        def written(_: asyncio.Task[None]) -> None:
            self._snapshot_written(which)
            self._clean_soon()
            if not done.done():
                done.set_result(None)

        self._upkeep.write(which, batches, now_ms).add_done_callback(written)

    @abstractmethod
    def _snapshot_at(self) -> tuple[SnapshotId, Sequence[Pair]]:
        """Return the id of a snapshot of the current image, and the control records of the snapshot's header."""

    @abstractmethod
    def _snapshot_written(self, which: SnapshotId) -> None:
        """Called when the writing of a snapshot has ended. If it has failed, the snapshot is not in `snapshots`."""

    @abstractmethod
    def _clean_soon(self) -> None:
        """Apply retention in one of the next turns of the event loop."""

    def start_background(self) -> None:
        """From now on write a NoOpRecord after each metadata.max.idle.interval.ms without a record (0: never), and
        apply retention periodically."""
        if self.config.max_idle_interval_ms:
            self._expect_records()
        self._clean_sometimes()

    def _expect_records(self) -> None:
        offset_before = self.next_offset

        def idle() -> None:
            if self.is_leader and self.next_offset == offset_before:
                self.append([NO_OP]).add_done_callback(retrieve_exception)
            self._expect_records()

        self._again("idle", self.config.max_idle_interval_ms / 1000, idle)

    def _clean_sometimes(self) -> None:
        self._clean_soon()
        self._again("clean", CLEAN_INTERVAL_S, self._clean_sometimes)

    def _again(self, name: str, delay_s: float, call: Callable[[], None]) -> None:
        self._timers[name] = asyncio.get_running_loop().call_later(delay_s, call)

    def _stop_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    @abstractmethod
    async def close(self) -> None:
        """Close the log as in a clean shutdown. A LoneMetadataLog first commits the waiting appends; a
        ReplicatedMetadataLog first resigns if this node is the active controller, and leaves the quorum. Raises
        OSError."""

    async def _close_files(self) -> None:
        self._upkeep.close()
        if self._failure is not None:
            self._log.close_handles()
        else:
            await self._in_thread(partial(self._log.close, self._clock.now_ms()))
        self._executor.shutdown()


def apply(image: MetadataImage, records: Sequence[Record], first_offset: int) -> None:
    """Apply consecutive records to an image. Raises InconsistentRecord."""
    for offset, (name, _, value) in enumerate(records, first_offset):
        image.apply(name, value, offset)


def retrieve_exception(done: asyncio.Future[int]) -> None:
    """Mark the exception of a future that nothing awaits as retrieved, so that asyncio does not log the exception."""
    if not done.cancelled():
        done.exception()

"""The metadata log of a node that is its only voter, `__cluster_metadata-0`, and the image that it makes.

    start    open and replay it, lead a new epoch, write what a controller writes when it becomes active
    append   encode, apply to the draft, queue; one turn at a time: write all that waits, flush once in a thread, move
             the high watermark, apply to the image, tell listeners
    upkeep   snapshots, retention; a NoOpRecord where nothing was written for a while

The draft is the image ahead of what is committed: decisions are made on it, so that two that are made during one flush
know of each other. What is served, and what partitions follow, is the image.

Within a turn nothing else changes the log. Source: KafkaRaftClient, QuorumController, MetadataLoader; KIP-500, KIP-595,
KIP-630, KIP-868.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from formats.batch_writer import write_batch
from formats.file_name import METADATA_DIRECTORY
from kcli.broker.clock import Clock
from kcli.broker.metadata.activation import BEGIN, END, TRANSACTIONS, activation, read_bootstrap
from kcli.broker.metadata.config import MetadataLogConfig
from kcli.broker.metadata.errors import MetadataLogClosed, MetadataLogFailed, TooManyRecords
from kcli.broker.metadata.load import Replay, open_log
from kcli.broker.metadata.quorum import Quorum
from kcli.broker.metadata.records import CONTROL, decode_value, encode, split
from kcli.broker.metadata.snapshots import SnapshotId, snapshot_batches
from kcli.broker.metadata.upkeep import Upkeep
from kcli.errors import KcliError
from kcli.log.disk import Disk
from kcli.log.partition_log import PartitionLog
from kcli.log.validator import Origin
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.snapshot import snapshot

CLEAN_INTERVAL_S: Final = 60.0
SLICE_RECORDS: Final = 1000
"""How many records may hold up everything else."""
NO_OP: Final[Record] = ("NoOpRecord", 0, {})
BEGIN_PARTS: Final[Record] = (BEGIN[0], 0, {"name": "Records of several batches"})
TIMESTAMP: Final = slice(35, 43)
"""Where a batch has its largest timestamp."""

Listener = Callable[[Sequence[Record]], None]
"""Hears of the records of one append, once they are committed and in the image."""

logger = logging.getLogger("kcli.broker")


@dataclass(frozen=True, slots=True)
class _Append:
    """Records on their way. first_offset: of the first of them."""

    records: Sequence[Record]
    first_offset: int
    batches: Sequence[bytearray]
    done: asyncio.Future[int]


class MetadataLog:
    """See above. All calls come from the thread of the event loop; the constructor and what only reads need no loop.

    image: what is committed. draft: with what is on its way. next_offset: where the next record goes. on_failure is
    called once, when nothing can be appended any more.
    """

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
        UnreadableInput, NotTheOnlyVoter, OSError.
        """
        self.config = MetadataLogConfig() if config is None else config
        self.image = MetadataImage()
        self.draft = MetadataImage()
        self.quorum = Quorum(node_id, directory_id)
        self.listeners: list[Listener] = []
        self.on_failure: Callable[[Exception], None] | None = None
        self._clock = Clock() if clock is None else clock
        self._failure: Exception | None = None
        self._closed = False
        self._queue: list[_Append] = []
        self._clean_due = False
        self._snapshot: asyncio.Future[None] | None = None
        self._turn: asyncio.Task[None] | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metadata-log")
        disk = Disk() if disk is None else disk
        self._waits = disk.waits
        now_ms = self._clock.now_ms()
        self._log, snapshots = open_log(log_directory / METADATA_DIRECTORY, disk, self.config, now_ms)
        try:
            replay = Replay((self.image, self.draft), self.quorum)
            replay.run(self._log, snapshots)
            self._last_timestamp_ms = replay.last_timestamp_ms
            self._upkeep = Upkeep(disk, snapshots, self.config, bytes_since=replay.bytes_since_snapshot, now_ms=now_ms)
            self.next_offset = self._log.log_end_offset
            self._lead(disk, log_directory)
        except BaseException:
            self._log.close_handles()
            raise

    def _lead(self, disk: Disk, log_directory: Path) -> None:
        """Begin an epoch, and write what is to be written first."""
        latest = self._upkeep.snapshots.latest
        last_epoch = self._log.latest_epoch or (0 if latest is None else latest.epoch)
        begin = self.quorum.begin_epoch(disk, self._log.directory, last_epoch, self.next_offset)
        self._write(write_batch(begin, self._clock.now_ms(), attributes=CONTROL))
        self.next_offset += len(begin)
        bootstrap = [] if self.image.metadata_version else read_bootstrap(log_directory)
        records = activation(self.image, bootstrap, self.config.min_insync_replicas)
        if records:
            prepared, batches = self._prepare(records)
            for data in batches:
                self._write(data)
            _apply(self.draft, prepared, self.next_offset)
            _apply(self.image, prepared, self.next_offset)
            self.next_offset += len(prepared)
        self._log.flush(self._clock.now_ms())
        self._log.update_high_watermark(self._log.log_end_offset)
        self.draft.take_changes()

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

    @property
    def snapshots(self) -> Sequence[SnapshotId]:
        """The snapshots there are, from the oldest to the latest."""
        return self._upkeep.snapshots.ids

    # appending

    def append(self, records: Sequence[Record]) -> asyncio.Future[int]:
        """Append records, all or none of them; the draft has them at once.

        The future gives the offset of the last one, once the image has them and listeners were told; without records,
        once all that was appended before is. It fails with MetadataLogFailed. Raises FormatError and TooManyRecords,
        and nothing has changed; InconsistentRecord, and the log has failed; MetadataLogFailed, MetadataLogClosed.
        """
        if self._failure is not None:
            raise MetadataLogFailed(str(self._failure))
        if self._closed:
            raise MetadataLogClosed("the metadata log is closed")
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        prepared, batches = self._prepare(records)
        if not prepared and not self._queue:
            done.set_result(self.next_offset - 1)
            return done
        try:
            _apply(self.draft, prepared, self.next_offset)
        except KcliError as error:
            self._fail(error)
            raise
        self.draft.take_changes()
        self._queue.append(_Append(prepared, self.next_offset, batches, done))
        self.next_offset += len(prepared)
        self._take_turns()
        return done

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

    def _write(self, data: bytearray) -> None:
        self._log.append_as_leader(data, self.quorum.epoch, self._clock.now_ms(), origin=Origin.COORDINATOR)
        self._last_timestamp_ms = int.from_bytes(data[TIMESTAMP])
        self._upkeep.appended(len(data))

    def _take_turns(self) -> None:
        if self._turn is None:
            self._turn = asyncio.get_running_loop().create_task(self._turns())

    async def _turns(self) -> None:
        try:
            while self._queue or self._clean_due or self._can_snapshot:
                if self._queue:
                    await self._commit()
                if self._can_snapshot:
                    await self._begin_snapshot()
                if self._clean_due:
                    self._clean_due = False
                    self._upkeep.clean(self._log, self._clock.now_ms())
        except Exception as error:  # noqa: BLE001 (whatever it is, the log is not to be used any more)
            self._fail(error)
        finally:
            self._turn = None

    async def _commit(self) -> None:
        """Write, flush and apply what waits, as much of it as may be applied at once."""
        group = self._group()
        for each in group:
            for data in each.batches:
                self._write(data)
        flush = self._log.begin_flush()
        if flush is not None:
            await self._in_thread(flush.run)
            self._log.end_flush(flush, self._clock.now_ms())
        self._log.update_high_watermark(self._log.log_end_offset)
        for each in group:
            _apply(self.image, each.records, each.first_offset)
            if each.records:
                self._tell(each.records)
            if not each.done.done():
                each.done.set_result(each.first_offset + len(each.records) - 1)
        del self._queue[: len(group)]
        if self._upkeep.is_snapshot_due(self._clock.now_ms()) and not self._closed:
            _ = self.take_snapshot()

    async def _in_thread(self, work: Callable[[], object]) -> None:
        """Do what waits for the device, where it does."""
        if self._waits:
            await asyncio.get_running_loop().run_in_executor(self._executor, work)
        else:
            work()

    def _group(self) -> list[_Append]:
        count = 0
        for i, each in enumerate(self._queue):
            count += len(each.records)
            if count > SLICE_RECORDS and i:
                return self._queue[:i]
        return self._queue[:]

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
        if self._snapshot is not None:
            self._snapshot.cancel()
            self._snapshot = None
        if self.on_failure is not None:
            self.on_failure(error)

    # upkeep

    def take_snapshot(self) -> asyncio.Future[None]:
        """Write a snapshot of the image as it is at the next turn, one at a time; done, or failed and logged, with the
        future. Cancelled where the log fails first."""
        if self._snapshot is None:
            self._snapshot = asyncio.get_running_loop().create_future()
            self._take_turns()
        return self._snapshot

    @property
    def _can_snapshot(self) -> bool:
        return self._snapshot is not None and self._upkeep.writing is None and not self.image.in_transaction

    async def _begin_snapshot(self) -> None:
        """Take the records, a slice at a time, and leave the rest to a thread."""
        done, self._snapshot = self._snapshot, None
        assert done is not None, "it was asked for"
        records: list[Record] = []
        for record in snapshot(self.image):
            records.append(record)
            if len(records) % SLICE_RECORDS == 0:
                await asyncio.sleep(0)
        now_ms = self._clock.now_ms()
        which = SnapshotId(self._log.high_watermark, self.quorum.epoch)
        batches = snapshot_batches(records, which.epoch, now_ms, self._last_timestamp_ms, self.quorum.controls())

        def written(_: asyncio.Task[None]) -> None:
            self._clean_soon()
            if not done.done():
                done.set_result(None)

        self._upkeep.write(which, batches, now_ms).add_done_callback(written)

    def _clean_soon(self) -> None:
        self._clean_due = True
        self._take_turns()

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
        self._clean_soon()
        self._again("clean", CLEAN_INTERVAL_S, self._clean_sometimes)

    def _again(self, name: str, delay_s: float, call: Callable[[], None]) -> None:
        self._timers[name] = asyncio.get_running_loop().call_later(delay_s, call)

    def _stop_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    async def close(self) -> None:
        """Commit what waits, then leave the log as after a clean shutdown. Raises OSError."""
        if self._closed:
            return
        self._closed = True
        self._stop_timers()
        while (task := self._turn or self._upkeep.writing) is not None:
            await asyncio.wait([task])
        self._upkeep.close()
        if self._failure is not None:
            self._log.close_handles()
        else:
            await self._in_thread(partial(self._log.close, self._clock.now_ms()))
        self._executor.shutdown()


def _apply(image: MetadataImage, records: Sequence[Record], first_offset: int) -> None:
    for offset, (name, _, value) in enumerate(records, first_offset):
        image.apply(name, value, offset)

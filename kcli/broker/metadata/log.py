"""The metadata log of a node, `__cluster_metadata-0`, and the image that it makes: what all nodes have in common.

    append   the active controller's: encode, apply to the draft, write; once committed it is in the image, and
             listeners hear
    image    what is committed, on every node; what is served, and what partitions follow
    draft    the image ahead of what is committed: decisions are made on it, so that two that are made during one flush
             know of each other; only the active controller has one
    upkeep   snapshots, retention; the active controller writes a NoOpRecord where nothing was written for a while

A node that is its only voter commits by itself (alone.py), others with a quorum (replicated.py). Source:
KafkaRaftClient, QuorumController, MetadataLoader; KIP-500, KIP-595, KIP-630, KIP-868.
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
from kcli.broker.clock import Clock
from kcli.broker.metadata.activation import BEGIN, END, TRANSACTIONS
from kcli.broker.metadata.config import MetadataLogConfig
from kcli.broker.metadata.errors import MetadataLogClosed, MetadataLogFailed, NotController, TooManyRecords
from kcli.broker.metadata.load import open_log
from kcli.broker.metadata.quorum_view import QuorumView
from kcli.broker.metadata.records import decode_value, encode, split
from kcli.broker.metadata.snapshots import SnapshotId, snapshot_batches
from kcli.broker.metadata.upkeep import Upkeep
from kcli.errors import KcliError, error_text
from kcli.log.disk import Disk
from kcli.log.partition_log import PartitionLog
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.snapshot import snapshot

CLEAN_INTERVAL_S: Final = 60.0
SLICE_RECORDS: Final = 1000
"""How many records may hold up everything else."""
NO_OP: Final[Record] = ("NoOpRecord", 0, {})
BEGIN_PARTS: Final[Record] = (BEGIN[0], 0, {"name": "Records of several batches"})

Listener = Callable[[Sequence[Record]], None]
"""Hears of records, once they are committed and in the image."""

logger = logging.getLogger("kcli.broker")


@dataclass(frozen=True, slots=True)
class Append:
    """Records, or control records, on their way. first_offset: of the first of them."""

    records: Sequence[Record]
    first_offset: int
    batches: Sequence[bytearray]
    done: asyncio.Future[int]
    controls: Sequence[ControlRecord] = ()

    @property
    def end_offset(self) -> int:
        """Behind the last of them."""
        return self.first_offset + len(self.records) + len(self.controls)


class MetadataLog(ABC):
    """See above. All calls come from the thread of the event loop; the constructor and what only reads need no loop.

    image: what is committed. next_offset: where the next record goes. on_leadership: called when this node became, or
    is no more, the active controller; on_leader: when another node leads than before. on_failure is called once, when
    nothing can be appended any more.
    """

    def __init__(
        self,
        log_directory: Path,
        *,
        config: MetadataLogConfig | None = None,
        disk: Disk | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Open, or begin, the log in metadata.log.dir, which must be formatted and locked. Raises StartRefused,
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
        """bytes_since: of the batches behind the latest snapshot."""
        now_ms = self._clock.now_ms()
        self._upkeep = Upkeep(self._disk, self._snapshots, self.config, bytes_since=bytes_since, now_ms=now_ms)

    # what there is

    @property
    def draft(self) -> MetadataImage:
        """With what is on its way. Raises NotController."""
        if self._draft is None:
            raise NotController("this node is not the active controller")
        return self._draft

    @property
    @abstractmethod
    def is_leader(self) -> bool:
        """Is this node the active controller?"""

    @property
    @abstractmethod
    def leader_id(self) -> int | None:
        """Who is; None where that is not known."""

    @property
    @abstractmethod
    def leader_address(self) -> tuple[str, int] | None:
        """Where that one listens for brokers."""

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The leader epoch that this node knows of."""

    @property
    @abstractmethod
    def kraft_version(self) -> int:
        """The level of kraft.version."""

    @abstractmethod
    def kraft_upgrade(self, *, validate_only: bool) -> Callable[[int], None]:
        """How to raise kraft.version, which may raise Refused; `append` waits for it."""

    @property
    @abstractmethod
    def view(self) -> QuorumView:
        """The quorum as its leader sees it. Raises NotController."""

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
        once all that was appended before is. It fails with MetadataLogFailed, or with NotController where another node
        became the active controller first. Raises FormatError and TooManyRecords, and nothing has changed;
        InconsistentRecord, and the log has failed; MetadataLogFailed, MetadataLogClosed, NotController.
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
        """It is in the queue, and in the draft."""

    def _prepare(self, image: MetadataImage, records: Sequence[Record]) -> tuple[list[Record], list[bytearray]]:
        """The records with all their fields, as a replay will read them, and their batches."""
        values = [encode(record) for record in records]
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
        """Do what waits for the device, where it does."""
        if self._waits:
            await asyncio.get_running_loop().run_in_executor(self._executor, work)
        else:
            work()

    def _tell(self, records: Sequence[Record]) -> None:
        for listener in self.listeners:
            try:
                listener(records)
            except Exception:
                logger.exception("a listener of the metadata log failed")

    def _tell_all(self, calls: Sequence[Callable[[], None]]) -> None:
        for each in list(calls):
            try:
                each()
            except Exception:
                logger.exception("a listener of the quorum failed")

    def _fail(self, error: Exception) -> None:
        """Nothing can be appended any more: tell all who wait."""
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
        """What is on its way will not be heard of any more."""
        for each in self._queue:
            if not each.done.done():
                each.done.set_exception(error)
                each.done.exception()
        self._queue.clear()

    # upkeep

    def take_snapshot(self) -> asyncio.Future[None]:
        """Write a snapshot of the image as it is at the next turn, one at a time; done, or failed and logged, with the
        future. Cancelled where the log fails first."""
        if self._snapshot is None:
            self._snapshot = asyncio.get_running_loop().create_future()
            self._take_turns()
        return self._snapshot

    @abstractmethod
    def _take_turns(self) -> None:
        """Do what is to be done, soon."""

    @property
    def _can_snapshot(self) -> bool:
        return self._snapshot is not None and self._upkeep.writing is None and not self.image.in_transaction

    async def _begin_snapshot(self) -> None:
        """Take the records, a slice at a time, and leave the rest to a thread. Nothing may be applied meanwhile."""
        done, self._snapshot = self._snapshot, None
        assert done is not None, "it was asked for"
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
        """What the image is a snapshot of, and what its header says of the quorum."""

    @abstractmethod
    def _snapshot_written(self, which: SnapshotId) -> None:
        """It may have failed: then it is not among the snapshots."""

    @abstractmethod
    def _clean_soon(self) -> None:
        """Look at retention."""

    def start_background(self) -> None:
        """Write a record where none was written for metadata.max.idle.interval.ms (0: never); look at retention."""
        if self.config.max_idle_interval_ms:
            self._expect_records()
        self._clean_sometimes()

    def _expect_records(self) -> None:
        seen_offset = self.next_offset

        def idle() -> None:
            if self.is_leader and self.next_offset == seen_offset:
                self.append([NO_OP]).add_done_callback(look)
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
        """Commit what waits, then leave the log as after a clean shutdown. Raises OSError."""

    async def _close_files(self) -> None:
        self._upkeep.close()
        if self._failure is not None:
            self._log.close_handles()
        else:
            await self._in_thread(partial(self._log.close, self._clock.now_ms()))
        self._executor.shutdown()


def apply(image: MetadataImage, records: Sequence[Record], first_offset: int) -> None:
    """Take in records that follow each other. Raises InconsistentRecord."""
    for offset, (name, _, value) in enumerate(records, first_offset):
        image.apply(name, value, offset)


def look(done: asyncio.Future[int]) -> None:
    """Nobody waits for it."""
    if not done.cancelled():
        done.exception()

"""The background work on a broker's logs, which does not delay requests.

    retention        every log.retention.check.interval.ms   delete old segments of logs that are not compacted; for
                                                             compacted logs, each round of the cleaner does it
    flush            every log.flush.scheduler.interval.ms   flush logs whose flush.ms is over; a rolled segment at once
    checkpoints      every 60 s   write the checkpoint files; replication-offset-checkpoint (high watermarks) every 5 s
    producers        every producer.id.expiration.check.interval.ms   remove expired producer ids
    descriptors      every 30 s   close the files of old segments while most descriptors are in use
    deletion         file.delete.delay.ms after segments or a partition were deleted   remove their files

Each turn of the event loop visits one log; threads wait for the disk.
Source: LogManager, ReplicaManager, KafkaScheduler.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

from formats.file_name import FileKind
from kcli.broker.config import BrokerConfig
from kcli.broker.log_dirs import checkpoints
from kcli.broker.log_dirs.checkpoints import CheckpointWriter
from kcli.broker.log_dirs.directories import LogDir, LogDirs
from kcli.broker.logs.compaction import Compactor
from kcli.broker.partition.partitions import Partition, Partitions
from kcli.broker.process import descriptors
from kcli.broker.process.clock import Clock
from kcli.broker.process.unattended import begin
from kcli.errors import KcliError
from kcli.log.config import LogConfig
from kcli.log.disk import Disk
from kcli.log.live.partition_log import PartitionLog
from kcli.log.live.segments import Removal
from kcli.protocol.topic_partition import TopicPartition

log = logging.getLogger("kcli.broker")

T = TypeVar("T")
Step = Callable[[], Coroutine[Any, Any, None]]
NEVER_MS = 10 * 365 * 86_400_000  # an interval of at least ten years turns the work off
DESCRIPTORS_INTERVAL_MS = 30_000
DESCRIPTORS_SHARE = 0.7  # files of old segments are closed above this share of the limit of open files


class Logs(Protocol):
    """The parts of the log manager that the background work uses; `LogManager` implements this protocol."""

    config: BrokerConfig
    dirs: LogDirs
    disk: Disk
    clock: Clock
    partitions: Partitions
    writers: dict[LogDir, CheckpointWriter]

    @property
    def default_log_config(self) -> LogConfig:
        """The log configuration of a topic that has no configuration of its own."""
        ...

    def logs_in(self, directory: LogDir) -> Iterator[tuple[TopicPartition, PartitionLog]]:
        """Yield the partition and log of each log in one directory."""
        ...

    def directory_failed(self, directory: LogDir, error: BaseException) -> None:
        """Take a log directory offline."""
        ...


class Background:
    """The background work on a broker's logs. `start` and `stop` belong to the log manager; the other methods may be
    called at any time between them."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self.compactor = Compactor(logs.config, logs.clock, self)
        self._executor = ThreadPoolExecutor(logs.config.number("background.threads"), "log-background")
        self._tasks: set[asyncio.Task[None]] = set()
        # timer -> the function that `stop` calls in place of the timer's
        self._timers: dict[asyncio.TimerHandle, Callable[[], object]] = {}
        self._flushing: set[Partition] = set()
        self._is_running = self._is_over = self._is_closed = False

    def start(self, cleaned: Mapping[LogDir, Mapping[TopicPartition, int]]) -> None:
        """Start the timers and the cleaner. cleaned: the contents of cleaner-offset-checkpoint, by log directory."""
        self._is_running = True
        config = self._logs.config
        first_ms = config.log_initial_task_delay_ms
        self._every(first_ms, config.log_retention_check_interval_ms, self.retain)
        self._every(first_ms, config.log_flush_scheduler_interval_ms, self.flush_due)
        self._every(first_ms, config.log_flush_offset_checkpoint_interval_ms, self.write_recovery_points)
        self._every(first_ms, config.log_flush_start_offset_checkpoint_interval_ms, self.write_log_starts)
        high_watermarks_ms = config.replica_high_watermark_checkpoint_interval_ms
        self._every(high_watermarks_ms, high_watermarks_ms, self.write_high_watermarks)
        expiry_ms = config.producer_id_expiration_check_interval_ms
        self._every(expiry_ms, expiry_ms, self.expire_producers)
        self._every(DESCRIPTORS_INTERVAL_MS, DESCRIPTORS_INTERVAL_MS, self.release_descriptors)
        self.compactor.start(cleaned)
        self._drop_elsewhere(cleaned)

    def _drop_elsewhere(self, cleaned: Mapping[LogDir, Mapping[TopicPartition, int]]) -> None:
        """Drop the entries of cleaner-offset-checkpoint for partitions that are not in the log directory, as one that
        was moved by hand leaves it: Kafka's cleaner ends if two files have an entry of one partition."""
        for directory, offsets in cleaned.items():
            here = {each.key for each in self._logs.partitions if each.directory is directory}
            if not offsets.keys() <= here:
                self.compactor.forget_all_but(directory, here)
                self.spawn(self.write_cleaned(directory))

    async def stop(self) -> None:
        """Stop the timers and the cleaner, wait for the work in threads, and close the files of deleted logs."""
        self._is_running, self._is_over = False, True
        for timer in self._timers:
            timer.cancel()
        await self.compactor.stop()
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._is_closed = True
        self._executor.shutdown()
        for at_stop in self._timers.values():
            at_stop()
        self._timers.clear()

    def reconfigured(self) -> None:
        """Apply a change of the broker's configuration."""
        self.compactor.reconfigured()

    def forget(self, removed: Partition) -> None:
        """Stop cleaning the log of a partition that was deleted, or whose log directory has failed."""
        self.compactor.abort(removed)

    # threads, tasks, timers

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Run `call`, which waits for a disk, in a thread. Return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` as a task, for whose end `stop` waits. Once `stop` is over, `work` is not run: after a disk
        failure that ends the broker, code may still call this."""
        if self._is_closed:
            work.close()
            return
        task = begin(work, "background work")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def later(self, delay_ms: int, call: Callable[[], object], at_stop: Callable[[], object] = lambda: None) -> None:
        """Call `call` on the event loop after delay_ms. If the broker stops before that, call `at_stop` instead."""
        if self._is_over:
            at_stop()
            return

        def run() -> None:
            del self._timers[timer]
            call()

        timer = asyncio.get_running_loop().call_later(delay_ms / 1000, run)
        self._timers[timer] = at_stop

    def _every(self, first_ms: int, interval_ms: int, step: Step) -> None:
        if interval_ms < NEVER_MS:
            self.later(first_ms, lambda: self.spawn(self._repeat(interval_ms, step)))

    async def _repeat(self, interval_ms: int, step: Step) -> None:
        try:
            await step()
        finally:
            if self._is_running:
                self._every(max(interval_ms, 1), interval_ms, step)

    async def each_log(self, visit: Callable[[Partition, PartitionLog], object]) -> None:
        """Call `visit` for every log, one log in each turn of the event loop. An I/O error takes the log's directory
        offline."""
        for partition in self._logs.partitions:
            opened = partition.opened_log
            if opened is None or partition.is_offline or partition.is_deleted:
                continue
            try:
                visit(partition, opened)
            except (OSError, KcliError) as error:
                partition.failed(error)
            await asyncio.sleep(0)
            if not self._is_running:
                return

    # retention and deletion

    async def retain(self) -> None:
        """Apply retention to the logs that are not compacted."""

        def visit(partition: Partition, opened: PartitionLog) -> None:
            if not opened.config.compact:
                self.retain_one(partition, opened)

        await self.each_log(visit)

    def retain_one(self, partition: Partition, opened: PartitionLog) -> None:
        """Delete those segments of one log that are below the log start offset or beyond retention.ms or
        retention.bytes, and of a tiered log those beyond local.retention.ms or local.retention.bytes that are in remote
        storage. Raises OSError."""
        before = opened.active_base_offset
        removals = opened.delete_old_segments(self._logs.clock.now_ms())
        if opened.active_base_offset != before:
            self.flush_soon(partition)
        if removals:
            count = sum(len(each.segments) for each in removals)
            log.info("%s: %d old segments deleted, it begins at %d", partition, count, opened.local_log_start_offset)
            self.epochs_changed(partition)
            partition.log_start_moved()
            self.remove_later(partition, removals)

    def epochs_changed(self, partition: Partition) -> None:
        """Write leader-epoch-checkpoint, because the log has a new leader epoch or has lost some."""
        opened = partition.opened_log
        if opened is not None and not partition.is_offline:
            self.spawn(self._on_disk(partition, opened.write_stale_epochs))

    def remove_later(self, partition: Partition, removals: Iterable[Removal]) -> None:
        """Remove the files of deleted segments when file.delete.delay.ms is over."""
        for removal in removals:
            self.later(
                removal.delay_ms,
                lambda removal=removal: self.spawn(self._on_disk(partition, removal.run)),  # type: ignore[misc]
                removal.close,
            )

    async def _on_disk(self, partition: Partition, call: Callable[[], object]) -> None:
        try:
            await self.in_thread(call)
        except OSError as error:
            if not (partition.is_deleted or partition.is_offline):
                partition.failed(error)

    def delete_tree(self, directory: LogDir, path: Path, opened: PartitionLog | None) -> None:
        """Remove the directory `path` of a deleted partition when file.delete.delay.ms is over. directory: its log
        directory, which goes offline after an I/O error. opened: the partition's log, None if it is not open."""

        def close() -> None:
            if opened is not None:
                opened.close_handles()

        def remove() -> None:
            close()
            self._logs.disk.remove_tree(path)
            log.info("deleted log in %s", path)

        async def run() -> None:
            try:
                await self.in_thread(remove)
            except FileNotFoundError:
                log.info("%s was deleted already", path)
            except OSError as error:
                self._logs.directory_failed(directory, error)

        self.later(self._logs.default_log_config.file_delete_delay_ms, lambda: self.spawn(run()), close)

    # flushing

    def flush_soon(self, partition: Partition) -> None:
        """Flush a log whose segment was rolled."""
        if self._is_running and partition not in self._flushing:
            self.spawn(self.flush_one(partition))

    async def flush_one(self, partition: Partition) -> None:
        """Flush, in a thread, those segments of one log that are due to be flushed."""
        opened = partition.opened_log
        if opened is None or partition in self._flushing:
            return
        self._flushing.add(partition)
        try:
            while not (partition.is_offline or partition.is_deleted):
                flush = opened.begin_due_flush(self._logs.clock.now_ms())
                if flush is None:
                    return
                await self.in_thread(flush.run)
                opened.end_flush(flush, self._logs.clock.now_ms())
        except OSError as error:
            if not partition.is_deleted:
                partition.failed(error)
        finally:
            self._flushing.discard(partition)

    async def flush_due(self) -> None:
        """Flush the logs that were not flushed for flush.ms."""
        due: list[Partition] = []
        now_ms = self._logs.clock.now_ms()

        def visit(partition: Partition, opened: PartitionLog) -> None:
            if (
                opened.log_end_offset > opened.recovery_point
                and now_ms - opened.last_flush_ms >= opened.config.flush_ms
            ):
                due.append(partition)

        await self.each_log(visit)
        for partition in due:
            await self.flush_one(partition)

    # checkpoints

    async def write_recovery_points(self) -> None:
        """Write recovery-point-offset-checkpoint."""
        await self._write(FileKind.RECOVERY_POINTS)

    async def write_log_starts(self) -> None:
        """Write replication-offset-checkpoint and log-start-offset-checkpoint, see `_write`."""
        await self._write(FileKind.REPLICATION_OFFSETS, FileKind.LOG_START_OFFSETS)

    async def write_high_watermarks(self) -> None:
        """Write replication-offset-checkpoint."""
        await self._write(FileKind.REPLICATION_OFFSETS)

    def checkpoint_soon(self, directory: LogDir) -> None:
        """Write the checkpoints of a log directory, because partitions were removed from it, or moved to or from it."""
        self.compactor.forget_all_but(directory, {key for key, _ in self._logs.logs_in(directory)})
        if self._is_running:
            kinds = FileKind.RECOVERY_POINTS, FileKind.REPLICATION_OFFSETS, FileKind.LOG_START_OFFSETS
            self.spawn(self._write_in(directory, *kinds, FileKind.CLEANER_OFFSETS))

    async def _write(self, *kinds: FileKind) -> None:
        """Write these checkpoints in the given order: the high watermarks before the log start offsets, because Kafka
        warns of a log start offset on disk that is above the high watermark on disk."""
        for directory in self._logs.dirs.online:
            await self._write_in(directory, *kinds)

    async def _write_in(self, directory: LogDir, *kinds: FileKind) -> None:
        logs = list(self._logs.logs_in(directory))
        contents: dict[FileKind, Callable[[], dict[TopicPartition, int]]] = {
            FileKind.RECOVERY_POINTS: lambda: checkpoints.recovery_points(logs),
            FileKind.LOG_START_OFFSETS: lambda: checkpoints.log_starts(logs),
            FileKind.REPLICATION_OFFSETS: lambda: checkpoints.high_watermarks(logs),
            FileKind.CLEANER_OFFSETS: lambda: self.compactor.cleaned_in(directory),
        }
        now = {kind: contents[kind]() for kind in kinds}
        try:
            await self.in_thread(lambda: self._logs.writers[directory].write(now))
        except OSError as error:
            self._logs.directory_failed(directory, error)

    async def write_cleaned(self, directory: LogDir) -> None:
        """Write cleaner-offset-checkpoint of one directory."""
        await self._write_in(directory, FileKind.CLEANER_OFFSETS)

    # producer ids, descriptors

    async def expire_producers(self) -> None:
        """Remove producer ids that have not been used for producer.id.expiration.ms."""
        now_ms = self._logs.clock.now_ms()
        await self.each_log(lambda _, opened: opened.expire_producers(now_ms))

    async def release_descriptors(self) -> None:
        """Close the files of old segments while most of the allowed descriptors are in use."""
        if await self.in_thread(descriptors.share_in_use) > DESCRIPTORS_SHARE:
            log.info("most descriptors are in use: the files of old segments are closed")
            await self.each_log(lambda _, opened: opened.release_handles())

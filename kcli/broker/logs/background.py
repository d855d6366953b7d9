"""What a broker does to its logs while nobody asks, without holding up those who do.

    retention        every log.retention.check.interval.ms   old segments go: compacted logs' when the cleaner looks
    flush            every log.flush.scheduler.interval.ms   what flush.ms says; a rolled segment as soon as it is
    checkpoints      every 60 s, high watermarks every 5 s
    producers        every producer.id.expiration.check.interval.ms   forget the silent ones
    descriptors      every 30 s   files of old segments are closed when they get many
    deletion         file.delete.delay.ms after segments or a partition went

One log is looked at in one turn of the event loop; the disk is waited for in threads.
Source: LogManager, ReplicaManager, KafkaScheduler.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from formats.file_name import FileKind
from kcli.broker.logs import checkpoints, descriptors
from kcli.broker.logs.compaction import Compactor
from kcli.broker.logs.directories import LogDir
from kcli.broker.logs.loading import Key
from kcli.broker.logs.partitions import Partition
from kcli.broker.unattended import begin
from kcli.errors import KcliError
from kcli.log.live_segments import Removal
from kcli.log.partition_log import PartitionLog

if TYPE_CHECKING:
    from kcli.broker.logs.manager import LogManager

log = logging.getLogger("kcli.broker")

T = TypeVar("T")
Step = Callable[[], Coroutine[Any, Any, None]]
NEVER_MS = 10 * 365 * 86_400_000  # an interval as long as that
DESCRIPTORS_INTERVAL_MS = 30_000
DESCRIPTORS_SHARE = 0.7  # of the limit


class Background:
    """See above. `start` and `stop` belong to the log manager; the rest may be asked for at any time between them."""

    def __init__(self, logs: LogManager) -> None:
        self._logs = logs
        self.compactor = Compactor(logs, self)
        self._executor = ThreadPoolExecutor(logs.config.number("background.threads"), "log-background")
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: set[asyncio.TimerHandle] = set()
        self._flushing: set[Partition] = set()
        self._is_running = self._is_over = False

    def start(self, cleaned: Mapping[LogDir, Mapping[Key, int]]) -> None:
        """Begin. cleaned: up to where each log was compacted."""
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

    async def stop(self) -> None:
        """End all of it; what is in a thread is waited for."""
        self._is_running, self._is_over = False, True
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        await self.compactor.stop()
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._executor.shutdown()

    def reconfigured(self) -> None:
        """The broker's configuration has changed."""
        self.compactor.reconfigured()

    def forget(self, gone: Partition) -> None:
        """A partition went, or its directory failed."""
        self.compactor.abort(gone)

    # how things are run

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Wait for a disk."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something to its end; `stop` waits for it."""
        task = begin(work, "background work")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def later(self, delay_ms: int, call: Callable[[], object]) -> None:
        """Call something on the event loop, unless the broker stops before."""
        if self._is_over:
            return

        def run() -> None:
            self._timers.discard(timer)
            call()

        timer = asyncio.get_running_loop().call_later(delay_ms / 1000, run)
        self._timers.add(timer)

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
        """Visit every log, one in a turn of the event loop. An I/O error takes its directory offline."""
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
        """Retention of the logs that are not compacted."""

        def visit(partition: Partition, opened: PartitionLog) -> None:
            if not opened.config.compact:
                self.retain_one(partition, opened)

        await self.each_log(visit)

    def retain_one(self, partition: Partition, opened: PartitionLog) -> None:
        """Old segments of one log go. Raises OSError."""
        removals = opened.delete_old_segments(self._logs.clock.now_ms())
        if removals:
            count = sum(len(each.segments) for each in removals)
            log.info("%s: %d old segments deleted, it begins at %d", partition, count, opened.log_start_offset)
            self.trimmed(partition)
            self.remove_later(partition, removals)

    def trimmed(self, partition: Partition) -> None:
        """The log start has moved: write its leader epochs."""
        opened = partition.opened_log
        if opened is not None and not partition.is_offline:
            self.spawn(self._on_disk(partition, opened.write_stale_epochs))

    def remove_later(self, partition: Partition, removals: Iterable[Removal]) -> None:
        """Remove files of a log when their delay is over."""
        for removal in removals:
            self.later(
                removal.delay_ms,
                lambda removal=removal: self.spawn(self._on_disk(partition, removal.run)),  # type: ignore[misc]
            )

    async def _on_disk(self, partition: Partition, call: Callable[[], object]) -> None:
        try:
            await self.in_thread(call)
        except OSError as error:
            if not (partition.is_deleted or partition.is_offline):
                partition.failed(error)

    def delete_tree(self, directory: LogDir, path: Path, opened: PartitionLog | None) -> None:
        """Remove the directory of a partition when file.delete.delay.ms is over."""

        def remove() -> None:
            if opened is not None:
                opened.close_handles()
            self._logs.disk.remove_tree(path)
            log.info("deleted log in %s", path)

        async def run() -> None:
            try:
                await self.in_thread(remove)
            except FileNotFoundError:
                log.info("%s was already gone", path)
            except OSError as error:
                self._logs.directory_failed(directory, error)

        self.later(self._logs.default_log_config.file_delete_delay_ms, lambda: self.spawn(run()))

    # flushing

    def flush_soon(self, partition: Partition) -> None:
        """A segment was rolled: make it durable."""
        if self._is_running and partition not in self._flushing:
            self.spawn(self.flush_one(partition))

    async def flush_one(self, partition: Partition) -> None:
        """Flush what is due of one log."""
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
        """Flush the logs whose flush.ms is over."""
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
        """Write log-start-offset-checkpoint."""
        await self._write(FileKind.REPLICATION_OFFSETS, FileKind.LOG_START_OFFSETS)

    async def write_high_watermarks(self) -> None:
        """Write replication-offset-checkpoint."""
        await self._write(FileKind.REPLICATION_OFFSETS)

    def checkpoint_soon(self, directory: LogDir) -> None:
        """Partitions went from a directory: its checkpoints forget them."""
        self.compactor.forget_all_but(directory, {key for key, _ in self._logs.logs_in(directory)})
        if self._is_running:
            kinds = FileKind.RECOVERY_POINTS, FileKind.REPLICATION_OFFSETS, FileKind.LOG_START_OFFSETS
            self.spawn(self._write_in(directory, *kinds, FileKind.CLEANER_OFFSETS))

    async def _write(self, *kinds: FileKind) -> None:
        """Write checkpoints, in this order: no log start is to be found beyond its high watermark, or Kafka warns."""
        for directory in self._logs.dirs.online:
            await self._write_in(directory, *kinds)

    async def _write_in(self, directory: LogDir, *kinds: FileKind) -> None:
        logs = list(self._logs.logs_in(directory))
        contents: dict[FileKind, Callable[[], dict[Key, int]]] = {
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

    # the rest

    async def expire_producers(self) -> None:
        """Forget producers that have been silent for producer.id.expiration.ms."""
        now_ms = self._logs.clock.now_ms()
        await self.each_log(lambda _, opened: opened.expire_producers(now_ms))

    async def release_descriptors(self) -> None:
        """Close the files of old segments when there are many open."""
        if await self.in_thread(descriptors.share_in_use) > DESCRIPTORS_SHARE:
            log.info("most descriptors are in use: the files of old segments are closed")
            await self.each_log(lambda _, opened: opened.release_handles())

"""The log cleaner: log.cleaner.threads workers, each of which cleans the compacted log with the highest dirty ratio.

    select  every log.cleaner.backoff.ms, and at once after a log was cleaned: of the compacted logs that are due by
            their dirty ratio or age, and that no other worker cleans, take the one with the highest dirty ratio
    clean   in a thread, one group of segments after the other, at most log.cleaner.io.max.bytes.per.second; each
            group's new segment replaces the old ones on the event loop
    after   write cleaner-offset-checkpoint; then apply retention to the compacted logs

A log that cannot be cleaned is left out until the next start. The cleaning of a log that is truncated, deleted or no
longer compacted is aborted. Source: LogCleaner, LogCleanerManager, Throttler.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Protocol, TypeVar

from kcli.broker.config import BrokerConfig
from kcli.broker.log_dirs.directories import LogDir
from kcli.broker.partition.partitions import Partition
from kcli.broker.process.clock import Clock
from kcli.broker.process.unattended import report
from kcli.errors import UnreadableInput
from kcli.log.cleaner.partition import Uncleanable
from kcli.log.config import CleanerConfig, InvalidConfig
from kcli.log.live.compaction import CompactionAborted, LiveCompaction
from kcli.log.live.partition_log import LogFailed, PartitionLog
from kcli.log.live.segments import Removal
from kcli.protocol.topic_partition import TopicPartition

log = logging.getLogger("kcli.broker")

T = TypeVar("T")
NAP_S = 0.3


class Chores(Protocol):
    """The methods of the background work on a broker's logs that the cleaner calls; `Background` implements this
    protocol."""

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Run `call`, which waits for a disk, in a thread. Return its result."""
        ...

    async def each_log(self, visit: Callable[[Partition, PartitionLog], object]) -> None:
        """Call `visit` for every log, one log in each turn of the event loop."""
        ...

    def retain_one(self, partition: Partition, opened: PartitionLog) -> None:
        """Delete those segments of one log that are below the log start offset or beyond retention. Raises OSError."""
        ...

    def remove_later(self, partition: Partition, removals: Iterable[Removal]) -> None:
        """Remove the files of deleted segments when file.delete.delay.ms is over."""
        ...

    async def write_cleaned(self, directory: LogDir) -> None:
        """Write cleaner-offset-checkpoint of one directory."""
        ...


class Throttle:
    """Limits the I/O of all cleaner threads together to a rate, in bytes per second."""

    def __init__(self, bytes_per_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self._guard = Lock()
        self._free_at = 0.0

    def wait(self, size: int) -> None:
        """Count `size` bytes that were read or written, and sleep while the rate is exceeded. To be called in a cleaner
        thread."""
        with self._guard:
            now = time.monotonic()
            self._free_at = max(self._free_at, now - NAP_S) + size / self.bytes_per_s
            excess = self._free_at - now
        if excess > NAP_S:
            time.sleep(excess)


class Compactor:
    """The cleaner workers of one broker, the logs that they clean, and the offsets up to which logs are cleaned."""

    def __init__(self, config: BrokerConfig, clock: Clock, chores: Chores) -> None:
        self._config = config
        self._clock = clock
        self._chores = chores
        self._cleaned: dict[LogDir, dict[TopicPartition, int]] = {}
        self._busy: dict[Partition, LiveCompaction] = {}
        self._uncleanable: set[Partition] = set()
        self._workers: list[asyncio.Task[None]] = []
        self._configured_threads = 0
        self._woken = asyncio.Event()
        self.throttle = Throttle(config.log_cleaner_io_max_bytes_per_second)

    def start(self, cleaned: Mapping[LogDir, Mapping[TopicPartition, int]]) -> None:
        """Start the workers. cleaned: the contents of cleaner-offset-checkpoint, by log directory."""
        self._cleaned = {directory: dict(offsets) for directory, offsets in cleaned.items()}
        self.reconfigured()

    def reconfigured(self) -> None:
        """Apply a change of the broker's configuration: the number of cleaner threads and the I/O rate."""
        config = self._config
        self.throttle.bytes_per_s = config.log_cleaner_io_max_bytes_per_second
        self._configured_threads = config.log_cleaner_threads if config.log_cleaner_enable else 0
        self._workers = [worker for worker in self._workers if not worker.done()]
        for number in range(len(self._workers), self._configured_threads):
            self._workers.append(asyncio.get_running_loop().create_task(self._work(number)))

    async def stop(self) -> None:
        """Stop the workers, and abort the cleaning of logs."""
        self._configured_threads = 0
        self._woken.set()
        for partition in list(self._busy):
            self.abort(partition)
        await asyncio.gather(*self._workers)

    def abort(self, partition: Partition) -> None:
        """Abort the cleaning of a partition's log. If the log was left out because it could not be cleaned, it may be
        tried again."""
        self._uncleanable.discard(partition)
        compaction = self._busy.get(partition)
        if compaction is not None:
            try:
                compaction.abort()
            except OSError as error:
                log.warning("%s: what was cleaned of it is not removed: %s", partition, error)

    def cleaned_in(self, directory: LogDir) -> dict[TopicPartition, int]:
        """Return the contents of cleaner-offset-checkpoint for a log directory."""
        return dict(self._cleaned.get(directory, {}))

    def forget_all_but(self, directory: LogDir, keys: set[TopicPartition]) -> None:
        """Forget the cleaned offsets of all partitions of a log directory except `keys`."""
        known = self._cleaned.get(directory, {})
        self._cleaned[directory] = {key: offset for key, offset in known.items() if key in keys}

    # workers

    async def _work(self, number: int) -> None:
        while number < self._configured_threads:
            try:
                cleaned = await self.clean_filthiest()
                await self.retain()
            except Exception as error:  # noqa: BLE001  (a bug ends one round, not the cleaner)
                report("the log cleaner", error)
                cleaned = False
            if not cleaned and number < self._configured_threads:
                try:
                    await asyncio.wait_for(self._woken.wait(), self._config.log_cleaner_backoff_ms / 1000)
                except TimeoutError:
                    continue

    async def retain(self) -> None:
        """Apply retention to the compacted logs."""

        def visit(partition: Partition, opened: PartitionLog) -> None:
            if opened.config.compact and partition not in self._busy:
                self._chores.retain_one(partition, opened)

        await self._chores.each_log(visit)

    async def clean_filthiest(self) -> bool:
        """Clean the log with the highest dirty ratio, of the compacted logs that are due and that no other worker
        cleans. Return whether a log was cleaned."""
        found: list[tuple[float, Partition, PartitionLog]] = []

        def visit(partition: Partition, opened: PartitionLog) -> None:
            if opened.config.compact and partition not in self._busy and partition not in self._uncleanable:
                ratio = self._dirty_ratio(partition, opened)
                if ratio is not None:
                    found.append((ratio, partition, opened))

        await self._chores.each_log(visit)
        found = [each for each in found if each[1] not in self._busy]
        if not found:
            return False
        _, partition, opened = max(found, key=lambda each: each[0])
        return await self.clean(partition, opened)

    def _dirty_ratio(self, partition: Partition, opened: PartitionLog) -> float | None:
        """The dirty ratio of a log; None if the log is not due to be cleaned."""
        offsets = self._offsets(partition)
        try:
            selection = opened.cleanable(offsets.get(partition.key), self._clock.now_ms())
        except Uncleanable as error:
            self._give_up(partition, error)
            return None
        if selection.reset:
            offsets[partition.key] = selection.first_dirty_offset
        return selection.ratio if selection.worth_it else None

    def _offsets(self, partition: Partition) -> dict[TopicPartition, int]:
        assert partition.directory is not None, "its log is open"
        return self._cleaned.setdefault(partition.directory, {})

    async def clean(self, partition: Partition, opened: PartitionLog) -> bool:
        """Clean a log once. Return whether the cleaning was completed."""
        clock, offsets = self._clock, self._offsets(partition)
        try:
            compaction = opened.begin_compaction(
                CleanerConfig.of(self._config.properties),
                offsets.get(partition.key),
                clock.now_ms(),
                pace=self.throttle.wait,
            )
            if compaction is None:
                return False
            self._busy[partition] = compaction
            began = clock.now_ms()
            swapped: list[Removal] = []
            while (group := await self._chores.in_thread(compaction.clean_next)) is not None:
                self._chores.remove_later(partition, swapped)
                swapped = compaction.swap(group, clock.now_ms())
            self._chores.remove_later(partition, swapped)
            done = compaction.done()
            if done.end_offset <= done.selection.first_dirty_offset:
                self._give_up(partition, "the offset map is too small to get on: raise log.cleaner.dedupe.buffer.size")
                return False
            offsets[partition.key] = done.end_offset
            log.info("%s: cleaned up to offset %d in %d ms", partition, done.end_offset, clock.now_ms() - began)
        except CompactionAborted as aborted:
            log.info("%s: cleaning aborted: %s", partition, aborted)
            return False
        except (Uncleanable, InvalidConfig) as error:
            self._give_up(partition, error)
            return False
        except (OSError, LogFailed, UnreadableInput) as error:
            if not (partition.is_deleted or partition.is_offline):
                partition.failed(error)
            return False
        finally:
            self._busy.pop(partition, None)
        assert partition.directory is not None, "its log is open"
        await self._chores.write_cleaned(partition.directory)
        return True

    def _give_up(self, partition: Partition, reason: object) -> None:
        log.warning("%s is not cleaned any more: %s", partition, reason)
        self._uncleanable.add(partition)

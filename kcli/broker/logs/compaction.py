"""When which log is compacted: log.cleaner.threads workers, each at the filthiest log that nobody is at.

    look    every log.cleaner.backoff.ms, and again at once after a log was cleaned: of the compacted logs that are
            worth it, by dirty ratio or age, the one with the highest ratio
    clean   in a thread, group by group, no faster than log.cleaner.io.max.bytes.per.second; swapped in between requests
    after   the cleaner's checkpoint; then retention of compacted logs

A log that cannot be cleaned is left alone until the next start; one that was truncated, deleted or is compacted no
more is aborted. Source: LogCleaner, LogCleanerManager, Throttler.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING

from kcli.broker.logs.directories import LogDir
from kcli.broker.logs.loading import Key
from kcli.broker.logs.partitions import Partition
from kcli.broker.unattended import report
from kcli.errors import UnreadableInput
from kcli.log.cleaner.partition import Uncleanable
from kcli.log.config import CleanerConfig, InvalidConfig
from kcli.log.live_compaction import CompactionAborted, LiveCompaction
from kcli.log.live_segments import Removal
from kcli.log.partition_log import LogFailed, PartitionLog

if TYPE_CHECKING:
    from kcli.broker.logs.background import Background
    from kcli.broker.logs.manager import LogManager

log = logging.getLogger("kcli.broker")

NAP_S = 0.3


class Throttle:
    """Keeps all cleaner threads together below a rate."""

    def __init__(self, bytes_per_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self._guard = Lock()
        self._free_at = 0.0

    def wait(self, size: int) -> None:
        """So many bytes were read or written: wait until there is room for them. In a cleaner's thread."""
        with self._guard:
            now = time.monotonic()
            self._free_at = max(self._free_at, now - NAP_S) + size / self.bytes_per_s
            excess = self._free_at - now
        if excess > NAP_S:
            time.sleep(excess)


class Compactor:
    """See above."""

    def __init__(self, logs: LogManager, background: Background) -> None:
        self._logs = logs
        self._background = background
        self._cleaned: dict[LogDir, dict[Key, int]] = {}
        self._busy: dict[Partition, LiveCompaction] = {}
        self._uncleanable: set[Partition] = set()
        self._workers: list[asyncio.Task[None]] = []
        self._wanted = 0
        self._woken = asyncio.Event()
        self.throttle = Throttle(logs.config.log_cleaner_io_max_bytes_per_second)

    def start(self, cleaned: Mapping[LogDir, Mapping[Key, int]]) -> None:
        """Begin. cleaned: what the checkpoints say."""
        self._cleaned = {directory: dict(offsets) for directory, offsets in cleaned.items()}
        self.reconfigured()

    def reconfigured(self) -> None:
        """The broker's configuration may have changed: threads, rate."""
        config = self._logs.config
        self.throttle.bytes_per_s = config.log_cleaner_io_max_bytes_per_second
        self._wanted = config.log_cleaner_threads if config.log_cleaner_enable else 0
        self._workers = [worker for worker in self._workers if not worker.done()]
        for number in range(len(self._workers), self._wanted):
            self._workers.append(asyncio.get_running_loop().create_task(self._work(number)))

    async def stop(self) -> None:
        """End it. What is being cleaned is dropped."""
        self._wanted = 0
        self._woken.set()
        for partition in list(self._busy):
            self.abort(partition)
        await asyncio.gather(*self._workers)

    def abort(self, partition: Partition) -> None:
        """The log is not to be cleaned any more, or went."""
        self._uncleanable.discard(partition)
        compaction = self._busy.get(partition)
        if compaction is not None:
            try:
                compaction.abort()
            except OSError as error:
                log.warning("%s: what was cleaned of it is not removed: %s", partition, error)

    def cleaned_in(self, directory: LogDir) -> dict[Key, int]:
        """What cleaner-offset-checkpoint says of a directory."""
        return dict(self._cleaned.get(directory, {}))

    def forget_all_but(self, directory: LogDir, keys: set[Key]) -> None:
        """Partitions went from a directory."""
        known = self._cleaned.get(directory, {})
        self._cleaned[directory] = {key: offset for key, offset in known.items() if key in keys}

    # workers

    async def _work(self, number: int) -> None:
        while number < self._wanted:
            try:
                cleaned = await self.clean_filthiest()
                await self.retain()
            except Exception as error:  # noqa: BLE001  (a bug ends one round, not the cleaner)
                report("the log cleaner", error)
                cleaned = False
            if not cleaned and number < self._wanted:
                try:
                    await asyncio.wait_for(self._woken.wait(), self._logs.config.log_cleaner_backoff_ms / 1000)
                except TimeoutError:
                    continue

    async def retain(self) -> None:
        """Retention of the logs that are compacted."""

        def visit(partition: Partition, opened: PartitionLog) -> None:
            if opened.config.compact and partition not in self._busy:
                self._background.retain_one(partition, opened)

        await self._background.each_log(visit)

    async def clean_filthiest(self) -> bool:
        """Clean the log that needs it most. Returns whether one did."""
        found: list[tuple[float, Partition, PartitionLog]] = []

        def visit(partition: Partition, opened: PartitionLog) -> None:
            if opened.config.compact and partition not in self._busy and partition not in self._uncleanable:
                ratio = self._look(partition, opened)
                if ratio is not None:
                    found.append((ratio, partition, opened))

        await self._background.each_log(visit)
        found = [each for each in found if each[1] not in self._busy]
        if not found:
            return False
        _, partition, opened = max(found, key=lambda each: each[0])
        return await self.clean(partition, opened)

    def _look(self, partition: Partition, opened: PartitionLog) -> float | None:
        """The dirty ratio; None where cleaning is not worth it."""
        offsets = self._offsets(partition)
        try:
            selection = opened.cleanable(offsets.get(partition.key), self._logs.clock.now_ms())
        except Uncleanable as error:
            self._give_up(partition, error)
            return None
        if selection.reset:
            offsets[partition.key] = selection.first_dirty_offset
        return selection.ratio if selection.worth_it else None

    def _offsets(self, partition: Partition) -> dict[Key, int]:
        assert partition.directory is not None, "its log is open"
        return self._cleaned.setdefault(partition.directory, {})

    async def clean(self, partition: Partition, opened: PartitionLog) -> bool:
        """One pass over a log. Returns whether it was done."""
        clock, offsets = self._logs.clock, self._offsets(partition)
        try:
            compaction = opened.begin_compaction(
                CleanerConfig.of(self._logs.config.properties),
                offsets.get(partition.key),
                clock.now_ms(),
                pace=self.throttle.wait,
            )
            if compaction is None:
                return False
            self._busy[partition] = compaction
            began = clock.now_ms()
            swapped: list[Removal] = []
            while (group := await self._background.in_thread(compaction.clean_next)) is not None:
                self._background.remove_later(partition, swapped)
                swapped = compaction.swap(group, clock.now_ms())
            self._background.remove_later(partition, swapped)
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
        await self._background.write_cleaned(partition.directory)
        return True

    def _give_up(self, partition: Partition, reason: object) -> None:
        log.warning("%s is not cleaned any more: %s", partition, reason)
        self._uncleanable.add(partition)

"""Moves of replicas from one log directory of this broker to another (KIP-113).

    begin     create a future log in the other directory: <topic>-<partition>.<unique>-future
    copy      append the batches of the current log to the future log; truncate it where the current log was truncated
    promote   when the copy has reached the end of the current log: make the future log the current one, report the new
              directory to the controller, delete the old log
    resume    when the node starts, continue the moves of the future logs on disk

The copy takes at most replica.alter.log.dirs.io.max.bytes.per.second. Threads wait for the disk; `promote` is one step
on the event loop. Source: ReplicaAlterLogDirsThread, Partition.maybeReplaceCurrentWithFutureReplica, LogManager.
"""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from kcli.broker.log_dirs.loading import jitter
from kcli.broker.partition.truncation import UNKNOWN, truncation
from kcli.broker.process.unattended import begin
from kcli.broker.quotas.rates import Rate
from kcli.errors import KcliError, UnreadableInput
from kcli.log.live.partition_log import Isolation, OffsetOutOfRange, OpenOptions, PartitionLog
from kcli.log.live.segments import FileRegion
from kcli.log.partition_directory import make_partition_directory, name_for_end
from kcli.metadata.partition import from_uuid
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.log_dirs.directories import LogDir
    from kcli.broker.logs.background import Background
    from kcli.broker.partition.partitions import Partition, Partitions
    from kcli.broker.process.clock import Clock
    from kcli.log.config import LogConfig
    from kcli.log.disk import Disk

log = logging.getLogger("kcli.broker")

READ_BYTES: Final = 1 << 20
RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
ANY_EPOCH: Final = 2**31 - 1
RETRY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class FutureReplica:
    """The copy of a replica's log in the log directory to which the replica is moved."""

    directory: LogDir
    log: PartitionLog


class Logs(Protocol):
    """The parts of the log manager that the moves use; `LogManager` implements this protocol. futures: the future logs
    of the replicas that are being moved."""

    config: BrokerConfig
    disk: Disk
    clock: Clock
    partitions: Partitions
    background: Background
    futures: dict[TopicPartition, FutureReplica]

    def config_of(self, topic: str) -> LogConfig:
        """The configuration of a topic's logs."""
        ...

    def may_be_tiered(self, topic: str) -> bool:
        """Whether a topic may have tiered storage; its configuration decides whether it has."""
        ...

    def add_future(self, key: TopicPartition, directory: LogDir, future: PartitionLog) -> None:
        """Add the future log of a replica that is being moved to `directory`."""
        ...

    def moved(self, partition: Partition, home: LogDir) -> None:
        """Called when a replica has moved from the log directory `home` to partition.directory: report the new
        directory to the controller."""
        ...

    def directory_failed(self, directory: LogDir, error: BaseException) -> None:
        """Take a log directory offline."""
        ...


class Moves:
    """The replicas that are being moved to another log directory of this broker."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        config = logs.config
        windows = config.number("alter.log.dirs.replication.quota.window.num")
        window_s = config.number("alter.log.dirs.replication.quota.window.size.seconds")
        self._rate = Rate(windows, window_s * 1000)
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}

    def resume(self) -> None:
        """Continue the moves of the future logs that were on disk when the node started."""
        for key in self._logs.futures:
            partition = self._logs.partitions.get(*key)
            if partition is not None and not partition.is_offline:
                self._run(partition)

    def begin(self, partition: Partition, directory: LogDir) -> None:
        """Begin to move a replica to a log directory. If the replica is being moved there already, do nothing; if it is
        being moved to another directory, abort that move first. If the replica lies in the given directory, begin no
        new move.

        Raises OSError, KcliError.
        """
        logs, key = self._logs, partition.key
        known = logs.futures.get(key)
        if known is not None:
            if known.directory is directory:
                return
            self.abort(partition)
        if partition.directory is directory:
            return
        path = directory.path / name_for_end(partition.topic, partition.number, "future")
        make_partition_directory(logs.disk, path, from_uuid(partition.topic_id))
        options = OpenOptions(
            producer_expiration_ms=logs.config.producer_id_expiration_ms,
            jitter=jitter,
            may_be_tiered=logs.may_be_tiered(partition.topic),
        )
        made = PartitionLog(path, logs.disk, logs.config_of(partition.topic), logs.clock.now_ms(), options)
        logs.add_future(key, directory, made)
        log.info("%s is to move to %s", partition, directory.path)
        self._run(partition)

    def abort(self, partition: Partition) -> None:
        """Abort the move of a replica, and delete its future log."""
        task = self._tasks.pop(partition.key, None)
        if task is not None:
            task.cancel()
        future = self._logs.futures.pop(partition.key, None)
        if future is not None and future.directory.is_online:
            target = future.log.directory.with_name(name_for_end(partition.topic, partition.number, "delete"))
            try:
                future.log.rename(target)
            except OSError as error:
                self._logs.directory_failed(future.directory, error)
            else:
                self._logs.background.delete_tree(future.directory, target, future.log)

    def stop(self) -> None:
        """Interrupt all moves, which the next start continues."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    def _run(self, partition: Partition) -> None:
        task = begin(self._move(partition), f"{partition} is not moved")
        self._tasks[partition.key] = task
        task.add_done_callback(lambda done: self._ended(partition, done))

    def _ended(self, partition: Partition, task: asyncio.Task[None]) -> None:
        if self._tasks.get(partition.key) is task:
            del self._tasks[partition.key]

    async def _move(self, partition: Partition) -> None:
        future = self._logs.futures[partition.key]
        while not (partition.is_offline or partition.is_deleted) and future.directory.is_online:
            try:
                current = partition.log
                self._cut(current, future.log)
                if future.log.log_end_offset >= current.log_end_offset:
                    self._promote(partition, future)
                    return
                await self._copy(partition, current, future.log)
            except OffsetOutOfRange:
                continue  # the current log was truncated meanwhile
            except (OSError, KcliError) as error:
                self._logs.directory_failed(future.directory, error)
                await asyncio.sleep(RETRY_S)  # the failure may have been a lack of descriptors

    def _cut(self, current: PartitionLog, future: PartitionLog) -> None:
        """Truncate the future log as the current log was truncated, at its end or at its start. Records that only
        remote storage has are not copied."""
        now_ms = self._logs.clock.now_ms()
        if future.log_end_offset < current.local_log_start_offset:
            begin_at_start(future, current, now_ms)
        epoch = future.latest_epoch
        known, end = (UNKNOWN, UNKNOWN) if epoch is None else current.offset_for_leader_epoch(epoch)
        if epoch is not None and end != UNKNOWN and (known < epoch or end < future.log_end_offset):
            own = future.offset_for_leader_epoch(known)
            future.truncate_to(truncation((known, end), own, future.log_end_offset), now_ms)
        elif future.log_end_offset > current.log_end_offset:
            future.truncate_to(current.log_end_offset, now_ms)

    async def _copy(self, partition: Partition, current: PartitionLog, future: PartitionLog) -> None:
        """Append the next batches of the current log to the future log. Take the current log's directory offline if it
        cannot be read. Raises OffsetOutOfRange, and OSError or KcliError for a failure of the future log."""
        offset = max(future.log_end_offset, current.local_log_start_offset)
        try:
            region = current.read(offset, READ_BYTES, Isolation.LOG_END).region
            if region is None:
                raise OffsetOutOfRange(f"nothing at offset {offset:,}")
            data = await self._logs.background.in_thread(lambda: _read(region))
        except (OSError, UnreadableInput) as error:
            if partition.directory is not None:
                self._logs.directory_failed(partition.directory, error)
            await asyncio.sleep(RETRY_S)  # the failure may have been a lack of descriptors
            return
        if data is not None and future.log_end_offset <= offset:
            future.append_as_follower(data, ANY_EPOCH, self._logs.clock.now_ms())
            await self._hold(len(data))
        else:
            await asyncio.sleep(0)

    async def _hold(self, size: int) -> None:
        """Count `size` copied bytes, and sleep while the copy is faster than the configured rate."""
        limit = self._logs.config.values.get(RATE)
        if isinstance(limit, int):
            self._rate.add(size, self._logs.clock.now_ms())
            wait_ms = self._rate.throttle_ms(limit, self._logs.clock.now_ms())
            if wait_ms:
                await asyncio.sleep(wait_ms / 1000)

    def _promote(self, partition: Partition, future: FutureReplica) -> None:
        """Make the future log the current one, and delete the previous current log."""
        current, home, logs = partition.log, partition.directory, self._logs
        assert home is not None, "it is online"
        new = future.log
        new.update_high_watermark(current.high_watermark)
        if current.log_start_offset > new.log_start_offset:
            new.delete_records(current.log_start_offset)
        new.update_highest_tiered(current.highest_tiered_offset)
        logs.background.forget(partition)
        del logs.futures[partition.key]
        target = home.path / name_for_end(partition.topic, partition.number, "delete")
        renames = [(new, future.directory, future.directory.path / str(partition)), (current, home, target)]
        if home is future.directory:  # a copy of another directory lies in this one: the name must be free
            renames.reverse()
        for each, directory, path in renames:
            try:
                each.rename(path)
            except OSError as error:
                logs.directory_failed(directory, error)
                return
        partition.moved(new, future.directory)
        logs.moved(partition, home)
        logs.background.delete_tree(home, target, current)
        log.info("%s has moved to %s", partition, future.directory.path)


def begin_at_start(future: PartitionLog, current: PartitionLog, now_ms: int) -> None:
    """Remove all records of the future log, so that it begins where the current log's local segments do. Raises
    OSError."""
    start = current.local_log_start_offset
    if not current.is_tiered:
        future.truncate_fully_and_start_at(start, now_ms)
        return
    snapshot = current.producers.snapshot_path(start)
    data = None if snapshot is None else snapshot.read_bytes()
    future.start_from_tier(start, current.log_start_offset, current.leader_epochs, data, now_ms)


def _read(region: FileRegion) -> bytes | None:
    """Return the bytes of a region of a log file; None if the log was truncated meanwhile."""
    data = os.pread(region.fd, region.length, region.position)
    return data if len(data) == region.length else None

"""The tasks of a broker for its tiered partitions: each partition has tasks that copy, expire and delete its segments.

    look      every remote.log.manager.task.interval.ms, and after changes of the metadata: find the tiered replicas of
              this broker, and begin the tasks that each needs as leader or follower
    leader    copies the closed segments below the last stable offset, one after the other, unless
              remote.log.copy.disable is set; deletes the segments in the tier that are beyond retention, below the log
              start offset or outside the lineage of leader epochs
    follower  tells the log its last offset in the tier, up to which local retention may delete segments
    deleted   if a topic is deleted, or gets remote.storage.enable=false and remote.log.delete.on.disable=true, the
              leader deletes all segments in the tier. If its broker crashes meanwhile, the leader of the partition of
              `__remote_log_metadata` that has the record of the deletion resumes it, if the topic was deleted

After a start, the tasks wait until the store is there (kcli.broker.tiering.presence). A task that fails logs why, waits
(remote.log.manager.task.retry.backoff.ms, doubled with each failure in a row), and tries again. All calls of the store
run in threads. Source: RemoteLogManager.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from kcli.broker.process.unattended import begin, report
from kcli.broker.tiering.config import TierConfig, tier_config
from kcli.broker.tiering.metadata_topic import MetadataTopic, NotReady
from kcli.broker.tiering.pool import ThreadPool
from kcli.broker.tiering.presence import StorePresence
from kcli.broker.tiering.quota import TierRate
from kcli.broker.tiering.reader import tiered
from kcli.broker.tiering.reading import TierReading
from kcli.broker.tiering.segment_tasks import SegmentTasks
from kcli.broker.tiering.store import empty, open_tier
from kcli.metadata.partition import to_uuid
from kcli.tier.copying import first_tiered, last_tiered
from kcli.tier.expiry import LogState, expired
from kcli.tier.segment import PartitionDeleteState as DeleteState

if TYPE_CHECKING:
    from kcli.broker.coordinators.context import CoordinatorContext
    from kcli.broker.network.peers import Peer
    from kcli.broker.partition.partitions import Partition
    from kcli.broker.tiering.followed import Deletion
    from kcli.log.disk import Disk
    from kcli.log.live.partition_log import PartitionLog
    from kcli.metadata.changes import Changes
    from kcli.tier.segment import TieredPartition
    from kcli.tier.store import Store

log = logging.getLogger("kcli.broker")

UNLIMITED: Final = 2**31
STOP_S: Final = 3.0
"""How long, in seconds, `stop` waits until cancelled copies have ended; a copy ends after the bytes that it is
writing."""
DELETIONS_S: Final = 10.0
THROTTLED_S: Final = 1.0
"""The longest time, in seconds, after which a throttled copy checks its quota again, as the quota may have changed."""
ABANDONED_MS: Final = 600_000
RESUMED_AT_ONCE: Final = 10
"""No deletion is resumed while this number of deletions run. The limit is needed because every client with write access
to `__remote_log_metadata` can append any number of records of deletions."""
OPENING_S: Final = 0.2
"""The time, in seconds, after which partitions are looked at again if some of their logs are not open yet."""


@dataclass(eq=False, slots=True)
class _Tracked:
    """A tiered replica of this broker and its tasks. epoch: the leader epoch for which the tasks were begun.
    copied_offset: the last offset of the log in the tier, -1 without one; None until the leader's task has looked it
    up."""

    whose: TieredPartition
    partition: Partition
    opened: PartitionLog
    is_leader: bool
    epoch: int
    copied_offset: int | None = None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def is_as(self, partition: Partition, opened: PartitionLog) -> bool:
        """Whether the tasks still fit the replica: the same log, the same leader epoch, leader or follower as
        before."""
        is_same = self.partition is partition and self.opened is opened
        return is_same and self.is_leader == partition.is_leader and self.epoch == partition.leader_epoch

    def cancel(self) -> None:
        """End the tasks."""
        for each in self.tasks:
            each.cancel()
        self.tasks.clear()


class Tiering:
    """The tiered storage of this broker. reading: the reads from the tier, for clients and for followers.

    Made by `open`; `start` begins the tasks, once the broker is unfenced.
    """

    def __init__(self, context: CoordinatorContext, controller: Peer, store: Store, disk: Disk) -> None:
        self._context, self._store = context, store
        self._now_ms = context.clock.now_ms
        self.reconfigured()
        config = self._config
        self._metadata = MetadataTopic(context, controller, config.metadata)
        fetch_rate = TierRate(lambda: self._config.fetch_quota, self._now_ms)
        self.reading = TierReading(context.config, store, self._metadata, fetch_rate, disk)
        copiers = ThreadPool("tier-copier", lambda: self._config.copier_threads, lambda: UNLIMITED)
        deleters = ThreadPool("tier-expiration", lambda: self._config.expiration_threads, lambda: UNLIMITED)
        self._deleters, self._pools = deleters, (copiers, deleters)
        self._copy_rate = TierRate(lambda: self._config.copy_quota, self._now_ms)
        self._segments = SegmentTasks(
            store, self._metadata, self.reading.indexes, copiers, deleters, context.node_id, self._now_ms
        )
        self._presence = StorePresence(store, config.store, self._metadata, deleters, disk)
        self._tracked: dict[TieredPartition, _Tracked] = {}
        self._deletions: dict[asyncio.Task[None], TieredPartition] = {}
        self._looking: asyncio.Task[None] | None = None
        self._finding: asyncio.Task[None] | None = None
        self._are_open = False
        self._changed = asyncio.Event()

    @classmethod
    async def open(cls, context: CoordinatorContext, controller: Peer, disk: Disk) -> Tiering | None:
        """Open the store and the cache of indexes; return None if the broker has no tiered storage. Raises KcliError,
        OSError."""
        config = tier_config(context.config)
        if config is None:
            return None
        store = await asyncio.to_thread(open_tier, config.store, disk)
        tiering = cls(context, controller, store, disk)
        await tiering.reading.start()
        return tiering

    def reconfigured(self) -> None:
        """Apply a change of the broker's configuration."""
        config = tier_config(self._context.config)
        assert config is not None, "it cannot be switched off while the broker runs"
        self._config: TierConfig = config

    # starting and stopping

    def start(self) -> None:
        """Begin to look for tiered partitions and to run their tasks."""
        self._metadata.start()
        self._looking = begin(self._look_on(), "tiered partitions are not looked at any more")
        self._finding = begin(self._find_store(), "the store of tiered storage is not looked for any more")

    async def finish_deletions(self) -> None:
        """Wait until the deletions in progress are complete, at most DELETIONS_S seconds. Call this before the broker
        gives up its leaderships: a deletion that has begun because tiered storage was switched off is not resumed by a
        later start."""
        if self._deletions:
            await asyncio.wait(self._deletions, timeout=DELETIONS_S)

    async def stop(self) -> None:
        """End all tasks, and delete all objects if the store is configured so (delete.on.close). Raises KcliError,
        OSError if that fails."""
        for each in (self._looking, self._finding):
            if each is not None:
                each.cancel()
        for tracked in self._tracked.values():
            tracked.cancel()
        for task in self._deletions:
            task.cancel()
        await self._segments.copies_ended(timeout_s=STOP_S)
        self._metadata.stop()
        self.reading.stop()
        for pool in self._pools:
            pool.close()
        if self._config.store.is_emptied:
            await asyncio.to_thread(empty, self._store)

    # which partitions

    def apply(self, changes: Changes) -> None:
        """Follow a change of the metadata image, which the log manager has applied: delete the segments of deleted
        topics, and look at all partitions again."""
        for topic_id in changes.topics_deleted:
            for tracked in [each for each in self._tracked.values() if each.partition.topic_id == topic_id]:
                self._drop(tracked, has_to_go=tracked.is_leader, is_topic_gone=True)
        self._changed.set()

    async def _look_on(self) -> None:
        while True:
            self._changed.clear()
            wait_s = self._config.task_interval_ms / 1000
            try:
                self._are_open = await self._look()
                if not self._are_open:
                    wait_s = min(wait_s, OPENING_S)
            except Exception as error:  # noqa: BLE001  (a bug in one round must not end the loop)
                report("tiered partitions are looked at again", error)
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _find_store(self) -> None:
        """Look for the store until it is found. Log an error each time it is not found, but not the same error twice in
        a row."""
        told = ""
        while not self._presence.is_known:
            wait_s = OPENING_S
            try:
                await self._presence.look([*self._tracked, *self._deletions.values()], are_all=self._are_open)
            except Exception as error:  # noqa: BLE001  (as in _look_on)
                if str(error) != told:
                    report("tiered storage", error)
                told, wait_s = str(error), self._config.task_interval_ms / 1000
            if not self._presence.is_known:
                await asyncio.sleep(wait_s)
        if told:
            log.info("tiered storage: the store is there")

    async def _look(self) -> bool:
        """Begin and end tasks so that each tiered replica has those that it needs; resume abandoned deletions. Return
        whether the logs of all partitions are open."""
        seen, are_open = set(), True
        async for partition in self._context.turns.over(self._context.partitions):
            if partition.opened_log is None and not (partition.is_offline or partition.is_deleted):
                are_open = False
            whose = self._look_at(partition)
            if whose is not None:
                seen.add(whose)
        for tracked in [each for whose, each in self._tracked.items() if whose not in seen]:
            self._drop(tracked, has_to_go=self._is_switched_off(tracked))
        for each in self._metadata.unfinished_deletions():
            if len(self._deletions) >= RESUMED_AT_ONCE:
                break
            if self._is_abandoned(each):
                self._metadata.follow(each.partition)
                self._delete_later(each.partition, is_topic_gone=True)
        return are_open

    def _is_abandoned(self, deletion: Deletion) -> bool:
        """Whether this broker must resume the deletion of a partition: the broker that has begun the deletion is fenced
        or not registered, or is this broker before a restart, or has appended no record about the deletion for
        ABANDONED_MS."""
        whose, image = deletion.partition, self._context.image
        if whose in self._tracked or whose in self._deletions.values():
            return False
        if image.topic_by_id(to_uuid(whose.topic_id)) is not None:
            return False  # no broker writes a deletion for a topic that exists
        broker = image.brokers.get(deletion.broker_id)
        is_silent = self._now_ms() - deletion.since_ms > ABANDONED_MS
        return deletion.broker_id == self._context.node_id or broker is None or broker.fenced or is_silent

    def _look_at(self, partition: Partition) -> TieredPartition | None:
        """Begin the tasks of a replica, unless they run already. Return the replica's partition as the tier names it;
        None if the replica is not tiered."""
        opened = partition.opened_log
        if opened is None or not opened.is_tiered or partition.is_offline or partition.is_deleted:
            return None
        whose = tiered(partition)
        known = self._tracked.get(whose)
        if known is not None and known.is_as(partition, opened):
            return whose
        if known is not None:
            known.cancel()
        self._metadata.follow(whose)
        tracked = _Tracked(whose, partition, opened, partition.is_leader, partition.leader_epoch)
        self._tracked[whose] = tracked
        works = (self._copy, self._expire) if tracked.is_leader else (self._follow,)
        tracked.tasks = [begin(self._repeat(tracked, work), f"{partition}: the tier is not kept up") for work in works]
        return whose

    def _is_switched_off(self, tracked: _Tracked) -> bool:
        """Whether this broker leads a partition whose topic has got remote.storage.enable=false and
        remote.log.delete.on.disable=true, so that its segments in the tier must be deleted."""
        partition, opened = tracked.partition, tracked.opened
        if partition.is_deleted or partition.is_offline or not tracked.is_leader or opened.config.remote_storage:
            return False
        return opened.config.remote_delete_on_disable

    def _drop(self, tracked: _Tracked, *, has_to_go: bool, is_topic_gone: bool = False) -> None:
        """End the tasks of a replica. has_to_go: whether its segments in the tier are to be deleted. is_topic_gone:
        whether the topic was deleted."""
        tracked.cancel()
        self._tracked.pop(tracked.whose, None)
        if has_to_go:
            self._delete_later(tracked.whose, is_topic_gone=is_topic_gone)
        else:
            self._metadata.forget(tracked.whose)

    def _delete_later(self, whose: TieredPartition, *, is_topic_gone: bool) -> None:
        work = self._delete_all(whose, is_topic_gone=is_topic_gone)
        task = begin(work, f"{whose} is left in the tier")
        self._deletions[task] = whose
        task.add_done_callback(self._deletions.pop)

    # the tasks of one replica

    async def _repeat(self, tracked: _Tracked, work: Callable[[_Tracked], Awaitable[None]]) -> None:
        """Call `work` at the task interval, or after the backoff if it has failed, until the partition is not followed.
        Begin once the store is found."""
        await self._presence.wait()
        failures = 0
        while True:
            try:
                await self._metadata.ready(tracked.whose)
                await work(tracked)
            except NotReady:
                return
            except Exception as error:  # noqa: BLE001  (the work is tried again, whatever happens)
                report(f"{tracked.partition}: {work.__name__.strip('_')} in the tier", error)
                failures += 1
                await asyncio.sleep(self._backoff_s(failures))
            else:
                failures = 0
                await asyncio.sleep(self._config.task_interval_ms / 1000)

    def _backoff_s(self, failures: int) -> float:
        config = self._config
        backoff_ms = min(config.retry_backoff_ms << min(failures - 1, 20), config.retry_backoff_ms_max)
        return backoff_ms * (1 + random.uniform(-config.retry_jitter, config.retry_jitter)) / 1000  # noqa: S311

    async def _copy(self, tracked: _Tracked) -> None:
        """Copy the closed segments below the last stable offset that are not in the tier yet."""
        opened = tracked.opened
        if tracked.copied_offset is None:
            self._begin_to_lead(tracked)
        while opened.config.remote_copy and tracked.copied_offset is not None:
            stable = opened.last_stable_offset
            start = max(tracked.copied_offset + 1, opened.log_start_offset)
            if not tracked.copied_offset < stable or not (closed := opened.closed_segments(start, stable)):
                return
            for each in closed:
                while (wait_ms := self._copy_rate.throttle_ms()) > 0:  # noqa: ASYNC110  (time brings it)
                    await asyncio.sleep(min(wait_ms / 1000, THROTTLED_S))
                self._copy_rate.record(each.size)
                try:
                    await self._segments.copy(tracked.whose, opened, each)
                except FileNotFoundError:
                    if each.log_path.exists():
                        raise
                    return  # retention, for example, has deleted the segment: the next round copies the others
                tracked.copied_offset = each.next_offset - 1
                opened.update_highest_tiered(tracked.copied_offset)
                log.info("%s: copied %s to the tier", tracked.partition, each.log_path.name)

    def _begin_to_lead(self, tracked: _Tracked) -> None:
        """Set the log start offset to the first offset that the log has, in the tier or locally, but not below its
        first leader epoch: records without a leader epoch cannot be copied. Look up how far the log is copied."""
        opened, cache = tracked.opened, self._metadata.cache(tracked.whose)
        first = first_tiered(cache, opened.leader_epochs, opened.log_start_offset)
        local = opened.local_log_start_offset
        begin = local if first is None else min(first, local)
        self._advance(tracked, max(begin, opened.start_by_epochs() or 0))
        tracked.copied_offset = self._note_last_tiered(tracked)

    @staticmethod
    def _advance(tracked: _Tracked, offset: int) -> None:
        tracked.partition.advance_log_start(min(offset, tracked.opened.high_watermark))

    async def _expire(self, tracked: _Tracked) -> None:
        """Delete the segments in the tier that the log no longer needs, and advance the log start offset."""
        opened, cache = tracked.opened, self._metadata.cache(tracked.whose)
        segments = cache.unsorted()
        if not segments:
            return
        self._note_last_tiered(tracked)  # else untiered_bytes includes a segment that was copied just now
        state = LogState(
            lineage=opened.leader_epochs,
            log_start_offset=opened.log_start_offset,
            log_end_offset=opened.log_end_offset,
            local_bytes=opened.untiered_bytes,
            retention_ms=opened.config.retention_ms,
            retention_bytes=opened.config.retention_bytes,
        )
        found = await self._deleters.run(
            partial(
                expired,
                segments,
                state,
                self._now_ms(),
                broker_id=self._context.node_id,
                being_copied=frozenset(self._segments.being_copied),
                unsettled=frozenset(self._segments.unsettled),
            )
        )
        if found.log_start_offset is not None:
            self._advance(tracked, found.log_start_offset)
        for each in found.segments:
            if (segment := cache.segment(each.id)) is not None:
                await self._segments.delete(segment)
        if found.segments:
            begins = opened.log_start_offset
            log.info(
                "%s: %d segments deleted in the tier, it begins at %d", tracked.partition, len(found.segments), begins
            )

    async def _follow(self, tracked: _Tracked) -> None:
        """Tell the log its last offset in the tier, as local retention needs it."""
        self._note_last_tiered(tracked)

    def _note_last_tiered(self, tracked: _Tracked) -> int:
        """Tell the log its last offset in the tier, and return that offset; -1 if the tier has none."""
        opened, cache = tracked.opened, self._metadata.cache(tracked.whose)
        last = last_tiered(cache, opened.leader_epochs, opened.log_end_offset)
        opened.update_highest_tiered(last)
        return last

    async def _delete_all(self, whose: TieredPartition, *, is_topic_gone: bool) -> None:
        """Delete all segments of a partition from the tier, and stop following the partition. is_topic_gone: whether
        the topic was deleted: then records of the partition's deletion are appended, too (Kafka defines them, but
        appends none)."""
        failures = 0
        while True:
            try:
                await self._metadata.ready(whose)
                if is_topic_gone:  # first, as no broker resumes a deletion without a record
                    reached = self._metadata.deletion(whose)
                    for state in (DeleteState.DELETE_PARTITION_MARKED, DeleteState.DELETE_PARTITION_STARTED):
                        if reached is None or reached < state:
                            await self._segments.delete_partition(whose, state)
                await self._segments.copies_ended(whose)
                for segment in self._metadata.cache(whose).segments():
                    await self._segments.delete(segment)
                if is_topic_gone:
                    await self._segments.delete_partition(whose, DeleteState.DELETE_PARTITION_FINISHED)
            except NotReady:
                return
            except Exception as error:  # noqa: BLE001  (as in _repeat)
                report(f"{whose}: deletion in the tier", error)
                failures += 1
                await asyncio.sleep(self._backoff_s(failures))
            else:
                if whose not in self._tracked:  # else tiered storage was switched on again
                    self._metadata.forget(whose)
                log.info("%s: all segments are deleted in the tier", whose)
                return

"""Partition, a replica on this broker, and Partitions, all replicas on this broker.

    get, find     return the replica by topic name and partition number; if there is none, get returns None, and find
                  raises an error with the reason
    log           is the replica's log, opened or created at its first use
    lane          lets compiled code append plain Produce requests to the leader's log without calling this object
    append        append_as_leader: the high watermark follows at once if this replica is the only one in the ISR, else
                  with the Fetches of its followers (kcli.broker.replication); append_as_follower: batches that were
                  fetched from the leader
    watch         calls a function at every change that a waiting request of a client may need; watch_end: at changes
                  that a waiting Fetch of a follower may need
    wait          wait_committed: waits until the high watermark is at least an offset

A replica is offline if its log directory has failed; requests get KAFKA_STORAGE_ERROR until the broker has started
without the fault. Source: Partition, ReplicaManager.getPartitionOrError.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import UUID

from formats.checkpoint import EpochEntry
from formats.kernels.produce import Lane, ProduceLanes
from formats.producer_snapshot import ProducerEntry
from kcli.broker.partition.commit_waits import CommitWaits, Outcome, done
from kcli.broker.partition.leadership import Follower, IsrChange, Leadership
from kcli.broker.partition.replica_host import ALONE, ReplicaHost
from kcli.errors import KcliError
from kcli.log.live.partition_log import Appended, LogFailed, PartitionLog
from kcli.log.live.segments import Removal
from kcli.log.live.validator import CheckedBatch, Origin
from kcli.metadata.partition import Partition as PartitionState
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from formats.checkpoint import EpochEntry
    from kcli.broker.log_dirs.directories import LogDir
    from kcli.metadata.image import MetadataImage

UNKNOWN_EPOCH = -1
Watcher = Callable[[], object]
EndWatcher = Callable[[bool], object]


class PartitionError(KcliError):
    """A partition refuses a request. code, reason: the error code and error message of the response."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Partition:
    """One replica on this broker. It is used on the event loop's thread; only its log may be created by another thread.

    opener: opens or creates the log.
    on_opened: called with the log once it is open.
    on_rolled: called when a segment was rolled, so that the rolled segment is to be flushed.
    on_removed: called with segments whose files are to be deleted.
    on_failed: called with an I/O error of the log.
    leadership: what the leader knows of its followers; None if this broker is not the leader, or there are no
    followers.
    epoch_start_offset: the log end offset when the current leader epoch began; None if this broker is not the leader.
    made: the log, as soon as any thread has created it.
    """

    __slots__ = (
        "_active_offset",
        "_commits",
        "_end_watchers",
        "_key",
        "_lane",
        "_log",
        "_watchers",
        "directory",
        "epoch_start_offset",
        "host",
        "is_deleted",
        "is_offline",
        "leadership",
        "made",
        "node_id",
        "number",
        "on_failed",
        "on_opened",
        "on_removed",
        "on_rolled",
        "opener",
        "state",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        number: int,
        topic_id: UUID,
        state: PartitionState,
        node_id: int,
        directory: LogDir | None,
        opener: Callable[[Partition], PartitionLog],
    ) -> None:
        """directory: the replica's log directory; None if that directory is offline."""
        self.topic = topic
        self.number = number
        self.topic_id = topic_id
        self.node_id = node_id
        self.directory = directory
        self.opener = opener
        self.on_opened: Callable[[Partition, PartitionLog], None] = lambda *_: None
        self.on_rolled: Callable[[Partition], None] = lambda _: None
        self.on_removed: Callable[[Partition, Sequence[Removal]], None] = lambda *_: None
        self.on_failed: Callable[[Partition, Exception], None] = lambda *_: None
        self._key = TopicPartition(topic, number)
        self.host: ReplicaHost = ALONE
        self.leadership: Leadership | None = None
        self.is_offline = directory is None
        self.is_deleted = False
        self.epoch_start_offset: int | None = None
        self.made: PartitionLog | None = None  # set as soon as any thread has created the log
        self._log: PartitionLog | None = None
        self._active_offset = -1
        self._watchers: dict[Watcher, int] = {}
        self._end_watchers: dict[EndWatcher, None] = {}
        self._commits = CommitWaits()
        self._lane: Lane | None = None
        self.state = state

    def __repr__(self) -> str:
        return f"{self.topic}-{self.number}"

    @property
    def key(self) -> TopicPartition:
        """The topic's name and the partition's number."""
        return self._key

    @property
    def leader_epoch(self) -> int:
        """The leader epoch in the metadata."""
        return self.state.leader_epoch

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition."""
        return self.state.leader == self.node_id

    @property
    def lacks_replicas(self) -> bool:
        """Whether the ISR is too small for a batch with acks=all: it is smaller than min.insync.replicas, and smaller
        than the number of replicas. Raises LogFailed."""
        if self.leadership is not None:
            return self.leadership.lacks_replicas(self.log.config.min_insync_replicas)
        count = len(self.state.isr)
        return count < len(self.state.replicas) and count < self.log.config.min_insync_replicas

    @property
    def commits_at_once(self) -> bool:
        """Whether appended records are committed at once: this broker leads the partition, is its only replica, and its
        log is open."""
        state = self.state
        alone = (self.node_id,)
        return (
            state.leader == self.node_id
            and state.replicas == state.isr == alone
            and self._log is not None
            and not self.is_offline
        )

    # its log

    @property
    def log(self) -> PartitionLog:
        """The log; it is opened or created if it is not open. Raises LogFailed if it is not open and cannot be opened,
        as for an offline or deleted replica."""
        return self._open() if self._log is None else self._log

    def open(self) -> None:
        """Open or create the log, unless it is open. Raises LogFailed."""
        if self._log is None:
            self._open()

    @property
    def opened_log(self) -> PartitionLog | None:
        """The log; None if it is not open. A log that was open when the replica went offline is still returned."""
        return self._log

    async def open_in_thread(self) -> PartitionLog:
        """Return the log. If it is not open, open or create it in a thread, as opening a log waits for the disk. Raises
        LogFailed."""
        if self._log is None:
            self._check_openable()
            with self._reporting():
                opened = await asyncio.to_thread(self.opener, self)
            self.opened(opened)
        return self.log

    def _open(self) -> PartitionLog:
        self._check_openable()
        with self._reporting():
            opened = self.opener(self)
        self.opened(opened)
        return opened

    def _check_openable(self) -> None:
        if self.is_offline:
            raise LogFailed(f"{self}: its log directory is offline")
        if self.is_deleted:
            raise LogFailed(f"{self} is deleted")

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Run the body of a `with` statement, which opens the log. An OSError or KcliError in the body is reported to
        `failed`, and LogFailed is raised in its place."""
        try:
            yield
        except LogFailed:
            raise
        except (OSError, KcliError) as error:
            self.failed(error)
            raise LogFailed(f"{self}: {error}") from error

    def opened(self, log: PartitionLog) -> None:
        """Set the log, which was just opened, and lead the partition if the metadata makes this broker its leader."""
        if self._log is None:
            self._log = log
            self._active_offset = log.active_base_offset
            self.on_opened(self, log)
            self._lead()
            self.host.opened(self)

    def moved(self, log: PartitionLog, directory: LogDir) -> None:
        """Replace the log by its copy in another log directory (AlterReplicaLogDirs)."""
        self._close_lane()
        self._log = self.made = log
        self.directory = directory
        self._active_offset = log.active_base_offset
        self.on_opened(self, log)
        if self.is_leader:
            log.start_epoch(self.leader_epoch)

    def failed(self, error: Exception) -> None:
        """Report an I/O error of the log, which takes its log directory offline, with every replica in it."""
        self.on_failed(self, error)

    # following the metadata image

    def update(self, state: PartitionState) -> None:
        """Apply the partition's state in the metadata: its leader, its replicas, its ISR."""
        self._close_lane()
        before, self.state = self.state, state
        if before.leader_epoch != state.leader_epoch:
            self.epoch_start_offset = None
        if not self.is_leader:
            self.leadership = None
            self._commits.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif self._log is not None and not self.is_offline:
            self._lead()
        self._wake_all()

    def _lead(self) -> None:
        log = self._log
        if log is None or not self.is_leader:
            return
        is_new = self.epoch_start_offset is None
        if is_new:
            self.epoch_start_offset = log.log_end_offset
            log.start_epoch(self.leader_epoch)
        host = self.host
        if self.state.replicas == (self.node_id,):
            self.leadership = None
        else:
            if self.leadership is None:
                self.leadership = Leadership(self.node_id, host.lag_max_ms, host.eligible)
            self.leadership.update(self.state, log.log_end_offset, host.now_ms())
            self._raise(self.leadership, log)
        self._advance(log)
        self._end_waits(log)
        if is_new and self.leadership is not None:
            host.nudge(self)

    def go_offline(self) -> None:
        """Take the replica offline, as its log directory has failed. Pending waits for the high watermark get the
        result KAFKA_STORAGE_ERROR."""
        self._close_lane()
        self.is_offline = True
        self._commits.fail(ErrorCode.KAFKA_STORAGE_ERROR)
        self.host.closed(self)
        self._wake_all()

    def delete(self) -> None:
        """Stop serving the replica, which was removed from this broker. Pending waits for the high watermark get the
        result NOT_LEADER_OR_FOLLOWER."""
        self._close_lane()
        self.is_deleted = True
        self._commits.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.host.closed(self)
        self._wake_all()

    # appending

    def append_as_leader(
        self,
        data: bytearray | memoryview,
        now_ms: int,
        *,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
        checked: CheckedBatch | None = None,
    ) -> Appended:
        """Append one batch (see PartitionLog.append_as_leader), move the high watermark if this replica is alone in the
        ISR, and wake waiting Fetches. Raises AppendRefused; also LogFailed and OSError, which the caller passes to
        `failed`."""
        if self.is_offline:
            raise LogFailed(f"{self}: its log directory is offline")
        log = self.log
        appended = log.append_as_leader(
            data,
            self.state.leader_epoch,
            now_ms,
            origin=origin,
            transaction_version=transaction_version,
            checked=checked,
        )
        if not appended.duplicate:
            self._appended(log)
        return appended

    def open_lane(self, lanes: ProduceLanes[Partition]) -> Lane | None:
        """Let compiled code append plain batches to this leader's log without calling this object, until the
        partition's state changes. Return the lane; None if the log is not open, or if this replica is not the leader.
        lanes: those to which a Lane for this partition is added, unless it has one: for an internal topic those of its
        coordinator, for any other topic those of plain Produce requests."""
        log = self._log
        if self._lane is None and log is not None and not (self.is_offline or self.is_deleted) and self.is_leader:
            alone = self.leadership is None and self.state.isr == (self.node_id,)
            name, topic_id = self.topic.encode(), self.topic_id.bytes
            watchers = self._watchers, self._end_watchers
            self._lane = lanes.add(name, topic_id, self.number, self, log, alone=alone, watchers=watchers)
        return self._lane

    def _close_lane(self) -> None:
        if self._lane is not None:
            self._lane.close()
            self._lane = None

    def plain_appended(self) -> int:
        """Note that compiled code has appended a batch to the log (see `open_lane`): move the high watermark, and wake
        waiting Fetches. Return the log start offset. It is not called for a replica that is alone in the ISR while no
        Fetch waits: compiled code then moves the high watermark itself."""
        log = self._log
        assert log is not None, "the lane was opened for it"
        self._appended(log)
        return log.log_start_offset

    def appended_aside(self) -> None:
        """Note that a data-plane thread has appended batches to the log. It has moved the high watermark already, if no
        other replica has to have them first."""
        log = self._log
        if log is not None and not self.is_offline:
            self._appended(log, has_moved=True)

    def producer(self, producer_id: int) -> ProducerEntry | None:
        """Return the state of a producer in the log; None if the log does not know the producer id. Raises
        LogFailed."""
        return self.log.producer_entry(producer_id)

    def _appended(self, log: PartitionLog, *, has_moved: bool = False) -> None:
        """Move the high watermark, and wake waiting requests. has_moved: whether it has been moved already."""
        before = log.high_watermark
        self._advance(log)
        if self._active_offset != log.active_base_offset:
            self._active_offset = log.active_base_offset
            self.on_rolled(self)
        self._wake_followers(is_urgent=True)
        if has_moved or log.high_watermark != before:
            self._high_watermark_moved(log)

    def _advance(self, log: PartitionLog) -> None:
        """Note in `leadership` that the log has grown. If this replica is the only one in the ISR, move the high
        watermark to the log end offset."""
        leadership = self.leadership
        if leadership is None:
            if self.state.isr == (self.node_id,):
                log.update_high_watermark(log.log_end_offset)
        else:
            leadership.appended()
            if leadership.is_alone:
                self._raise(leadership, log)

    def _raise(self, leadership: Leadership, log: PartitionLog) -> None:
        """Move the log's high watermark to the one that `leadership` computes from the followers' offsets, if the
        computed one is higher."""
        found = leadership.high_watermark(log.log_end_offset, log.config.min_insync_replicas, self.host.now_ms())
        if found is not None and found > log.high_watermark:
            log.update_high_watermark(found)

    def _high_watermark_moved(self, log: PartitionLog) -> None:
        self._end_waits(log)
        self._wake_followers(is_urgent=False)
        self._wake()

    def _end_waits(self, log: PartitionLog) -> None:
        if self._commits:
            self._commits.reached(log.high_watermark, self._committed_code(log))

    def _committed_code(self, log: PartitionLog) -> ErrorCode:
        """Return the result of a wait for an offset that the high watermark has reached: NONE, or
        NOT_ENOUGH_REPLICAS_AFTER_APPEND if the ISR is smaller than min.insync.replicas now."""
        leadership = self.leadership
        if leadership is None or leadership.min_isr(log.config.min_insync_replicas) <= len(leadership.maximal_isr):
            return ErrorCode.NONE
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def wait_committed(self, offset: int, timeout_s: float) -> Outcome:
        """Return a future that is done when the leader's high watermark is at least `offset`, when timeout_s is over,
        or when this replica goes offline or no longer leads the partition. Its result is an error code: NONE or
        NOT_ENOUGH_REPLICAS_AFTER_APPEND if the high watermark is at least `offset`, otherwise REQUEST_TIMED_OUT,
        NOT_LEADER_OR_FOLLOWER or KAFKA_STORAGE_ERROR. The future raises no exception."""
        code = self.check_leader_epoch()
        if code is not None or self._log is None:
            return done(code or ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self._log.high_watermark >= offset:
            return done(self._committed_code(self._log))
        return self._commits.add(offset, timeout_s)

    # followers of this leader

    def fetched(self, follower: Follower, offset: int, start: int, broker_epoch: int) -> None:
        """Note a follower's Fetch at `offset`, which acknowledges everything below `offset`: the follower may join
        the ISR, and the high watermark may move. start: the follower's log start offset. broker_epoch: the one in the
        Fetch, -1 for none."""
        leadership, log = self.leadership, self._log
        if leadership is None or log is None:
            return
        moved, trimmed = offset != follower.log_end_offset, start != follower.log_start_offset
        follower.fetched(offset, start, self.host.now_ms(), log.log_end_offset, broker_epoch)
        if follower.broker_id not in leadership.isr:
            change = leadership.expansion(follower, log.high_watermark, self.host.broker_epoch)
            if change is not None:
                self.host.alter(self, change)
        if moved:
            self._advance_high_watermark(leadership, log)
        if trimmed:
            self._wake()

    def _advance_high_watermark(self, leadership: Leadership, log: PartitionLog) -> None:
        before = log.high_watermark
        self._raise(leadership, log)
        if log.high_watermark != before:
            self._high_watermark_moved(log)

    def shrink_isr(self) -> None:
        """If followers in the ISR lag, send the controller a change that removes them from the ISR. Then move the high
        watermark if that is possible: it no longer waits for a follower that was about to join the ISR, but now
        lags."""
        if self.leadership is not None and self._log is not None and not self.is_offline:
            host = self.host
            change = self.leadership.shrinking(self._log.log_end_offset, host.now_ms(), host.broker_epoch)
            if change is not None:
                host.alter(self, change)
            self._advance_high_watermark(self.leadership, self._log)

    def isr_altered(self, change: IsrChange, leader_epoch: int, partition_epoch: int, isr: tuple[int, ...]) -> None:
        """Set the ISR to `isr`, which the controller has committed for `change`. Do nothing if this broker no longer
        leads the partition, or if the change is no longer pending. leader_epoch, partition_epoch: those in the
        controller's response."""
        leadership, log = self.leadership, self._log
        if leadership is None or log is None or self.is_offline:
            return
        if leadership.accepted(change, leader_epoch, partition_epoch, isr):
            self._advance_high_watermark(leadership, log)

    # as a follower

    def append_as_follower(
        self, data: memoryview | None, high_watermark: int, log_start_offset: int, now_ms: int
    ) -> None:
        """Append batches that were fetched from the leader. Then raise the high watermark to the leader's, but not
        above this log's end, and the log start offset to the leader's, but not above this log's high watermark.

        data: the batches; None if the leader has sent none. high_watermark, log_start_offset: the leader's. Raises
        AppendRefused, UnexpectedOffsets; also LogFailed and OSError, which the caller passes to `failed`.
        """
        if self.is_offline:
            raise LogFailed(f"{self}: its log directory is offline")
        log = self.log
        if data:
            log.append_as_follower(data, self.state.leader_epoch, now_ms)
            if self._active_offset != log.active_base_offset:
                self._active_offset = log.active_base_offset
                self.on_rolled(self)
        if min(high_watermark, log.log_end_offset) > log.high_watermark:
            log.update_high_watermark(high_watermark)
            self._wake()
        if log_start_offset > log.log_start_offset:
            self.delete_records(min(log_start_offset, log.high_watermark))

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Remove the records from `offset` on, which the leader does not have. Raises LogFailed, OSError."""
        self.on_removed(self, self.log.truncate_to(offset, now_ms))
        self._active_offset = self.log.active_base_offset
        self._wake()

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Remove all records and let the log begin at `offset`, the leader's log start offset. Raises LogFailed,
        OSError."""
        self.on_removed(self, self.log.truncate_fully_and_start_at(offset, now_ms))
        self._active_offset = self.log.active_base_offset
        self._wake()

    def start_from_tier(
        self, local_start: int, log_start: int, epochs: Sequence[EpochEntry], snapshot: bytes | None, now_ms: int
    ) -> None:
        """Remove all records, and let the local log begin at local_start. epochs, snapshot: the leader epochs and the
        producer snapshot of the log below local_start, read from tiered storage; see PartitionLog.start_from_tier.
        Raises LogFailed, OSError."""
        self.on_removed(self, self.log.start_from_tier(local_start, log_start, epochs, snapshot, now_ms))
        self._active_offset = self.log.active_base_offset
        self._wake()

    def advance_log_start(self, offset: int) -> None:
        """Move the log start offset forward to `offset`, below which tiered storage has no segments left. Do nothing if
        the log start offset is not below `offset`, or if the log is no longer tiered. Raises OffsetOutOfRange if
        `offset` is above the high watermark, LogFailed."""
        if self.log.is_tiered:
            self.delete_records(offset)

    def delete_records(self, offset: int) -> int:
        """Move the log start offset forward to `offset`. Return the low watermark (see `low_watermark`), which rises
        only when the followers have moved their log start offsets too.

        Raises OffsetOutOfRange if `offset` is above the high watermark, LogFailed, OSError.
        """
        log = self.log
        if log.delete_records(offset):
            self.log_start_moved()
            if self.leadership is not None:
                self.host.nudge(self)
        return self.low_watermark

    def log_start_moved(self) -> None:
        """Wake the waiting Fetches of followers and consumers, because the log start offset has moved: their responses
        contain it."""
        self._wake_followers(is_urgent=False)
        self._wake()

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset of this replica and, if this broker is the leader, of the followers on live
        brokers. Raises LogFailed."""
        found = self.log.log_start_offset
        if self.leadership is not None:
            for follower in self.leadership.followers.values():
                if follower.log_start_offset < found and self.host.is_alive(follower.broker_id):
                    found = follower.log_start_offset
        return found

    # waiting

    def watch(self, watcher: Watcher) -> None:
        """Until `unwatch`, call `watcher` at every change that a waiting request may need: the high watermark or the
        log start offset of a replica has moved, the log was truncated, the partition's state in the metadata has
        changed, or the replica has gone offline or was deleted. `watcher` must not change the partition."""
        self._watchers[watcher] = self._watchers.get(watcher, 0) + 1

    def unwatch(self, watcher: Watcher) -> None:
        """Undo one call of `watch`."""
        count = self._watchers.pop(watcher, 1)
        if count > 1:
            self._watchers[watcher] = count - 1

    def watch_end(self, watcher: EndWatcher) -> None:
        """Call `watcher`, which belongs to the fetch session of a follower, at each change until `unwatch_end`. The
        argument of the call is True for a change after which a waiting Fetch is read again at once (the log has grown,
        or the partition's state has changed), and False for a change that can wait for the next response (the high
        watermark or the log start offset has moved)."""
        self._end_watchers[watcher] = None

    def unwatch_end(self, watcher: EndWatcher) -> None:
        """Undo `watch_end`."""
        self._end_watchers.pop(watcher, None)

    def _wake(self) -> None:
        if self._watchers:
            for watcher in list(self._watchers):
                watcher()

    def _wake_followers(self, *, is_urgent: bool) -> None:
        if self._end_watchers:
            for watcher in list(self._end_watchers):
                watcher(is_urgent)

    def _wake_all(self) -> None:
        self._wake_followers(is_urgent=True)
        self._wake()

    # which requests this replica serves

    def check_leader_epoch(self, epoch: int = UNKNOWN_EPOCH, *, leader_only: bool = True) -> ErrorCode | None:
        """Return the error with which this replica refuses a request, None if it serves the request. epoch: the leader
        epoch in the request, -1 for none. leader_only: whether only the leader serves such requests."""
        if self.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if epoch not in (UNKNOWN_EPOCH, self.state.leader_epoch):
            is_old = epoch < self.state.leader_epoch
            return ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
        if (leader_only and not self.is_leader) or self.is_deleted:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return None

    def log_for(self, epoch: int = UNKNOWN_EPOCH, *, leader_only: bool = True) -> PartitionLog:
        """Return this replica's log. Raises PartitionError if this replica refuses the request (see
        check_leader_epoch), or if the log cannot be opened."""
        code = self.check_leader_epoch(epoch, leader_only=leader_only)
        if code is not None:
            raise PartitionError(code, f"{self}: leader epoch {epoch} in place of {self.state.leader_epoch}")
        try:
            return self.log
        except LogFailed as error:
            raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


class Partitions:
    """The replicas on this broker, by topic and partition number."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._by_name: dict[tuple[str, int], Partition] = {}  # looked up by plain tuples (see TopicPartition)

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, topic: str, number: int) -> Partition | None:
        """Return the partition, None if this broker has no replica of it."""
        return self._by_name.get((topic, number))

    def look_up(self, topic: str | UUID, number: int) -> Partition | ErrorCode:
        """Return this broker's replica of a partition, also if it is offline, by the topic's name or id. Without a
        replica on this broker return an error: NOT_LEADER_OR_FOLLOWER if only other brokers have replicas of the
        partition, UNKNOWN_TOPIC_OR_PARTITION if the metadata image has no such partition, UNKNOWN_TOPIC_ID if the
        metadata image has no topic with that id.

        Source: ReplicaManager.getPartitionOrError.
        """
        if isinstance(topic, UUID):
            of_id = self._image.topics_by_id.get(topic)
            if of_id is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
            topic = of_id.name
        partition = self._by_name.get((topic, number))
        if partition is not None:
            return partition
        known = self._image.topics.get(topic)
        is_elsewhere = known is not None and number in known.partitions
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def find(self, topic: str, number: int) -> Partition:
        """Return the partition. Raises PartitionError if this broker has no replica of the partition, or if the replica
        is offline."""
        partition = self.look_up(topic, number)
        if isinstance(partition, ErrorCode):
            reason = "is not on this broker" if partition == ErrorCode.NOT_LEADER_OR_FOLLOWER else "does not exist"
            raise PartitionError(partition, f"{topic}-{number} {reason}")
        if partition.is_offline:
            raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: its log directory is offline")
        return partition

    def add(self, partition: Partition) -> None:
        """Add a replica to the replicas of this broker."""
        self._by_name[partition.key] = partition

    def remove(self, partition: Partition) -> None:
        """Take one of this broker's replicas out of this set; its log on the disk stays."""
        if self._by_name.get(partition.key) is partition:
            del self._by_name[partition.key]

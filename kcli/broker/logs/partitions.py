"""The partitions of this broker, as handlers see them.

    get, find     by topic name and number; find says why there is none
    log           the partition's log, opened or made at its first use
    append        as the leader; the high watermark follows at once where this replica is the only one in sync, else
                  with its followers' fetches (kcli.broker.replication); as a follower; truncate
    watch         called whenever a consumer may see more, or the partition went: nobody polls; watch_end: a follower
    wait          until the high watermark has passed an offset

A partition is offline when its log directory failed: KAFKA_STORAGE_ERROR until the broker starts without the fault.
Source: Partition, ReplicaManager.getPartitionOrError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from formats.kernels.log import producer_entry
from formats.producer_snapshot import ProducerEntry
from kcli.broker.network.messages import ErrorCode
from kcli.broker.replication.commit_waits import CommitWaits, Outcome, done
from kcli.broker.replication.host import ALONE, ReplicaHost
from kcli.broker.replication.leadership import Follower, IsrChange, Leadership
from kcli.errors import KcliError
from kcli.log.live_segments import Removal
from kcli.log.partition_log import Appended, LogFailed, PartitionLog
from kcli.log.validator import CheckedBatch, Origin
from kcli.metadata.partition import Partition as PartitionState

if TYPE_CHECKING:
    from kcli.broker.logs.directories import LogDir
    from kcli.metadata.image import MetadataImage

UNKNOWN_EPOCH = -1
Watcher = Callable[[], object]
EndWatcher = Callable[[bool], object]


class PartitionError(KcliError):
    """Why a partition does not do what it was asked for, as a client is told."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Partition:
    """One replica on this broker. It lives on the event loop's thread; only its log may be opened by another one.

    opener: opens or makes the log; on_opened: it is there; on_rolled: a segment was closed and waits to be flushed;
    on_removed: files of segments are to go; on_failed: see `failed`. leadership: its followers, where it has any and
    this broker leads it.
    """

    __slots__ = (
        "_active_offset",
        "_commits",
        "_end_watchers",
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
        """directory None: it lies in one that is offline."""
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
        self.host: ReplicaHost = ALONE
        self.leadership: Leadership | None = None
        self.is_offline = directory is None
        self.is_deleted = False
        self.epoch_start_offset: int | None = None
        self.made: PartitionLog | None = None  # its log, by whichever thread
        self._log: PartitionLog | None = None
        self._active_offset = -1
        self._watchers: dict[Watcher, int] = {}
        self._end_watchers: dict[EndWatcher, None] = {}
        self._commits = CommitWaits()
        self.state = state

    def __repr__(self) -> str:
        return f"{self.topic}-{self.number}"

    @property
    def key(self) -> tuple[str, int]:
        """Topic and number."""
        return self.topic, self.number

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that the metadata names."""
        return self.state.leader_epoch

    @property
    def is_leader(self) -> bool:
        """Is it this broker?"""
        return self.state.leader == self.node_id

    @property
    def lacks_replicas(self) -> bool:
        """Are too few in sync for a batch that was sent with acks=all? Of a topic with fewer replicas than
        min.insync.replicas, all must be. Raises LogFailed."""
        if self.leadership is not None:
            return self.leadership.lacks_replicas(self.log.config.min_insync_replicas)
        count = len(self.state.isr)
        return count < len(self.state.replicas) and count < self.log.config.min_insync_replicas

    # its log

    @property
    def log(self) -> PartitionLog:
        """The log, of one that is offline too, if it was open before. Raises LogFailed where it cannot be had."""
        return self._open() if self._log is None else self._log

    def open(self) -> None:
        """Open the log, or make it, unless it is open. Raises LogFailed."""
        if self._log is None:
            self._open()

    @property
    def opened_log(self) -> PartitionLog | None:
        """The log if it is open, also of a partition that is offline."""
        return self._log

    def _open(self) -> PartitionLog:
        if self.is_offline:
            raise LogFailed(f"{self}: its log directory is offline")
        if self.is_deleted:
            raise LogFailed(f"{self} is deleted")
        try:
            opened = self.opener(self)
        except LogFailed:
            raise
        except (OSError, KcliError) as error:
            self.failed(error)
            raise LogFailed(f"{self}: {error}") from error
        self.opened(opened)
        return opened

    def opened(self, log: PartitionLog) -> None:
        """The log is there."""
        if self._log is None:
            self._log = log
            self._active_offset = log.active_base_offset
            self.on_opened(self, log)
            self._lead()
            self.host.opened(self)

    def moved(self, log: PartitionLog, directory: LogDir) -> None:
        """Another copy of the log, in another directory, is the log from now on."""
        self._log = self.made = log
        self.directory = directory
        self._active_offset = log.active_base_offset
        if self.is_leader:
            log.start_epoch(self.leader_epoch)

    def failed(self, error: Exception) -> None:
        """An I/O error: the log directory goes offline, with every partition in it."""
        self.on_failed(self, error)

    # what the metadata says

    def update(self, state: PartitionState) -> None:
        """The metadata says something new of it."""
        before, self.state = self.state, state
        if before.leader_epoch != state.leader_epoch:
            self.epoch_start_offset = None
        if not self.is_leader:
            self.leadership = None
            self._commits.fail(ErrorCode.not_leader_or_follower)
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
        self._tell_committed(log)
        if is_new and self.leadership is not None:
            host.nudge(self)

    def go_offline(self) -> None:
        """Its log directory failed."""
        self.is_offline = True
        self._commits.fail(ErrorCode.kafka_storage_error)
        self.host.went(self)
        self._wake_all()

    def delete(self) -> None:
        """It is no longer this broker's; whoever waits for it learns so."""
        self.is_deleted = True
        self._commits.fail(ErrorCode.not_leader_or_follower)
        self.host.went(self)
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
        """Append one batch, see PartitionLog.append_as_leader. Raises AppendRefused; LogFailed and OSError, of which
        `failed` is to hear."""
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

    def producer(self, producer_id: int) -> ProducerEntry | None:
        """What its log knows of a producer. Raises LogFailed."""
        entry = producer_entry(self.log.producers.table, producer_id)
        return None if entry is None else ProducerEntry._make(entry)

    def _appended(self, log: PartitionLog) -> None:
        before = log.high_watermark
        self._advance(log)
        if self._active_offset != log.active_base_offset:
            self._active_offset = log.active_base_offset
            self.on_rolled(self)
        self._wake_followers(is_urgent=True)
        if log.high_watermark != before:
            self._high_watermark_moved(log)

    def _advance(self, log: PartitionLog) -> None:
        """Alone in sync: what is appended is committed."""
        leadership = self.leadership
        if leadership is None:
            if self.state.isr == (self.node_id,):
                log.update_high_watermark(log.log_end_offset)
        else:
            leadership.appended()
            if leadership.is_alone:
                self._raise(leadership, log)

    def _raise(self, leadership: Leadership, log: PartitionLog) -> None:
        """Follow the replicas in sync with the high watermark."""
        found = leadership.high_watermark(log.log_end_offset, log.config.min_insync_replicas, self.host.now_ms())
        if found is not None and found > log.high_watermark:
            log.update_high_watermark(found)

    def _high_watermark_moved(self, log: PartitionLog) -> None:
        self._tell_committed(log)
        self._wake_followers(is_urgent=False)
        self._wake()

    def _tell_committed(self, log: PartitionLog) -> None:
        if self._commits:
            self._commits.reached(log.high_watermark, self._committed_code(log))

    def _committed_code(self, log: PartitionLog) -> ErrorCode:
        """For whoever has waited until the high watermark passed: were there enough in sync until the end?"""
        leadership = self.leadership
        if leadership is None or leadership.min_isr(log.config.min_insync_replicas) <= len(leadership.maximal_isr):
            return ErrorCode.none
        return ErrorCode.not_enough_replicas_after_append

    def wait_committed(self, offset: int, timeout_s: float) -> Outcome:
        """Wait until the high watermark is `offset` at least, as the leader: none, or NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        REQUEST_TIMED_OUT, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR. It raises nothing."""
        code = self.check_leader_epoch()
        if code is not None or self._log is None:
            return done(code or ErrorCode.not_leader_or_follower)
        if self._log.high_watermark >= offset:
            return done(self._committed_code(self._log))
        return self._commits.add(offset, timeout_s)

    # followers of this leader

    def fetched(self, follower: Follower, offset: int, start: int, broker_epoch: int) -> None:
        """A follower has all before `offset`: it may be in sync again, and more may be committed."""
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
            self._raise_and_tell(leadership, log)
        if trimmed:
            self._wake()

    def _raise_and_tell(self, leadership: Leadership, log: PartitionLog) -> None:
        before = log.high_watermark
        self._raise(leadership, log)
        if log.high_watermark != before:
            self._high_watermark_moved(log)

    def shrink_isr(self) -> None:
        """Ask the controller to take out of the ISR who lags."""
        if self.leadership is not None and self._log is not None and not self.is_offline:
            host = self.host
            change = self.leadership.shrinking(self._log.log_end_offset, host.now_ms(), host.broker_epoch)
            if change is not None:
                host.alter(self, change)
            self._raise_and_tell(self.leadership, self._log)

    def isr_altered(self, change: IsrChange, leader_epoch: int, partition_epoch: int, isr: tuple[int, ...]) -> None:
        """The controller has done what it was asked for."""
        leadership, log = self.leadership, self._log
        if leadership is None or log is None or self.is_offline:
            return
        if leadership.accepted(change, leader_epoch, partition_epoch, isr):
            self._raise_and_tell(leadership, log)

    # as a follower

    def append_as_follower(
        self, data: memoryview | None, high_watermark: int, log_start_offset: int, now_ms: int
    ) -> None:
        """Append batches as the leader has them, and follow its high watermark and log start.

        Raises AppendRefused, UnexpectedOffsets; LogFailed and OSError, of which `failed` is to hear.
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
        """Cut off what the leader does not have. Raises LogFailed, OSError."""
        self.on_removed(self, self.log.truncate_to(offset, now_ms))
        self._active_offset = self.log.active_base_offset
        self._wake()

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Drop everything: the leader's log begins behind this one's end. Raises LogFailed, OSError."""
        self.on_removed(self, self.log.truncate_fully_and_start_at(offset, now_ms))
        self._active_offset = self.log.active_base_offset
        self._wake()

    def delete_records(self, offset: int) -> int:
        """Move the log start offset forward to `offset`, at most the high watermark. Returns the low watermark: that
        of followers comes later.

        Raises OffsetOutOfRange, LogFailed, OSError.
        """
        log = self.log
        if log.delete_records(offset):
            self._wake_followers(is_urgent=False)
            self._wake()
            if self.leadership is not None:
                self.host.nudge(self)
        return self.low_watermark

    @property
    def low_watermark(self) -> int:
        """The smallest log start of the replicas that are alive. Raises LogFailed."""
        found = self.log.log_start_offset
        if self.leadership is not None:
            for follower in self.leadership.followers.values():
                if follower.log_start_offset < found and self.host.is_alive(follower.broker_id):
                    found = follower.log_start_offset
        return found

    # waiting

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` at every change until `unwatch`. It must not change the partition."""
        self._watchers[watcher] = self._watchers.get(watcher, 0) + 1

    def unwatch(self, watcher: Watcher) -> None:
        """Take back one `watch`."""
        count = self._watchers.pop(watcher, 1)
        if count > 1:
            self._watchers[watcher] = count - 1

    def watch_end(self, watcher: EndWatcher) -> None:
        """Call `watcher` for a follower, until `unwatch_end`: with True when there is something to fetch or to know at
        once, with False when the high watermark has moved, which can wait."""
        self._end_watchers[watcher] = None

    def unwatch_end(self, watcher: EndWatcher) -> None:
        """Take back `watch_end`."""
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

    # who may ask

    def check_leader_epoch(self, epoch: int = UNKNOWN_EPOCH, *, leader_only: bool = True) -> ErrorCode | None:
        """What keeps a client from this replica; epoch: the leader's as the client knows it, -1 where it does not."""
        if self.is_offline:
            return ErrorCode.kafka_storage_error
        if epoch not in (UNKNOWN_EPOCH, self.state.leader_epoch):
            is_old = epoch < self.state.leader_epoch
            return ErrorCode.fenced_leader_epoch if is_old else ErrorCode.unknown_leader_epoch
        if (leader_only and not self.is_leader) or self.is_deleted:
            return ErrorCode.not_leader_or_follower
        return None

    def log_for(self, epoch: int = UNKNOWN_EPOCH, *, leader_only: bool = True) -> PartitionLog:
        """The log for a client that may ask. Raises PartitionError."""
        code = self.check_leader_epoch(epoch, leader_only=leader_only)
        if code is not None:
            raise PartitionError(code, f"{self}: asked in leader epoch {epoch}, it is in {self.state.leader_epoch}")
        try:
            return self.log
        except LogFailed as error:
            raise PartitionError(ErrorCode.kafka_storage_error, str(error)) from error


class Partitions:
    """Those of this broker, by topic and number."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._by_name: dict[tuple[str, int], Partition] = {}

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, topic: str, number: int) -> Partition | None:
        """The partition, where this broker has a replica of it."""
        return self._by_name.get((topic, number))

    def look_up(self, topic: str, number: int) -> Partition | ErrorCode:
        """The partition; or NOT_LEADER_OR_FOLLOWER where the metadata image names only other brokers as replicas, and
        UNKNOWN_TOPIC_OR_PARTITION where it knows no such partition.

        Source: ReplicaManager.getPartitionOrError.
        """
        partition = self._by_name.get((topic, number))
        if partition is not None:
            return partition
        known = self._image.topics.get(topic)
        is_elsewhere = known is not None and number in known.partitions
        return ErrorCode.not_leader_or_follower if is_elsewhere else ErrorCode.unknown_topic_or_partition

    def find(self, topic: str, number: int) -> Partition:
        """The partition. Raises PartitionError: it is offline, of other brokers, or unknown."""
        partition = self.look_up(topic, number)
        if isinstance(partition, ErrorCode):
            reason = "is not on this broker" if partition is ErrorCode.not_leader_or_follower else "does not exist"
            raise PartitionError(partition, f"{topic}-{number} {reason}")
        if partition.is_offline:
            raise PartitionError(ErrorCode.kafka_storage_error, f"{partition}: its log directory is offline")
        return partition

    def add(self, partition: Partition) -> None:
        """A replica has come to this broker."""
        self._by_name[partition.key] = partition

    def remove(self, partition: Partition) -> None:
        """A replica has gone from this broker."""
        if self._by_name.get(partition.key) is partition:
            del self._by_name[partition.key]

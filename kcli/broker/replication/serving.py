"""The leader's response to a follower's Fetch. The Fetch reads to the log end offset, and acknowledges the records that
the follower has.

    read       the partitions that the request names, and those of its session that have changed since the last
               response, so that an idle session of thousands of partitions costs nothing
    rest       a partition with which the follower has caught up is not read until its log grows or its state changes;
               this does not apply to a follower outside the ISR, as each of its Fetches may let it join the ISR
    wait       until a partition has records or an error, or this broker begins to lead more partitions of the follower
               (which then fetches them at once), or the request's max_wait is over

An offset that is in tiered storage alone is answered with OFFSET_MOVED_TO_TIERED_STORAGE: the follower then begins its
log above that offset (see tier_state.py).

A broker that has no replica of the partition, or whose broker epoch is outdated (KIP-903), is refused. A plain Fetch
(`serve_plain`; see answer_plain in api/fetch.py) is answered without decoding it into objects of kio's; its partitions
are read as those of any other Fetch.
Source: ReplicaManager.fetchMessages, Partition.fetchRecords, FetchSession; KIP-227, KIP-595 (diverging epochs).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kcli.broker.fetching.sessions import FULL_MAX, NO_SESSION, FetchedPartition, Session
from kcli.broker.fetching.tracker import FollowerTracker, Key
from kcli.broker.partition.partitions import Partition
from kcli.broker.process.turns import LONG_ITEMS, Parts, at_once
from kcli.broker.wire.answers import Laid, Later
from kcli.broker.wire.fetch_layout import UNKNOWN, FetchFrame, PartitionAnswer
from kcli.broker.wire.messages import Messages
from kcli.log.live.partition_log import Isolation, LogFailed, OffsetOutOfRange, OffsetTiered, PartitionLog
from kcli.log.live.segments import LogRead
from kcli.protocol.error_code import ErrorCode

if TYPE_CHECKING:
    from kcli.broker.partition.leadership import Follower
    from kcli.broker.replication.manager import ReplicaManager
    from kcli.broker.wire.types.fetch import FetchCall

Found = dict[Key, PartitionAnswer]


class Terms(NamedTuple):
    """The fields of a Fetch that decide how it is served. messages: the classes of its version. replica: the follower's
    broker id and broker epoch. now_ms: when the Fetch was read. is_incremental: whether the Fetch is within a session,
    so that the response has only the partitions that have changed."""

    messages: Messages
    correlation_id: int
    replica: tuple[int, int]
    max_wait_s: float
    min_bytes: int
    max_bytes: int
    now_ms: int
    is_incremental: bool


def serve(
    call: FetchCall,
    replica: tuple[int, int],
    session: Session | None,
    requested: list[FetchedPartition],
    replicas: ReplicaManager,
) -> Parts[Laid | Later]:
    """Return the response to a follower's Fetch; a Fetch of many partitions is handled in parts.

    replica: the follower's broker id and broker epoch. session: None for a Fetch without session. requested: the
    partitions of a Fetch without session. The errors of partitions are those of api/fetch.py, and UNKNOWN_LEADER_EPOCH
    for a broker that has no replica of the partition.
    """
    call.is_exempt = True
    request = call.request
    terms = Terms(
        call.messages,
        call.header.correlation_id,
        replica,
        request.max_wait.total_seconds(),
        request.min_bytes,
        request.max_bytes,
        call.now_ms,
        is_incremental=session is not None and call.get("session_epoch", 0) > 0,
    )
    return _Fetch(terms, session, requested, replicas).begin()


def serve_plain(terms: Terms, session: Session, replicas: ReplicaManager) -> Laid | Later:
    """Return the response to a follower's Fetch within a session that has few partitions to read."""
    return at_once(_Fetch(terms, session, [], replicas).begin())


class _Fetch:
    """One Fetch of a follower."""

    def __init__(
        self, terms: Terms, session: Session | None, requested: list[FetchedPartition], replicas: ReplicaManager
    ) -> None:
        self.replicas = replicas
        self.messages, self.correlation_id = terms.messages, terms.correlation_id
        self.replica_id, self.broker_epoch = terms.replica
        self.session = session
        self.is_incremental = terms.is_incremental
        self.max_bytes = min(terms.max_bytes, replicas.config.fetch_max_bytes)
        self.min_bytes = min(terms.min_bytes, self.max_bytes)
        self.max_wait_s = terms.max_wait_s
        self.throttle = replicas.leader_throttle
        if session is None:
            self.partitions = {each.key: each for each in requested}
            self.tracker = FollowerTracker(dirty=self.partitions)
        else:
            self.partitions = session.partitions
            self.tracker = self._tracker_of(session)
        self.tracker.fetched_ms = terms.now_ms
        self._is_in_parts = False

    def _tracker_of(self, session: Session) -> FollowerTracker:
        known = session.tracker
        if isinstance(known, FollowerTracker):
            return known
        if known is not None:  # the session belonged to a consumer before
            known.close()
        session.tracker = tracker = FollowerTracker(self.broker_epoch, session.partitions)
        self.replicas.trackers.add(self.replica_id, tracker)
        return tracker

    def begin(self) -> Parts[Laid | Later]:
        """Return the response at once if there are min_bytes of records, a partition has an error or a diverging epoch,
        the Fetch has no partitions, or max_wait is 0. Otherwise return a Later, whose response is made when there are
        min_bytes, an error or a diverging epoch, when this follower is nudged (see Waiting), or when max_wait is
        over."""
        found = yield from self._read(list(self._to_read), update=True)
        if self.max_wait_s <= 0 or self._is_enough(found):
            return (yield from self._answer(found))
        return self._wait()

    @property
    def _to_read(self) -> Iterable[Key]:
        return self.tracker.dirty if self.is_incremental else self.partitions

    def _wait(self) -> Later:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Found | None] = loop.create_future()
        replicas = self.replicas
        is_due = False

        def end(found: Found | None) -> None:
            if not future.done():
                future.set_result(found)

        def read_changed() -> None:
            nonlocal is_due
            is_due = False
            if not future.done():
                found = at_once(self._read(list(self._to_read), update=False))
                if self._is_enough(found):
                    end(found)

        def wake() -> None:
            nonlocal is_due
            if not (is_due or future.done()):
                is_due = True
                loop.call_soon(read_changed)

        def ended(_: object) -> None:
            timer.cancel()
            if self.tracker.wake is wake:
                self.tracker.wake = None
            replicas.waiting.discard(self.replica_id, nudge)
            if self.session is None or future.cancelled():
                self._leave()

        nudge = partial(end, None)
        timer = loop.call_later(self.max_wait_s, nudge)
        self.tracker.wake = wake
        replicas.waiting.add(self.replica_id, nudge)
        future.add_done_callback(ended)
        return Later(future, self._finish)

    def _leave(self) -> None:
        """Close the tracker of a Fetch without session, as no later Fetch uses it."""
        if self.session is None:
            self.tracker.close()

    def _finish(self, future: asyncio.Future[Found | None]) -> Laid:
        found = future.result()
        if found is None:
            found = at_once(self._read(list(self._to_read), update=False))
        return at_once(self._answer(found))

    # reading

    def _read(self, keys: Iterable[Key], *, update: bool) -> Parts[Found]:
        """Read partitions of the Fetch. Return those that the response must have, by topic id and partition number:
        within a session, only the changed ones. update: whether to note the offsets that the Fetch acknowledges, which
        is done once, when the Fetch arrives."""
        left, full = self.max_bytes, 0
        found: Found = {}
        dirty = self.tracker.dirty
        for i, key in enumerate(keys):
            if i and not i % LONG_ITEMS:
                self._is_in_parts = True
                yield
            fetched = self.partitions.get(key)
            if fetched is None:
                dirty.pop(key, None)
                continue
            limit = min(fetched.max_bytes, max(left, 0)) if full < FULL_MAX else 0
            answer, rests = self._read_partition(key, fetched, limit, first=not full, update=update)
            if answer.size:
                full += 1
                left -= answer.size
            if not self.is_incremental or fetched.is_news(answer):
                found[key] = answer
            elif rests:
                dirty.pop(key, None)
        return found

    def _read_partition(
        self, key: Key, fetched: FetchedPartition, max_bytes: int, *, first: bool, update: bool
    ) -> tuple[PartitionAnswer, bool]:
        """Return the partition's response, and whether the partition need not be read again until it changes: the
        follower has caught up and is in the ISR (see `Follower.rest`). first: whether no partition before this one has
        returned records; then one batch is returned even if it is larger than max_bytes. update: as in `_read`."""
        partition = self.replicas.partitions.look_up(fetched.topic, fetched.index)
        if isinstance(partition, ErrorCode):
            self.tracker.unwatch(key)
            return PartitionAnswer(fetched.index, partition.value), False
        self.tracker.watch(key, partition)
        try:
            follower = partition.check_leader_epoch(fetched.leader_epoch) or self._follower(partition, fetched)
            if isinstance(follower, ErrorCode):
                return PartitionAnswer(fetched.index, follower.value), False
            return self._read_log(partition, follower, fetched, max_bytes, first=first, update=update)
        except OffsetTiered as moved:
            code, log = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE.value, partition.log
            answer = PartitionAnswer(
                fetched.index, code, high_watermark=log.high_watermark, log_start_offset=moved.log_start_offset
            )
            return answer, False
        except OffsetOutOfRange:
            return PartitionAnswer(fetched.index, ErrorCode.OFFSET_OUT_OF_RANGE.value), False
        except (OSError, LogFailed) as failure:
            partition.failed(failure)
            return PartitionAnswer(fetched.index, ErrorCode.KAFKA_STORAGE_ERROR.value), False

    def _follower(self, partition: Partition, fetched: FetchedPartition) -> Follower | ErrorCode:
        """Return what the leader knows of the follower, or the error with which the follower is refused. Raises
        LogFailed."""
        partition.open()
        leadership = partition.leadership
        follower = None if leadership is None else leadership.followers.get(self.replica_id)
        # If the follower is no replica in this broker's metadata, a reassignment may not have reached this broker yet:
        # after UNKNOWN_LEADER_EPOCH the follower tries again.
        if follower is None and fetched.leader_epoch != UNKNOWN:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if follower is None or self.replicas.is_stale(self.replica_id, self.broker_epoch):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return follower

    def _read_log(
        self,
        partition: Partition,
        follower: Follower,
        fetched: FetchedPartition,
        max_bytes: int,
        *,
        first: bool,
        update: bool,
    ) -> tuple[PartitionAnswer, bool]:
        log = partition.log
        diverging = divergence(log, fetched) if fetched.last_fetched_epoch != UNKNOWN else None
        read = LogRead(None)
        leadership = partition.leadership
        assert leadership is not None, "it has followers"
        if diverging is None:
            is_held = self.throttle.holds(partition) and self.replica_id not in leadership.isr
            if not is_held:
                read = log.read(fetched.offset, max_bytes, Isolation.LOG_END, min_one_batch=first)
            elif not log.local_log_start_offset <= fetched.offset <= log.log_end_offset:
                log.read(fetched.offset, 0, Isolation.LOG_END, min_one_batch=False)  # raises the error
            if update:
                partition.fetched(follower, fetched.offset, fetched.log_start, self.broker_epoch)
        rests = diverging is None and fetched.offset >= log.log_end_offset and self.replica_id in leadership.isr
        if rests:
            follower.rest(self.tracker)
        answer = PartitionAnswer(
            fetched.index,
            0,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            None,
            read.region,
            diverging,
        )
        if read.region is not None and self.throttle.is_active:
            self.throttle.sent(partition, read.region.length)
        return answer, rests

    def _is_enough(self, found: Found) -> bool:
        if not self.partitions:
            return True
        size = 0
        for answer in found.values():
            if answer.error_code or answer.diverging is not None:
                return True
            size += answer.size
        enough: bool = size >= self.min_bytes
        return enough

    # answering

    def _answer(self, found: Found) -> Parts[Laid]:
        """Return the response. If the Fetch was read in parts, the partitions with records are read again, and added
        last, as their files may have been deleted since the first read."""
        frame, full = FetchFrame(self.messages), []
        for i, (key, answer) in enumerate(found.items()):
            if i and not i % LONG_ITEMS:
                yield
            if self._is_in_parts and answer.region is not None:
                full.append(key)
            else:
                self._add(frame, key, answer)
        for key, answer in at_once(self._read(full, update=False)).items():
            self._add(frame, key, answer)
        session = self.session
        if session is None:
            self._leave()
        return frame.whole(self.correlation_id, NO_SESSION if session is None else session.id)

    def _add(self, frame: FetchFrame, key: Key, answer: PartitionAnswer) -> None:
        """Add a partition to the response, and note its offsets in the session."""
        fetched = self.partitions.get(key)
        if self.session is not None and fetched is not None:
            fetched.note_sent(answer)
            if answer.size:  # move this partition to the end: the next response begins with other partitions
                self.tracker.dirty.pop(key, None)
                self.tracker.dirty[key] = None
        frame.add(key[0], answer)


def divergence(log: PartitionLog, fetched: FetchedPartition) -> tuple[int, int] | None:
    """Return the point at which the follower's log diverges from the leader's: the leader's largest epoch that is at
    most the follower's last fetched epoch, and the end offset of that epoch. Return None if the logs do not diverge.

    Raises OffsetOutOfRange if the leader's log does not know the epoch, or begins above the fetch offset.
    """
    epoch, end = log.offset_for_leader_epoch(fetched.last_fetched_epoch)
    if UNKNOWN in (epoch, end):
        raise OffsetOutOfRange(f"the log does not know leader epoch {fetched.last_fetched_epoch}")
    if fetched.offset < log.log_start_offset:
        raise OffsetOutOfRange(f"offset {fetched.offset:,} lies before the log start {log.log_start_offset:,}")
    return (epoch, end) if epoch < fetched.last_fetched_epoch or end < fetched.offset else None

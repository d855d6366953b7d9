"""A follower's fetch, as its leader answers it: to the end of the log, and each fetch says what the follower has.

    read       the partitions that the request names, and those of its session with news since the last answer: an idle
               session of thousands costs nothing
    rest       a partition of which the follower has all is not looked at until its log grows or its state changes;
               while the follower is not in sync each of its fetches is a chance to get there
    wait       until one of them does, or the leader begins to lead more partitions of this follower (it asks at once
               for those, then), or replica.fetch.wait.max.ms is over

Not served: a follower that is not among the replicas, one of an earlier life of its broker (KIP-903).
Source: ReplicaManager.fetchMessages, Partition.fetchRecords, FetchSession; KIP-227, KIP-595 (diverging epochs).
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING
from uuid import UUID

from kcli.broker.fetch_sessions import NO_SESSION, Key, Session, Wanted, topic_key
from kcli.broker.logs.partitions import EndWatcher, Partition, Watcher
from kcli.broker.network.connection import Laid, Later
from kcli.broker.network.fetch_layout import UNKNOWN, PartitionAnswer, lay_out
from kcli.broker.network.messages import Call, ErrorCode
from kcli.log.live_segments import LogRead
from kcli.log.partition_log import Isolation, LogFailed, OffsetOutOfRange, PartitionLog

if TYPE_CHECKING:
    from kcli.broker.replication.leadership import Follower

Found = dict[Key, PartitionAnswer]


class Tracker:
    """The partitions of one follower's session: which have news. broker_epoch: of the follower; fetched_ms: when it
    asked last."""

    def __init__(self, broker_epoch: int = UNKNOWN) -> None:
        self.broker_epoch = broker_epoch
        self.fetched_ms = 0
        self.dirty: dict[Key, None] = {}
        self.wake: Watcher | None = None
        self._watched: dict[Key, tuple[Partition, EndWatcher]] = {}

    def watch(self, key: Key, partition: Partition) -> None:
        """Hear of its changes."""
        known = self._watched.get(key)
        if known is not None and known[0] is partition:
            return
        self.unwatch(key)
        watcher = partial(self._changed, key)
        partition.watch_end(watcher)
        self._watched[key] = partition, watcher

    def unwatch(self, key: Key) -> None:
        """No more."""
        known = self._watched.pop(key, None)
        if known is not None:
            known[0].unwatch_end(known[1])

    def _changed(self, key: Key, is_urgent: bool) -> None:
        self.dirty[key] = None
        if is_urgent and self.wake is not None:
            self.wake()

    def close(self) -> None:
        """The session is over."""
        for key in list(self._watched):
            self.unwatch(key)


def serve(call: Call, replica: tuple[int, int], session: Session | None, wanted: list[Wanted]) -> Laid | Later:
    """Answer a fetch. replica: its broker, and the epoch of that. Errors of a partition as in api/fetch.py, and
    UNKNOWN_LEADER_EPOCH for who is not among the replicas."""
    call.is_exempt = True
    return _Fetch(call, replica, session, wanted).begin()


class _Fetch:
    """One request."""

    def __init__(self, call: Call, replica: tuple[int, int], session: Session | None, wanted: list[Wanted]) -> None:
        self.call = call
        self.replica_id, self.broker_epoch = replica
        self.session = session
        request = call.request
        self.is_incremental = session is not None and call.get("session_epoch", 0) > 0
        self.max_bytes = min(request.max_bytes, call.broker.config.fetch_max_bytes)
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        self.max_wait_s = request.max_wait.total_seconds()
        self.throttle = call.broker.replicas.leader_throttle
        if session is None:
            self.tracker = Tracker()
            self.partitions = {(each.topic, each.index): each for each in wanted}
        else:
            if session.tracker is None:
                session.tracker = Tracker(self.broker_epoch)
                call.broker.replicas.trackers.add(self.replica_id, session.tracker)
            self.tracker = session.tracker
            self.partitions = session.partitions
        self.tracker.fetched_ms = call.now_ms
        if self.is_incremental:
            self._note_changes()
        else:
            self.asked: dict[Key, None] = dict.fromkeys(self.partitions)

    def _note_changes(self) -> None:
        request = self.call.request
        self.asked = {(topic_key(topic), each.partition): None for topic in request.topics for each in topic.partitions}
        for topic in request.forgotten_topics_data:
            name = topic_key(topic)
            for index in topic.partitions:
                self.tracker.unwatch((name, index))
                self.tracker.dirty.pop((name, index), None)

    def begin(self) -> Laid | Later:
        """Answer now, or when there is something."""
        dirty = self.tracker.dirty
        for key in self.asked:
            dirty[key] = None
        found = self._read(update=True)
        if self.max_wait_s <= 0 or self._is_enough(found):
            return self._answer(found)
        return self._wait()

    def _wait(self) -> Later:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Found | None] = loop.create_future()
        replicas = self.call.broker.replicas
        is_due = False

        def end(found: Found | None) -> None:
            if not future.done():
                future.set_result(found)

        def look() -> None:
            nonlocal is_due
            is_due = False
            if not future.done():
                found = self._read(update=False)
                if self._is_enough(found):
                    end(found)

        def wake() -> None:
            nonlocal is_due
            if not (is_due or future.done()):
                is_due = True
                loop.call_soon(look)

        def ended(_: object) -> None:
            timer.cancel()
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
        """Without a session, or with its connection, nobody asks for news any more."""
        if self.session is None:
            self.tracker.close()

    def _finish(self, future: asyncio.Future[Found | None]) -> Laid:
        found = future.result()
        return self._answer(self._read(update=False) if found is None else found)

    # reading

    def _read(self, *, update: bool) -> Found:
        """What there is now. update: the request has just come, and says what the follower has."""
        left, first = self.max_bytes, True
        found: Found = {}
        tracker = self.tracker
        for key in list(tracker.dirty if self.is_incremental else self.partitions):
            wanted = self.partitions.get(key)
            if wanted is None:
                del tracker.dirty[key]
                continue
            limit = min(wanted.max_bytes, max(left, 0))
            answer, rests = self._read_partition(key, wanted, limit, first=first, update=update)
            if answer.size:
                first = False
                left -= answer.size
            if not self.is_incremental or self._is_news(wanted, answer):
                found[key] = answer
            elif rests:
                del tracker.dirty[key]
        return found

    def _is_news(self, wanted: Wanted, answer: PartitionAnswer) -> bool:
        return (
            answer.region is not None
            or answer.error_code != 0
            or answer.diverging is not None
            or answer.high_watermark != wanted.told_high_watermark
            or answer.log_start_offset != wanted.told_log_start
        )

    def _partition(self, wanted: Wanted) -> Partition | ErrorCode:
        topic = wanted.topic
        if isinstance(topic, UUID):
            known = self.call.broker.image.topics_by_id.get(topic)
            if known is None:
                return ErrorCode.unknown_topic_id
            topic = known.name
        return self.call.broker.partitions.look_up(topic, wanted.index)

    def _read_partition(
        self, key: Key, wanted: Wanted, max_bytes: int, *, first: bool, update: bool
    ) -> tuple[PartitionAnswer, bool]:
        """What is found, and whether the follower may rest until there is more."""
        partition = self._partition(wanted)
        if isinstance(partition, ErrorCode):
            self.tracker.unwatch(key)
            return PartitionAnswer(wanted.index, partition.value), False
        self.tracker.watch(key, partition)
        try:
            follower = partition.check_leader_epoch(wanted.leader_epoch) or self._follower(partition, wanted)
            if isinstance(follower, ErrorCode):
                return PartitionAnswer(wanted.index, follower.value), False
            return self._read_log(partition, follower, wanted, max_bytes, first=first, update=update)
        except OffsetOutOfRange:
            return PartitionAnswer(wanted.index, ErrorCode.offset_out_of_range.value), False
        except (OSError, LogFailed) as failure:
            partition.failed(failure)
            return PartitionAnswer(wanted.index, ErrorCode.kafka_storage_error.value), False

    def _follower(self, partition: Partition, wanted: Wanted) -> Follower | ErrorCode:
        """Raises LogFailed."""
        partition.open()
        leadership = partition.leadership
        follower = None if leadership is None else leadership.followers.get(self.replica_id)
        if follower is None and wanted.leader_epoch != UNKNOWN:  # it may know of a reassignment that is new here
            return ErrorCode.unknown_leader_epoch
        if follower is None or self.call.broker.replicas.is_stale(self.replica_id, self.broker_epoch):
            return ErrorCode.not_leader_or_follower
        return follower

    def _read_log(
        self, partition: Partition, follower: Follower, wanted: Wanted, max_bytes: int, *, first: bool, update: bool
    ) -> tuple[PartitionAnswer, bool]:
        log = partition.log
        diverging = divergence(log, wanted) if wanted.last_fetched_epoch != UNKNOWN else None
        read = LogRead(None)
        leadership = partition.leadership
        assert leadership is not None, "it has followers"
        if diverging is None:
            is_held = self.throttle.holds(partition) and self.replica_id not in leadership.isr
            if not is_held:
                read = log.read(wanted.offset, max_bytes, Isolation.LOG_END, min_one_batch=first)
            elif not log.log_start_offset <= wanted.offset <= log.log_end_offset:
                raise OffsetOutOfRange(f"{partition}: offset {wanted.offset}")
            if update:
                partition.fetched(follower, wanted.offset, wanted.log_start, self.broker_epoch)
        rests = diverging is None and wanted.offset >= log.log_end_offset and self.replica_id in leadership.isr
        if rests:
            follower.rest(self.tracker)
        answer = PartitionAnswer(
            wanted.index,
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

    def _answer(self, found: Found) -> Laid:
        call, session, tracker = self.call, self.session, self.tracker
        if session is None:
            self._leave()
            session_id = NO_SESSION
        else:
            session_id = session.id
            for key, answer in found.items():
                wanted = self.partitions.get(key)
                if wanted is not None:
                    wanted.told_log_start = answer.log_start_offset
                    wanted.told_high_watermark = UNKNOWN if answer.error_code else answer.high_watermark
                    if answer.size:  # others come first next time
                        tracker.dirty.pop(key, None)
                        tracker.dirty[key] = None
        by_topic = groupby(found.items(), key=lambda each: each[0][0])
        topics = [(topic, [answer for _, answer in group]) for topic, group in by_topic]
        return lay_out(call.messages, call.header.correlation_id, session_id, topics)


def divergence(log: PartitionLog, wanted: Wanted) -> tuple[int, int] | None:
    """Where the log of a follower left the leader's: the epoch and its end, as far as both have it.

    Raises OffsetOutOfRange.
    """
    epoch, end = log.offset_for_leader_epoch(wanted.last_fetched_epoch)
    if UNKNOWN in (epoch, end):
        raise OffsetOutOfRange(f"the log does not know leader epoch {wanted.last_fetched_epoch}")
    if wanted.offset < log.log_start_offset:
        raise OffsetOutOfRange(f"offset {wanted.offset:,} lies before the log start {log.log_start_offset:,}")
    return (epoch, end) if epoch < wanted.last_fetched_epoch or end < wanted.offset else None

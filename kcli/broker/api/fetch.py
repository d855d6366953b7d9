"""Fetch (1): records from partitions on, as they lie in the log.

v4 isolation level, aborted transactions. v5 log start offset. v7 sessions (KIP-227). v9 leader epochs (KIP-320).
v11 racks. v12 flexible, last fetched epoch (KIP-595). v13 topic ids (KIP-516). v15 replica state. v16 node endpoints.
v17 directory ids. v18 high watermark of followers.

It waits until there are min_bytes or max_wait is over: each move of the high watermark of a partition it asks for wakes
it, no polling. Followers read elsewhere: kcli.broker.replication.serving. Consumers that tell their rack (v11) may read
from followers too, and are told of one that is nearer (KIP-392).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from itertools import groupby
from uuid import UUID

from kcli.broker.current_leader import current_leader, endpoints_field, leader_field
from kcli.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, Key, Session, Wanted, topic_key
from kcli.broker.logs.partitions import Partition
from kcli.broker.network.connection import Laid, Later
from kcli.broker.network.fetch_layout import UNKNOWN, PartitionAnswer, lay_out
from kcli.broker.network.layout import NO_TAGS
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.log.live_segments import LogRead
from kcli.log.partition_log import Isolation, LogFailed, OffsetOutOfRange

DEBUG_CONSUMER = -2
STORAGE_ERROR_VERSION, ZSTD_VERSION, RACK_VERSION, TOPIC_IDS_VERSION, LEADERS_VERSION = 6, 10, 11, 13, 16

Found = list[tuple[Wanted, PartitionAnswer]]


@dataclass(slots=True)
class _Fetch:
    """One request, with the session that it belongs to."""

    call: Call
    wanted: list[Wanted]
    session: Session | None
    is_incremental: bool
    isolation: Isolation
    min_bytes: int
    max_bytes: int


def fetch(call: Call) -> Laid | Later | Awaitable[Laid]:
    """Errors of all: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR; of a
    partition: OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, NOT_LEADER_OR_FOLLOWER, FENCED_ and
    UNKNOWN_LEADER_EPOCH, KAFKA_STORAGE_ERROR."""
    request = call.request
    asked = _session_of(call)
    if isinstance(asked, ErrorCode):
        return lay_out(call.messages, call.header.correlation_id, NO_SESSION, [], error_code=asked.value)
    session, wanted, is_incremental = asked
    replica = _replica_of(request)
    if replica[0] >= 0:
        from kcli.broker.replication.serving import serve

        return serve(call, replica, session, wanted)
    isolation = Isolation.TXN_COMMITTED if request.isolation_level == 1 else Isolation.HIGH_WATERMARK
    if replica[0] == DEBUG_CONSUMER:
        isolation = Isolation.LOG_END
    config = call.broker.config
    max_bytes = min(request.max_bytes, config.fetch_max_bytes)
    min_bytes = min(request.min_bytes, max_bytes)
    one = _Fetch(call, wanted, session, is_incremental, isolation, min_bytes, max_bytes)
    found = _read(one)
    if request.max_wait.total_seconds() <= 0 or _is_enough(one, found):
        return _answer(one, found)
    return _wait(one, request.max_wait.total_seconds())


def _replica_of(request: Entity) -> tuple[int, int]:
    """Which broker asks, and its epoch; -1 for a consumer."""
    state = getattr(request, "replica_state", None)
    return (request.replica_id, UNKNOWN) if state is None else (state.replica_id, state.replica_epoch)


def _session_of(call: Call) -> tuple[Session | None, list[Wanted], bool] | ErrorCode:
    """The session, what is to be read, and whether only news are told."""
    request, sessions = call.request, call.broker.sessions
    session_id, epoch = call.get("session_id", NO_SESSION), call.get("session_epoch", FINAL_EPOCH)
    with_ids = call.version >= TOPIC_IDS_VERSION
    if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
        if session_id != NO_SESSION:
            sessions.end(session_id)
        partitions = _partitions_of(call)
        session = None
        if epoch == INITIAL_EPOCH and partitions:
            session = sessions.begin(partitions, call.now_ms, with_ids=with_ids)
        return session, list(partitions.values()), False
    session = sessions.find(session_id)
    if session is None:
        return ErrorCode.fetch_session_id_not_found
    if session.epoch != epoch:
        return ErrorCode.invalid_fetch_session_epoch
    if session.with_ids != with_ids:
        return ErrorCode.fetch_session_topic_id_error
    session.ask(request.topics)
    session.forget(request.forgotten_topics_data)
    if not session.partitions:
        sessions.end(session.id)
        return None, [], False
    sessions.used(session, call.now_ms)
    return session, list(session.partitions.values()), True


def _partitions_of(call: Call) -> dict[Key, Wanted]:
    partitions: dict[Key, Wanted] = {}
    for topic in call.request.topics:
        name = topic_key(topic)
        for partition in topic.partitions:
            wanted = partitions[name, partition.partition] = Wanted(name, partition.partition, 0, 0)
            wanted.ask(partition)
    return partitions


# reading


def _partition(call: Call, wanted: Wanted) -> Partition | ErrorCode:
    topic = wanted.topic
    if isinstance(topic, UUID):
        known = call.broker.image.topics_by_id.get(topic)
        if known is None:
            return ErrorCode.unknown_topic_id
        topic = known.name
    return call.broker.partitions.look_up(topic, wanted.index)


def _read(one: _Fetch) -> Found:
    """What there is now, for each partition in turn, within the limits of the request."""
    left = one.max_bytes
    first = True
    found: Found = []
    for wanted in one.wanted:
        answer = _read_partition(one, wanted, min(wanted.max_bytes, max(left, 0)), first=first)
        if answer.size:
            first = False
            left -= answer.size
        found.append((wanted, answer))
    return found


def _read_partition(one: _Fetch, wanted: Wanted, max_bytes: int, *, first: bool) -> PartitionAnswer:
    partition = _partition(one.call, wanted)
    if isinstance(partition, ErrorCode):
        return PartitionAnswer(wanted.index, partition.value)
    error = partition.check_leader_epoch(wanted.leader_epoch, leader_only=one.call.version < RACK_VERSION)
    if error is not None:
        return PartitionAnswer(wanted.index, error.value)
    log = partition.log
    nearer = _nearer_replica(one.call, partition, wanted)
    if nearer is not None:
        offsets = log.high_watermark, log.last_stable_offset, log.log_start_offset
        return PartitionAnswer(wanted.index, 0, *offsets, preferred_replica=nearer)
    diverging = None
    read = LogRead(None)
    try:
        if wanted.last_fetched_epoch != UNKNOWN:
            diverging = _divergence(partition, wanted)
        if diverging is None:
            read = log.read(wanted.offset, max_bytes, one.isolation, min_one_batch=first)
    except OffsetOutOfRange:
        return PartitionAnswer(wanted.index, ErrorCode.offset_out_of_range.value)
    except (OSError, LogFailed) as failure:
        partition.failed(failure)
        return PartitionAnswer(wanted.index, _storage_error(one.call).value)
    if one.call.version < ZSTD_VERSION and log.config.compression_type == "zstd":
        return PartitionAnswer(wanted.index, ErrorCode.unsupported_compression_type.value)
    return PartitionAnswer(
        wanted.index,
        0,
        log.high_watermark,
        log.last_stable_offset,
        log.log_start_offset,
        read.aborted if one.isolation is Isolation.TXN_COMMITTED else None,
        read.region,
        diverging,
    )


def _nearer_replica(call: Call, partition: Partition, wanted: Wanted) -> int | None:
    """The follower that the consumer is to read from. Only where replica.selector.class says so."""
    if partition.leadership is None or call.version < RACK_VERSION:
        return None
    return call.broker.replicas.preferred_replica(partition, call.request.rack_id, wanted.offset, call.listener)


def _storage_error(call: Call) -> ErrorCode:
    """Old clients do not know the error for what it is."""
    return ErrorCode.kafka_storage_error if call.version >= STORAGE_ERROR_VERSION else ErrorCode.not_leader_or_follower


def _divergence(partition: Partition, wanted: Wanted) -> tuple[int, int] | None:
    """Where the log of a follower left the leader's: the epoch and its end, as far as both have it."""
    epoch, end = partition.log.offset_for_leader_epoch(wanted.last_fetched_epoch)
    if UNKNOWN in (epoch, end):
        raise OffsetOutOfRange(f"the log does not know leader epoch {wanted.last_fetched_epoch}")
    return (epoch, end) if epoch < wanted.last_fetched_epoch or end < wanted.offset else None


def _is_enough(one: _Fetch, found: Found) -> bool:
    if not found:
        return True
    size = 0
    for _, answer in found:
        if answer.error_code or answer.diverging is not None or answer.preferred_replica != UNKNOWN:
            return True
        size += answer.size
    return size >= one.min_bytes


# waiting


async def _wait(one: _Fetch, max_wait_s: float) -> Laid:
    """Read again whenever something was appended, until it is enough or the time is over."""
    loop = asyncio.get_running_loop()
    woken = asyncio.Event()
    is_over = False

    def end() -> None:
        nonlocal is_over
        is_over = True
        woken.set()

    known = (_partition(one.call, wanted) for wanted in one.wanted)
    partitions = [each for each in known if isinstance(each, Partition)]
    for partition in partitions:
        partition.watch(woken.set)
    timer = loop.call_later(max_wait_s, end)  # it may come a moment early: not to be compared with the clock
    try:
        while True:
            await woken.wait()
            woken.clear()
            found = _read(one)
            if is_over or _is_enough(one, found):
                return _answer(one, found)
    finally:
        timer.cancel()
        for partition in partitions:
            partition.unwatch(woken.set)


# answering


def _answer(one: _Fetch, found: Found) -> Laid:
    call, session = one.call, one.session
    throttle_ms = 0
    quotas = call.broker.quotas
    if quotas.is_active:
        size = sum(answer.size for _, answer in found)
        throttle_ms = quotas.fetch_throttle_ms(call, size)
        if throttle_ms:
            call.throttle_ms = throttle_ms
            session_id = NO_SESSION if session is None else session.id
            return lay_out(call.messages, call.header.correlation_id, session_id, [], throttle_ms=throttle_ms)
    told = found
    if session is not None:
        told = []
        for wanted, answer in found:
            news = wanted.is_news(
                answer.error_code,
                answer.high_watermark,
                answer.log_start_offset,
                has_records=answer.region is not None
                or answer.diverging is not None
                or answer.preferred_replica != UNKNOWN,
            )
            if news or not one.is_incremental:
                told.append((wanted, answer))
            if answer.region is not None:
                session.to_end(wanted)
    topics = [
        (topic, [answer for _, answer in group]) for topic, group in groupby(told, key=lambda each: each[0].topic)
    ]
    session_id = NO_SESSION if session is None else session.id
    endpoints = NO_TAGS
    if call.version >= LEADERS_VERSION and any(answer.error_code for _, answer in told):
        endpoints = _tell_leaders(call, told)
    return lay_out(call.messages, call.header.correlation_id, session_id, topics, endpoints=endpoints)


def _tell_leaders(call: Call, told: Found) -> bytes:
    """Say who leads, where this broker does not, or not in that epoch."""
    leaders = []
    for wanted, answer in told:
        if answer.error_code in (ErrorCode.not_leader_or_follower.value, ErrorCode.fenced_leader_epoch.value):
            known = call.broker.image.topics_by_id.get(wanted.topic) if isinstance(wanted.topic, UUID) else None
            leader = current_leader(call, known.name if known is not None else str(wanted.topic), wanted.index)
            answer.leader = leader_field(leader)
            leaders.append(leader)
    return endpoints_field(call, leaders)

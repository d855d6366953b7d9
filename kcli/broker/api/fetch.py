"""Fetch (1): batches of partitions from given offsets on, as they are in the log.

v4 isolation level, aborted transactions. v5 log start offset. v7 sessions (KIP-227). v9 leader epochs (KIP-320).
v11 racks. v12 flexible, last fetched epoch (KIP-595). v13 topic ids (KIP-516). v15 replica state. v16 node endpoints.
v17 directory ids. v18 the follower's high watermark.

A Fetch waits until there are min_bytes of records, or max_wait is over. It does not poll: each change of a requested
partition, such as a higher high watermark, wakes it. Within a session only the partitions that have changed are read.
A Fetch of many partitions does its work in parts, and other connections are served in between. A follower's Fetch is
answered by kcli.broker.replication.serving; most Fetches of a follower within its session are plain (`answer_plain`):
they are handled without being decoded.
Partitions whose offset is in tiered storage alone are read there, all at the same time; the Fetch then waits for them,
up to remote.fetch.max.wait.ms (KIP-1018), and for nothing else.
Consumers that send their rack (v11) may read from followers, and the leader's response names a follower in their rack
(KIP-392).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from uuid import UUID

from formats.kernels.consumer_fetch import read_request as read_consumer_fetch
from formats.kernels.follower_fetch import read_request as read_follower_fetch
from kcli.broker.authorization import EVERYTHING
from kcli.broker.broker import Broker
from kcli.broker.client_view.current_leader import Leader, current_leader, endpoints_field, leader_field
from kcli.broker.fetching.sessions import (
    FINAL_EPOCH,
    FULL_MAX,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchedPartition,
    Session,
    topic_in_key,
    topic_key,
)
from kcli.broker.fetching.tracker import FollowerTracker, Key, TopicKey, Tracker
from kcli.broker.partition.partitions import Partition, Watcher
from kcli.broker.process.turns import LONG_ITEMS, Parts, at_once
from kcli.broker.tiering.reads import RemoteRead, Wanted
from kcli.broker.wire.answers import Laid, Later
from kcli.broker.wire.fetch_layout import UNKNOWN, FetchFrame, PartitionAnswer, lay_out
from kcli.broker.wire.layout import NO_TAGS
from kcli.broker.wire.messages import Messages, imported, messages
from kcli.log.live.partition_log import Isolation, LogFailed, OffsetOutOfRange, OffsetTiered
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from formats.txn_index import AbortedTxn
    from kcli.broker.wire.call import Client
    from kcli.broker.wire.types import fetch as types
    from kcli.log.live.partition_log import PartitionLog
    from kcli.log.live.segments import FileRegion

T = TypeVar("T")
Answers = list[tuple[FetchedPartition, PartitionAnswer]]
Named = tuple[Key, tuple[int, int, int, int, int]]
"""A partition in the bytes of a request, and its fields in the order of FetchedPartition.place."""
DEBUG_CONSUMER = -2
FETCH: Final = 1
FOLLOWER_VERSION: Final = 17
"""The only version of Fetch of which `answer_plain` handles requests."""
UNKNOWN_NAMES: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Errors of partitions that Kafka's request handler refuses without reading the log: the response has an empty list of
aborted transactions for them, not null."""
NOTHING_READ: Final = RemoteRead(memoryview(b""))
STORAGE_ERROR_VERSION, ZSTD_VERSION, RACK_VERSION, TOPIC_IDS_VERSION, LEADERS_VERSION = 6, 10, 11, 13, 16

MOVED: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER.value, ErrorCode.FENCED_LEADER_EPOCH.value
"""Errors for which the response also has the partition's current leader."""
AT_ONCE_MAX: Final = 16
"""The greatest number of partitions that are read without a break. A Fetch of more partitions takes turns with other
long work (process/turns.py), as hundreds of clients may send such a Fetch at the same time."""
OPENED_AT_ONCE: Final = 8
"""The greatest number of logs that a part of the work opens, as opening a log takes half a millisecond."""


class _Ordinary(NamedTuple):
    """A consumer's Fetch as the kernel has read it (formats/kernels/consumer_fetch.pyi). limits: min_bytes and
    max_bytes. named: the partitions in the request."""

    version: int
    correlation_id: int
    max_wait_ms: int
    limits: tuple[int, int]
    isolation_level: int
    session_id: int
    session_epoch: int
    rack: str
    named: Sequence[Named]


class _Terms(NamedTuple):
    """The fields of a Fetch that decide how it is answered, besides its session and its partitions. messages: the
    classes of its version. isolation: a consumer's, or that of a consumer that reads to the log end offset. rack: that
    of the consumer; "" for none, and before v11. min_bytes, max_bytes: the limits for the records of all partitions
    together. call: the decoded request; None for a plain Fetch, whose answer no quota delays."""

    messages: Messages
    correlation_id: int
    listener: str
    isolation: Isolation
    rack: str
    max_wait_s: float
    min_bytes: int
    max_bytes: int
    call: types.FetchCall | None


@dataclass(slots=True)
class _Fetch:
    """One Fetch of a consumer.

    requested: the partitions to read; empty for an incremental Fetch, whose partitions are in the session. session: the
    fetch session, None without one.
    is_incremental: whether the response leaves out partitions that have not changed since the session's last response.
    may_rest: whether a partition that the consumer has read to the end is skipped until it changes. tracker: notes
    which partitions change; None for a Fetch without session until it has to wait.
    readable: the names of the topics that the client is allowed to read; None if it may read nothing, not even find out
    whether a topic exists.
    tiered: key of a partition -> what to read from tiered storage for it, as the first read of the partitions has
    found. from_tier: key -> the fetch offset, and the result of the read from tiered storage; None before that read.
    """

    broker: Broker
    terms: _Terms
    requested: list[FetchedPartition]
    session: Session | None
    is_incremental: bool
    may_rest: bool
    tracker: Tracker | None
    readable: Container[str] | None
    tiered: dict[Key, tuple[Partition, PartitionLog, Wanted]] = field(default_factory=dict)
    from_tier: dict[Key, tuple[int, RemoteRead | ErrorCode]] | None = None

    @property
    def version(self) -> int:
        """The version of the request, and of its response."""
        return self.terms.messages.version

    def forget_request(self) -> None:
        """Drop the partitions from the request to free memory: `requested` has them in a third of the space."""
        call = self.terms.call
        if call is not None:
            call.request = replace(call.request, topics=())

    def is_due(self, found: _Found) -> bool:
        """Whether the response is sent without waiting for more than the first read has found."""
        return found.is_enough or self.terms.max_wait_s <= 0 or not (self.requested or self.session)

    def to_read(self) -> list[FetchedPartition]:
        """Return the partitions to read: for an incremental Fetch those that have changed, else all."""
        if not self.is_incremental or self.session is None or self.tracker is None:
            return self.requested
        return self.of(self.session.partitions)

    def of(self, partitions: Mapping[Key, FetchedPartition]) -> list[FetchedPartition]:
        """Return those of `partitions` that the Fetch's tracker has marked as changed since they were last read. Must
        not be called on a Fetch without a tracker."""
        assert self.tracker is not None, "a Fetch without tracker does not know what has changed"
        return [partitions[key] for key in self.tracker.dirty if key in partitions]

    def is_at_end(self, fetched: FetchedPartition, answer: PartitionAnswer) -> bool:
        """Whether the consumer has read the partition to the end, so that it need not be read again until it changes.
        answer: the partition's part of the response."""
        if not self.may_rest or answer.error_code or answer.diverging or answer.preferred_replica != UNKNOWN:
            return False
        committed = self.terms.isolation is Isolation.TXN_COMMITTED
        return fetched.offset >= (answer.last_stable_offset if committed else answer.high_watermark)

    def has_news(self, fetched: FetchedPartition, answer: PartitionAnswer) -> bool:
        """Whether a fetch session requires the partition in the response: a full response has every partition, an
        incremental response only those with something new (FetchedPartition.is_news). False without a session."""
        return self.session is not None and (not self.is_incremental or fetched.is_news(answer))


@dataclass(slots=True)
class _Found:
    """The result of reading the partitions. is_enough: whether the response is sent without waiting for more records.
    size: the size of all records, in bytes. answers: each partition with its part of the response; None if the reading
    was split into parts: the partitions are then read again for the response."""

    is_enough: bool
    size: int
    answers: Answers | None


def fetch(broker: Broker, call: types.FetchCall) -> Laid | Later | Awaitable[Laid]:
    """Errors of the whole request: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
    FETCH_SESSION_TOPIC_ID_ERROR; of a partition: OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID,
    NOT_LEADER_OR_FOLLOWER, FENCED_ and UNKNOWN_LEADER_EPOCH, KAFKA_STORAGE_ERROR, UNSUPPORTED_COMPRESSION_TYPE (a topic
    with compression.type=zstd, for a Fetch below v10)."""
    work = _read_first(broker, call)
    if _is_long(broker, call):
        return _in_turns(broker, work)
    found = at_once(work)
    if not isinstance(found, _Fetch):
        return found
    if found.tiered:
        return _read_tiered(found)
    found.from_tier = {}
    return _Waiting(found).answer()


def answer_plain(broker: Broker, frame: memoryview, client: Client, now_ms: int) -> Laid | Later | None:
    """Return the response to a plain Fetch. Return None, and change nothing, for any other request; the caller then
    decodes and handles it.

    A Fetch is plain if its bytes are ordinary (formats/kernels/consumer_fetch.pyx, follower_fetch.pyx), it has at most
    AT_ONCE_MAX partitions to read, none of them in tiered storage alone, and it needs no line in the audit log.
    Moreover, in a session that has begun it names only partitions of the session, and its version, isolation level,
    rack and client are those of the session's last Fetch; a consumer's Fetch may also begin a session, or have none,
    but does not end another one. Whatever a plain Fetch finds then, errors too, and whether it waits, follows from the
    rules for every Fetch: both ways make the same `_Fetch`, or `Terms` of a follower, and go on with it.
    """
    read = read_consumer_fetch(frame, AT_ONCE_MAX)
    if read is not None:
        return _answer_consumer(broker, _Ordinary._make(read), client, now_ms)
    return _answer_follower(broker, frame, client, now_ms)


def _answer_consumer(broker: Broker, request: _Ordinary, client: Client, now_ms: int) -> Laid | Later | None:
    kind, epoch, named = imported(FETCH, request.version), request.session_epoch, request.named
    if kind is None:
        return None
    isolation, limits = _isolation_of(request.isolation_level, UNKNOWN), _limits(broker, *request.limits)
    max_wait_s, is_incremental = request.max_wait_ms / 1000, epoch > INITIAL_EPOCH
    terms = _Terms(kind, request.correlation_id, client.listener, isolation, request.rack, max_wait_s, *limits, None)
    with_ids = request.version >= TOPIC_IDS_VERSION
    session = None
    if is_incremental:
        session = _plain_session(broker, request.session_id, epoch, named, with_ids=with_ids)
        if session is None or type(session.tracker) is not Tracker:
            return None
        if session.terms != _session_terms(broker, terms, client):
            return None
        partitions = session.partitions
    elif request.session_id == NO_SESSION and epoch >= FINAL_EPOCH:
        partitions = {
            key: FetchedPartition(_topic_of(key[0]), key[1], offset, max_bytes, key, *epochs)
            for key, (offset, max_bytes, *epochs) in named
        }
    else:
        return None
    readable = _plain_readable(broker, client, partitions.values())
    if readable is None or (broker.tier is not None and _has_tiered(broker, session, partitions, named)):
        return None
    if session is not None:
        _place(broker, session, named, now_ms)
    elif epoch == INITIAL_EPOCH and partitions:
        session = broker.sessions.begin(partitions, now_ms, with_ids=with_ids)
        if session is not None:
            session.tracker, session.terms = Tracker(partitions), _session_terms(broker, terms, client)
    requested = [] if is_incremental else list(partitions.values())
    one = _new_fetch(broker, terms, requested, session, is_incremental=is_incremental, readable=readable)
    one.from_tier = {}
    to_read = one.to_read()
    found = at_once(_read(one, to_read))
    if one.is_due(found):
        return at_once(_answer(one, to_read, found))
    return _Waiting(one).answer()


def _plain_session(
    broker: Broker, session_id: int, epoch: int, named: Sequence[Named], *, with_ids: bool
) -> Session | None:
    """Return the session of a Fetch; None if the Fetch is not the session's next one, or is not plain: it names a
    partition that is not in the session, or reads too many. named: the partitions in the request."""
    session = broker.sessions.find(session_id)
    if session is None or session.epoch != epoch or session.with_ids != with_ids or session.tracker is None:
        return None
    if len(session.tracker.dirty) + len(named) > AT_ONCE_MAX:
        return None
    for key, _ in named:
        if key not in session.partitions:
            return None
    return session


def _place(broker: Broker, session: Session, named: Sequence[Named], now_ms: int) -> None:
    """Count the request of a session, and change the partitions that it names; see Session.change."""
    assert session.tracker is not None, "it is of _plain_session"
    broker.sessions.used(session, now_ms)
    for key, fields in named:
        session.partitions[key].place(*fields)
        session.tracker.dirty[key] = None


@lru_cache(4096)
def _topic_of(in_key: str | bytes) -> TopicKey:
    """Return the topic of which topic_in_key has returned `in_key`."""
    return in_key if isinstance(in_key, str) else UUID(bytes=in_key)


def _has_tiered(
    broker: Broker,
    session: Session | None,
    partitions: Mapping[Key, FetchedPartition],
    named: Sequence[Named],
) -> bool:
    """Whether a partition that the Fetch reads has its offset in tiered storage alone, or its log is not open yet."""
    offsets = {key: fields[0] for key, fields in named}
    if session is not None and session.tracker is not None:
        for key in session.tracker.dirty:
            if key not in offsets and key in partitions:
                offsets[key] = partitions[key].offset
    for key, offset in offsets.items():
        partition = broker.partitions.look_up(partitions[key].topic, key[1])
        if isinstance(partition, Partition):
            log = partition.opened_log
            if log is None or (log.is_tiered and offset < log.local_log_start_offset):
                return True
    return False


def _plain_readable(broker: Broker, client: Client, partitions: Iterable[FetchedPartition]) -> Container[str] | None:
    """Return the names of the topics that the client may read; None if it may not read one of the partitions, or if the
    audit log gets a line about that."""
    if broker.authorizer is None:
        return EVERYTHING
    names = {name for name in {_name_of(broker, each.topic) for each in partitions} if name is not None}
    for name in names:
        if not broker.access.allows_unaudited(client, Operation.READ, ResourceType.TOPIC, name):
            return None
    return names


def _answer_follower(broker: Broker, frame: memoryview, client: Client, now_ms: int) -> Laid | Later | None:
    read = read_follower_fetch(frame)
    if read is None:
        return None
    correlation_id, replica, max_wait_ms, min_bytes, max_bytes, session_id, session_epoch, named = read
    session = _plain_session(broker, session_id, session_epoch, named, with_ids=True)
    if session is None or not isinstance(session.tracker, FollowerTracker):
        return None
    if not broker.access.allows_unaudited(client, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return None
    _place(broker, session, named, now_ms)
    from kcli.broker.replication.serving import Terms, serve_plain

    kind, max_wait_s = messages(FETCH, FOLLOWER_VERSION), max_wait_ms / 1000
    terms = Terms(kind, correlation_id, replica, max_wait_s, min_bytes, max_bytes, now_ms, is_incremental=True)
    return serve_plain(terms, session, broker.replicas)


def _is_long(broker: Broker, call: types.FetchCall) -> bool:
    """Whether the request is handled in turns of the event loop, because it concerns more than AT_ONCE_MAX partitions.
    Two sums are compared with that limit: the partitions to fetch, and the partitions to forget, each plus the
    partitions of the session that are due to be read (the changed ones; all of them if the session has not been read
    yet). Without a session, only the number of partitions to fetch is compared."""
    if _has_many(call.request.topics, 0):
        return True
    session_id = call.get("session_id", NO_SESSION)
    session = None if session_id == NO_SESSION else broker.sessions.find(session_id)
    if session is None:
        return False
    changed = session.partitions if session.tracker is None else session.tracker.dirty
    return _has_many(call.request.topics, len(changed)) or _has_many(call.request.forgotten_topics_data, len(changed))


def _has_many(topics: Iterable[types.FetchTopic] | Iterable[types.ForgottenTopic], others: int) -> bool:
    """Whether the topics have more than AT_ONCE_MAX partitions, together with `others` more. A topic without partitions
    counts as one."""
    count = others
    for topic in topics:
        count += len(topic.partitions) or 1
        if count > AT_ONCE_MAX:
            return True
    return count > AT_ONCE_MAX


async def _in_turns(broker: Broker, work: Parts[Laid | Later | _Fetch]) -> Laid:
    found = await broker.turns.run(work)
    if isinstance(found, _Fetch):
        if found.tiered:
            return await _read_tiered(found)
        found.from_tier = {}
        return await _wait(found, found.terms.max_wait_s)
    if isinstance(found, Later):
        laid: Laid = await found
        return laid
    return found


def _read_first(broker: Broker, call: types.FetchCall) -> Parts[Laid | Later | _Fetch]:
    """Read the partitions for the first time. Return the response, or the _Fetch if it has to wait for more records, or
    for those in tiered storage. A follower's Fetch is passed to replication/serving.py."""
    request = call.request
    result = yield from _session_of(broker, call)
    if isinstance(result, ErrorCode):
        return lay_out(call.messages, call.header.correlation_id, NO_SESSION, error_code=result.value)
    session, requested, is_incremental = result
    replica = _replica_of(request)
    if replica[0] >= 0 and broker.access.allows(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
        from kcli.broker.replication.serving import serve

        return (yield from serve(call, replica, session, requested, broker.replicas))
    one = _fetch_of(broker, call, session, requested, is_incremental=is_incremental, replica_id=replica[0])
    if len(requested) > LONG_ITEMS:
        one.forget_request()
    partitions = one.to_read()
    found = yield from _read(one, partitions)
    if one.tiered:
        return one
    if one.is_due(found):
        return (yield from _answer(one, partitions, found))
    return one


def _fetch_of(
    broker: Broker,
    call: types.FetchCall,
    session: Session | None,
    requested: list[FetchedPartition],
    *,
    is_incremental: bool,
    replica_id: int,
) -> _Fetch:
    """Return the Fetch of a consumer, or of a follower that lacks CLUSTER_ACTION."""
    request = call.request
    terms = _Terms(
        call.messages,
        call.header.correlation_id,
        call.listener,
        _isolation_of(request.isolation_level, replica_id),
        call.get("rack_id", ""),
        request.max_wait.total_seconds(),
        *_limits(broker, request.min_bytes, request.max_bytes),
        call,
    )
    if session is not None:
        known = _session_terms(broker, terms, call)
        if type(session.tracker) is not Tracker or session.terms != known:
            if session.tracker is not None:
                broker.sessions.retire(session.tracker)
            session.tracker, session.terms = Tracker(session.partitions), known
    every = session.partitions.values() if is_incremental and session is not None else requested
    counts = partial(_counts, broker, every)
    is_follower = replica_id >= 0
    readable = None if is_follower else broker.access.among(call, Operation.READ, ResourceType.TOPIC, counts)
    return _new_fetch(broker, terms, requested, session, is_incremental=is_incremental, readable=readable)


def _limits(broker: Broker, min_bytes: int, max_bytes: int) -> tuple[int, int]:
    """Return the limits of the request, min_bytes and max_bytes, within those of the broker."""
    max_bytes = min(max_bytes, broker.config.fetch_max_bytes)
    return min(min_bytes, max_bytes), max_bytes


def _session_terms(broker: Broker, terms: _Terms, client: Client) -> Hashable:
    """Return the value of Session.terms after this Fetch."""
    return terms.isolation, terms.rack, terms.messages.version, broker.access.terms(client)


def _new_fetch(
    broker: Broker,
    terms: _Terms,
    requested: list[FetchedPartition],
    session: Session | None,
    *,
    is_incremental: bool,
    readable: Container[str] | None,
) -> _Fetch:
    is_from_rack = bool(terms.rack) and broker.replicas.selects_by_rack
    may_rest = terms.isolation is not Isolation.LOG_END and terms.messages.version >= ZSTD_VERSION and not is_from_rack
    tracker = None if session is None else session.tracker
    return _Fetch(broker, terms, requested, session, is_incremental, may_rest, tracker, readable)


def _isolation_of(level: int, replica_id: int) -> Isolation:
    """The isolation of a Fetch. level: the field isolation_level."""
    if replica_id == DEBUG_CONSUMER:
        return Isolation.LOG_END
    return Isolation.TXN_COMMITTED if level == 1 else Isolation.HIGH_WATERMARK


def _counts(broker: Broker, partitions: Iterable[FetchedPartition]) -> Counter[str]:
    """Topic name -> how many of the partitions belong to the topic."""
    return Counter(_name_of(broker, each.topic) or "" for each in partitions)


def _name_of(broker: Broker, topic: str | UUID) -> str | None:
    """The name of a topic; None for an unknown id."""
    if isinstance(topic, str):
        return topic
    known = broker.image.topics_by_id.get(topic)
    return None if known is None else known.name


def _replica_of(request: types.FetchRequest) -> tuple[int, int]:
    """Return the replica id and the replica epoch of the request. The id is -1 for a consumer, DEBUG_CONSUMER for a
    consumer that reads to the log end offset; the epoch is UNKNOWN for a consumer and before v15."""
    state = getattr(request, "replica_state", None)
    return (request.replica_id, UNKNOWN) if state is None else (state.replica_id, state.replica_epoch)


def _session_of(
    broker: Broker, call: types.FetchCall
) -> Parts[tuple[Session | None, list[FetchedPartition], bool] | ErrorCode]:
    """Return the error of the whole request, or three values: the fetch session (None without one), the partitions to
    read, and whether the Fetch is incremental. For an incremental Fetch the second value is empty: the partitions to
    read are those of the session, to which the partitions in the request have been added."""
    request, sessions = call.request, broker.sessions
    session_id, epoch = call.get("session_id", NO_SESSION), call.get("session_epoch", FINAL_EPOCH)
    with_ids = call.version >= TOPIC_IDS_VERSION
    if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
        if session_id != NO_SESSION:
            sessions.end(session_id)
        partitions = yield from _partitions_of(call)
        session = None
        if epoch == INITIAL_EPOCH and partitions:
            session = sessions.begin(partitions, call.now_ms, with_ids=with_ids)
        return session, list(partitions.values()), False
    session = sessions.find(session_id)
    if session is None:
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    if session.epoch != epoch:
        return ErrorCode.INVALID_FETCH_SESSION_EPOCH
    if session.with_ids != with_ids:
        return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    sessions.used(session, call.now_ms)
    yield from session.change(request.topics, request.forgotten_topics_data)
    if not session.partitions:
        sessions.end(session.id)
        return None, [], False
    if not sessions.recount(session):
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    return session, [], True


def _partitions_of(call: types.FetchCall) -> Parts[dict[Key, FetchedPartition]]:
    partitions: dict[Key, FetchedPartition] = {}
    shared: dict[int, int] = {}  # most partitions of a request have the same limit: use one int object for all of them
    count = 0
    for number, topic in enumerate(call.request.topics, 1):
        name = topic_key(topic)
        in_key = topic_in_key(name)
        if not number % LONG_ITEMS:
            yield
        for partition in topic.partitions:
            count += 1
            if not count % LONG_ITEMS:
                yield
            key = in_key, partition.partition
            fetched = partitions[key] = FetchedPartition(name, partition.partition, 0, 0, key)
            fetched.update(partition)
            fetched.max_bytes = shared.setdefault(fetched.max_bytes, fetched.max_bytes)
    return partitions


# reading


class _Reading:
    """Reads partitions, in parts of some milliseconds, within the size limits of the request. size: of all records read
    so far, in bytes. is_due: whether any partition has an error, a diverging epoch or a preferred read replica, so that
    the response is sent without waiting."""

    def __init__(self, one: _Fetch, partitions: Iterable[FetchedPartition]) -> None:
        self._one = one
        self._rest = iter(partitions)
        self._full = 0
        self.size = 0
        self.is_due = False
        # the records read from tiered storage count against max_bytes: other partitions get the rest of it
        self._held = sum(
            len(each.records) for _, each in (one.from_tier or {}).values() if isinstance(each, RemoteRead)
        )

    @property
    def is_enough(self) -> bool:
        """Whether the response is sent now: `is_due` is set, or the records have at least min_bytes."""
        return self.is_due or self.size >= self._one.terms.min_bytes

    def part(self) -> tuple[Answers, bool]:
        """Read the next partitions. Return each with its part of the response, and whether no partition is left."""
        cost = 0
        found: Answers = []
        for fetched in self._rest:
            partition = self._one.broker.partitions.look_up(fetched.topic, fetched.index)
            is_open = not isinstance(partition, Partition) or partition.opened_log is not None
            found.append((fetched, self._read(fetched, partition)))
            cost += 1 if is_open else LONG_ITEMS // OPENED_AT_ONCE
            if cost >= LONG_ITEMS:
                return found, False
        return found, True

    def _read(self, fetched: FetchedPartition, partition: Partition | ErrorCode) -> PartitionAnswer:
        one, tracker = self._one, self._one.tracker
        if tracker is not None and isinstance(partition, Partition):
            tracker.watch(fetched.key, partition)
        left = max(one.terms.max_bytes - self.size - self._held, 0) if self._full < FULL_MAX else 0
        max_bytes = min(fetched.max_bytes, left)
        answer = _read_partition(one, fetched, partition, max_bytes, first=not (self._full or self._held))
        if answer.size:
            self._full += 1
            self.size += answer.size
            if isinstance(answer.region, memoryview):
                self._held -= answer.size
        elif one.from_tier is None and fetched.key in one.tiered:
            self._full += 1  # the size of the records in tiered storage is not known yet
            self._held += max_bytes
        if answer.error_code or answer.diverging is not None or answer.preferred_replica != UNKNOWN:
            self.is_due = True
        if tracker is not None and one.is_at_end(fetched, answer) and not one.has_news(fetched, answer):
            tracker.dirty.pop(fetched.key, None)
        return answer


def _read(one: _Fetch, partitions: Iterable[FetchedPartition]) -> Parts[_Found]:
    """Read the partitions. If they are read in more than one part, stop as soon as the response can be sent, unless
    there are client quotas, which need the size of the records of all partitions, or tiered storage, in which any
    partition's records may be."""
    reading = _Reading(one, partitions)
    answers, is_last = reading.part()
    if is_last:
        return _Found(reading.is_enough, reading.size, answers)
    while not is_last and (not reading.is_enough or one.broker.quotas.is_active or one.broker.tier is not None):
        yield
        _, is_last = reading.part()
    return _Found(reading.is_enough, reading.size, None)


def _read_partition(
    one: _Fetch, fetched: FetchedPartition, partition: Partition | ErrorCode, max_bytes: int, *, first: bool
) -> PartitionAnswer:
    if one.broker.authorizer is not None and not _may_read(one, fetched):
        return PartitionAnswer(fetched.index, ErrorCode.TOPIC_AUTHORIZATION_FAILED.value, aborted=())
    if isinstance(partition, ErrorCode):
        return PartitionAnswer(fetched.index, partition.value, aborted=() if partition in UNKNOWN_NAMES else None)
    error = partition.check_leader_epoch(fetched.leader_epoch, leader_only=one.version < RACK_VERSION)
    if error is not None:
        return PartitionAnswer(fetched.index, error.value)
    log = partition.log
    nearer = _nearer_replica(one, partition, fetched)
    if nearer is not None:
        offsets = log.high_watermark, log.last_stable_offset, log.log_start_offset
        return PartitionAnswer(fetched.index, 0, *offsets, preferred_replica=nearer)
    diverging = None
    region: FileRegion | memoryview | None = None
    aborted: tuple[AbortedTxn, ...] = ()
    try:
        if fetched.last_fetched_epoch != UNKNOWN:
            diverging = _divergence(partition, fetched)
        if diverging is None:
            read = log.read(fetched.offset, max_bytes, one.terms.isolation, min_one_batch=first)
            region, aborted = read.region, read.aborted
    except OffsetTiered:
        tiered = _from_tier(one, fetched, partition, log, max_bytes, first=first)
        if isinstance(tiered, ErrorCode):
            return PartitionAnswer(fetched.index, tiered.value)
        region, aborted = tiered.records or None, tiered.aborted
    except OffsetOutOfRange:
        return PartitionAnswer(fetched.index, ErrorCode.OFFSET_OUT_OF_RANGE.value)
    except (OSError, LogFailed) as failure:
        partition.failed(failure)
        return PartitionAnswer(fetched.index, _storage_error(one.version).value)
    if one.version < ZSTD_VERSION and log.config.compression_type == "zstd":
        return PartitionAnswer(fetched.index, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE.value, aborted=())
    return PartitionAnswer(
        fetched.index,
        0,
        log.high_watermark,
        log.last_stable_offset,
        log.log_start_offset,
        aborted if one.terms.isolation is Isolation.TXN_COMMITTED else None,
        region,
        diverging,
    )


def _from_tier(
    one: _Fetch, fetched: FetchedPartition, partition: Partition, log: PartitionLog, max_bytes: int, *, first: bool
) -> RemoteRead | ErrorCode:
    """Return what was read from tiered storage for a partition. In the first read of the Fetch, add the partition to
    `one.tiered`, unless the quota for reads from tiered storage is used up, and return no records. Return
    OFFSET_OUT_OF_RANGE if this broker has no tiered storage."""
    tier = one.broker.tier
    if tier is None:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if one.from_tier is not None:
        offset, found = one.from_tier.get(fetched.key, (fetched.offset, NOTHING_READ))
        return found if offset == fetched.offset else NOTHING_READ
    if max_bytes > 0 and not tier.is_throttled:
        with_aborted = one.terms.isolation is Isolation.TXN_COMMITTED
        one.tiered[fetched.key] = partition, log, Wanted(fetched.offset, max_bytes, first, with_aborted)
    return NOTHING_READ


def _may_read(one: _Fetch, fetched: FetchedPartition) -> bool:
    """Whether the client may read the partition's topic; True also for an unknown topic id, whose error is
    UNKNOWN_TOPIC_ID. Always False for a follower that lacks CLUSTER_ACTION, so that the response does not reveal which
    topics exist."""
    if one.readable is None:
        return False
    name = _name_of(one.broker, fetched.topic)
    return name is None or name in one.readable


def _nearer_replica(one: _Fetch, partition: Partition, fetched: FetchedPartition) -> int | None:
    """Return the broker id of the follower from which the consumer should read (KIP-392); None if the consumer should
    read from the leader, if replica.selector.class is not rack-aware, or if this broker is not the leader."""
    if partition.leadership is None or one.version < RACK_VERSION:
        return None
    return one.broker.replicas.preferred_replica(partition, one.terms.rack, fetched.offset, one.terms.listener)


def _storage_error(version: int) -> ErrorCode:
    """Return KAFKA_STORAGE_ERROR, or NOT_LEADER_OR_FOLLOWER for a Fetch below v6, as its client does not know
    KAFKA_STORAGE_ERROR."""
    return ErrorCode.KAFKA_STORAGE_ERROR if version >= STORAGE_ERROR_VERSION else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _divergence(partition: Partition, fetched: FetchedPartition) -> tuple[int, int] | None:
    """Return the point at which the reader's log diverges from the partition's log: the partition's largest leader
    epoch that is at most the reader's last fetched epoch, and the end offset of that epoch; None if the logs do not
    diverge. Raises OffsetOutOfRange for an unknown epoch."""
    epoch, end = partition.log.offset_for_leader_epoch(fetched.last_fetched_epoch)
    if UNKNOWN in (epoch, end):
        raise OffsetOutOfRange(f"the log does not know leader epoch {fetched.last_fetched_epoch}")
    return (epoch, end) if epoch < fetched.last_fetched_epoch or end < fetched.offset else None


# reading from tiered storage


async def _read_tiered(one: _Fetch) -> Laid:
    """Read the partitions in `one.tiered` from tiered storage, and return the response, with the records of other
    partitions too. After remote.fetch.max.wait.ms the response has the records that were read by then."""
    tier = one.broker.tier
    assert tier is not None, "it has found the partitions"
    one.forget_request()
    reads = {key: asyncio.ensure_future(tier.read(*wanted)) for key, wanted in one.tiered.items()}
    try:
        await asyncio.wait(reads.values(), timeout=one.broker.config.number("remote.fetch.max.wait.ms") / 1000)
        one.from_tier = {key: (one.tiered[key][2].offset, each.result()) for key, each in reads.items() if each.done()}
    finally:
        for each in reads.values():
            each.cancel()
    partitions = one.to_read()
    return await _run(one, _read_to_answer(one, partitions), len(partitions))


def _read_to_answer(one: _Fetch, partitions: Sequence[FetchedPartition]) -> Parts[Laid]:
    found = yield from _read(one, partitions)
    return (yield from _answer(one, partitions, found))


# waiting


class _Waiting:
    """A waiting Fetch that has at most AT_ONCE_MAX partitions to read. It has no task of its own: its response is made
    when a future is done. After a change, the changed partitions are read in the next iteration of the event loop."""

    def __init__(self, one: _Fetch) -> None:
        self._one, self._loop = one, asyncio.get_running_loop()
        partitions = {} if one.session is not None else {each.key: each for each in one.requested}
        self._partitions = partitions
        self._held = len(partitions) if one.broker.sessions.hold(len(partitions)) else None
        one.forget_request()
        if one.tracker is None:
            one.tracker = Tracker(partitions)
            at_once(_watch(one))
        self._tracker = one.tracker
        self._is_due = False  # whether the changed partitions are about to be read
        self._task: asyncio.Task[None] | None = None
        self._future: asyncio.Future[Laid | None] = self._loop.create_future()
        self._future.add_done_callback(self._ended)
        self._wake: Watcher = self._changed
        self._tracker.wake = self._wake
        self._timer = self._loop.call_later(0 if self._held is None else one.terms.max_wait_s, self._end)
        if one.session is None and _may_have_grown(one):
            self._changed()

    def answer(self) -> Later:
        """Return the awaitable response: it is made as soon as the changed partitions have min_bytes of records or an
        error, or max_wait is over."""
        return Later(self._future, self._finish)

    def _changed(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._read_changed)

    def _read_changed(self) -> None:
        """Read the changed partitions, and end the wait if they have min_bytes of records or an error. The response is
        made later, from a second read just before it is sent, as a log file that this read has found might be closed by
        then."""
        self._is_due = False
        if self._future.done() or self._is_for_turns(max(self._timer.when() - self._loop.time(), 0)):
            return
        one, changed = self._one, self._to_read()
        try:
            if _has_any(one, changed) or at_once(_read(one, changed)).is_enough:
                self._future.set_result(None)
        except Exception as error:  # noqa: BLE001  (it is raised where the response is awaited)
            self._future.set_exception(error)

    def _to_read(self) -> list[FetchedPartition]:
        one = self._one
        return one.to_read() if one.session is not None else one.of(self._partitions)

    def _end(self) -> None:
        if not (self._future.done() or self._is_for_turns(0)):
            self._future.set_result(None)

    def _is_for_turns(self, left_s: float) -> bool:
        """Return whether a task does the reading and the waiting from now on. This call starts the task if more than
        AT_ONCE_MAX partitions have changed. left_s: the rest of max_wait, in seconds."""
        if self._task is None and len(self._tracker.dirty) > AT_ONCE_MAX:
            self._timer.cancel()
            self._task = self._loop.create_task(self._wait_on(left_s))
        return self._task is not None

    async def _wait_on(self, left_s: float) -> None:
        """Read and wait in turns of the event loop, and set the response or the exception as the result of the future,
        unless the future was cancelled meanwhile."""
        try:
            laid = await _wait(self._one, left_s)
        except Exception as error:  # noqa: BLE001  (as in _read_changed)
            if not self._future.done():
                self._future.set_exception(error)
        else:
            if not self._future.done():
                self._future.set_result(laid)

    def _ended(self, _: object) -> None:
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        if self._tracker.wake is self._wake:
            self._tracker.wake = None
        if self._one.session is None:
            self._one.broker.sessions.release(self._held or 0, self._tracker)

    def _finish(self, future: asyncio.Future[Laid | None]) -> Laid:
        laid = future.result()
        if laid is None:
            one = self._one
            partitions = one.requested if one.session is None else one.to_read()
            laid = at_once(_answer(one, partitions, at_once(_read(one, partitions))))
        return laid


def _may_have_grown(one: _Fetch) -> bool:
    """Whether a data-plane thread may have appended to a partition of a Fetch without session after it was read, and
    before it was watched. A session watches its partitions before they are read."""
    if not one.broker.lanes:
        return False
    is_sure = one.terms.min_bytes <= 1 and one.terms.isolation is not Isolation.LOG_END
    return not is_sure or _has_any(one, one.requested)


def _has_any(one: _Fetch, changed: Iterable[FetchedPartition]) -> bool:
    """Whether the response can certainly be sent: min_bytes is at most 1, and a changed partition has a readable record
    at or after its fetch offset. If the result is False, the partitions have to be read to find out."""
    if one.terms.min_bytes > 1 or one.terms.isolation is Isolation.LOG_END:
        return False
    is_committed = one.terms.isolation is Isolation.TXN_COMMITTED
    for fetched in changed:
        partition = one.broker.partitions.look_up(fetched.topic, fetched.index)
        log = partition.opened_log if isinstance(partition, Partition) else None
        if log is None or fetched.offset >= (log.last_stable_offset if is_committed else log.high_watermark):
            continue
        if one.broker.tier is None or fetched.offset >= log.local_log_start_offset:
            return True
    return False


async def _wait(one: _Fetch, max_wait_s: float) -> Laid:
    """Read the changed partitions at each change, until there are min_bytes of records or max_wait_s is over; return
    the response. Does not wait if the waiting Fetches of all clients have too many partitions already
    (FetchSessions.hold)."""
    sessions, loop = one.broker.sessions, asyncio.get_running_loop()
    partitions = {} if one.session is not None else {each.key: each for each in one.requested}
    held = len(partitions) if sessions.hold(len(partitions)) else None
    one.forget_request()
    if one.tracker is None:
        one.tracker = Tracker(partitions)
    tracker, woken, is_over = one.tracker, asyncio.Event(), False

    def end() -> None:
        nonlocal is_over
        is_over = True
        woken.set()

    wake = tracker.wake = woken.set
    # the timer sets is_over, as it may fire a moment before the clock shows the end of max_wait
    timer = loop.call_later(0 if held is None else max_wait_s, end)
    try:
        if one.session is None:
            await _run(one, _watch(one), len(partitions))
        while True:  # the first round does not wait: partitions may have changed since they were read
            woken.clear()
            changed = one.to_read() if one.session is not None else one.of(partitions)
            laid = await _run(one, _read_changed(one, changed, is_over=is_over), len(changed) + len(partitions))
            if laid is not None:
                return laid
            await woken.wait()
    finally:
        timer.cancel()
        if tracker.wake is wake:
            tracker.wake = None
        if one.session is None:
            sessions.release(held or 0, tracker)


def _read_changed(one: _Fetch, changed: Sequence[FetchedPartition], *, is_over: bool) -> Parts[Laid | None]:
    """Read the changed partitions. Return the response if they have min_bytes of records or an error, or if max_wait is
    over (`is_over`); else None. changed: the partitions that have changed since the last read. If the Fetch has no
    session, the response has all its partitions, not only the changed ones."""
    found = yield from _read(one, changed)
    if not is_over and not found.is_enough:
        return None
    if one.session is None:
        changed = one.requested
        found = yield from _read(one, changed)
    return (yield from _answer(one, changed, found))


async def _run(one: _Fetch, work: Parts[T], count: int) -> T:
    """Run `work`, which reads `count` partitions, in turns of the event loop if `count` is above AT_ONCE_MAX, else
    without a break."""
    return await one.broker.turns.run(work) if count > AT_ONCE_MAX else at_once(work)


def _watch(one: _Fetch) -> Parts[None]:
    assert one.tracker is not None, "it waits"
    for i, fetched in enumerate(one.requested):
        if i and not i % LONG_ITEMS:
            yield
        partition = one.broker.partitions.look_up(fetched.topic, fetched.index)
        if isinstance(partition, Partition):
            one.tracker.watch(fetched.key, partition)


# answering


def _answer(one: _Fetch, partitions: Sequence[FetchedPartition], found: _Found) -> Parts[Laid]:
    """Return the response about these partitions; for a client above its quota a response without partitions, with the
    throttle time. If the response is made in parts (`found.answers` is None), the partitions with records are read
    again at the end, in one part: a log file found in an earlier part may have been deleted since."""
    terms, call = one.terms, one.terms.call
    session_id = NO_SESSION if one.session is None else one.session.id
    quotas = one.broker.quotas
    if quotas.is_active and call is not None:
        throttle_ms = quotas.fetch_throttle_ms(call, found.size)
        if throttle_ms:
            call.throttle_ms = throttle_ms
            return lay_out(call.messages, call.header.correlation_id, session_id, throttle_ms=throttle_ms)
    response = _Response(one)
    if found.answers is not None:
        response.add(found.answers)
    else:
        full: list[FetchedPartition] = []
        reading = _Reading(one, partitions)
        is_last = False
        while not is_last:
            part, is_last = reading.part()
            full += [fetched for fetched, answer in part if answer.region is not None]
            response.add(each for each in part if each[1].region is None)
            yield
        again = _Reading(one, full)
        is_last = False
        while not is_last:
            part, is_last = again.part()
            response.add(part)
    endpoints = NO_TAGS
    if response.leaders:
        endpoints = endpoints_field(one.broker.image, terms.listener, response.leaders.values())
    return response.frame.whole(terms.correlation_id, session_id, endpoints=endpoints)


class _Response:
    """A response to which partitions are added. leaders: broker id -> the current leader that the response names for
    partitions that this broker does not lead."""

    def __init__(self, one: _Fetch) -> None:
        self._one = one
        self.frame = FetchFrame(one.terms.messages)
        self.leaders: dict[int, Leader] = {}

    def add(self, answers: Iterable[tuple[FetchedPartition, PartitionAnswer]]) -> None:
        """Add partitions, except for those that an incremental response leaves out."""
        one, session = self._one, self._one.session
        for fetched, answer in answers:
            if session is not None:
                if one.is_incremental and not fetched.is_news(answer):
                    continue
                fetched.note_sent(answer)
                if answer.region is not None and one.tracker is not None:
                    one.tracker.dirty.pop(fetched.key, None)
                    one.tracker.dirty[fetched.key] = None
            if answer.error_code in MOVED and one.version >= LEADERS_VERSION:
                self._name_leader(fetched, answer)
            self.frame.add(fetched.key[0], answer)

    def _name_leader(self, fetched: FetchedPartition, answer: PartitionAnswer) -> None:
        image = self._one.broker.image
        known = image.topics_by_id.get(fetched.topic) if isinstance(fetched.topic, UUID) else None
        leader = current_leader(image, known.name if known is not None else str(fetched.topic), fetched.index)
        answer.leader = leader_field(leader)
        self.leaders[leader.id] = leader

"""Reads the logs of a cluster's partitions from their leaders, batch by batch: Metadata, ListOffsets, Fetch.

Batches come as they are in the log, aborted and control batches included, up to the high watermark. Each leader has one
connection, with one request in flight. Source: FetchRequest.json, ListOffsetsRequest.json, MetadataRequest.json; KIP-74
(the first batch is whole, however large it is).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple, Self
from uuid import UUID

from kcli.client.wire import AnyBroker, Channel, ErrorAnswer, NoAnswer, Server, call, failure_reason
from kcli.errors import KcliError
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition

# isort: split
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v12.response import FetchResponse
from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.list_offsets.v7.response import ListOffsetsResponse
from kio.schema.metadata.v12.request import MetadataRequest
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

EARLIEST, LATEST = -2, -1
"""Timestamps of ListOffsets: the log start offset, in the tier, too; the high watermark."""
RESPONSE_BYTES_MAX = 256 << 20
MAX_WAIT_S = 0.5
RETRY_S = 0.1
PASSING = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""Errors after which the leader is looked up again."""


class OffsetOutOfRange(ErrorAnswer):
    """The log begins above the offset, or ends below it."""


class Described(NamedTuple):
    """A cluster: its id, its brokers, the ids of its topics, and the leader of each partition (None without one)."""

    cluster_id: str
    brokers: tuple[int, ...]
    topic_ids: Mapping[str, UUID]
    leaders: Mapping[TopicPartition, int | None]
    leader_epochs: Mapping[TopicPartition, int]


class LogReader:
    """Reads logs from the leaders of partitions; a context manager, which closes the connections."""

    def __init__(self, brokers: AnyBroker) -> None:
        """brokers: the bootstrap servers, with the security of connections and the time-out of a response, which is
        also the time for which a failed request is repeated."""
        self._brokers = brokers
        self._timeout_s, self._security = brokers.timeout_s, brokers.security
        self._servers: dict[int, Server] = {}
        self._channels: dict[int, Channel] = {}
        self._described: Described | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in list(self._channels):
            self._close(node)

    def describe(self) -> Described:
        """Return all topics of the cluster. Raises NobodyAnswers, ErrorAnswer."""
        request = MetadataRequest(
            topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        answer = self._brokers.ask(lambda server: call(server, request, MetadataResponse))
        self._servers = {
            int(each.node_id): Server(each.host, each.port, self._timeout_s, self._security) for each in answer.brokers
        }
        leaders: dict[TopicPartition, int | None] = {}
        epochs: dict[TopicPartition, int] = {}
        ids: dict[str, UUID] = {}
        for topic in answer.topics:
            if topic.error_code != ErrorCode.NONE or topic.name is None or topic.topic_id is None:
                raise ErrorAnswer(topic.name or "a topic", topic.error_code, None)
            ids[topic.name] = topic.topic_id
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                leaders[partition] = int(each.leader_id) if each.leader_id >= 0 else None
                epochs[partition] = each.leader_epoch
        self._described = Described(answer.cluster_id or "", tuple(sorted(self._servers)), ids, leaders, epochs)
        return self._described

    def offsets(self, partitions: Collection[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        """Return the log start offset (timestamp EARLIEST) or the high watermark (LATEST) of each partition; a
        partition that is deleted or has no leader is left out. Raises NobodyAnswers, ErrorAnswer."""
        found: dict[TopicPartition, int] = {}
        deadline = time.monotonic() + self._timeout_s
        left = set(partitions)
        while left:
            described = self._described or self.describe()
            left &= {each for each in left if described.leaders.get(each) is not None}
            by_leader: dict[int, list[TopicPartition]] = {}
            for each in sorted(left):
                leader = described.leaders[each]
                assert leader is not None, "the others are left out"
                by_leader.setdefault(leader, []).append(each)
            failure: KcliError | None = None
            for leader, of_leader in by_leader.items():
                try:
                    answers = self._list(leader, of_leader, timestamp)
                except _NoLeader as error:
                    failure = error
                    continue
                for partition, (code, offset) in answers.items():
                    if code == ErrorCode.NONE:
                        found[partition] = offset
                        left.discard(partition)
                    elif code in PASSING:
                        failure = ErrorAnswer(str(partition), code, None)
                    else:
                        raise ErrorAnswer(str(partition), code, None)
            if left and failure is not None:
                self._look_again(deadline, failure)
        return found

    def fetch(self, partition: TopicPartition, offset: int, max_bytes: int) -> bytes | None:
        """Return the bytes of the batches from the one with `offset` on: the first is whole, the last may be cut off.
        Returns b"" if no batch is there yet; None if the partition is deleted or has no leader. max_bytes: about how
        many bytes. Raises OffsetOutOfRange, NobodyAnswers, ErrorAnswer."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            described = self._described or self.describe()
            leader = described.leaders.get(partition)
            if leader is None:
                return None
            failure: KcliError
            try:
                found = self._fetch(leader, partition, offset, max_bytes)
            except _NoLeader as error:
                failure = error
            else:
                if found.error_code == ErrorCode.NONE:
                    return found.records or b""
                if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise OffsetOutOfRange(f"{partition} at offset {offset:,}", found.error_code, None)
                failure = ErrorAnswer(str(partition), found.error_code, None)
                if found.error_code not in PASSING:
                    raise failure
            self._look_again(deadline, failure)

    def _look_again(self, deadline: float, failure: KcliError) -> None:
        """Wait a moment, and look up the leaders again. Raises `failure` instead if the deadline has passed."""
        if time.monotonic() > deadline:
            raise failure
        time.sleep(RETRY_S)
        self.describe()

    def _list(
        self, leader: int, partitions: Iterable[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, tuple[ErrorCode, int]]:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for topic, number in partitions:
            of_topic = topics.setdefault(topic, [])
            of_topic.append(ListOffsetsPartition(partition_index=i32(number), timestamp=i64(timestamp)))
        request = ListOffsetsRequest(
            replica_id=BrokerId(-1),
            isolation_level=i8(0),
            topics=tuple(
                ListOffsetsTopic(name=TopicName(name), partitions=tuple(each)) for name, each in topics.items()
            ),
        )
        answer = self._call(leader, request, ListOffsetsResponse)
        return {
            TopicPartition(topic.name, each.partition_index): (ErrorCode(each.error_code), each.offset)
            for topic in answer.topics
            for each in topic.partitions
        }

    def _fetch(self, leader: int, partition: TopicPartition, offset: int, max_bytes: int) -> Any:
        asked = FetchPartition(
            partition=i32(partition.partition), fetch_offset=i64(offset), partition_max_bytes=i32(max_bytes)
        )
        request = FetchRequest(
            max_wait=i32Timedelta.parse(timedelta(seconds=MAX_WAIT_S)),
            min_bytes=i32(1),
            max_bytes=i32(max_bytes),
            topics=(FetchTopic(topic=TopicName(partition.topic), partitions=(asked,)),),
            forgotten_topics_data=(),
        )
        answer = self._call(leader, request, FetchResponse)
        if answer.error_code != ErrorCode.NONE:
            raise ErrorAnswer(str(partition), answer.error_code, None)
        for topic in answer.responses:
            for each in topic.partitions:
                if (topic.topic, each.partition_index) == partition:
                    return each
        raise _NoLeader(str(partition), NoAnswer("the response lacks the partition"))

    def _call(self, leader: int, request: Any, response_type: type[Any]) -> Any:
        server = self._servers.get(leader)
        if server is None:
            raise _NoLeader(f"broker {leader}", NoAnswer("the cluster does not list it"))
        try:
            if leader not in self._channels:
                self._channels[leader] = Channel(server, RESPONSE_BYTES_MAX)
            return self._channels[leader].call(request, response_type)
        except (OSError, NoAnswer) as error:
            self._close(leader)
            raise _NoLeader(f"{server.host}:{server.port}", error) from None

    def _close(self, node: int) -> None:
        channel = self._channels.pop(node, None)
        if channel is not None:
            with suppress(OSError):
                channel.close()


class _NoLeader(KcliError):
    """A partition's leader does not answer, or the cluster does not list it."""

    def __init__(self, subject: str, error: Exception) -> None:
        super().__init__(f"{subject}: the leader does not answer ({failure_reason(error)})")

"""The leaders of a cluster's partitions, looked up with Metadata; one connection to each, with one request in flight.

Source: MetadataRequest.json.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Self
from uuid import UUID

from kcli.client.wire import (
    AnyBroker,
    Channel,
    ErrorAnswer,
    LoginFailed,
    NoAnswer,
    NobodyAnswers,
    Server,
    failure_reason,
)
from kcli.client.wire import (
    call as send,
)
from kcli.errors import KcliError
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition

# isort: split
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.types import TopicName

RESPONSE_BYTES_MAX = 256 << 20
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


class Described(NamedTuple):
    """A cluster: its id, its brokers, the ids of its topics, and the leader of each partition (None without one)."""

    cluster_id: str
    brokers: tuple[int, ...]
    topic_ids: Mapping[str, UUID]
    leaders: Mapping[TopicPartition, int | None]
    leader_epochs: Mapping[TopicPartition, int]


class Leaders:
    """Finds the leaders of partitions and sends requests to them; a context manager, which closes the connections."""

    def __init__(self, brokers: AnyBroker, topics: Collection[str] | None = None) -> None:
        """brokers: the bootstrap servers, with the security of connections and the time-out of a response, which is
        also the time for which a failed request is repeated. topics: the topics to describe; None for all topics that
        the client may describe."""
        self._brokers = brokers
        self._topics = topics
        self.timeout_s = brokers.timeout_s
        self._servers: dict[int, Server] = {}
        self._channels: dict[int, Channel] = {}
        self._described: Described | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in list(self._channels):
            self._close(node)

    def describe(self) -> Described:
        """Return the topics of the cluster; a topic that does not exist is left out. Raises NobodyAnswers,
        ErrorAnswer."""
        named = None
        if self._topics is not None:
            named = tuple(MetadataRequestTopic(topic_id=None, name=TopicName(each)) for each in sorted(self._topics))
        request = MetadataRequest(
            topics=named, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        answer = self._brokers.ask(lambda server: send(server, request, MetadataResponse))
        self._servers = {int(each.node_id): self._brokers.server(each.host, each.port) for each in answer.brokers}
        self._brokers.learn(self._servers.values())
        leaders: dict[TopicPartition, int | None] = {}
        epochs: dict[TopicPartition, int] = {}
        ids: dict[str, UUID] = {}
        for topic in answer.topics:
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and named is not None:
                continue
            if topic.error_code != ErrorCode.NONE or topic.name is None or topic.topic_id is None:
                raise ErrorAnswer(topic.name or "a topic", topic.error_code, None)
            ids[topic.name] = topic.topic_id
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                leaders[partition] = int(each.leader_id) if each.leader_id >= 0 else None
                epochs[partition] = each.leader_epoch
        self._described = Described(answer.cluster_id or "", tuple(sorted(self._servers)), ids, leaders, epochs)
        return self._described

    def described(self) -> Described:
        """Return the result of the last look-up; look up the topics now if there was none. Raises as `describe`."""
        return self._described or self.describe()

    def describe_patiently(self) -> Described:
        """As `describe`, but while no broker answers, repeat the request for as long as a failed request is repeated.
        Raises as `describe`."""
        try:
            return self.describe()
        except NobodyAnswers as error:
            self.look_again(time.monotonic() + self.timeout_s, error)
        assert self._described is not None, "look_again raises unless it has described the topics"
        return self._described

    def look_again(self, deadline: float, failure: KcliError) -> None:
        """Wait a moment, and look up the leaders again until a broker answers. Raises `failure`, or the last error of a
        look-up, once the deadline has passed, and at once for a failed login."""
        while time.monotonic() <= deadline:
            time.sleep(RETRY_S)
            try:
                self.describe()
            except NobodyAnswers as error:
                if isinstance(error.error, LoginFailed):
                    raise
                failure = error
            else:
                return
        raise failure

    def call(self, leader: int, request: Any, response_type: type[Any]) -> Any:
        """Send a request to a broker, and return its response. Raises NoLeader."""
        server = self._servers.get(leader)
        if server is None:
            raise NoLeader(f"broker {leader}", NoAnswer("the cluster does not list it"))
        try:
            if leader not in self._channels:
                self._channels[leader] = Channel(server, RESPONSE_BYTES_MAX)
            return self._channels[leader].call(request, response_type)
        except (OSError, NoAnswer) as error:
            self._close(leader)
            raise NoLeader(f"{server.host}:{server.port}", error) from None

    def _close(self, node: int) -> None:
        channel = self._channels.pop(node, None)
        if channel is not None:
            with suppress(OSError):
                channel.close()


class Leaderless(KcliError):
    """A partition has no leader."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(f"{partition} has no leader")


class NoLeader(KcliError):
    """A partition's leader does not answer, or the cluster does not list it."""

    def __init__(self, subject: str, error: Exception) -> None:
        super().__init__(f"{subject}: the leader does not answer ({failure_reason(error)})")

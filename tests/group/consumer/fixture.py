"""Consumer groups on a machine with its log, topics that can change, and members that behave as clients do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any
from uuid import UUID

from kcli.group.consumer.group import ConsumerGroup
from kcli.group.metadata import ConsumerSettings
from kcli.group.requests import (
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    DescribeConsumerGroup,
    DescribedConsumerGroup,
    TopicsChanged,
)
from kcli.protocol.topic_partition import TopicIdPartition
from tests.group.group_log import GROUP, Running

TIMEOUT_MS = 60_000


class Topics:
    """The topics of a cluster that a coordinator reads, in memory."""

    def __init__(self) -> None:
        self.version = 1
        self.group = ConsumerSettings()
        self._ids: dict[str, UUID] = {}
        self._names: dict[UUID, str] = {}
        self._counts: dict[UUID, int] = {}
        self._next = count(1)

    def create(self, name: str, partitions: int) -> UUID:
        topic_id = UUID(int=next(self._next) << 64 | 0x8000)
        self._ids[name], self._names[topic_id], self._counts[topic_id] = topic_id, name, partitions
        self.version += 1
        return topic_id

    def grow(self, name: str, partitions: int) -> None:
        self._counts[self._ids[name]] = partitions
        self.version += 1

    def delete(self, name: str) -> None:
        topic_id = self._ids.pop(name)
        del self._names[topic_id], self._counts[topic_id]
        self.version += 1

    def topic_names(self) -> Iterable[str]:
        return list(self._ids)

    def ids(self) -> Iterable[UUID]:
        return list(self._names)

    def topic_id(self, name: str) -> UUID | None:
        return self._ids.get(name)

    def topic_name(self, topic_id: UUID) -> str | None:
        return self._names.get(topic_id)

    def partition_count(self, topic_id: UUID) -> int:
        return self._counts[topic_id]

    def racks(self, topic_id: UUID) -> Mapping[int, Sequence[str]]:
        return dict.fromkeys(range(self._counts[topic_id]), ())

    def settings(self, group_id: str) -> ConsumerSettings:  # noqa: ARG002 (the signature of what it stands for)
        return self.group


class Cluster(Running):
    """A consumer group on a running machine, with topics that can change."""

    def __init__(self, *, assignment_interval_ms: int = 0, **config: Any) -> None:
        self.topics = Topics()
        self.topics.group = ConsumerSettings(assignment_interval_ms=assignment_interval_ms)
        self.metadata = self.topics
        super().__init__(**config)

    # topics

    def create(self, name: str, partitions: int) -> UUID:
        topic_id = self.topics.create(name, partitions)
        self.ask(TopicsChanged(topics=frozenset((name,)), has_new=True))
        return topic_id

    def grow(self, name: str, partitions: int) -> None:
        self.topics.grow(name, partitions)
        self.ask(TopicsChanged(topics=frozenset((name,)), has_new=False))

    def delete(self, name: str) -> None:
        self.topics.delete(name)
        self.ask(TopicsChanged(topics=frozenset((name,)), has_new=False))

    # members

    def beat(self, member_id: str, epoch: int, **values: Any) -> ConsumerHeartbeatAnswer:
        """One heartbeat."""
        request = {"group_id": GROUP, "client_id": "client", "client_host": "/127.0.0.1"} | values
        answer: ConsumerHeartbeatAnswer = self.ask(ConsumerHeartbeat(member_id=member_id, epoch=epoch, **request))
        return answer

    def enter(self, member_id: str, *topics: str, **values: Any) -> ConsumerHeartbeatAnswer:
        """The first heartbeat."""
        request = {"topics": frozenset(topics), "rebalance_timeout_ms": TIMEOUT_MS, "owned": {}} | values
        return self.beat(member_id, 0, **request)

    def client(self, member_id: str, *topics: str, **values: Any) -> Client:
        """A member that joins now."""
        client = Client(self, member_id, topics, values)
        client.join()
        return client

    def settle(self, *clients: Client) -> None:
        """Send heartbeats until all members have their target assignments."""
        for _ in range(20):
            self.pass_time(0)
            for client in clients:
                client.beat()
            if self.phase == "Stable" and all(client.is_current for client in clients):
                return
        raise AssertionError(f"{self.phase} after all")

    @property
    def group(self) -> ConsumerGroup:
        group = self.machine._shard.consumer(GROUP)
        assert group is not None
        return group

    @property
    def phase(self) -> str:
        """Its state's name."""
        return self.describe().state

    def describe(self) -> DescribedConsumerGroup:
        answer: DescribedConsumerGroup = self.ask(DescribeConsumerGroup(group_id=GROUP))
        return answer


class Client:
    """A member that revokes partitions at once, and reports the partitions that it owns."""

    def __init__(self, cluster: Cluster, member_id: str, topics: Iterable[str], values: dict[str, Any]) -> None:
        self.cluster, self.id, self.topics, self.values = cluster, member_id, frozenset(topics), values
        self.epoch = 0
        self.owned: dict[UUID, tuple[int, ...]] = {}

    @property
    def _identity(self) -> dict[str, Any]:
        instance_id = self.values.get("instance_id")
        return {} if instance_id is None else {"instance_id": instance_id}

    def join(self) -> ConsumerHeartbeatAnswer:
        self.owned = {}
        return self._take(self.cluster.enter(self.id, *self.topics, **self.values))

    def beat(self) -> ConsumerHeartbeatAnswer:
        """Send a heartbeat with the owned partitions; join again where the member is fenced."""
        answer = self.cluster.beat(self.id, self.epoch, owned=self.owned, **self._identity)
        if answer.error:
            return self.join()
        return self._take(answer)

    def _take(self, answer: ConsumerHeartbeatAnswer) -> ConsumerHeartbeatAnswer:
        assert not answer.error, answer
        self.epoch = answer.epoch
        if answer.assignment is not None:
            self.owned = {topic_id: numbers for topic_id, numbers in answer.assignment.items() if numbers}
        return answer

    def leave(self, epoch: int = -1) -> ConsumerHeartbeatAnswer:
        return self.cluster.beat(self.id, epoch, **self._identity)

    @property
    def partitions(self) -> set[TopicIdPartition]:
        return {(topic_id, number) for topic_id, numbers in self.owned.items() for number in numbers}

    @property
    def is_current(self) -> bool:
        """Return whether the member has the partitions that the coordinator believes it has."""
        member = self.cluster.group.members[self.id]
        has = {(topic_id, number) for topic_id, numbers in member.assigned.items() for number in numbers}
        return self.partitions == has and self.epoch == member.epoch

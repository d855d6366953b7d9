"""The state of a cluster: its brokers, the quorum of its controllers, and its partitions that lack replicas.

The requests go to the first broker that answers, over connections of `wire`: DescribeCluster (with fenced brokers),
DescribeQuorum, Metadata of all topics, and DescribeConfigs for min.insync.replicas.

    under-replicated   fewer replicas in sync than assigned
    offline            no leader
    under min ISR      fewer in sync than min.insync.replicas: acks=all is refused
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from kcli.client import wire
from kcli.client.security import Security

# isort: split
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_cluster.v2.response import DescribeClusterResponse
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.metadata.v12.request import MetadataRequest
from kio.schema.metadata.v12.response import MetadataResponse
from kio.static.primitive import i8

Answer = TypeVar("Answer")

TOPIC_RESOURCE = i8(2)
MIN_ISR = "min.insync.replicas"


class BrokerState(NamedTuple):
    """A broker. is_fenced: whether the controller keeps it from leading partitions, because it has sent no heartbeat
    within broker.session.timeout.ms, or has not caught up with the metadata log since its start."""

    id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class Voice(NamedTuple):
    """A node of the quorum. role: leader, follower or observer; lag: the leader's log end offset minus that of the
    node; log_end_offset, lag: None if the leader does not know them."""

    node: int
    role: str
    log_end_offset: int | None
    lag: int | None


class QuorumState(NamedTuple):
    """The quorum of controllers. leader: None during an election."""

    leader: int | None
    epoch: int
    high_watermark: int
    nodes: tuple[Voice, ...]


class PartitionState(NamedTuple):
    """A partition that is under-replicated, offline or under its min.insync.replicas. leader: None without a leader.
    min_isr: min.insync.replicas, None if it is not known."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    min_isr: int | None


class ClusterState(NamedTuple):
    """The state of the cluster. id: None if the brokers return none. topics, partitions: their numbers. quorum: None if
    it is not known. quorum_error: why it is not known; None if it is known, and if the brokers have no DescribeQuorum
    (before KRaft)."""

    id: str | None
    brokers: tuple[BrokerState, ...]
    quorum: QuorumState | None
    quorum_error: str | None
    topics: int
    partitions: int
    under_replicated: tuple[PartitionState, ...]
    offline: tuple[PartitionState, ...]
    under_min_isr: tuple[PartitionState, ...]

    @property
    def is_healthy(self) -> bool:
        """Whether the quorum has a leader (a cluster before KRaft needs none), no broker is fenced, and every partition
        has a leader, all its replicas in sync, and at least min.insync.replicas of them, if that number is known. False
        if the quorum's state could not be read."""
        has_leader = self.quorum_error is None and (self.quorum is None or self.quorum.leader is not None)
        return has_leader and not (
            self.under_replicated or self.offline or self.under_min_isr or any(each.is_fenced for each in self.brokers)
        )


class StatusClient:
    """Reads the state of a cluster from whichever of its brokers answers."""

    def __init__(self, bootstrap: str, timeout_s: float, security: Security) -> None:
        self._brokers = wire.AnyBroker(bootstrap, timeout_s, security)

    def state(self) -> ClusterState:
        """Return the present state of the cluster. Raises wire.NobodyAnswers."""
        metadata = self._brokers.ask(lambda server: wire.call(server, _METADATA, MetadataResponse))
        cluster = self._optional(lambda server: wire.call(server, _CLUSTER, DescribeClusterResponse))
        brokers = metadata.brokers if cluster is None else cluster.brokers
        brokers = sorted(
            BrokerState(
                each.node_id if cluster is None else each.broker_id,
                each.host,
                each.port,
                each.rack,
                cluster is not None and each.is_fenced,
            )
            for each in brokers
        )
        every = list(_partitions(metadata, self._min_isrs(metadata)))
        quorum, quorum_error = self._quorum()
        return ClusterState(
            metadata.cluster_id,
            tuple(brokers),
            quorum,
            quorum_error,
            len(metadata.topics),
            len(every),
            tuple(each for each in every if len(each.isr) < len(each.replicas)),
            tuple(each for each in every if each.leader is None),
            tuple(each for each in every if each.min_isr is not None and len(each.isr) < each.min_isr),
        )

    def _min_isrs(self, metadata: Any) -> dict[str, int]:
        names = sorted(each.name for each in metadata.topics)
        if not names:
            return {}
        resources = tuple(
            DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=(MIN_ISR,))
            for name in names
        )
        request = DescribeConfigsRequest(resources=resources)
        answer = self._optional(lambda server: wire.call(server, request, DescribeConfigsResponse))
        return {
            each.resource_name: int(config.value)
            for each in (() if answer is None else answer.results)
            for config in each.configs
            if config.name == MIN_ISR and (config.value or "").isdecimal()
        }

    def _quorum(self) -> tuple[QuorumState | None, str | None]:
        try:
            found = self._brokers.ask(wire.quorum)
        except wire.NobodyAnswers as error:
            return None, error.reason
        return None if found is None else _quorum_state(found), None

    def _optional(self, send: Callable[[wire.Server], Answer]) -> Answer | None:
        try:
            return self._brokers.ask(send)
        except wire.NobodyAnswers:
            return None


_METADATA = MetadataRequest(topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False)
_CLUSTER = DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True)


def _partitions(metadata: Any, min_isrs: dict[str, int]) -> Iterable[PartitionState]:
    for topic in sorted(metadata.topics, key=lambda each: each.name):
        for each in sorted(topic.partitions, key=lambda each: each.partition_index):
            leader = each.leader_id if each.leader_id >= 0 else None
            replicas, isr = tuple(each.replica_nodes), tuple(each.isr_nodes)
            yield PartitionState(topic.name, each.partition_index, leader, replicas, isr, min_isrs.get(topic.name))


def _quorum_state(quorum: wire.Quorum) -> QuorumState:
    ends = {each.node: each.log_end_offset for each in (*quorum.voters, *quorum.observers)}
    end = ends.get(quorum.leader)

    def voices(replicas: Sequence[wire.Replica], role: str) -> list[Voice]:
        return [
            Voice(
                each.node,
                "leader" if each.node == quorum.leader else role,
                each.log_end_offset,
                None if end is None or each.log_end_offset is None else end - each.log_end_offset,
            )
            for each in replicas
        ]

    nodes = [*voices(quorum.voters, "follower"), *voices(quorum.observers, "observer")]
    leader = quorum.leader if quorum.leader >= 0 else None
    return QuorumState(leader, quorum.leader_epoch, quorum.high_watermark, tuple(nodes))

"""How a cluster is: brokers, the quorum of its controllers, and the partitions that are not as they should be.

Asked of any broker that answers, over connections of their own (see wire): DescribeCluster (with fenced brokers),
DescribeQuorum, Metadata of all topics, and min.insync.replicas of those that have it.

    under-replicated   fewer replicas in sync than there are
    offline            no leader
    under min ISR      fewer in sync than min.insync.replicas: acks=all is refused
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from kcli.client import wire
from kcli.client.security import Security
from kcli.errors import KcliError

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


class NobodyAnswers(KcliError):
    """No broker of those known does."""


class BrokerState(NamedTuple):
    """A broker. is_fenced: it has not said that it lives, so that it leads nothing."""

    id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class Voice(NamedTuple):
    """A node in the quorum. role: leader, follower or observer; log_end_offset, lag: None where nobody knows."""

    node: int
    role: str
    log_end_offset: int | None
    lag: int | None


class QuorumState(NamedTuple):
    """leader: None where there is none."""

    leader: int | None
    epoch: int
    high_watermark: int
    nodes: tuple[Voice, ...]


class PartitionState(NamedTuple):
    """One that is not as it should be."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    min_isr: int | None


class ClusterState(NamedTuple):
    """quorum: None where nobody tells of it."""

    id: str | None
    brokers: tuple[BrokerState, ...]
    quorum: QuorumState | None
    topics: int
    partitions: int
    under_replicated: tuple[PartitionState, ...]
    offline: tuple[PartitionState, ...]
    under_min_isr: tuple[PartitionState, ...]

    @property
    def is_healthy(self) -> bool:
        """Nothing is missing."""
        has_leader = self.quorum is None or self.quorum.leader is not None
        return has_leader and not (
            self.under_replicated or self.offline or self.under_min_isr or any(each.is_fenced for each in self.brokers)
        )


class Asker:
    """Asks one of several brokers, first the one that answered last."""

    def __init__(self, bootstrap: str, timeout_s: float, security: Security) -> None:
        self._bootstrap = bootstrap
        self._servers = [wire.Server(host, port, timeout_s, security) for host, port in _addresses(bootstrap)]

    def state(self) -> ClusterState:
        """How the cluster is now. Raises NobodyAnswers."""
        metadata = self._first(lambda server: wire.asked(server, _METADATA, MetadataResponse))
        cluster = self._optional(lambda server: wire.asked(server, _CLUSTER, DescribeClusterResponse))
        told = metadata.brokers if cluster is None else cluster.brokers
        brokers = sorted(
            BrokerState(
                each.node_id if cluster is None else each.broker_id,
                each.host,
                each.port,
                each.rack,
                cluster is not None and each.is_fenced,
            )
            for each in told
        )
        every = list(_partitions(metadata, self._min_isrs(metadata)))
        return ClusterState(
            metadata.cluster_id,
            tuple(brokers),
            self._optional(_quorum),
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
        answer = self._optional(lambda server: wire.asked(server, request, DescribeConfigsResponse))
        return {
            each.resource_name: int(config.value)
            for each in (() if answer is None else answer.results)
            for config in each.configs
            if config.name == MIN_ISR and (config.value or "").isdecimal()
        }

    def _optional(self, ask: Callable[[wire.Server], Answer]) -> Answer | None:
        try:
            return self._first(ask)
        except NobodyAnswers:
            return None

    def _first(self, ask: Callable[[wire.Server], Answer]) -> Answer:
        reason: object = "no address"
        for server in list(self._servers):
            try:
                answer = ask(server)
            except (OSError, wire.NoAnswer) as error:
                reason = error
                continue
            self._servers.remove(server)
            self._servers.insert(0, server)
            return answer
        raise NobodyAnswers(f"{self._bootstrap}: no broker answers ({reason})")


_METADATA = MetadataRequest(topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False)
_CLUSTER = DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True)


def _addresses(bootstrap: str) -> Iterable[tuple[str, int]]:
    for each in bootstrap.split(","):
        host, _, port = each.strip().rpartition(":")
        if port.isascii() and port.isdecimal():
            yield host.strip("[]") or "127.0.0.1", int(port)
        elif each.strip():
            yield each.strip(), 9092


def _partitions(metadata: Any, min_isrs: dict[str, int]) -> Iterable[PartitionState]:
    for topic in sorted(metadata.topics, key=lambda each: each.name):
        for each in sorted(topic.partitions, key=lambda each: each.partition_index):
            leader = each.leader_id if each.leader_id >= 0 else None
            replicas, isr = tuple(each.replica_nodes), tuple(each.isr_nodes)
            yield PartitionState(topic.name, each.partition_index, leader, replicas, isr, min_isrs.get(topic.name))


def _quorum(server: wire.Server) -> QuorumState:
    """Raises NoAnswer: nobody leads it, or the broker does not tell."""
    told = wire.ask(server).quorum
    if told is None:
        raise wire.NoAnswer("no word of the quorum")
    ends = {each.node: each.log_end_offset for each in (*told.voters, *told.observers)}
    end = ends.get(told.leader)

    def voices(replicas: Sequence[wire.Replica], role: str) -> list[Voice]:
        return [
            Voice(
                each.node,
                "leader" if each.node == told.leader else role,
                each.log_end_offset,
                None if end is None or each.log_end_offset is None else end - each.log_end_offset,
            )
            for each in replicas
        ]

    nodes = [*voices(told.voters, "follower"), *voices(told.observers, "observer")]
    leader = told.leader if told.leader >= 0 else None
    return QuorumState(leader, told.leader_epoch, told.high_watermark, tuple(nodes))

"""Connections to the brokers of a Kafka cluster, and requests to the broker that a request belongs to.

    any broker      Metadata, CreateTopics, DescribeConfigs, FindCoordinator: the first that answers
    a leader        Produce, Fetch, ListOffsets: the broker that Metadata names
    a coordinator   the group's requests, InitProducerId: the broker that FindCoordinator names

Requests have versions that every Kafka from 2.4 to 4.3 supports. Each purpose has a connection of its own, as a request
that waits at the broker delays those after it on the same connection.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kcli.broker.network.peers import Channel, Network, Unanswered
from kcli.errors import KcliError
from kcli.protocol.error_code import ErrorCode

RETRY_S: Final = 0.05
TIMEOUT_S: Final = 30.0
GROUP, TRANSACTION = 0, 1
"""The kinds of coordinators."""
VERSIONS: Final = {
    "metadata": 8,
    "create_topics": 4,
    "describe_configs": 2,
    "find_coordinator": 2,
    "list_offsets": 5,
    "produce": 8,
    "fetch": 11,
    "init_producer_id": 1,
    "join_group": 5,
    "sync_group": 3,
    "heartbeat": 3,
    "leave_group": 2,
}

PASSING: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors that are temporary: the request is repeated."""

Address = tuple[str, int]


def clock_s() -> float:
    """Return a monotonic time in seconds. It also advances while the machine is suspended, if the system has such a
    clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Refused(KcliError):
    """A broker answers a request with an error. code: Kafka's error."""

    def __init__(self, what: str, code: int, text: str | None = None) -> None:
        self.code = ErrorCode(code)
        super().__init__(": ".join(each for each in (what, self.code.name, text) if each))


class Topic(NamedTuple):
    """A topic: the ids of the leaders of its partitions (-1 without one) and the number of replicas of each."""

    leaders: tuple[int, ...]
    replicas: tuple[int, ...]


class Cluster:
    """The brokers of a cluster. bootstrap: the addresses of some of them. own: the id of a broker and the address at
    which it is reached, in place of the address that it advertises; None for none. client_id: as brokers log it."""

    def __init__(
        self,
        network: Network,
        bootstrap: Sequence[Address],
        timeout_s: float = TIMEOUT_S,
        own: tuple[int, Address] | None = None,
        client_id: str = "kcli",
    ) -> None:
        self.id = ""
        self._network, self._timeout_s, self._client_id = network, timeout_s, client_id
        self._bootstrap = list(bootstrap)
        self._own = own
        self._brokers: dict[int, Address] = {}
        self._answered: Address | None = None  # the broker that `any` asks first
        self._channels: dict[tuple[Address, str], Channel] = {}

    @property
    def size(self) -> int:
        """The number of brokers in the last Metadata response."""
        return len(self._brokers)

    def close(self) -> None:
        """Close all connections."""
        for each in self._channels.values():
            each.close()
        self._channels.clear()

    async def any(self, api: str, **fields: Any) -> Any:
        """Return the response of the first broker that answers. Raises Unanswered."""
        last: Unanswered | None = None
        first = [] if self._answered is None else [self._answered]
        for address in dict.fromkeys([*first, *self._bootstrap, *self._brokers.values()]):
            try:
                answer = await self._call(address, "", api, self._timeout_s, fields)
            except Unanswered as error:
                last = error
            else:
                self._answered = address
                return answer
        raise last or Unanswered("no broker is known")

    async def ask(self, node_id: int, purpose: str, api: str, timeout_s: float | None = None, **fields: Any) -> Any:
        """Return a broker's response. purpose: names the connection. timeout_s: None for the usual one. Raises
        Unanswered, also for a broker that is not known."""
        address = self._own[1] if self._own is not None and self._own[0] == node_id else self._brokers.get(node_id)
        if address is None:
            raise Unanswered(f"broker {node_id} is not known")
        return await self._call(address, purpose, api, timeout_s or self._timeout_s, fields)

    async def _call(self, address: Address, purpose: str, api: str, timeout_s: float, fields: dict[str, Any]) -> Any:
        channel = self._channels.get((address, purpose))
        if channel is None:
            channel = self._channels[address, purpose] = self._network.channel(*address, self._client_id)
        return await channel.call(api, VERSIONS[api], timeout_s=timeout_s, **fields)

    async def topic(self, name: str) -> Topic | None:
        """Return a topic; None if it does not exist. Raises Unanswered, Refused."""
        found = await self.any("metadata", topics=[{"name": name}], allow_auto_topic_creation=False)
        self.id = found.cluster_id or ""
        self._brokers = {each.node_id: (each.host, each.port) for each in found.brokers}
        (topic,) = found.topics
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        if topic.error_code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
            raise Refused(f"topic {name}", topic.error_code)
        partitions = sorted(topic.partitions, key=lambda each: int(each.partition_index))
        return Topic(
            tuple(each.leader_id for each in partitions), tuple(len(each.replica_nodes) for each in partitions)
        )

    async def coordinator(self, kind: int, key: str) -> int:
        """Return the id of the broker that is the coordinator of a group or of a transactional id. Raises Unanswered,
        Refused."""
        found = await self.any("find_coordinator", key=key, key_type=kind)
        if found.error_code != ErrorCode.NONE:
            raise Refused(f"the coordinator of {key}", found.error_code, found.error_message)
        self._brokers[found.node_id] = found.host, found.port
        return int(found.node_id)

"""Brokers and replicas as clients of one listener see them.

A broker is named by the address that it advertises on the listener through which the client came; one without that
listener is not there for the client. Source: KRaftMetadataCache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.metadata.placement import is_online

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.broker.network.messages import Call
    from kcli.metadata.partition import Partition

NO_NODE = -1
TOPIC_OPERATIONS = 3576
"""Authorized operations of a topic where everything is allowed: read to alter configs, one bit each (AclOperation)."""
CLUSTER_OPERATIONS = 8096
NOT_ASKED = -(1 << 31)


class Node(NamedTuple):
    """A broker and its address."""

    id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class View:
    """What one client sees, for as long as its request takes. nodes: the brokers that it can reach."""

    def __init__(self, call: Call) -> None:
        self._image = image = call.broker.image
        self._online: dict[tuple[int, UUID], bool] = {}
        self.nodes: list[Node] = []
        for broker in image.brokers.values():
            endpoint = broker.endpoints.get(call.listener)
            if broker.id == call.broker.node_id and call.listener in call.broker.advertised:
                host, port = call.broker.advertised[call.listener]
            elif endpoint is not None:
                host, port = endpoint.host, endpoint.port
            else:
                continue
            self.nodes.append(Node(broker.id, host, port, broker.rack, broker.fenced))
        self._reachable = {node.id for node in self.nodes}
        self.alive = {node.id for node in self.nodes if not node.is_fenced}

    @property
    def controller_id(self) -> int:
        """The broker that clients are told to be the controller: requests for it are answered everywhere."""
        return next((node.id for node in self.nodes if not node.is_fenced), NO_NODE)

    def leader(self, partition: Partition) -> int:
        """The leader, as far as the client can reach it."""
        return partition.leader if partition.leader in self._reachable else NO_NODE

    def offline_replicas(self, partition: Partition) -> tuple[int, ...]:
        """Replicas that nobody can read: their broker or their directory is down."""
        replicas = zip(partition.replicas, partition.directories, strict=True)
        return tuple(each[0] for each in replicas if each[0] not in self.alive or not self._is_online(each))

    def _is_online(self, replica: tuple[int, UUID]) -> bool:
        known = self._online.get(replica)
        if known is None:
            known = self._online[replica] = is_online(self._image, *replica)
        return known

"""Brokers and replicas as clients of one listener see them.

A broker has the address that it advertises for the listener of the client's connection; a broker without that listener
is left out. Source: KRaftMetadataCache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.metadata.placement import is_online

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from kcli.metadata.image import MetadataImage
    from kcli.metadata.partition import Partition

NO_NODE = -1
OPERATIONS_OMITTED = -(1 << 31)
"""The value of a field for authorized operations if the request has not asked for them. Source:
MetadataResponse.AUTHORIZED_OPERATIONS_OMITTED."""


class Node(NamedTuple):
    """A broker and its address for clients."""

    id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class View:
    """The brokers and replicas as clients of one listener see them. nodes: the brokers with that listener. alive: the
    ids of those brokers that are not fenced."""

    def __init__(
        self, image: MetadataImage, listener: str, node_id: int, advertised: Mapping[str, tuple[str, int]]
    ) -> None:
        """listener: the listener of the client's connection. advertised: this node's own addresses, by listener."""
        self._image = image
        self._online: dict[tuple[int, UUID], bool] = {}
        self.nodes: list[Node] = []
        for broker in image.brokers.values():
            endpoint = broker.endpoints.get(listener)
            if broker.id == node_id and listener in advertised:
                host, port = advertised[listener]
            elif endpoint is not None:
                host, port = endpoint.host, endpoint.port
            else:
                continue
            self.nodes.append(Node(broker.id, host, port, broker.rack, broker.fenced))
        self._reachable = {node.id for node in self.nodes}
        self.alive = {node.id for node in self.nodes if not node.is_fenced}

    @property
    def controller_id(self) -> int:
        """The broker id that responses name as the controller: the first unfenced broker, -1 for none. Clients may send
        controller requests to any broker, which forwards them to the active controller."""
        return next((node.id for node in self.nodes if not node.is_fenced), NO_NODE)

    def leader(self, partition: Partition) -> int:
        """Return the broker id of the partition's leader; -1 if it has none, or none with an address for the client."""
        return partition.leader if partition.leader in self._reachable else NO_NODE

    def offline_replicas(self, partition: Partition) -> tuple[int, ...]:
        """Return the broker ids of those replicas whose broker is fenced or has no address for the client, or whose log
        directory is offline."""
        replicas = zip(partition.replicas, partition.directories, strict=True)
        return tuple(each[0] for each in replicas if each[0] not in self.alive or not self._is_online(each))

    def _is_online(self, replica: tuple[int, UUID]) -> bool:
        known = self._online.get(replica)
        if known is None:
            known = self._online[replica] = is_online(self._image, *replica)
        return known

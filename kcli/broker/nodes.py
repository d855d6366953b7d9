"""Brokers and replicas as clients of one listener see them.

A broker is named by the address that it advertises on the listener through which the client came; one without that
listener is not there for the client. Source: KRaftMetadataCache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.metadata.placement import is_online

if TYPE_CHECKING:
    from kcli.broker.messages import Call
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


def nodes(call: Call, *, include_fenced: bool = False) -> list[Node]:
    """The brokers that a client can reach."""
    found = []
    for broker in call.broker.image.brokers.values():
        address = _address(call, broker.id)
        if address is not None and (include_fenced or not broker.fenced):
            found.append(Node(broker.id, *address, broker.rack, broker.fenced))
    return found


def controller_id(call: Call) -> int:
    """The broker that clients are told to be the controller: requests for it are answered everywhere."""
    return next((node.id for node in nodes(call)), NO_NODE)


def leader(call: Call, partition: Partition) -> int:
    """The leader, as far as the client can reach it."""
    return NO_NODE if _address(call, partition.leader) is None else partition.leader


def offline_replicas(call: Call, partition: Partition) -> tuple[int, ...]:
    """Replicas that nobody can read: their broker or their directory is down."""
    image = call.broker.image
    return tuple(
        each
        for each, directory in zip(partition.replicas, partition.directories, strict=True)
        if not is_alive(call, each) or not is_online(image, each, directory)
    )


def is_alive(call: Call, broker_id: int) -> bool:
    """A broker that is not fenced, and that the client can reach."""
    broker = call.broker.image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and _address(call, broker_id) is not None


def _address(call: Call, broker_id: int) -> tuple[str, int] | None:
    if broker_id not in call.broker.image.brokers:
        return None
    if broker_id == call.broker.node_id and call.listener in call.broker.advertised:
        return call.broker.advertised[call.listener]
    endpoint = call.broker.image.brokers[broker_id].endpoints.get(call.listener)
    return None if endpoint is None else (endpoint.host, endpoint.port)

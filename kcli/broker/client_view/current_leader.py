"""The current leader of a partition, in a response to Produce or Fetch with the error NOT_LEADER_OR_FOLLOWER, or to
Fetch with FENCED_LEADER_EPOCH. It saves the client a Metadata request (KIP-951).

    partition   current leader: id int32, epoch int32 | tagged fields
    response    endpoints of those leaders: id int32, host, port int32, rack | tagged fields

Only leaders that are not fenced have an endpoint. Source: KafkaApis.getCurrentLeader.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from formats.varint import uvarint
from kcli.broker.wire.layout import NO_TAGS, length, string

if TYPE_CHECKING:
    from kcli.metadata.image import MetadataImage

UNKNOWN: Final = -1
_ID_EPOCH: Final = struct.Struct(">iix")
_INT32: Final = struct.Struct(">i")


class Leader(NamedTuple):
    """A partition's leader and its leader epoch; both are -1 if unknown."""

    id: int
    epoch: int


def current_leader(image: MetadataImage, topic: str, number: int) -> Leader:
    """Return the leader of a partition by this broker's metadata image."""
    known = image.topics.get(topic)
    state = None if known is None else known.partitions.get(number)
    return Leader(UNKNOWN, UNKNOWN) if state is None else Leader(state.leader, state.leader_epoch)


def leader_field(leader: Leader) -> bytes:
    """Return the bytes of the tagged field `current_leader`, without its tag and size."""
    return _ID_EPOCH.pack(*leader)


def endpoints_field(image: MetadataImage, listener: str, leaders: Iterable[Leader]) -> bytes:
    """Return the bytes that follow the other fields of a response: the endpoints of leaders as the only tagged field
    (tag 0), or no tagged field if there are none.

    listener: that of the client's connection.
    """
    found = bytearray()
    count = 0
    for broker_id in sorted({leader.id for leader in leaders}):
        broker = image.brokers.get(broker_id)
        endpoint = None if broker is None or broker.fenced else broker.endpoints.get(listener)
        if broker is None or endpoint is None:
            continue
        count += 1
        found += _INT32.pack(broker_id) + string(endpoint.host, flexible=True) + _INT32.pack(endpoint.port)
        found += string(broker.rack, flexible=True) + NO_TAGS
    if not count:
        return NO_TAGS
    value = length(count, flexible=True) + found
    return b"\1\0" + uvarint(len(value)) + value

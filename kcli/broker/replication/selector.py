"""The preferred read replica of a consumer: a replica in the consumer's rack, if there is one (KIP-392).

It is the leader unless replica.selector.class is RackAwareReplicaSelector, the consumer has a rack, and the leader is
not in that rack. Of several followers in the rack it is the one with the largest log end offset; if several have that
offset, the one that was caught up last. Source: RackAwareReplicaSelector, ReplicaManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.broker.partition.partitions import Partition
    from kcli.metadata.image import MetadataImage


def nearest_replica(
    image: MetadataImage, partition: Partition, rack: str, offset: int, listener: str, now_ms: int
) -> int | None:
    """Return the id of a follower in the ISR that is in `rack` and whose log contains `offset`, or ends at it; None if
    the consumer is to read from the leader: the leader is in `rack` itself, or there is no such follower. listener: the
    listener to which the consumer connects; the follower's broker must have an endpoint for that listener."""
    leadership = partition.leadership
    if leadership is None or not rack or _rack(image, partition.node_id, listener) == rack:
        return None
    near = [
        each
        for each in leadership.followers.values()
        if each.broker_id in leadership.isr
        and each.log_start_offset <= offset <= each.log_end_offset
        and _rack(image, each.broker_id, listener) == rack
    ]
    best = max(
        near, key=lambda each: (each.log_end_offset, each.last_caught_up_ms - now_ms, -each.broker_id), default=None
    )
    return None if best is None else best.broker_id


def _rack(image: MetadataImage, broker_id: int, listener: str) -> str | None:
    broker = image.brokers.get(broker_id)
    return broker.rack if broker is not None and not broker.fenced and listener in broker.endpoints else None

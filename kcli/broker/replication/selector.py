"""Which replica a consumer is to read from: one in its own rack, where there is one (KIP-392).

Only where replica.selector.class is RackAwareReplicaSelector; else, and without a rack, the leader. Of several the one
that has most, then the one that had all the last. Source: RackAwareReplicaSelector, ReplicaManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kcli.broker.logs.partitions import Partition
    from kcli.metadata.image import MetadataImage

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def nearest_replica(
    image: MetadataImage, partition: Partition, rack: str, offset: int, listener: str, now_ms: int
) -> int | None:
    """The follower in sync that is as near as can be and has the offset; None: the leader."""
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

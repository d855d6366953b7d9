"""The topic `__remote_log_metadata`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.coordinators.context import CoordinatorContext
    from kcli.broker.network.peers import Peer
    from kcli.tier.cache import SegmentCache
    from kcli.tier.segment import PartitionDeleteState, TieredPartition


class NotReady(KcliError):
    """The records about a partition are not all replayed yet, or the partition is not followed."""


class MetadataFailed(KcliError):
    """A record was not appended, or not read again, in time. It may still be in the topic, or get there."""


class TopicSettings(NamedTuple):
    """How the topic is made, and waited for: the configurations below rlmm.config. of the same meaning.

    partitions: remote.log.metadata.topic.num.partitions. replication_factor:
    remote.log.metadata.topic.replication.factor. retention_ms: remote.log.metadata.topic.retention.ms, -1: for ever.
    publish_wait_ms: remote.log.metadata.publish.wait.ms, how long `append` waits until its record is read again.
    """

    partitions: int = 50
    replication_factor: int = 3
    retention_ms: int = -1
    publish_wait_ms: int = 120_000


class MetadataTopic:
    """The records about the partitions that this broker follows. controller: the channel to the active controller."""

    def __init__(self, context: CoordinatorContext, controller: Peer, settings: TopicSettings) -> None:
        raise NotImplementedError

    def start(self) -> None:
        """Begin to read, and create the topic when it is needed. Call it once this broker is unfenced."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop reading. Waiting calls raise NotReady or MetadataFailed."""
        raise NotImplementedError

    def follow(self, partition: TieredPartition) -> None:
        """Replay the records about a partition from now on, from the topic's start; nothing if it is followed."""
        raise NotImplementedError

    def forget(self, partition: TieredPartition) -> None:
        """Replay the records about a partition no longer. Whoever waits for it gets NotReady or MetadataFailed."""
        raise NotImplementedError

    def is_ready(self, partition: TieredPartition) -> bool:
        """Whether `cache` has the segments of a partition."""
        raise NotImplementedError

    async def ready(self, partition: TieredPartition) -> None:
        """Wait until all records that were in the topic when the partition was followed are replayed, however long it
        takes. Raises NotReady if the partition is not followed, or is forgotten meanwhile."""
        raise NotImplementedError

    def cache(self, partition: TieredPartition) -> SegmentCache:
        """Return the segments of a partition. Each call returns the current cache; do not keep it across an await.
        Raises NotReady."""
        raise NotImplementedError

    def deletion(self, partition: TieredPartition) -> PartitionDeleteState | None:
        """Return how far the deletion of a partition has come, None without one. Raises NotReady."""
        raise NotImplementedError

    async def append(self, partition: TieredPartition, value: Mapping[str, Any], kind: str) -> None:
        """Append a record with acks=all, and wait until it is replayed here, as `cache` then shows.

        kind, value: see kcli.tier.records. The partition must be followed, but need not be ready. Raises MetadataFailed,
        and BadValue or BadLength for a value that the record's schema does not allow.
        """
        raise NotImplementedError

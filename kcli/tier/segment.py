"""A segment in the tier, as the records of `__remote_log_metadata` describe it, and the states that it goes through.

    RemoteLogSegmentMetadataRecord        a copy begins: all fields, state COPY_SEGMENT_STARTED
    RemoteLogSegmentMetadataUpdateRecord  the segment's next state, time, broker and custom metadata

    (none) -> COPY_SEGMENT_STARTED -> COPY_SEGMENT_FINISHED -> DELETE_SEGMENT_STARTED -> DELETE_SEGMENT_FINISHED
                      |                                                ^
                      +------------------------------------------------+
    a state may also follow itself, as a broker repeats a step after a failure

Source: RemoteLogSegmentMetadata, RemoteLogSegmentState, RemotePartitionDeleteState; KIP-405.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

from formats.checkpoint import EpochEntry
from formats.errors import BadValue
from kcli.metadata.topic_names import fault


class SegmentState(IntEnum):
    """The state of a segment; the value is its number in the records."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


class PartitionDeleteState(IntEnum):
    """The state of the deletion of a partition in the tier; the value is its number in the records."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2


TRANSITIONS: Final[Mapping[SegmentState | None, frozenset[SegmentState]]] = {
    None: frozenset((SegmentState.COPY_SEGMENT_STARTED,)),
    SegmentState.COPY_SEGMENT_STARTED: frozenset(
        (SegmentState.COPY_SEGMENT_STARTED, SegmentState.COPY_SEGMENT_FINISHED, SegmentState.DELETE_SEGMENT_STARTED)
    ),
    SegmentState.COPY_SEGMENT_FINISHED: frozenset(
        (SegmentState.COPY_SEGMENT_FINISHED, SegmentState.DELETE_SEGMENT_STARTED)
    ),
    SegmentState.DELETE_SEGMENT_STARTED: frozenset(
        (SegmentState.DELETE_SEGMENT_STARTED, SegmentState.DELETE_SEGMENT_FINISHED)
    ),
}
"""The states that may follow a state; a segment that is not known has the state None."""


RESERVED_IDS: Final = frozenset(("A" * 22, "A" * 20 + "AQ"))
"""The ids 0 and 1, which Kafka gives to no tiered topic."""
PARTITIONS_KEPT: Final = 64
"""Of how many partitions the check is kept: a name may have 32 KB, and records of one partition follow each other."""
NAME_SHOWN: Final = 60
"""How much of a name that no topic has a message shows."""


class TieredPartition(NamedTuple):
    """A partition by its topic's name and id (22 characters of base64): a topic that was deleted and created again has
    the same name, another id, and other segments in the tier."""

    topic: str
    partition: int
    topic_id: str

    def __str__(self) -> str:
        """The name of the partition's directory in a broker's log directory: `topic-0`."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSegment:
    """A segment in the tier. Offsets are absolute, both inclusive.

    id: 22 characters of base64. leader_epochs: by epoch, each with the offset of its first record in the segment.
    size: bytes of the .log object; has_txn_index: whether there is a .txnindex object. state: None if no metadata is
    known, because the tier is read without a broker's log directory; max_timestamp_ms is then None, too.
    """

    partition: TieredPartition
    id: str
    start_offset: int
    end_offset: int
    size: int
    leader_epochs: tuple[EpochEntry, ...]
    has_txn_index: bool
    state: SegmentState | None = None
    max_timestamp_ms: int | None = None
    event_timestamp_ms: int | None = None
    broker_id: int | None = None
    custom_metadata: bytes | None = None

    @classmethod
    def of_record(cls, value: Mapping[str, Any]) -> RemoteSegment:
        """Return the segment that a RemoteLogSegmentMetadataRecord describes. Raises BadValue for a record from which
        Kafka cannot make a segment."""
        start, end = value["startOffset"], value["endOffset"]
        by_epoch = {each["leaderEpoch"]: each["offset"] for each in value["segmentLeaderEpochs"]}
        if start < 0:
            raise BadValue(f"start offset {start:,}")
        if end < start:
            raise BadValue(f"end offset {end:,} is below the start offset {start:,}")
        if not by_epoch:
            raise BadValue("no leader epoch")
        return cls(
            partition=partition_of(value["remoteLogSegmentId"]["topicIdPartition"]),
            id=value["remoteLogSegmentId"]["id"],
            start_offset=start,
            end_offset=end,
            size=value["segmentSizeInBytes"],
            leader_epochs=tuple(EpochEntry(epoch, by_epoch[epoch]) for epoch in sorted(by_epoch)),
            has_txn_index=not value["txnIndexEmpty"],
            state=state_of(value),
            max_timestamp_ms=value["maxTimestampMs"],
            event_timestamp_ms=value["eventTimestampMs"],
            broker_id=value["brokerId"],
            custom_metadata=value["customMetadata"],
        )

    def updated(self, value: Mapping[str, Any]) -> RemoteSegment:
        """Return the segment after a RemoteLogSegmentMetadataUpdateRecord. Raises BadValue for an unknown state."""
        return replace(
            self,
            state=state_of(value),
            event_timestamp_ms=value["eventTimestampMs"],
            broker_id=value["brokerId"],
            custom_metadata=value["customMetadata"],
        )

    def last_offset_of(self, epoch: int) -> int:
        """Return the last offset in the segment that an epoch may have: the one before the next epoch's first."""
        if not self.leader_epochs or self.leader_epochs[-1].epoch <= epoch:  # the last epoch
            return self.end_offset
        behind = bisect_right(self.leader_epochs, epoch, key=lambda each: each.epoch)
        return self.leader_epochs[behind].start_offset - 1 if behind < len(self.leader_epochs) else self.end_offset


def partition_of(entry: Mapping[str, Any]) -> TieredPartition:
    """Return the partition of a TopicIdPartitionEntry. Raises BadValue for an entry that no partition can have: the
    names of its objects could be paths out of the store."""
    return _partition(entry["name"], entry["partition"], entry["id"])


@lru_cache(PARTITIONS_KEPT)
def _partition(name: str, number: int, topic_id: str) -> TieredPartition:
    if fault(name) is not None:
        raise BadValue(f"{name[:NAME_SHOWN]!r} is no name of a topic")
    if number < 0 or topic_id in RESERVED_IDS:
        raise BadValue(f"no topic has partition {number} and the id {topic_id}")
    return TieredPartition(name, number, topic_id)


def state_of(value: Mapping[str, Any]) -> SegmentState:
    """Return the state of a segment's record. Raises BadValue for a number that no state has."""
    number = value["remoteLogSegmentState"]
    try:
        return SegmentState(number)
    except ValueError:
        raise BadValue(f"no state of a segment has the number {number}") from None

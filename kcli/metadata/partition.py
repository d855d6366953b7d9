"""Topics and partitions in the cluster's metadata.

    PartitionRecord        the whole state of a partition
    PartitionChangeRecord  its changed fields: null (leader -2, recovery state -1) leaves a field unchanged; a leader,
                           even the same one, starts a new leader epoch; every change adds one to the partition epoch

A Partition is immutable: each record makes a new one, so that the old and the new state can be compared.
Source: PartitionRegistration, DirectoryId, LeaderRecoveryState; KIP-631, KIP-858 (directories), KIP-966 (eligible
leader replicas, ELR).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from formats.message import uuid_bytes, uuid_text

NO_LEADER: Final = -1
NO_LEADER_CHANGE: Final = -2
RECOVERED: Final = 0
RECOVERING: Final = 1

MIGRATING: Final = UUID(int=0)
"""The directory of a replica that was placed before log directories had ids."""
UNASSIGNED: Final = UUID(int=1)
"""The directory of a replica whose broker has several log directories and has not chosen one yet."""
LOST: Final = UUID(int=2)
"""The directory of a replica whose log directory has failed."""


def to_uuid(text: str) -> UUID:
    """Return the UUID of Kafka's 22 base64 characters. Raises BadValue."""
    return UUID(bytes=uuid_bytes(text))


def from_uuid(value: UUID) -> str:
    """Return the UUID as Kafka's 22 base64 characters."""
    return uuid_text(value.bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """The state of one partition. Replicas are broker ids; `directories` has one directory id for each of
    `replicas`."""

    replicas: tuple[int, ...]
    directories: tuple[UUID, ...]
    isr: tuple[int, ...]
    leader: int = NO_LEADER
    leader_epoch: int = 0
    partition_epoch: int = 0
    leader_recovery_state: int = RECOVERED
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @classmethod
    def of(cls, record: dict[str, Any]) -> Partition:
        """Return the partition of a PartitionRecord. Raises BadValue for a directory that is no UUID."""
        replicas = tuple(record["replicas"])
        return cls(
            replicas=replicas,
            directories=_directories(record.get("directories"), replicas),
            isr=tuple(record["isr"]),
            leader=record["leader"],
            leader_epoch=record["leaderEpoch"],
            partition_epoch=record["partitionEpoch"],
            leader_recovery_state=record.get("leaderRecoveryState", RECOVERED),
            adding_replicas=tuple(record.get("addingReplicas", ())),
            removing_replicas=tuple(record.get("removingReplicas", ())),
            elr=tuple(record.get("eligibleLeaderReplicas") or ()),
            last_known_elr=tuple(record.get("lastKnownElr") or ()),
        )

    def changed(self, record: dict[str, Any]) -> Partition:
        """Return the partition after a PartitionChangeRecord. Raises BadValue for a directory that is no UUID."""

        def new(name: str, old: tuple[int, ...]) -> tuple[int, ...]:
            value = record.get(name)
            return old if value is None else tuple(value)

        replicas = new("replicas", self.replicas)
        directories = record.get("directories")
        leader = record.get("leader", NO_LEADER_CHANGE)
        recovery = record.get("leaderRecoveryState", -1)
        return Partition(
            replicas=replicas,
            directories=_directories(directories, replicas)
            if directories is not None
            else self.directories
            if len(self.directories) == len(replicas)
            else _directories(None, replicas),
            isr=new("isr", self.isr),
            leader=self.leader if leader == NO_LEADER_CHANGE else leader,
            leader_epoch=self.leader_epoch + (leader != NO_LEADER_CHANGE),
            partition_epoch=self.partition_epoch + 1,
            leader_recovery_state=self.leader_recovery_state if recovery == -1 else recovery,
            adding_replicas=new("addingReplicas", self.adding_replicas),
            removing_replicas=new("removingReplicas", self.removing_replicas),
            elr=new("eligibleLeaderReplicas", self.elr),
            last_known_elr=new("lastKnownElr", self.last_known_elr),
        )

    def directory(self, broker_id: int) -> UUID:
        """Return the directory of the broker's replica. Raises ValueError if the broker has no replica."""
        return self.directories[self.replicas.index(broker_id)]


def _directories(texts: list[str] | None, replicas: tuple[int, ...]) -> tuple[UUID, ...]:
    return tuple(to_uuid(text) for text in texts) if texts else (MIGRATING,) * len(replicas)


@dataclass(slots=True)
class Topic:
    """A topic and its partitions by number."""

    name: str
    id: UUID
    partitions: dict[int, Partition] = field(default_factory=dict)


def sole_replica_record(
    topic_id: str, number: int, node_id: int, directory_id: str, leader_epoch: int
) -> dict[str, Any]:
    """Return the PartitionRecord of a partition whose only replica, its leader, is on a node."""
    return {
        "partitionId": number,
        "topicId": topic_id,
        "replicas": [node_id],
        "isr": [node_id],
        "leader": node_id,
        "leaderEpoch": leader_epoch,
        "partitionEpoch": 0,
        "leaderRecoveryState": RECOVERED,
        "directories": [directory_id],
    }

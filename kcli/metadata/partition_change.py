"""From a partition and what shall change in it to a PartitionChangeRecord: who leads now, and who may lead later.

    ISR (in-sync replicas)              have every committed record: any of them may lead
    ELR (eligible leader replicas)      left the ISR when it was below min.insync.replicas: they have every committed
                                        record too, and may lead once the ISR is empty
    last known ELR                      the last leader: leads again where ISR and ELR are empty (an election that may
                                        have lost records: the leader is RECOVERING)

Only an online replica is elected: first the leader that is, then in the order of the replicas; a preferred election
begins with the first of them; an unclean one ends with any. Source: PartitionChangeBuilder; KIP-966 (ELR).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any
from uuid import UUID

from kcli.metadata import metadata_version as levels
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.partition import NO_LEADER, NO_LEADER_CHANGE, RECOVERING, Topic, from_uuid
from kcli.metadata.placement import is_online
from kcli.metadata.snapshot import ELR_VERSION


class Election(Enum):
    """Which replicas may lead."""

    PREFERRED = auto()
    ONLINE = auto()
    UNCLEAN = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What shall change.

    isr: the new one, None for no change; unclean_shutdown: brokers that may have lost records; directories: where
    brokers have put their replicas.
    """

    election: Election = Election.ONLINE
    isr: tuple[int, ...] | None = None
    unclean_shutdown: tuple[int, ...] = ()
    directories: Mapping[int, UUID] = field(default_factory=dict)


def change_record(
    image: MetadataImage,
    topic: Topic,
    number: int,
    change: Change,
    *,
    min_isr: int,
    may_lead: Callable[[int], bool],
) -> Record | None:
    """The record of a change and of the election that goes with it; None where nothing changes.

    min_isr: min.insync.replicas; may_lead: is the broker up? The partition must be there.
    """
    value = _Election(image, topic, number, change, min_isr, may_lead).run()
    if not value:
        return None
    name = {"partitionId": number, "topicId": from_uuid(topic.id)}
    return "PartitionChangeRecord", levels.partition_record_version(image.metadata_version), {**name, **value}


class _Election:
    def __init__(
        self,
        image: MetadataImage,
        topic: Topic,
        number: int,
        change: Change,
        min_isr: int,
        may_lead: Callable[[int], bool],
    ) -> None:
        self.image, self.change, self._may_lead = image, change, may_lead
        self.partition = partition = topic.partitions[number]
        self.has_elr = image.features.get(ELR_VERSION, 0) > 0
        self.isr = partition.isr if change.isr is None else change.isr
        self.elr = partition.elr
        if self.has_elr:
            self.elr = () if len(self.isr) >= min(min_isr, len(partition.replicas)) else self._eligible()

    def _eligible(self) -> tuple[int, ...]:
        candidates = sorted({*self.partition.elr, *self.partition.isr})
        return tuple(each for each in candidates if each not in self.isr and each not in self.change.unclean_shutdown)

    def run(self) -> dict[str, Any]:
        """The fields that change."""
        partition, value = self.partition, dict[str, Any]()
        leader, unclean = self._elect()
        if leader != partition.leader:
            if leader in self.elr:
                self.isr, self.elr = (leader,), tuple(each for each in self.elr if each != leader)
            value["leader"] = leader
            if unclean:
                value["isr"] = [leader]
                if partition.leader_recovery_state != RECOVERING:
                    value["leaderRecoveryState"] = RECOVERING
        elr = self.elr if self.has_elr and "isr" not in value else ()
        if elr != partition.elr:
            value["eligibleLeaderReplicas"] = list(elr)
        if "isr" not in value and (self.isr or self.has_elr) and self.isr != partition.isr:
            value["isr"] = list(self.isr)
        shrinks = "isr" in value and not set(partition.isr) <= set(value["isr"])
        if shrinks and self.image.metadata_version < levels.NO_EPOCH_BUMP_ON_SHRINK:
            value.setdefault("leader", partition.leader)
        value.update(self._last_known(value.get("leader", NO_LEADER_CHANGE)))
        places = zip(partition.replicas, partition.directories, strict=True)
        directories = tuple(self.change.directories.get(replica, known) for replica, known in places)
        if directories != partition.directories:
            value["directories"] = [from_uuid(each) for each in directories]
        return value

    def _elect(self) -> tuple[int, bool]:
        """The new leader, and whether it may lack committed records."""
        replicas, leader = self.partition.replicas, self.partition.leader
        preferred = self.change.election is Election.PREFERRED
        order = (replicas[0], leader, *replicas[1:]) if preferred else (leader, *replicas)
        for each in order:
            if each in (self.isr or self.elr) and self._is_online(each):
                return each, False
        last = self.partition.last_known_elr
        if self.has_elr and not self.isr and not self.elr and len(last) == 1 and self._is_online(last[0]):
            return last[0], True
        if self.change.election is Election.UNCLEAN:
            for each in replicas:
                if self._is_online(each):
                    return each, True
        return NO_LEADER, False

    def _is_online(self, broker_id: int) -> bool:
        if broker_id not in self.partition.replicas or not self._may_lead(broker_id):
            return False
        return is_online(self.image, broker_id, self.partition.directory(broker_id))

    def _last_known(self, leader: int) -> dict[str, Any]:
        if self.has_elr and leader == NO_LEADER and not self.partition.last_known_elr:
            return {"lastKnownElr": [self.partition.leader]}
        if self.has_elr and leader >= 0 and self.partition.last_known_elr:
            return {"lastKnownElr": []}
        return {}

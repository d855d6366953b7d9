"""The PartitionChangeRecord of a change of a partition, with the leader election that the change causes.

    ISR (in-sync replicas)              have every committed record, so any of them may lead
    ELR (eligible leader replicas)      left the ISR when it was below min.insync.replicas: they have every committed
                                        record too, and may lead once the ISR is empty
    last known ELR                      the last leader: it may lead if ISR and ELR are empty; as it may lack committed
                                        records, the leader recovery state becomes RECOVERING

Only an online replica is elected: the current leader if possible, else the first in the order of the replicas. A
preferred election tries the first replica before the current leader; an unclean election takes any online replica if
no other can lead.

A reassignment begins with a change that sets the adding and removing replicas. It ends with the first change after
which all adding replicas are in the ISR (all staying replicas, if it removes more than it adds): that change takes the
removing replicas out of replicas and ISR. If replicas are removed, a leader that stays starts a new leader epoch.
Source: PartitionChangeBuilder, PartitionReassignmentReplicas; KIP-455, KIP-966.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any
from uuid import UUID

from kcli.metadata import metadata_version as levels
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.partition import NO_LEADER, NO_LEADER_CHANGE, RECOVERING, Topic, from_uuid
from kcli.metadata.placement import default_directory, is_online
from kcli.metadata.snapshot import ELR_VERSION


class Election(Enum):
    """The kind of a leader election. ONLINE: an online replica of the ISR, or of the ELR if the ISR is empty, may lead;
    the current leader is preferred. PREFERRED: as ONLINE, but the first of the partition's replicas is preferred.
    UNCLEAN: as ONLINE, but if no such replica is there, any online replica may lead."""

    PREFERRED = auto()
    ONLINE = auto()
    UNCLEAN = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of a partition.

    isr, replicas, adding, removing, recovery_state: the new values, None for no change. unclean_shutdown: brokers that
    may have lost records, and so leave the ELR. directories: directory ids of replicas, by broker.
    """

    election: Election = Election.ONLINE
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    recovery_state: int | None = None
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
    """Return the record of a change and of the election that it causes; None if nothing changes.

    number: of an existing partition. min_isr: the topic's min.insync.replicas. may_lead(broker_id): whether a broker
    may lead.
    """
    value = _Election(image, topic, number, change, min_isr, may_lead).run()
    if not value:
        return None
    name = {"partitionId": number, "topicId": from_uuid(topic.id)}
    return "PartitionChangeRecord", levels.partition_record_version(image.metadata_version), {**name, **value}


def completed(
    replicas: Sequence[int], isr: Sequence[int], adding: Sequence[int], removing: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the replicas and the ISR at the end of a reassignment; None if no reassignment is in progress, or it
    cannot end yet."""
    if not adding and not removing:
        return None
    left = tuple(each for each in isr if each not in removing)
    staying = tuple(each for each in replicas if each not in removing)
    if removing and not (left and staying):
        return None
    if not set(adding) <= set(left) or (len(adding) < len(removing) and not set(staying) <= set(left)):
        return None
    return staying, left


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
        self.replicas = partition.replicas if change.replicas is None else change.replicas
        self.adding = partition.adding_replicas if change.adding is None else change.adding
        self.removing = partition.removing_replicas if change.removing is None else change.removing
        if (end := completed(self.replicas, self.isr, self.adding, self.removing)) is not None:
            self.replicas, self.isr = end
            self.adding = self.removing = ()
        self.elr = partition.elr
        if self.has_elr:
            self.elr = () if len(self.isr) >= min_isr else self._eligible()

    def _eligible(self) -> tuple[int, ...]:
        candidates = sorted({*self.partition.elr, *self.partition.isr})
        return tuple(each for each in candidates if each not in self.isr and each not in self.change.unclean_shutdown)

    def run(self) -> dict[str, Any]:
        """Return the changed fields of the partition, as PartitionChangeRecord has them."""
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
        elif not set(partition.replicas) <= set(self.replicas):
            value["leader"] = partition.leader
        elr = self.elr if self.has_elr and "isr" not in value else ()
        if elr != partition.elr:
            value["eligibleLeaderReplicas"] = list(elr)
        if "isr" not in value and (self.isr or self.has_elr) and self.isr != partition.isr:
            value["isr"] = list(self.isr)
        shrinks = "isr" in value and not set(partition.isr) <= set(value["isr"])
        if shrinks and self.image.metadata_version < levels.NO_EPOCH_BUMP_ON_SHRINK:
            value.setdefault("leader", partition.leader)
        value.update(self._last_known(value.get("leader", NO_LEADER_CHANGE)))
        value.update(self._assignment())
        recovery_state = self.change.recovery_state
        if recovery_state is not None and recovery_state != partition.leader_recovery_state:
            value["leaderRecoveryState"] = recovery_state
        return value

    def _assignment(self) -> dict[str, Any]:
        """The changed fields of the assignment: directories, replicas, removing and adding replicas."""
        partition, value = self.partition, dict[str, Any]()
        if self.image.metadata_version >= levels.DIRECTORIES:
            known = dict(zip(partition.replicas, partition.directories, strict=True)) | dict(self.change.directories)
            directories = tuple(
                known[each] if each in known else default_directory(self.image, each) for each in self.replicas
            )
            if directories != partition.directories:
                value["directories"] = [from_uuid(each) for each in directories]
        if self.replicas != partition.replicas:
            value["replicas"] = list(self.replicas)
        if self.removing != partition.removing_replicas:
            value["removingReplicas"] = list(self.removing)
        if self.adding != partition.adding_replicas:
            value["addingReplicas"] = list(self.adding)
        return value

    def _elect(self) -> tuple[int, bool]:
        """Return the elected leader, or NO_LEADER, and whether that leader may lack committed records."""
        replicas, leader = self.replicas, self.partition.leader
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

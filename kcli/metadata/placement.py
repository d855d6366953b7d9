"""Placement of the replicas of new partitions on brokers and log directories.

Replicas go to brokers of one rack after another, and each partition starts one rack further, so that leaders and
replicas spread evenly; the first replica is never on a fenced broker. On a broker with one log directory the replica is
placed there; a broker with several chooses the directory later (KIP-858). Source: StripedReplicaPlacer,
ClusterControlManager; KIP-36 (racks), KIP-1066 (cordoned directories).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import LOST, MIGRATING, UNASSIGNED, Partition
from kcli.metadata.result import Refused
from kcli.protocol.error_code import ErrorCode


def place(image: MetadataImage, partitions: int, replication_factor: int, random: Random) -> list[list[int]]:
    """Return the brokers of each new partition. partitions: their number. random: decides the order of racks and
    brokers. Raises Refused(INVALID_REPLICATION_FACTOR)."""
    usable = [each for each in image.brokers.values() if not each.in_controlled_shutdown]
    brokers = [each for each in usable if each.has_uncordoned_directory]
    if replication_factor <= 0:
        reason = f"Invalid replication factor {replication_factor}: the replication factor must be positive."
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    if all(each.fenced for each in brokers):
        reason = "All brokers are currently fenced, or have all their log directories cordoned."
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    if replication_factor > len(brokers):
        reason = (
            f"The target replication factor of {replication_factor} cannot be reached because only {len(brokers)} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    racks: dict[str | None, _Rack] = {}
    for broker in sorted(brokers, key=lambda each: each.id):
        rack = racks.setdefault(broker.rack, _Rack())
        (rack.fenced if broker.fenced else rack.unfenced).brokers.append(broker.id)
    return _Racks([racks[name] for name in sorted(racks, key=lambda name: name or "")], random).place(
        partitions, replication_factor
    )


@dataclass(slots=True)
class _Ring:
    """The unfenced or the fenced brokers of a rack, in a circle. `next` returns the brokers in the order of the circle,
    each at most once for one partition, and None when all were returned; for the next partition it begins one broker
    further on. epoch: the number of the current partition. offset: the index of its first broker. taken: how many
    brokers were returned for it."""

    brokers: list[int] = field(default_factory=list)
    offset: int = 0
    taken: int = 0
    epoch: int = 0

    def next(self, epoch: int) -> int | None:
        if not self.brokers:
            return None
        if epoch != self.epoch:
            self.epoch, self.taken, self.offset = epoch, 0, (self.offset + 1) % len(self.brokers)
        if self.taken == len(self.brokers):
            return None
        self.taken += 1
        return self.brokers[(self.taken - 1 + self.offset) % len(self.brokers)]


@dataclass(slots=True)
class _Rack:
    unfenced: _Ring = field(default_factory=_Ring)
    fenced: _Ring = field(default_factory=_Ring)

    def next(self, epoch: int) -> int | None:
        broker = self.unfenced.next(epoch)
        return self.fenced.next(epoch) if broker is None else broker


class _Racks:
    def __init__(self, racks: list[_Rack], random: Random) -> None:
        self._racks, self._random = racks, random
        self._epoch = 0
        self._offset = random.randrange(len(racks))
        self._rings = [ring for rack in racks for ring in (rack.unfenced, rack.fenced)]
        for ring in self._rings:
            ring.offset = random.randrange(len(ring.brokers) or 1)

    def place(self, partitions: int, replication_factor: int) -> list[list[int]]:
        unfenced = sum(len(rack.unfenced.brokers) for rack in self._racks)
        placed = []
        for _ in range(partitions):
            if self._epoch == unfenced > 1:
                self._shuffle()
            placed.append(self._partition(replication_factor))
        return placed

    def _partition(self, replication_factor: int) -> list[int]:
        """The brokers of one partition: the leader from the first rack that has an unfenced broker, then one broker of
        each rack after another."""
        count = len(self._racks)
        brokers: list[int] = []
        first = self._offset % count
        while (leader := self._racks[first].unfenced.next(self._epoch)) is None:
            first = (first + 1) % count
        brokers.append(leader)
        at, skip = self._offset % count, first
        while len(brokers) < replication_factor:
            if at == skip:
                skip = -1
            elif (broker := self._racks[at].next(self._epoch)) is not None:
                brokers.append(broker)
            at = (at + 1) % count
        self._epoch += 1
        self._offset = (self._offset + 1) % count
        return brokers

    def _shuffle(self) -> None:
        self._random.shuffle(self._racks)
        for ring in self._rings:
            self._random.shuffle(ring.brokers)
        self._epoch = 0


def check_assignment(image: MetadataImage, brokers: list[int], replication_factor: int | None) -> None:
    """Raise Refused(INVALID_REPLICA_ASSIGNMENT) unless the brokers that a client has chosen for one partition are all
    registered, each is named once, and their number is `replication_factor` (None: any number but 0)."""

    def refuse(reason: str) -> Refused:
        return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {reason}")

    if not brokers:
        raise refuse("an empty replica list.")
    previous = None
    for broker in sorted(brokers):
        if broker not in image.brokers:
            raise refuse(f"broker {broker}, but no such broker is registered.")
        if broker == previous:
            raise refuse(f"the broker {broker} more than once.")
        previous = broker
    if replication_factor is not None and len(brokers) != replication_factor:
        raise refuse(
            f"a partition with {len(brokers)} replica(s), but this is not consistent with previous partitions, which "
            f"have {replication_factor} replica(s)."
        )


def new_partition(image: MetadataImage, brokers: list[int]) -> Partition | None:
    """Return a new partition on these brokers, led by the first active one; None if none of them is active."""
    isr = tuple(each for each in brokers if is_active(image, each))
    if not isr:
        return None
    directories = tuple(default_directory(image, each) for each in brokers)
    return Partition(replicas=tuple(brokers), directories=directories, isr=isr, leader=isr[0])


def is_active(image: MetadataImage, broker_id: int) -> bool:
    """Whether the broker is registered, and may lead and be in ISRs."""
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.active


def default_directory(image: MetadataImage, broker_id: int) -> UUID:
    """Return the directory id of a new replica on the broker: the id of its only log directory, UNASSIGNED if it has
    several, MIGRATING if its registration has no directory ids."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return UNASSIGNED
    if not broker.directories:
        return MIGRATING
    return broker.directories[0] if len(broker.directories) == 1 else UNASSIGNED


def is_online(image: MetadataImage, broker_id: int, directory: UUID) -> bool:
    """Whether a replica in this directory of the broker may be online: the broker's registration has the directory id
    or no ids at all, or the id is UNASSIGNED or MIGRATING."""
    broker = image.brokers.get(broker_id)
    if broker is None or directory == LOST:
        return False
    return directory in (UNASSIGNED, MIGRATING) or not broker.directories or directory in broker.directories

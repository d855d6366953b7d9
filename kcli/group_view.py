"""Groups as people are shown them, whoever tells of them: a coordinator, or the files of a log directory.

Names of states and types are Kafka's own. Assigned partitions are in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kcli.errors import KcliError

STATES = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "Stable",
    "Empty",
    "Dead",
    "Unknown",
)
TYPES = ("Classic", "Consumer", "Share", "Streams")

Place = tuple[str, int]
"""A topic and the number of a partition."""


class NoSuchGroup(KcliError):
    """There is no group of that name."""

    def __init__(self, group: str) -> None:
        super().__init__(f"{group}: GROUP_ID_NOT_FOUND: there is no such group")


class Listing(NamedTuple):
    """A group in a list."""

    group: str
    type: str
    state: str


class Committed(NamedTuple):
    """An offset that was committed. leader_epoch: None where none was told."""

    offset: int
    leader_epoch: int | None
    metadata: str


class Member(NamedTuple):
    """A member and what it has. target: what it shall have; epoch: of the target assignment that it is at. Both None
    where the protocol knows no such thing."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[Place, ...]
    target: tuple[Place, ...] | None = None
    epoch: int | None = None


class Group(NamedTuple):
    """A group and who is in it. assignor, coordinator: None where there is none, or none is known. epoch, target_epoch:
    how often it has changed, and when the target assignment was made, None where the protocol knows no such thing."""

    id: str
    type: str
    state: str
    assignor: str | None
    coordinator: str | None
    members: tuple[Member, ...]
    epoch: int | None = None
    target_epoch: int | None = None


class Progress(NamedTuple):
    """How far a group is in a partition: what is committed, where the partition ends, who reads it. None: not known."""

    topic: str
    partition: int
    committed: Committed | None
    log_end_offset: int | None
    member: Member | None

    @property
    def lag(self) -> int | None:
        """Offsets between what is committed and the end."""
        if self.committed is None or self.log_end_offset is None:
            return None
        return self.log_end_offset - self.committed.offset


def places(group: Group, committed: Iterable[Place]) -> list[Place]:
    """The partitions that a group has to do with: assigned, or with an offset."""
    return sorted({*committed, *(place for member in group.members for place in member.assignment)})


def progress(group: Group, committed: Mapping[Place, Committed], ends: Mapping[Place, int]) -> list[Progress]:
    """A row for each of these partitions."""
    readers = {place: member for member in group.members for place in member.assignment}
    return [
        Progress(*place, committed.get(place), ends.get(place), readers.get(place))
        for place in places(group, committed)
    ]


def places_text(assigned: Iterable[Place]) -> str:
    """Partitions on one line, as kafka-consumer-groups has them: orders:0,1;payments:3."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(assigned):
        by_topic.setdefault(topic, []).append(number)
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in by_topic.items())

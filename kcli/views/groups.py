"""Groups as commands show them, read from their coordinators or from the files of log directories.

Names of states and types are Kafka's own. Assigned partitions are sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kcli.errors import KcliError
from kcli.protocol.topic_partition import TopicPartition

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


class NoSuchGroup(KcliError):
    """There is no group of that name."""

    def __init__(self, group: str) -> None:
        super().__init__(f"{group}: GROUP_ID_NOT_FOUND: there is no such group")


class Listing(NamedTuple):
    """A group in a list of groups: its id, type and state."""

    group: str
    type: str
    state: str


class Committed(NamedTuple):
    """A committed offset. leader_epoch: None if the OffsetCommit had none."""

    offset: int
    leader_epoch: int | None
    metadata: str


class Member(NamedTuple):
    """A member of a group, and its partitions.

    instance_id: group.instance.id, None for a dynamic member. assignment: the partitions that the member has. target:
    the partitions that the target assignment gives to the member. epoch: the member epoch. target and epoch are None
    for a classic group.
    """

    id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None = None
    epoch: int | None = None


class Group(NamedTuple):
    """A group and its members.

    assignor: the partition assignor. coordinator: the coordinator's address and id, "host:port (id)". Each of these two
    is None if there is none, or if it is not known. epoch: the group epoch. target_epoch: the epoch of the target
    assignment. epoch and target_epoch are None for a classic group."""

    id: str
    type: str
    state: str
    assignor: str | None
    coordinator: str | None
    members: tuple[Member, ...]
    epoch: int | None = None
    target_epoch: int | None = None


class Progress(NamedTuple):
    """A group's progress in a partition: the committed offset, the log end offset, and the member that the partition is
    assigned to, each None if there is none or if it is not known. Like kafka-consumer-groups, kcli takes a
    cluster's high watermark for the log end offset."""

    topic: str
    partition: int
    committed: Committed | None
    log_end_offset: int | None
    member: Member | None

    @property
    def lag(self) -> int | None:
        """The log end offset minus the committed offset; None if one of the two is not known."""
        if self.committed is None or self.log_end_offset is None:
            return None
        return self.log_end_offset - self.committed.offset


def places(group: Group, committed: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions that are assigned to a member or have a committed offset, sorted."""
    return sorted({*committed, *(place for member in group.members for place in member.assignment)})


def progress(
    group: Group, committed: Mapping[TopicPartition, Committed], ends: Mapping[TopicPartition, int]
) -> list[Progress]:
    """Return the progress of a group in each partition that is assigned to a member or has a committed offset. ends:
    log end offsets by partition; a partition without an entry has an unknown log end offset."""
    readers = {place: member for member in group.members for place in member.assignment}
    return [
        Progress(*place, committed.get(place), ends.get(place), readers.get(place))
        for place in places(group, committed)
    ]


def places_text(assigned: Iterable[TopicPartition]) -> str:
    """Return the partitions as kafka-consumer-groups prints them on one line: orders:0,1;payments:3."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(assigned):
        by_topic.setdefault(topic, []).append(number)
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in by_topic.items())

"""The input of an assignor, and the order in which Kafka iterates it.

Kafka keeps members, topics and partitions in hash maps, and when an assignor has a choice, the iteration order
decides. Java's hash codes are fixed, so this order is fixed too: by bucket, and within a bucket by insertion. The
mappings here are in the order of insertion: `members` as in the group, `topics` as a HashSet of their names iterates
them (`java.hash_map_order`), a member's `assigned` as in its record. Partitions are sets, as if inserted in ascending
order.

Two cases differ from Kafka: eight or more keys in one bucket (Java makes a tree of them), and maps that once were
larger. Source: TargetAssignmentBuilder, GroupSpecImpl, TopicIds, Assignment, AssignorHelpers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from kcli.java.hashing import hash_map_order, hash_order, map_size, set_size, size_for, uuid_hash

Assignment = dict[str, dict[UUID, set[int]]]
"""The target assignment of every member: partitions by topic id, topics in the order of Kafka's hash map."""


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """A member as an assignor knows it. topic_ids: the existing topics that the member subscribes to. assigned: the
    member's previous target assignment, by topic id."""

    rack_id: str | None
    instance_id: str | None
    topic_ids: frozenset[UUID]
    assigned: Mapping[UUID, frozenset[int]]


Members = Mapping[str, MemberSubscription]
Topics = Mapping[UUID, int]


def members_in_order(members: Members) -> list[str]:
    return hash_map_order(members)


def readers_by_topic(order: Sequence[str], members: Members) -> dict[UUID, list[int]]:
    """Return the members that subscribe to each topic, by topic id, as their indexes in `order`, ascending."""
    alike: dict[frozenset[UUID], list[int]] = {}
    for place, member_id in enumerate(order):
        alike.setdefault(members[member_id].topic_ids, []).append(place)
    readers: dict[UUID, list[int]] = {}
    for topic_ids, places in alike.items():
        for topic in topic_ids:
            readers.setdefault(topic, []).extend(places)
    for places in readers.values():
        places.sort()
    return readers


def topics_in_order(topic_ids: Collection[UUID], topics: Topics, size: int) -> list[UUID]:
    """Return `topic_ids` in the order in which a Java hash map of `size` buckets iterates over them, after they were
    put into it in the order of `topics`."""
    return hash_order([topic for topic in topics if topic in topic_ids], uuid_hash, size)


def assigned_in_order(assigned: Mapping[UUID, frozenset[int]]) -> Collection[UUID]:
    return hash_order(assigned, uuid_hash, map_size(len(assigned))) if len(assigned) > 1 else assigned.keys()


def partitions_in_order(partitions: frozenset[int]) -> list[int]:
    return hash_order(sorted(partitions), int, set_size(len(partitions)))


class Target:
    """A member's new assignment in progress: its previous partitions, which are copied at the first change, and the
    partitions added since.

    The order of its topics follows Java's: computeIfAbsent, by which Kafka adds a topic, first resizes a full map, and
    then inserts the topic at the front of its bucket.
    """

    def __init__(self, assigned: Mapping[UUID, frozenset[int]]) -> None:
        self._partitions = {topic: set(assigned[topic]) for topic in assigned_in_order(assigned)}
        self._added: dict[UUID, None] = {}
        self._size = map_size(len(assigned))
        self._is_copy = False

    def copy(self) -> None:
        if not self._is_copy:
            count = len(self._partitions)
            self._size, self._is_copy = map_size(count, size_for(count)), True

    def add(self, topic: UUID, partition: int) -> None:
        self.copy()
        self._size = map_size(len(self._partitions), self._size)
        held = self._partitions.get(topic)
        if held is None:
            held = self._partitions[topic] = set()
            self._added[topic] = None
        held.add(partition)

    def remove(self, topic: UUID, partition: int) -> None:
        self.copy()
        held = self._partitions[topic]
        held.discard(partition)
        if not held:
            self.forget(topic)

    def forget(self, topic: UUID) -> None:
        self.copy()
        del self._partitions[topic]
        self._added.pop(topic, None)

    def in_order(self) -> dict[UUID, set[int]]:
        topics = [*reversed(self._added), *(topic for topic in self._partitions if topic not in self._added)]
        return {topic: self._partitions[topic] for topic in hash_order(topics, uuid_hash, self._size)}

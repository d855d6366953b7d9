"""The uniform assignor for members with different subscriptions: close to even, and members keep most partitions.

The readers of a topic are the members that subscribe to it; a member's load is the number of its partitions.

1. Every member keeps its partitions of topics that it still subscribes to.
2. Unassigned partitions go, topic by topic, each to the topic's reader with the least load.
3. In up to 16 rounds, until a round changes nothing, each topic's partitions move from its reader with the most load
   to the one with the least, as long as their loads differ by more than one.

Topics are sorted by partitions per reader, most first: the more partitions per reader, the more a topic influences the
loads.
Source: UniformHeterogeneousAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from kcli.group.consumer.assignors.spec import (
    Assignment,
    Members,
    Target,
    Topics,
    members_in_order,
    readers_by_topic,
)

ROUNDS_MAX = 16
SIGN = 1 << 63
NOBODY = -1


def assign_heterogeneous(members: Members, topics: Topics) -> Assignment:
    """Assign each topic's partitions to the members that subscribe to it. topics: number of partitions by topic id."""
    spread = _Spread(members, topics)
    spread.assign_remaining()
    spread.balance()
    return spread.result()


def _signed(uuid: UUID) -> tuple[int, int]:
    """Return a sort key that orders UUIDs as Java's UUID.compareTo: by two signed 64-bit halves."""
    return uuid.int >> 64 ^ SIGN, uuid.int & (1 << 64) - 1 ^ SIGN


class _Spread:
    """An assignment in progress. A member's number is its index in the list that `members_in_order` returns."""

    def __init__(self, members: Members, topics: Topics) -> None:
        self._order = members_in_order(members)
        self._topics = topics
        self._readers = readers_by_topic(self._order, members)
        self._owners = {topic: [NOBODY] * topics[topic] for topic in self._readers}
        self._targets: list[Target] = []
        self._loads: list[int] = []
        for number, member_id in enumerate(self._order):
            member = members[member_id]
            target = Target(member.assigned)
            load = 0
            for topic, partitions in member.assigned.items():
                if topic not in member.topic_ids:
                    target.forget(topic)
                    continue
                load += len(partitions)
                owners = self._owners[topic]
                for partition in partitions:
                    owners[partition] = number
            self._targets.append(target)
            self._loads.append(load)

    def result(self) -> Assignment:
        return {member_id: target.in_order() for member_id, target in zip(self._order, self._targets, strict=True)}

    def assign_remaining(self) -> None:
        for topic in self._sort(topic for topic, owners in self._owners.items() if NOBODY in owners):
            loads = _Loads(self._readers[topic], self._loads)
            for partition, owner in enumerate(self._owners[topic]):
                if owner == NOBODY:
                    self._assign(topic, partition, loads.next_least())

    def balance(self) -> None:
        if max(self._loads) - min(self._loads) <= 1:
            return
        topics = self._sort(topic for topic, readers in self._readers.items() if len(readers) > 1)
        last: UUID | None = None
        for _ in range(ROUNDS_MAX):
            for topic in topics:
                if topic == last:
                    return
                if self._balance(topic) or last is None:
                    last = topic

    def _sort(self, topics: Iterable[UUID]) -> list[UUID]:
        def key(topic: UUID) -> tuple[float, int, tuple[int, int]]:
            readers = len(self._readers[topic])
            return -(self._topics[topic] / readers), readers, _signed(topic)

        return sorted(topics, key=key)

    def _balance(self, topic: UUID) -> bool:
        """Balance one topic's partitions between its readers. Return whether a partition moved."""
        readers = self._readers[topic]
        current = [self._loads[reader] for reader in readers]
        if max(current) - min(current) <= 1:
            return False
        loads = _Loads(readers, self._loads)
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic]):
            owned.setdefault(owner, []).append(partition)
        moved = False
        while not loads.is_balanced:
            most = loads.next_most()
            if most == NOBODY:
                break
            if not owned.get(most):
                loads.exclude_most()
                continue
            partition = owned[most].pop()
            least = loads.next_least()
            if loads.is_balanced:
                break
            self._assign(topic, partition, least)
            moved = True
        return moved

    def _assign(self, topic: UUID, partition: int, number: int) -> None:
        owners = self._owners[topic]
        if (owner := owners[partition]) != NOBODY:
            self._targets[owner].remove(topic, partition)
            self._loads[owner] -= 1
        self._targets[number].add(topic, partition)
        self._loads[number] += 1
        owners[partition] = number


class _Loads:
    """The members subscribed to a topic, sorted by load, from which a balancing round takes the least and the most
    loaded.

        least loaded -> |       | <- most loaded

    `next_least` returns a member that is to gain a partition. It first returns each member of the least load L once; as
    each gains a partition, all of these then have the load L + 1. Next it returns each member whose load is now L + 1
    once, whether it has gained a partition or had that load before; and so on upwards. `next_most` returns a member
    that is to lose a partition, in the same way from the largest load downwards.
    """

    def __init__(self, readers: list[int], loads: list[int]) -> None:
        self._loads = loads
        self._sorted = sorted(readers, key=loads.__getitem__)
        self._least_level = loads[self._sorted[0]] - 1
        self._least_end = self._least_next = 0
        self._most_level = loads[self._sorted[-1]] + 1
        self._most_start = self._most_end = len(readers)
        self._most_next = len(readers) - 1

    @property
    def is_balanced(self) -> bool:
        return self._most_level - self._least_level <= 1

    def next_least(self) -> int:
        if self._least_next >= self._least_end:
            self._least_level += 1
            while self._least_end < len(self._sorted) and self._load(self._least_end) == self._least_level:
                self._least_end += 1
            self._least_next = 0
        self._least_next += 1
        return self._sorted[self._least_next - 1]

    def next_most(self) -> int:
        """Return the reader with the most load, to take a partition of the topic from; NOBODY if no reader is left."""
        if self._most_next < self._most_start:
            if self._most_end <= self._most_start > 0:
                self._most_level = self._load(self._most_start - 1)
            else:
                self._most_level -= 1
            while self._most_start > 0 and self._load(self._most_start - 1) == self._most_level:
                self._most_start -= 1
            self._most_next = self._most_end - 1
        if self._most_next < 0:
            return NOBODY
        self._most_next -= 1
        return self._sorted[self._most_next + 1]

    def exclude_most(self) -> None:
        """Exclude the reader that `next_most` returned last, as it has no partition of the topic to give."""
        taken, end = self._most_next + 1, self._most_end - 1
        self._sorted[taken], self._sorted[end] = self._sorted[end], self._sorted[taken]
        self._most_end -= 1

    def _load(self, place: int) -> int:
        return self._loads[self._sorted[place]]

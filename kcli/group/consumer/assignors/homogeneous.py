"""The uniform assignor for members with the same topics: as even as possible, and members keep their partitions.

1. Member by member: the quota of a member is `partitions // members` partitions, and one extra partition as long as
   some of the remainder of that division is left. The member keeps its partitions up to its quota; its other partitions
   become unassigned. If it keeps fewer than its quota, it gives the extra partition back to the remainder, provided
   that there are enough members after it to take all that is left of the remainder.
2. Unassigned partitions fill up the members below their quotas: first those that no member had, topic by topic, then
   those that became unassigned in step 1, member by member.

Source: UniformHomogeneousAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from kcli.group.consumer.assignors.spec import (
    Assignment,
    Members,
    Target,
    Topics,
    assigned_in_order,
    members_in_order,
    partitions_in_order,
    topics_in_order,
)
from kcli.java.hashing import set_size
from kcli.protocol.topic_partition import TopicIdPartition

Unassigned = list[TopicIdPartition]


def assign_homogeneous(members: Members, topics: Topics) -> Assignment:
    """Assign the partitions of the topics that all members subscribe to. topics: number of partitions by topic id."""
    order = members_in_order(members)
    topic_ids = members[order[0]].topic_ids
    if not topic_ids:
        return {member_id: {} for member_id in order}
    unassigned = _find_unassigned(members, topics, topics_in_order(topic_ids, topics, set_size(len(topic_ids))))
    share, extra = divmod(sum(topics[topic] for topic in topic_ids), len(order))
    targets: dict[str, Target] = {}
    unfilled: list[tuple[Target, int]] = []
    for index, member_id in enumerate(order):
        has_extra = extra > 0
        target = targets[member_id] = Target(members[member_id].assigned)
        quota = share + has_extra - _keep(members, member_id, target, share + has_extra, unassigned)
        if quota and has_extra and len(order) - index > extra:
            quota, has_extra = quota - 1, False
        if quota:
            unfilled.append((target, quota))
        extra -= has_extra
    _fill(unfilled, iter(unassigned))
    return {member_id: target.in_order() for member_id, target in targets.items()}


def _find_unassigned(members: Members, topics: Topics, topic_ids: list[UUID]) -> Unassigned:
    taken: dict[UUID, set[int]] = {topic: set() for topic in topic_ids}
    for member in members.values():
        for topic, partitions in member.assigned.items():
            if topic in taken:
                taken[topic].update(partitions)
    return [
        (topic, partition) for topic in topic_ids for partition in range(topics[topic]) if partition not in taken[topic]
    ]


def _keep(members: Members, member_id: str, target: Target, quota: int, unassigned: Unassigned) -> int:
    """Move the member's partitions beyond its quota to `unassigned`, and drop from `target` topics that the member no
    longer subscribes to. Return how many partitions the member keeps."""
    member, kept = members[member_id], 0
    for topic in assigned_in_order(member.assigned):
        partitions = member.assigned[topic]
        if topic not in member.topic_ids:
            target.forget(topic)
        elif kept + len(partitions) <= quota:
            kept += len(partitions)
        else:
            for partition in partitions_in_order(partitions)[quota - kept :]:
                target.remove(topic, partition)
                unassigned.append((topic, partition))
            kept = quota
    return kept


def _fill(unfilled: list[tuple[Target, int]], unassigned: Iterator[TopicIdPartition]) -> None:
    for target, quota in unfilled:
        target.copy()
        for _, (topic, partition) in zip(range(quota), unassigned, strict=False):
            target.add(topic, partition)

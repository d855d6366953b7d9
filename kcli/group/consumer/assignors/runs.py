"""The range assignor: each member gets a run, consecutive partitions, of every topic that it subscribes to.

Topics with equally many partitions and the same subscribers are split into the same runs. So a member has the same
partition numbers of all of them, as joins of these topics need. Members are sorted by instance id, and those without
one come after them by member id: a static member that rejoins under a new member id gets the same runs. The first
`partitions % members` members get one partition more. Earlier assignments are ignored.

Source: RangeAssignor.
"""

from __future__ import annotations

from uuid import UUID

from kcli.group.consumer.assignors.spec import Assignment, Members, Topics, readers_by_topic
from kcli.java.hashing import hash_order, java_order, size_for, uuid_hash


def assign_runs(members: Members, topics: Topics) -> Assignment:
    """Assign a run of each topic to each member that subscribes to the topic. topics: number of partitions by topic
    id."""
    order = _in_order(members)
    readers = readers_by_topic(order, members)
    runs: dict[str, dict[UUID, set[int]]] = {member_id: {} for member_id in order}
    for topic in filter(readers.__contains__, topics):
        share, extra = divmod(topics[topic], len(readers[topic]))
        start = 0
        for number, place in enumerate(readers[topic] if share else readers[topic][:extra]):
            end = start + share + (number < extra)
            runs[order[place]][topic] = set(range(start, end))
            start = end
    return {member_id: _sort(given, len(members[member_id].topic_ids)) for member_id, given in runs.items()}


def _sort(runs: dict[UUID, set[int]], topic_count: int) -> dict[UUID, set[int]]:
    return {topic: runs[topic] for topic in hash_order(runs, uuid_hash, size_for(int(topic_count / 0.75 + 1)))}


def _in_order(members: Members) -> list[str]:
    def key(member_id: str) -> tuple[bool, bytes]:
        instance_id = members[member_id].instance_id
        return instance_id is None, java_order(member_id if instance_id is None else instance_id)

    return sorted(members, key=key)

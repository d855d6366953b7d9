"""Which members of the group keep standbys of which tasks.

A task has as many standbys as configured, on other members than its own, or on all others if there are fewer. All
members place them in the same way by what the group has assigned, so that none has to tell another. A member comes
first for a task by the hash of both, unless it has its share of all standbys already: so standbys are even, and few of
them move if a member comes or goes. Kafka Streams evens them out by the same rule in its assignor, and prefers members
that have the task's store; a client's assignor cannot know who has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from hashlib import blake2b

from kcli.streams.local.plan import TaskId


def placed(owners: Mapping[TaskId, str], members: Collection[str], replicas: int) -> dict[TaskId, list[str]]:
    """Return the members that keep standbys of each task. owners: the member of each task. replicas: how many standbys
    a task is to have."""
    count = min(replicas, len(members) - 1)
    if count <= 0:
        return {task: [] for task in owners}
    share = -(-len(owners) * count // len(members))
    loads: Counter[str] = Counter()
    found: dict[TaskId, list[str]] = {}
    for task in sorted(owners):
        others = [member for member in members if member != owners[task]]
        others.sort(key=lambda member: (loads[member] >= share, _weight(task, member), member))
        found[task] = others[:count]
        loads.update(found[task])
    return found


def _weight(task: TaskId, member: str) -> bytes:
    return blake2b(f"{task} {member}".encode(), digest_size=8).digest()

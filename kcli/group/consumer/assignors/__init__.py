"""The server-side assignors of consumer groups (KIP-848): functions from members and topics to assignments.

    uniform   the default: as even as possible, and members keep their partitions
    range     consecutive partitions of each topic, to the members in a fixed order

They are pure functions, and give each member the same partitions as Kafka's assignors; `spec` says what the order of
the mappings means. Both functions have the parameter homogeneous: whether all members have the same subscription. The
coordinator passes the result of `Subscriptions.is_homogeneous`, which compares subscriptions as Kafka does, by name:
topics that do not exist count too, and a subscription by name differs from one by a regular expression that matches the
same topics. With None, the uniform assignor compares the ids of the members' topics instead, which cannot show these
differences. The range assignor ignores `homogeneous`. Source: UniformAssignor, RangeAssignor,
ModernGroup.subscriptionType.
"""

from __future__ import annotations

from typing import Protocol

from kcli.group.consumer.assignors.heterogeneous import assign_heterogeneous
from kcli.group.consumer.assignors.homogeneous import assign_homogeneous
from kcli.group.consumer.assignors.runs import assign_runs
from kcli.group.consumer.assignors.spec import Assignment, Members, MemberSubscription, Topics

__all__ = ["ASSIGNORS", "Assignment", "Assignor", "MemberSubscription", "assign_range", "assign_uniform"]


class Assignor(Protocol):
    """A function that assigns partitions to members, and returns the partitions of each member by member id.

    topics: the number of partitions by topic id. It must have every topic that a member subscribes to; topics that no
    member subscribes to are ignored. homogeneous: see the module.
    """

    def __call__(self, members: Members, topics: Topics, *, homogeneous: bool | None = None) -> Assignment: ...


def assign_uniform(members: Members, topics: Topics, *, homogeneous: bool | None = None) -> Assignment:
    """Return the assignment of the uniform assignor."""
    if not members:
        return {}
    if homogeneous is None:
        subscriptions = {member.topic_ids for member in members.values()}
        homogeneous = len(subscriptions) == 1
    return (assign_homogeneous if homogeneous else assign_heterogeneous)(members, topics)


def assign_range(members: Members, topics: Topics, *, homogeneous: bool | None = None) -> Assignment:
    """Return the assignment of the range assignor."""
    del homogeneous
    return assign_runs(members, topics)


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
"""The assignors by name; the first is the default."""

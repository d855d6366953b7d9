"""Server-side assignors of consumer groups (KIP-848): which member shall have which partitions.

    uniform   as even as can be, members keep what they have: the default
    range     runs of partitions, the same of each topic, members in a fixed order

They are pure, and choose as Kafka's do, member for member; `spec` says what the order of the mappings means.
Whose subscriptions differ is not seen from topic ids alone: Kafka counts names, so topics that do not exist count, and
what a regular expression matched counts as different. `homogeneous` is what the group knows of that (None: compare the
ids); the range assignor does the same either way.
Source: UniformAssignor, RangeAssignor, ModernGroup.subscriptionType.
"""

from __future__ import annotations

from typing import Protocol

from kcli.group.consumer.assignors.heterogeneous import assign_heterogeneous
from kcli.group.consumer.assignors.homogeneous import assign_homogeneous
from kcli.group.consumer.assignors.runs import assign_runs
from kcli.group.consumer.assignors.spec import Assignment, Members, MemberSubscription, Topics

__all__ = ["ASSIGNORS", "Assignment", "Assignor", "MemberSubscription", "assign_range", "assign_uniform"]


class Assignor(Protocol):
    """Members and topics (id -> number of partitions, at least those subscribed) -> the partitions of each member."""

    def __call__(self, members: Members, topics: Topics, *, homogeneous: bool | None = None) -> Assignment: ...


def assign_uniform(members: Members, topics: Topics, *, homogeneous: bool | None = None) -> Assignment:
    """The uniform assignor."""
    if not members:
        return {}
    if homogeneous is None:
        subscriptions = {member.topic_ids for member in members.values()}
        homogeneous = len(subscriptions) == 1
    return (assign_homogeneous if homogeneous else assign_heterogeneous)(members, topics)


def assign_range(members: Members, topics: Topics, *, homogeneous: bool | None = None) -> Assignment:
    """The range assignor."""
    del homogeneous
    return assign_runs(members, topics)


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
"""By the name that a member asks for; the first is the default."""

"""The target assignment of a consumer group, made by one of the server-side assignors.

Source: TargetAssignmentBuilder, GroupMetadataManager.maybeUpdateTargetAssignment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from kcli.coordinator.machine import Pair
from kcli.group.consumer.assignors import ASSIGNORS, MemberSubscription
from kcli.group.consumer.group import ConsumerGroup
from kcli.group.consumer.member import NO_PARTITIONS, ConsumerMember, Partitions
from kcli.group.consumer.records import assignment_record, target_record
from kcli.group.consumer.subscriptions import ResolvedRegex
from kcli.group.errors import GroupError
from kcli.group.metadata import Metadata
from kcli.group.turn import Turn
from kcli.java.hashing import hash_map_order
from kcli.protocol.error_code import ErrorCode


@dataclass(frozen=True, slots=True)
class Target:
    """The target assignment of one member, by topic id, and the assignment epoch that it belongs to."""

    epoch: int
    partitions: Partitions


def subscribed_topics(member: ConsumerMember, resolved: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """Return the topics that the member subscribes to: by name, and those of its regular expression, if that is
    resolved."""
    found = resolved.get(member.regex) if member.regex else None
    return member.topics if found is None else member.topics | found.topics


def update_target(
    turn: Turn,
    group: ConsumerGroup,
    epoch: int,
    old: ConsumerMember,
    member: ConsumerMember,
    records: list[Pair],
    *,
    is_homogeneous: bool | None,
) -> Target:
    """Return the member's target assignment, after making a new one for the group if that is due.

    A new one is due if the group epoch is newer than the assignment epoch and the assignment interval has passed; its
    records are added to `records`. epoch: the group epoch, with `member` in place of `old`. is_homogeneous: whether all
    members then have the same subscription; None if no subscription has changed. Raises GroupError UNKNOWN_SERVER_ERROR
    if the preferred assignor does not exist.
    """
    if group.assignment_epoch >= epoch:
        return Target(group.assignment_epoch, group.target_of(member))
    settings = turn.shard.metadata.settings(group.id)
    is_time = (
        group.assignment_timestamp_ms == 0
        or turn.now_ms >= group.assignment_timestamp_ms + settings.assignment_interval_ms
    )
    if not is_time:
        return Target(group.assignment_epoch, group.target_of(member))
    assignor = ASSIGNORS.get(group.preferred_assignor(old, member) or turn.shard.config.consumer_assignors[0])
    if assignor is None:
        raise GroupError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if is_homogeneous is None:
        is_homogeneous = group.subscriptions.is_homogeneous(len(group.members))
    subscriptions = _subscriptions(group, member, turn.shard.metadata)
    topic_ids = _known(turn.shard.metadata, subscriptions)
    assigned = assignor(
        subscriptions,
        {topic_id: turn.shard.metadata.partition_count(topic_id) for topic_id in topic_ids},
        homogeneous=is_homogeneous,
    )
    for member_id in subscriptions:
        target = {topic_id: frozenset(numbers) for topic_id, numbers in assigned.get(member_id, {}).items() if numbers}
        if group.target.get(member_id) != target:
            records.append(target_record(group.id, member_id, target))
    records.append(assignment_record(group.id, epoch, turn.now_ms))
    mine = assigned.get(member.id, NO_PARTITIONS)
    return Target(epoch, {topic_id: frozenset(numbers) for topic_id, numbers in mine.items() if numbers})


def _subscriptions(group: ConsumerGroup, member: ConsumerMember, metadata: Metadata) -> dict[str, MemberSubscription]:
    """Return the subscriptions of all members, with `member` as it is after its request. A static member that rejoins
    under a new member id keeps the target assignment of its old id."""
    members = dict(group.members)
    targets = dict(group.target)
    previous_id = None if member.instance_id is None else group.static.get(member.instance_id)
    if previous_id is not None and previous_id != member.id:
        targets[member.id] = group.target.get(previous_id, NO_PARTITIONS)
        del members[previous_id]
    members[member.id] = member
    ids: dict[frozenset[str], frozenset[UUID]] = {}
    subscriptions = {}
    for member_id, each in members.items():
        names = subscribed_topics(each, group.resolved)
        if names not in ids:
            found = (metadata.topic_id(name) for name in names)
            ids[names] = frozenset(topic_id for topic_id in found if topic_id is not None)
        subscriptions[member_id] = MemberSubscription(
            rack_id=each.rack_id,
            instance_id=each.instance_id,
            topic_ids=ids[names],
            assigned=targets.get(member_id, NO_PARTITIONS),
        )
    return subscriptions


def _known(metadata: Metadata, subscriptions: Mapping[str, MemberSubscription]) -> list[UUID]:
    """Return the ids of the existing topics that any member subscribes to, in the order in which Java's HashSet
    iterates their names."""
    topic_ids = frozenset[UUID]().union(*(each.topic_ids for each in subscriptions.values()))
    by_name = {name: topic_id for topic_id in topic_ids if (name := metadata.topic_name(topic_id)) is not None}
    return [by_name[name] for name in hash_map_order(sorted(by_name))]

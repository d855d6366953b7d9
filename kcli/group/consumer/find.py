"""The member that sends a request to a consumer group: a new member, a known one, or a static member that replaces the
member with its instance id.

Source: GroupMetadataManager (getOrMaybeSubscribe...ConsumerGroupMember, throwIf...); KIP-345 (instance ids).
"""

from __future__ import annotations

from dataclasses import replace

from kcli.coordinator.machine import Pair
from kcli.group.consumer.group import ConsumerGroup
from kcli.group.consumer.member import JOINING, LEAVING_STATIC, ConsumerMember, Epochs
from kcli.group.consumer.reconcile import Owned
from kcli.group.consumer.records import current_record, member_record, member_tombstones, target_record
from kcli.group.errors import GroupError
from kcli.group.turn import Turn
from kcli.protocol.error_code import ErrorCode


def check_room(turn: Turn, group: ConsumerGroup, member_id: str) -> None:
    """Raises GroupError GROUP_MAX_SIZE_REACHED if `member_id` is not in the group, and the group has
    group.consumer.max.size members already."""
    size_max = turn.shard.config.consumer_group_max_size
    if len(group.members) >= size_max and member_id not in group.members:
        message = f"The consumer group has reached its maximum capacity of {size_max} members."
        raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def find_dynamic(group: ConsumerGroup, member_id: str, *, may_join: bool) -> ConsumerMember:
    """Return the dynamic member of that id. If there is none, return a new member if `may_join`, and otherwise raise
    GroupError UNKNOWN_MEMBER_ID."""
    if may_join and member_id not in group.members:
        return ConsumerMember(id=member_id)
    return group.member(member_id)


def find_static(
    group: ConsumerGroup, member_id: str, instance_id: str, records: list[Pair], *, may_join: bool, is_classic: bool
) -> ConsumerMember:
    """Return the static member that sends a request. may_join: whether the request may join the group.

    A request that may not join must have the member id of the group's member with this instance id; otherwise
    UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID is raised. If it may join, a new member is returned for an instance id that
    is not in the group. For one that is, the joining member replaces the group's member, and the records of the
    replacement are added to `records`. It can do so only if the old member has left (with epoch -2), or one of the two
    is classic; otherwise UNRELEASED_INSTANCE_ID is raised, as GroupError. is_classic: whether the joining member is
    classic.
    """
    existing = group.static_member(instance_id)
    if not may_join:
        return check_static(existing, member_id, instance_id)
    if existing is None:
        return find_dynamic(group, member_id, may_join=True)
    if not is_classic and existing.classic is None and existing.epoch != LEAVING_STATIC:
        raise GroupError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is"
            f" owned by {existing.id} member.",
        )
    member = replace(existing, id=member_id, epoch=JOINING, previous_epoch=JOINING)
    records += member_tombstones(group.id, existing.id)
    records.append(member_record(group.id, member))
    records.append(target_record(group.id, member_id, group.target.get(existing.id, {})))
    records.append(current_record(group.id, member))
    return member


def check_static(existing: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    """Return `existing`, the member of that instance id. Raises GroupError UNKNOWN_MEMBER_ID if there is none,
    FENCED_INSTANCE_ID if it has another member id."""
    if existing is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if existing.id != member_id:
        raise GroupError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {existing.id}.",
        )
    return existing


def check_epoch(member: ConsumerMember, epoch: int, owned: Owned) -> None:
    """Raises GroupError FENCED_MEMBER_EPOCH unless `epoch`, the one in the request, is the member's epoch, or 0
    (JOINING), with which a member joins.

    The previous member epoch is accepted too if all of `owned`, the partitions that the request lists as owned, are
    assigned to the member: the member then repeats a heartbeat whose answer was lost.
    """
    if epoch in (JOINING, member.epoch):
        return
    if epoch == member.previous_epoch and epoch < member.epoch and _has_only(owned, member.assigned):
        return
    size = "greater" if epoch > member.epoch else "smaller"
    raise GroupError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {size} member epoch ({epoch}) than the one known by the group coordinator"
        f" ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _has_only(owned: Owned, assigned: Epochs) -> bool:
    if owned is None:
        return False
    return all(
        topic_id in assigned and all(number in assigned[topic_id] for number in numbers)
        for topic_id, numbers in owned.items()
    )

"""ConsumerGroupHeartbeat: a member joins, extends its session, or leaves; the answer brings its assignment.

The first member to join creates the group. It replaces an empty classic group of the same id; a classic group with
members is upgraded to a consumer group, if group.consumer.migration.policy allows it. Source:
GroupMetadataManager.consumerGroupHeartbeat; KIP-848.
"""

from __future__ import annotations

from dataclasses import replace

from kcli.coordinator.machine import Pair, Token
from kcli.group.classic.group import ClassicGroup, State
from kcli.group.consumer.fence import extend_session, fence
from kcli.group.consumer.find import check_epoch, check_room, check_static, find_dynamic, find_static
from kcli.group.consumer.group import ConsumerGroup
from kcli.group.consumer.member import JOINING, LEAVING, LEAVING_STATIC, ConsumerMember
from kcli.group.consumer.records import current_record
from kcli.group.consumer.regex import RegexChange, update_regex
from kcli.group.consumer.steps import note, reconcile, refresh
from kcli.group.consumer.target import update_target
from kcli.group.consumer.upgrade import upgrade
from kcli.group.errors import GroupError, not_found
from kcli.group.records import classic_group_tombstone
from kcli.group.requests import ConsumerHeartbeat, ConsumerHeartbeatAnswer, TopicsChanged
from kcli.group.turn import Turn
from kcli.protocol.error_code import ErrorCode


def heartbeat(turn: Turn, token: Token, request: ConsumerHeartbeat) -> None:
    """Let the member join, stay or leave, as the epoch of its ConsumerGroupHeartbeat says, and answer the request.

    Errors: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID,
    GROUP_MAX_SIZE_REACHED, INVALID_REGULAR_EXPRESSION, UNKNOWN_SERVER_ERROR if the records do not fit into one
    batch.
    """
    try:
        answer = _leave(turn, request) if request.epoch in (LEAVING, LEAVING_STATIC) else _stay(turn, request)
    except GroupError as refused:
        answer = ConsumerHeartbeatAnswer(error=refused.code, error_message=refused.message)
    turn.answer(token, answer)


# a member joins or stays


def _stay(turn: Turn, request: ConsumerHeartbeat) -> ConsumerHeartbeatAnswer:
    records: list[Pair] = []
    joins = request.epoch == JOINING
    classic = turn.shard.classic(request.group_id)
    group = find_group(turn, request.group_id, records, may_create=joins)
    check_room(turn, group, request.member_id)
    member_id = request.member_id or turn.shard.new_consumer_id()
    if request.instance_id is None:
        old = find_dynamic(group, member_id, may_join=joins)
    else:
        old = find_static(group, member_id, request.instance_id, records, may_join=joins, is_classic=False)
    check_epoch(old, request.epoch, request.owned)
    member = _updated(old, request)
    names_changed = note(group, old, member, records)
    regex_change = update_regex(turn, group, old, member, records, request.describable)
    # A static member can upgrade its classic group while that group rebalances. As the member's subscription has not
    # changed then, Kafka computes no new assignment and leaves the member without one. Here the group gets a new epoch,
    # so that the member gets an assignment.
    is_unassigned = classic is not None and classic.state is not State.STABLE
    has_changed = names_changed or regex_change is RegexChange.RESOLVED or is_unassigned
    epoch, is_homogeneous = group.epoch, None
    if has_changed or group.needs_refresh(turn.now_ms):
        epoch, is_homogeneous = refresh(turn, group, old, member, records, has_changed=has_changed)
    target = update_target(turn, group, epoch, old, member, records, is_homogeneous=is_homogeneous)
    is_other = names_changed or regex_change is not RegexChange.NONE
    member = reconcile(turn, group, member, target, records, owned=request.owned, has_changed=is_other)
    turn.append(records)
    extend_session(turn, group.id, member)
    return _answer(turn, request, old, member)


def find_group(turn: Turn, group_id: str, records: list[Pair], *, may_create: bool) -> ConsumerGroup:
    """Return the consumer group of that id. If there is none and `may_create` is set, return a new group, or one
    upgraded from a classic group.

    The records that replace a classic group are added to `records`. A new group is in `turn.shard` only once its
    records are replayed. Raises GroupError: GROUP_ID_NOT_FOUND if there is no consumer group and none may be created,
    or if a group of another type has that id and cannot be replaced; and the errors of `upgrade`.
    """
    group = turn.shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if group is None:
        if not may_create:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        return ConsumerGroup(group_id)
    if may_create and isinstance(group, ClassicGroup):
        if not group.is_empty:
            return upgrade(turn, group, records)
        records.append(classic_group_tombstone(group_id))
        return ConsumerGroup(group_id)
    raise _other_kind(group_id)


def _other_kind(group_id: str) -> GroupError:
    return GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")


def _updated(member: ConsumerMember, request: ConsumerHeartbeat) -> ConsumerMember:
    """Return the member with the fields that the request sets; other fields keep their values."""
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topics=member.topics if request.topics is None else request.topics,
        regex=member.regex if request.regex is None else request.regex,
        assignor=member.assignor if request.assignor is None else request.assignor,
        client_id=request.client_id,
        client_host=request.client_host,
        classic=None,
    )


def _answer(
    turn: Turn, request: ConsumerHeartbeat, old: ConsumerMember, member: ConsumerMember
) -> ConsumerHeartbeatAnswer:
    """Return the answer to the member's heartbeat. old, member: the member before and after the heartbeat.

    The answer contains the member's assigned partitions only if the member joins, if these partitions have changed, or
    if the request sets subscription, rebalance timeout and owned partitions, all three.
    """
    subscribes = request.topics is not None or request.regex is not None
    is_full_request = request.rebalance_timeout_ms != -1 and subscribes and request.owned is not None
    assignment = None
    if request.epoch == JOINING or is_full_request or member.assigned != old.assigned:
        assignment = {topic_id: tuple(sorted(numbers)) for topic_id, numbers in member.assigned.items()}
    return ConsumerHeartbeatAnswer(
        member_id=member.id,
        epoch=member.epoch,
        heartbeat_interval_ms=turn.shard.metadata.settings(request.group_id).heartbeat_interval_ms,
        assignment=assignment,
    )


# a member leaves


def _leave(turn: Turn, request: ConsumerHeartbeat) -> ConsumerHeartbeatAnswer:
    group = turn.shard.groups.get(request.group_id)
    if group is None:
        raise not_found(request.group_id)
    if not isinstance(group, ConsumerGroup):
        raise _other_kind(request.group_id)
    if request.instance_id is None:
        fence(turn, group, [group.member(request.member_id)])
    else:
        member = check_static(group.static_member(request.instance_id), request.member_id, request.instance_id)
        if request.epoch == LEAVING:
            fence(turn, group, [member])
        else:
            turn.outcome.append(current_record(group.id, _away(member)))
    return ConsumerHeartbeatAnswer(member_id=request.member_id, epoch=request.epoch)


def _away(member: ConsumerMember) -> ConsumerMember:
    """Return a static member after a heartbeat with epoch -2: it keeps its assigned partitions until its session
    expires."""
    assigned = {topic_id: dict.fromkeys(numbers, 0) for topic_id, numbers in member.assigned.items()}
    return replace(member, epoch=LEAVING_STATIC, assigned=assigned, revoking={})


# topics are created, deleted or changed


def topics_changed(turn: Turn, token: Token, request: TopicsChanged) -> None:
    """Have the groups that subscribe to the changed topics refresh their metadata with their next heartbeats."""
    shard = turn.shard
    for name in request.topics:
        shard.topic_hashes.pop(name, None)
    if request.has_new:
        shard.new_topics_version = shard.metadata.version
    for group in shard.groups.values():
        if isinstance(group, ConsumerGroup) and any(group.is_subscribed_to(name) for name in request.topics):
            group.request_refresh()
    turn.answer(token, None)

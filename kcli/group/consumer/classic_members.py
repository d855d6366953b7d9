"""Members of a consumer group that speak the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

The coordinator assigns, so there is no leader, and every request is answered at once: JoinGroup with the member's epoch
as the generation, SyncGroup with the member's partitions. A member whose heartbeat is answered with
REBALANCE_IN_PROGRESS joins again, and so takes its next step towards its target assignment. Source:
GroupMetadataManager (classicGroup...ToConsumerGroup); KIP-848.
"""

from __future__ import annotations

from dataclasses import replace

from formats.errors import FormatError
from kcli.coordinator.machine import Pair, Token
from kcli.group.classic.group import CONSUMER
from kcli.group.consumer.downgrade import can_downgrade_with, downgrade
from kcli.group.consumer.embedded import Subscription, read_subscription, version_of, with_ids, write_assignment
from kcli.group.consumer.fence import (
    await_join,
    await_sync,
    extend_session,
    fence,
    stop_awaiting_join,
    stop_awaiting_sync,
)
from kcli.group.consumer.find import check_room, check_static, find_dynamic, find_static
from kcli.group.consumer.group import ConsumerGroup
from kcli.group.consumer.member import ClassicProtocol, ConsumerMember, MemberState
from kcli.group.consumer.regex import RegexChange, update_regex
from kcli.group.consumer.steps import note, reconcile, refresh
from kcli.group.consumer.target import Target, update_target
from kcli.group.errors import GroupError
from kcli.group.requests import (
    Heartbeat,
    JoinAnswer,
    JoinGroup,
    LeaveAnswer,
    LeaveGroup,
    Leaver,
    SyncAnswer,
    SyncGroup,
)
from kcli.group.turn import Turn
from kcli.protocol.error_code import ErrorCode


def join(turn: Turn, token: Token, request: JoinGroup, group: ConsumerGroup) -> None:
    """Let a classic member join the group, or take its next step towards its target assignment.

    Errors: MEMBER_ID_REQUIRED, GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID, UNKNOWN_SERVER_ERROR if the member's metadata cannot be read.
    """
    try:
        answer = _join(turn, request, group)
    except GroupError as refused:
        answer = JoinAnswer(error=refused.code)
    turn.answer(token, answer)


def _join(turn: Turn, request: JoinGroup, group: ConsumerGroup) -> JoinAnswer:
    is_new = not request.member_id
    member_id = request.member_id or turn.shard.new_consumer_id()
    check_room(turn, group, member_id)
    if not group.supports(request.protocol_type, [name for name, _ in request.protocols]):
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if is_new and request.instance_id is None and request.requires_known_member_id:
        return JoinAnswer(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
    records: list[Pair] = []
    if request.instance_id is None:
        old = find_dynamic(group, member_id, may_join=True)
    else:
        old = find_static(group, member_id, request.instance_id, records, may_join=is_new, is_classic=True)
    subscription = _subscription(request)
    member = _updated(old, request, subscription)
    has_changed = note(group, old, member, records)
    regex_change = update_regex(turn, group, old, member, records, request.describable)
    has_changed |= regex_change is not RegexChange.NONE
    epoch, is_homogeneous = group.epoch, None
    if has_changed or group.needs_refresh(turn.now_ms):
        epoch, is_homogeneous = refresh(turn, group, old, member, records, has_changed=has_changed)
    owned = with_ids(subscription.owned, turn.shard.metadata)
    replaced = group.static_member(request.instance_id)
    is_last = replaced is not None and can_downgrade_with(turn, group, replaced)
    if is_last and group.assignment_epoch < epoch:
        downgrade(turn, group, records=records, joining=member, must_rebalance=True)
    else:
        if is_last:
            target = Target(group.assignment_epoch, group.target_of(member))
        else:
            target = update_target(turn, group, epoch, old, member, records, is_homogeneous=is_homogeneous)
        member = reconcile(turn, group, member, target, records, owned=owned, has_changed=has_changed)
        if is_last:
            downgrade(turn, group, records=records, joining=member, must_rebalance=False)
        else:
            turn.append(records)
    stop_awaiting_join(turn, group.id, member.id)
    if not is_last:
        extend_session(turn, group.id, member)
        await_sync(turn, group.id, member)
    return JoinAnswer(
        member_id=member.id, generation=member.epoch, protocol_type=CONSUMER, protocol=member.protocol_names[0]
    )


def _subscription(request: JoinGroup) -> Subscription:
    try:
        return read_subscription(request.protocols[0][1])
    except FormatError as error:
        raise GroupError(ErrorCode.UNKNOWN_SERVER_ERROR) from error


def _updated(member: ConsumerMember, request: JoinGroup, subscription: Subscription) -> ConsumerMember:
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topics=subscription.topics,
        regex="",
        client_id=request.client_id,
        client_host=request.client_host,
        classic=ClassicProtocol(request.session_timeout_ms, request.protocols),
    )


def sync(turn: Turn, token: Token, request: SyncGroup, group: ConsumerGroup) -> None:
    """Answer the SyncGroup of a classic member with its partitions. Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
    ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS."""
    try:
        answer = _sync(turn, request, group)
    except GroupError as refused:
        answer = SyncAnswer(error=refused.code)
    turn.answer(token, answer)


def _sync(turn: Turn, request: SyncGroup, group: ConsumerGroup) -> SyncAnswer:
    member, classic = _member(group, request.member_id, request.instance_id, request.generation)
    name, metadata = classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol not in (None, name):
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        await_join(turn, group.id, member)
        raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
    stop_awaiting_sync(turn, group.id, member.id)
    extend_session(turn, group.id, member)
    assignment = write_assignment(member.assigned, version_of(metadata), turn.shard.metadata)
    return SyncAnswer(protocol_type=request.protocol_type, protocol=request.protocol, assignment=assignment)


def heartbeat(turn: Turn, token: Token, request: Heartbeat, group: ConsumerGroup) -> None:
    """Extend the session of a classic member. Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION;
    REBALANCE_IN_PROGRESS, after which the client joins again."""
    try:
        member, _ = _member(group, request.member_id, request.instance_id, request.generation)
    except GroupError as refused:
        turn.answer(token, refused.code)
        return
    extend_session(turn, group.id, member)
    must_join = (
        member.epoch < group.assignment_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member))
    )
    if must_join:
        await_join(turn, group.id, member)
    turn.answer(token, ErrorCode.REBALANCE_IN_PROGRESS if must_join else ErrorCode.NONE)


def _member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicProtocol]:
    if instance_id is None:
        member = group.member(member_id)
    else:
        member = check_static(group.static_member(instance_id), member_id, instance_id)
    if member.classic is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    if generation != member.epoch:
        raise GroupError(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic


def leave(turn: Turn, token: Token, request: LeaveGroup, group: ConsumerGroup) -> None:
    """Remove members of either protocol. Errors, by member: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID; of the request:
    UNKNOWN_SERVER_ERROR if the records do not fit into one batch."""
    leaving: dict[str, ConsumerMember] = {}
    answers = []
    for each in request.members:
        error = ErrorCode.NONE
        try:
            member = _leaving(group, each)
            leaving[member.id] = member
        except GroupError as refused:
            error = refused.code
        answers.append(replace(each, error=error))
    try:
        fence(turn, group, list(leaving.values()))
    except GroupError as refused:
        turn.answer(token, LeaveAnswer(error=refused.code))
        return
    turn.answer(token, LeaveAnswer(members=tuple(answers)))


def _leaving(group: ConsumerGroup, leaver: Leaver) -> ConsumerMember:
    if leaver.instance_id is None:
        return group.member(leaver.member_id)
    member = group.static_member(leaver.instance_id)
    return check_static(member, leaver.member_id or ("" if member is None else member.id), leaver.instance_id)

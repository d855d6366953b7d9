"""The rebalance of a classic group, from one generation to the next, and the sessions of its members.

    prepare      heartbeats are answered with REBALANCE_IN_PROGRESS; members have the rebalance timeout to join again
    initial      an empty group waits group.initial.rebalance.delay.ms for more members, and waits again as long as a
                 member has joined during the delay, up to the rebalance timeout (KIP-134)
    complete     dynamic members that have not joined again are removed, static members stay; the next generation
                 begins, and the pending JoinGroups are answered
    pending sync members that do not send SyncGroup within the rebalance timeout are removed (KIP-747)

Source: GroupMetadataManager (prepareRebalance, completeClassicGroupJoin, expirePendingSync).
"""

from __future__ import annotations

from functools import partial

from kcli.group.classic.group import ClassicGroup, State
from kcli.group.classic.member import Member
from kcli.group.records import classic_group_record
from kcli.group.requests import JoinAnswer, SyncAnswer
from kcli.group.turn import TimerKey, Turn
from kcli.protocol.error_code import ErrorCode


def join_key(group_id: str) -> TimerKey:
    """The key of the timer that ends a rebalance."""
    return ("join", group_id)


def sync_key(group_id: str) -> TimerKey:
    """The key of the timer that ends the wait for SyncGroups."""
    return ("sync", group_id)


def session_key(group_id: str, member_id: str) -> TimerKey:
    """The key of the timer that ends a member's session."""
    return ("session", group_id, member_id)


# answers to members


def answer_join(turn: Turn, group: ClassicGroup, member: Member, answer: JoinAnswer) -> None:
    """Answer the member's pending JoinGroup, if there is one."""
    turn.answer(member.join_token, answer)
    group.await_join(member, None)


def answer_sync(turn: Turn, member: Member, answer: SyncAnswer) -> bool:
    """Answer the member's pending SyncGroup. Return whether a SyncGroup was pending; otherwise do nothing."""
    token, member.sync_token = member.sync_token, None
    turn.answer(token, answer)
    return token is not None


def answer_syncs(turn: Turn, group: ClassicGroup, error: ErrorCode = ErrorCode.NONE) -> None:
    """Answer all pending SyncGroups, with assignments or with the error, and extend those members' sessions."""
    for member in group.members.values():
        if error:
            answer = SyncAnswer(error=error, assignment=member.assignment)
        else:
            answer = SyncAnswer(
                protocol_type=group.protocol_type, protocol=group.protocol, assignment=member.assignment
            )
        if answer_sync(turn, member, answer):
            extend_session(turn, group, member)


def joined(group: ClassicGroup, member_id: str, *, lists_members: bool | None = None) -> JoinAnswer:
    """Return the answer to a member's JoinGroup in the current generation. lists_members: whether the answer lists the
    members; by default, whether the member is the leader."""
    if lists_members is None:
        lists_members = group.leader == member_id
    return JoinAnswer(
        member_id=member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        members=group.joined_members() if lists_members else (),
    )


# the beginning and the end of a rebalance


def rebalance(turn: Turn, group: ClassicGroup) -> None:
    """Begin a rebalance. If the group is in PreparingRebalance already, complete the rebalance if all members have
    joined."""
    if group.can_rebalance:
        prepare(turn, group)
    else:
        complete_if_joined(turn, group)


def prepare(turn: Turn, group: ClassicGroup) -> None:
    """Begin a rebalance: enter PreparingRebalance, and set the timer that ends it. If all members have joined already,
    complete the rebalance at once."""
    if group.state is State.COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
        answer_syncs(turn, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    turn.cancel(sync_key(group.id))
    is_first = group.is_empty
    group.move(State.PREPARING_REBALANCE, turn.now_ms)
    if is_first:
        delay_ms = turn.shard.config.classic_initial_rebalance_delay_ms
        remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        _after_join_delay(turn, group, delay_ms, remaining_ms)
    elif group.has_all_joined:
        complete(turn, group)
    else:
        turn.after(join_key(group.id), group.rebalance_timeout_ms, partial(_complete, group.id))


def complete_if_joined(turn: Turn, group: ClassicGroup) -> None:
    """Complete the rebalance if all members have joined; but the first rebalance of a group lasts until its initial
    delay is over."""
    is_prepared = group.state is State.PREPARING_REBALANCE and group.previous_state is not State.EMPTY
    if is_prepared and group.has_all_joined:
        complete(turn, group)


def _after_join_delay(turn: Turn, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
    turn.after(join_key(group.id), delay_ms, partial(_first_delay_over, group.id, delay_ms, remaining_ms))


def _first_delay_over(group_id: str, delay_ms: int, remaining_ms: int, turn: Turn) -> None:
    group = turn.shard.classic(group_id)
    if group is None:
        return
    if group.new_member_added and remaining_ms:
        group.new_member_added = False
        next_ms = min(turn.shard.config.classic_initial_rebalance_delay_ms, remaining_ms)
        _after_join_delay(turn, group, next_ms, max(remaining_ms - delay_ms, 0))
    else:
        complete(turn, group)


def _complete(group_id: str, turn: Turn) -> None:
    group = turn.shard.classic(group_id)
    if group is not None:
        complete(turn, group)


def complete(turn: Turn, group: ClassicGroup) -> None:
    """Complete the rebalance: begin a generation of the members that have joined, and of all static members.

    If no member has joined, but static members are left, wait for another rebalance timeout.
    """
    turn.cancel(join_key(group.id))
    missing = [each.id for each in group.members.values() if each.join_token is None and each.instance_id is None]
    for member_id in missing:
        group.remove(member_id)
        turn.cancel(session_key(group.id, member_id))
    if not group.elect() and group.members:
        turn.after(join_key(group.id), group.rebalance_timeout_ms, partial(_complete, group.id))
        return
    group.begin_generation(turn.now_ms)
    if group.is_empty:
        turn.outcome.append(classic_group_record(group, {}))
        return
    for member in group.members.values():
        answer_join(turn, group, member, joined(group, member.id))
        extend_session(turn, group, member)
        member.is_new = False
        group.pending_sync.add(member.id)
    turn.after(sync_key(group.id), group.rebalance_timeout_ms, partial(_sync_over, group.id, group.generation))


def _sync_over(group_id: str, generation: int, turn: Turn) -> None:
    group = turn.shard.classic(group_id)
    if group is None or group.generation != generation:
        return
    if group.state in (State.COMPLETING_REBALANCE, State.STABLE) and group.pending_sync:
        for member_id in list(group.pending_sync):
            group.remove(member_id)
            turn.cancel(session_key(group.id, member_id))
        prepare(turn, group)


# the sessions of members


def extend_session(turn: Turn, group: ClassicGroup, member: Member, timeout_ms: int | None = None) -> None:
    """Restart the member's session timer. timeout_ms: when it expires, in ms from now; None: after the member's session
    timeout."""
    delay_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
    turn.after(session_key(group.id, member.id), delay_ms, partial(_session_over, group.id, member.id))


def await_pending(turn: Turn, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
    """Wait up to `timeout_ms` for a new member to join with this member id, which the coordinator has given it."""
    group.pending.add(member_id)
    turn.after(session_key(group.id, member_id), timeout_ms, partial(_session_over, group.id, member_id))


def _session_over(group_id: str, member_id: str, turn: Turn) -> None:
    group = turn.shard.classic(group_id)
    if group is None:
        return
    if member_id in group.pending:
        group.remove(member_id)
        _complete_without(turn, group)
        return
    member = group.members.get(member_id)
    if member is None or _is_waiting(member):
        return
    answer_join(turn, group, member, JoinAnswer(error=ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member_id)
    if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
        prepare(turn, group)
    else:
        _complete_without(turn, group)


def _complete_without(turn: Turn, group: ClassicGroup) -> None:
    if group.state is State.PREPARING_REBALANCE and group.has_all_joined:
        complete(turn, group)


def _is_waiting(member: Member) -> bool:
    """Return whether the member's session must not expire, because a request of the member is pending and it sends no
    heartbeats meanwhile. The session of a new member does expire, so that it cannot wait for ever."""
    return not member.is_new and (member.join_token is not None or member.sync_token is not None)

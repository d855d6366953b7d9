"""Removal of members that leave a consumer group or miss a deadline. The group then gets a new group epoch; but if only
classic members remain, it becomes a classic group (if group.consumer.migration.policy allows it).

    timer     the member must
    session   send a heartbeat within its session timeout
    revoke    confirm within its rebalance timeout that it has revoked partitions
    join      classic member: join again within its rebalance timeout after REBALANCE_IN_PROGRESS
    sync      classic member: send SyncGroup within its rebalance timeout after JoinGroup

Source: GroupMetadataManager (consumerGroupFenceMembers, schedule...Timeout).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from kcli.coordinator.machine import Pair
from kcli.group.classic.rebalance import session_key
from kcli.group.consumer.downgrade import can_downgrade, downgrade
from kcli.group.consumer.group import ConsumerGroup
from kcli.group.consumer.member import ConsumerMember, MemberState
from kcli.group.consumer.metadata_hash import group_hash, topic_hash
from kcli.group.consumer.records import group_record, member_tombstones, regex_tombstone
from kcli.group.consumer.subscriptions import Subscriptions
from kcli.group.turn import Shard, TimerKey, Turn


def fence(turn: Turn, group: ConsumerGroup, members: Sequence[ConsumerMember]) -> None:
    """Remove these members and cancel their timers. Raises GroupError UNKNOWN_SERVER_ERROR if the records do not fit
    into one batch."""
    if not members:
        return
    if can_downgrade(turn, group, members):
        downgrade(turn, group, leaving=members, must_rebalance=True)
    else:
        _remove(turn, group, members)
    for member in members:
        cancel_all(turn, group.id, member.id)


def _remove(turn: Turn, group: ConsumerGroup, members: Sequence[ConsumerMember]) -> None:
    subscriptions = group.subscriptions.copy()
    records: list[Pair] = []
    for member in members:
        records += member_tombstones(group.id, member.id)
        subscriptions.remove(member)
    for regex, count in Counter(member.regex for member in members if member.regex).items():
        if group.subscriptions.regexes[regex] == count:
            records.append(regex_tombstone(group.id, regex))
            if regex in group.resolved:
                subscriptions.unmatch(group.resolved[regex].topics)
    records.append(group_record(group.id, group.epoch + 1, hash_topics(turn.shard, subscriptions)))
    turn.append(records)


def hash_topics(shard: Shard, subscriptions: Subscriptions) -> int:
    """Return the metadata hash of the topics that are subscribed to (`metadata_hash`); topic hashes are cached in the
    shard."""
    hashes = {}
    for name in subscriptions.topics():
        topic_id = shard.metadata.topic_id(name)
        if topic_id is None:
            continue
        known = shard.topic_hashes.get(name)
        if known is None:
            known = shard.topic_hashes[name] = topic_hash(name, topic_id, shard.metadata.racks(topic_id))
        hashes[name] = known
    return group_hash(hashes)


# the timers of members


def _revoke_key(group_id: str, member_id: str) -> TimerKey:
    return ("revoke", group_id, member_id)


def _join_key(group_id: str, member_id: str) -> TimerKey:
    return ("join", group_id, member_id)


def _sync_key(group_id: str, member_id: str) -> TimerKey:
    return ("sync", group_id, member_id)


def extend_session(turn: Turn, group_id: str, member: ConsumerMember) -> None:
    """Restart the member's session timer."""
    if member.classic is None:
        timeout_ms = turn.shard.metadata.settings(group_id).session_timeout_ms
    else:
        timeout_ms = member.classic.session_timeout_ms
    turn.after(session_key(group_id, member.id), timeout_ms, partial(_too_late, group_id, member.id, None))


def load(turn: Turn, group_id: str, member: ConsumerMember) -> None:
    """Start the timers of a member that was read from the log. Its first session has the group's session timeout, even
    if the member speaks the classic protocol."""
    extend_session(turn, group_id, replace(member, classic=None))
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        await_revocation(turn, group_id, member)


def await_revocation(turn: Turn, group_id: str, member: ConsumerMember) -> None:
    """Start the timer within which the member must revoke partitions, before it can advance to another member epoch."""
    key = _revoke_key(group_id, member.id)
    turn.after(key, member.rebalance_timeout_ms, partial(_too_late, group_id, member.id, member.epoch))


def stop_awaiting_revocation(turn: Turn, group_id: str, member_id: str) -> None:
    """Cancel the revocation timer."""
    turn.cancel(_revoke_key(group_id, member_id))


def await_join(turn: Turn, group_id: str, member: ConsumerMember) -> None:
    """Start the timer within which a classic member must join again. A timer that is running already is kept, as the
    time counts from the member's first REBALANCE_IN_PROGRESS."""
    key = _join_key(group_id, member.id)
    turn.after_if_absent(key, member.rebalance_timeout_ms, partial(_too_late, group_id, member.id, None))


def stop_awaiting_join(turn: Turn, group_id: str, member_id: str) -> None:
    """Cancel the join timer."""
    turn.cancel(_join_key(group_id, member_id))


def await_sync(turn: Turn, group_id: str, member: ConsumerMember) -> None:
    """Start the timer within which a classic member that has joined must send SyncGroup."""
    key = _sync_key(group_id, member.id)
    turn.after(key, member.rebalance_timeout_ms, partial(_too_late, group_id, member.id, None))


def stop_awaiting_sync(turn: Turn, group_id: str, member_id: str) -> None:
    """Cancel the sync timer."""
    turn.cancel(_sync_key(group_id, member_id))


def cancel_all(turn: Turn, group_id: str, member_id: str) -> None:
    """Cancel all timers of the member."""
    for key in (session_key, _revoke_key, _join_key, _sync_key):
        turn.cancel(key(group_id, member_id))


def _too_late(group_id: str, member_id: str, epoch: int | None, turn: Turn) -> None:
    """Remove the member whose timer has expired, if the member is still in the group and its member epoch is still
    `epoch`. epoch: None if the member is to be removed at any epoch."""
    group = turn.shard.consumer(group_id)
    member = None if group is None else group.members.get(member_id)
    if group is not None and member is not None and epoch in (None, member.epoch):
        fence(turn, group, [member])

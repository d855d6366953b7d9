"""The steps of a member's heartbeat or JoinGroup in a consumer group, in either protocol.

    note        add the record of a changed subscription
    refresh     hash the metadata of the group's topics: the group epoch grows if the hash has changed
    reconcile   move the member one step towards its target assignment

Each step adds records; the group changes when they are replayed. Source: GroupMetadataManager
(hasMemberSubscriptionChanged, updateSubscriptionMetadata, maybeReconcile).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kcli.coordinator.machine import Pair
from kcli.group.consumer.fence import await_revocation, hash_topics, stop_awaiting_revocation
from kcli.group.consumer.group import ConsumerGroup
from kcli.group.consumer.member import ConsumerMember, MemberState
from kcli.group.consumer.reconcile import Owned, Step
from kcli.group.consumer.records import (
    current_record,
    group_record,
    member_record,
    partition_metadata_tombstone,
)
from kcli.group.consumer.subscriptions import ResolvedRegex
from kcli.group.consumer.target import Target, subscribed_topics
from kcli.group.turn import Turn

# the steps `note` and `refresh`


def note(group: ConsumerGroup, old: ConsumerMember, member: ConsumerMember, records: list[Pair]) -> bool:
    """Add the member's record to `records` if the member differs from `old`, its state before the request. Return
    whether the topic names that the member subscribes to have changed."""
    if member == old:
        return False
    records.append(member_record(group.id, member))
    return member.topics != old.topics


def refresh(
    turn: Turn,
    group: ConsumerGroup,
    old: ConsumerMember,
    member: ConsumerMember,
    records: list[Pair],
    *,
    has_changed: bool,
) -> tuple[int, bool]:
    """Hash the metadata of the topics that the group subscribes to once `old` is replaced by `member`.

    Return the group epoch, one higher if has_changed is set or the hash has changed, and whether all members then have
    the same subscription. Adds the group's record to `records` if the epoch grows, and a tombstone if the log has a
    record of type 4 (see records.py). has_changed: whether the caller requires a new epoch, even if the hash stays the
    same.
    """
    subscriptions = group.subscriptions.copy()
    subscriptions.remove(old)
    subscriptions.add(member)
    if old.regex and old.regex != member.regex and group.subscriptions.regexes[old.regex] == 1:
        resolved = group.resolved.get(old.regex)
        subscriptions.unmatch(() if resolved is None else resolved.topics)
    members = len(group.members) + (member.id not in group.members and member.instance_id not in group.static)
    epoch = group.epoch
    metadata_hash = hash_topics(turn.shard, subscriptions)
    if has_changed or metadata_hash != group.metadata_hash:
        epoch += 1
        records.append(group_record(group.id, epoch, metadata_hash))
    group.refreshed(turn.now_ms, epoch)
    if group.has_partition_metadata:
        records.append(partition_metadata_tombstone(group.id))
    return epoch, subscriptions.is_homogeneous(members)


# the step `reconcile`


def reconcile(
    turn: Turn,
    group: ConsumerGroup,
    member: ConsumerMember,
    target: Target,
    records: list[Pair],
    *,
    owned: Owned,
    has_changed: bool,
) -> ConsumerMember:
    """Return the member after its next step towards `target`, and add its record to `records` if it changes.

    owned: the partitions that the member reports as owned. has_changed: whether its subscription has changed. Raises
    GroupError FENCED_MEMBER_EPOCH.
    """
    if not has_changed and member.is_reconciled(target.epoch):
        return member
    updated = _step(turn, group, member, target, group.resolved, owned=owned, has_changed=has_changed).take(member)
    if updated == member:
        return member
    records.append(current_record(group.id, updated))
    if updated.classic is None:
        if updated.state is MemberState.UNREVOKED_PARTITIONS:
            turn.then(partial(await_revocation, turn, group.id, updated))
        else:
            turn.then(partial(stop_awaiting_revocation, turn, group.id, updated.id))
    return updated


def _step(
    turn: Turn,
    group: ConsumerGroup,
    member: ConsumerMember,
    target: Target,
    resolved: Mapping[str, ResolvedRegex],
    *,
    owned: Owned,
    has_changed: bool,
) -> Step:
    metadata, names = turn.shard.metadata, subscribed_topics(member, resolved)
    return Step(
        epoch=target.epoch,
        target=target.partitions,
        reads=lambda topic_id: metadata.topic_name(topic_id) in names,
        reads_any=bool(names),
        has_changed=has_changed,
        is_owned=group.is_owned,
        owned=owned,
    )

"""A classic group of consumers becomes a consumer group when a member joins it with ConsumerGroupHeartbeat, if
group.consumer.migration.policy allows it: the generation becomes the group epoch, and each member's assignment becomes
its target assignment. KIP-848.

Source: GroupMetadataManager (validateOnlineUpgrade, convertToConsumerGroup), ConsumerGroup.fromClassicGroup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from formats.errors import BadValue, FormatError
from kcli.coordinator.machine import Pair
from kcli.group.classic.group import CONSUMER, ClassicGroup
from kcli.group.classic.member import Member
from kcli.group.classic.rebalance import answer_join, answer_sync, join_key, session_key, sync_key
from kcli.group.consumer.embedded import read_assignment, read_subscription
from kcli.group.consumer.fence import extend_session, hash_topics
from kcli.group.consumer.group import ConsumerGroup
from kcli.group.consumer.member import ClassicProtocol, ConsumerMember, with_epoch, without_epochs
from kcli.group.consumer.records import (
    assignment_record,
    current_record,
    group_record,
    member_record,
    replay,
    target_record,
)
from kcli.group.errors import GroupError
from kcli.group.records import classic_group_tombstone, parse
from kcli.group.requests import JoinAnswer, SyncAnswer
from kcli.group.turn import Turn
from kcli.protocol.error_code import ErrorCode


def upgrade(turn: Turn, classic: ClassicGroup, records: list[Pair]) -> ConsumerGroup:
    """Return the consumer group that replaces the classic group, and add its records to `records`.

    The group is in `turn.shard` only once the records are replayed. Members with a pending JoinGroup or SyncGroup get
    REBALANCE_IN_PROGRESS, and join again. Raises GroupError GROUP_ID_NOT_FOUND if the upgrade is not allowed or not
    possible, UNKNOWN_SERVER_ERROR if the leader has assigned a partition twice, if the group has no protocol yet, or if
    a member does not support the group's protocol.
    """
    _check(turn, classic)
    members = [_member(turn, classic, each) for each in classic.members.values()]
    generation = classic.generation
    group = ConsumerGroup(classic.id)
    subscriptions = group.subscriptions.copy()
    for member in members:
        subscriptions.add(member)
    consumer_records = [
        *(member_record(classic.id, member) for member in members),
        group_record(classic.id, generation, hash_topics(turn.shard, subscriptions)),
        *(target_record(classic.id, member.id, without_epochs(member.assigned)) for member in members),
        assignment_record(classic.id, generation, 0),
        *(current_record(classic.id, member) for member in members),
    ]
    _replay(group, consumer_records)
    turn.then(partial(_take_over, turn, classic, members))
    records += [classic_group_tombstone(classic.id), *consumer_records]
    return group


def _take_over(turn: Turn, classic: ClassicGroup, members: Sequence[ConsumerMember]) -> None:
    for each in classic.members.values():
        error = ErrorCode.REBALANCE_IN_PROGRESS
        answer_join(turn, classic, each, JoinAnswer(error=error, member_id=each.id))
        answer_sync(turn, each, SyncAnswer(error=error))
    for key in (join_key, sync_key):
        turn.cancel(key(classic.id))
    for member_id in classic.pending:
        turn.cancel(session_key(classic.id, member_id))
    for member in members:
        extend_session(turn, classic.id, member)


def _replay(group: ConsumerGroup, records: Iterable[Pair]) -> None:
    for pair in records:
        record = parse(pair)
        assert record is not None, "of a known type"
        try:
            replay(group, record)
        except BadValue as error:
            raise GroupError(ErrorCode.UNKNOWN_SERVER_ERROR) from error


def _check(turn: Turn, classic: ClassicGroup) -> None:
    config = turn.shard.config
    if not config.can_upgrade:
        raise _refused(classic, "online upgrade is disabled")
    if classic.protocol_type != CONSUMER:
        raise _refused(classic, "the group does not use the consumer embedded protocol")
    if len(classic.members) > config.consumer_group_max_size:
        raise _refused(classic, "the group size exceeds the consumer group maximum size")


def _refused(classic: ClassicGroup, reason: str) -> GroupError:
    message = f"Cannot upgrade classic group {classic.id} to consumer group because {reason}."
    return GroupError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _member(turn: Turn, classic: ClassicGroup, member: Member) -> ConsumerMember:
    if classic.protocol is None or classic.protocol not in dict(member.protocols):
        raise GroupError(ErrorCode.UNKNOWN_SERVER_ERROR)
    try:
        assigned, has_user_data = read_assignment(member.assignment, turn.shard.metadata)
        subscription = None if has_user_data else read_subscription(member.metadata(classic.protocol))
    except FormatError as error:
        raise _refused(classic, "the embedded consumer protocol is malformed") from error
    if subscription is None:
        raise _refused(
            classic,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default"
            " assignor before re-attempting the upgrade",
        )
    generation = classic.generation
    return ConsumerMember(
        id=member.id,
        epoch=generation,
        previous_epoch=generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=subscription.topics,
        assigned=with_epoch(assigned, generation),
        classic=ClassicProtocol(member.session_timeout_ms, member.protocols),
    )

"""ConsumerGroupDescribe: the state, the epochs and the members of a consumer group.

Source: ConsumerGroup.asDescribedGroup; KIP-848, KIP-1043.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from kcli.coordinator.machine import Token
from kcli.group.consumer.group import ConsumerGroup
from kcli.group.consumer.member import NO_PARTITIONS, ConsumerMember
from kcli.group.metadata import Metadata
from kcli.group.requests import DescribeConsumerGroup, DescribedConsumer, DescribedConsumerGroup
from kcli.group.turn import Turn
from kcli.java.hashing import hash_map_order
from kcli.protocol.error_code import ErrorCode


def describe(turn: Turn, token: Token, request: DescribeConsumerGroup) -> None:
    """Answer with a consumer group and its members. Error: GROUP_ID_NOT_FOUND if there is no group of that id, or
    the group is no consumer group."""
    group = turn.shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        turn.answer(token, _described(turn, group))
        return
    reason = "not found" if group is None else "is not a consumer group"
    message = f"Group {request.group_id} {reason}."
    answer = DescribedConsumerGroup(
        group_id=request.group_id, error=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message
    )
    turn.answer(token, answer)


def _described(turn: Turn, group: ConsumerGroup) -> DescribedConsumerGroup:
    metadata = turn.shard.metadata
    return DescribedConsumerGroup(
        group_id=group.id,
        state=group.state_name,
        epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=group.preferred_assignor(None, None) or turn.shard.config.consumer_assignors[0],
        members=tuple(_member(group, member, metadata) for member in group.members.values()),
    )


def _member(group: ConsumerGroup, member: ConsumerMember, metadata: Metadata) -> DescribedConsumer:
    has = {
        topic_id: (*member.assigned.get(topic_id, ()), *member.revoking.get(topic_id, ()))
        for topic_id in dict.fromkeys((*member.assigned, *member.revoking))
    }
    return DescribedConsumer(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(hash_map_order(sorted(member.topics))),
        regex=member.regex,
        assignment=_known(has, metadata),
        target=_known(group.target.get(member.id, NO_PARTITIONS), metadata),
        is_classic=member.classic is not None,
    )


def _known(partitions: Mapping[UUID, Iterable[int]], metadata: Metadata) -> dict[UUID, tuple[int, ...]]:
    return {
        topic_id: tuple(sorted(numbers))
        for topic_id, numbers in partitions.items()
        if metadata.topic_name(topic_id) is not None
    }

"""ConsumerGroupDescribe (69): consumer groups with their members, what each has and what it shall have.

v0 KIP-848. v1 the kind of each member (KIP-1099).
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from kcli.broker.coordinators.groups import GROUP_OPERATIONS, ask_group, speaks_consumer_protocol
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.broker.nodes import NOT_ASKED
from kcli.group.requests import DescribeConsumerGroup, DescribedConsumer, DescribedConsumerGroup


async def consumer_group_describe(call: Call) -> Entity:
    """Errors: UNSUPPORTED_VERSION where the cluster has not that protocol, INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, and
    the coordinator's."""
    return call.respond(groups=tuple([await _describe(call, group_id) for group_id in call.request.group_ids]))


async def _describe(call: Call, group_id: str) -> Entity:
    group = DescribedConsumerGroup(group_id=group_id)
    if not speaks_consumer_protocol(call.broker):
        return _answer(call, ErrorCode.unsupported_version, group)
    try:
        group = await ask_group(call, group_id, DescribeConsumerGroup(group_id=group_id))
    except CoordinatorError as error:
        return _answer(call, error.code, group)
    return _answer(call, ErrorCode(group.error), group)


def _answer(call: Call, code: ErrorCode, group: DescribedConsumerGroup) -> Entity:
    is_asked = call.request.include_authorized_operations and code is ErrorCode.none
    return call.new(
        "DescribedGroup",
        error_code=code,
        error_message=group.error_message,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=tuple(_member(call, each) for each in group.members),
        authorized_operations=GROUP_OPERATIONS if is_asked else NOT_ASKED,
    )


def _member(call: Call, member: DescribedConsumer) -> Entity:
    return call.new(
        "Member",
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topics,
        subscribed_topic_regex=member.regex,
        assignment=_assignment(call, member.assignment),
        target_assignment=_assignment(call, member.target),
        member_type=0 if member.is_classic else 1,
    )


def _assignment(call: Call, partitions: Mapping[UUID, tuple[int, ...]]) -> Entity:
    topics = []
    for topic_id, numbers in partitions.items():
        topic = call.broker.image.topic_by_id(topic_id)
        if topic is not None:
            topics.append(call.new("TopicPartitions", topic_id=topic_id, topic_name=topic.name, partitions=numbers))
    return call.new("Assignment", topic_partitions=tuple(topics))

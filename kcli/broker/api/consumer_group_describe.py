"""ConsumerGroupDescribe (69): consumer groups with their members, and the current and target assignment of each.

v0 KIP-848. v1 the member type, classic or consumer (KIP-1099).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from kcli.broker.authorization import EVERYTHING
from kcli.broker.broker import Broker
from kcli.broker.client_view.nodes import OPERATIONS_OMITTED
from kcli.broker.coordinators.groups import ask_group, speaks_consumer_protocol
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.group.requests import DescribeConsumerGroup, DescribedConsumer, DescribedConsumerGroup
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import consumer_group_describe as types

HIDDEN = "The group has described topic(s) that the client is not authorized to describe."


async def consumer_group_describe(
    broker: Broker, call: types.ConsumerGroupDescribeCall
) -> types.ConsumerGroupDescribeResponse:
    """Errors: UNSUPPORTED_VERSION if the consumer group protocol is not enabled, INVALID_GROUP_ID, GROUP_ID_NOT_FOUND,
    and any code of CoordinatorError."""
    describable = broker.access.among(call, Operation.DESCRIBE, ResourceType.TOPIC)
    groups = [await _describe(broker, call, group_id, describable) for group_id in call.request.group_ids]
    return call.respond(groups=tuple(groups))


async def _describe(
    broker: Broker, call: types.ConsumerGroupDescribeCall, group_id: str, describable: Container[str]
) -> types.DescribedGroup:
    group = DescribedConsumerGroup(group_id=group_id)
    if not speaks_consumer_protocol(broker.config, broker.image):
        return _answer(broker, call, ErrorCode.UNSUPPORTED_VERSION, group)
    if not broker.access.allows(call, Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return _answer(broker, call, ErrorCode.GROUP_AUTHORIZATION_FAILED, group)
    try:
        group = await ask_group(broker.groups, group_id, DescribeConsumerGroup(group_id=group_id))
    except CoordinatorError as error:
        return _answer(broker, call, error.code, group)
    operations = OPERATIONS_OMITTED
    if call.request.include_authorized_operations and group.error == ErrorCode.NONE:
        operations = broker.access.operations(call, ResourceType.GROUP, group_id)
    topics = () if describable is EVERYTHING else _topics(broker, group)
    # not `any`, which stops at the first hidden topic: each look-up in `describable` writes an audit line, as in Kafka
    if [name async for name in broker.turns.over(topics) if name not in describable]:
        hidden = DescribedConsumerGroup(group_id=group_id, error_message=HIDDEN)
        return _answer(broker, call, ErrorCode.TOPIC_AUTHORIZATION_FAILED, hidden)
    return _answer(broker, call, group.error, group, operations)


def _topics(broker: Broker, group: DescribedConsumerGroup) -> set[str]:
    """Return the names of the topics in the current or target assignment of any member. Deleted topics are left out."""
    ids = {each for member in group.members for each in (*member.assignment, *member.target)}
    return {topic.name for each in ids if (topic := broker.image.topic_by_id(each)) is not None}


def _answer(
    broker: Broker,
    call: types.ConsumerGroupDescribeCall,
    code: ErrorCode,
    group: DescribedConsumerGroup,
    operations: int = OPERATIONS_OMITTED,
) -> types.DescribedGroup:
    return call.new(
        "DescribedGroup",
        error_code=code,
        error_message=group.error_message,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=tuple(_member(broker, call, each) for each in group.members),
        authorized_operations=operations,
    )


def _member(broker: Broker, call: types.ConsumerGroupDescribeCall, member: DescribedConsumer) -> types.Member:
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
        assignment=_assignment(broker, call, member.assignment),
        target_assignment=_assignment(broker, call, member.target),
        member_type=0 if member.is_classic else 1,
    )


def _assignment(
    broker: Broker, call: types.ConsumerGroupDescribeCall, partitions: Mapping[UUID, tuple[int, ...]]
) -> types.Assignment:
    topics = []
    for topic_id, numbers in partitions.items():
        topic = broker.image.topic_by_id(topic_id)
        if topic is not None:
            topics.append(call.new("TopicPartitions", topic_id=topic_id, topic_name=topic.name, partitions=numbers))
    return call.new("Assignment", topic_partitions=tuple(topics))

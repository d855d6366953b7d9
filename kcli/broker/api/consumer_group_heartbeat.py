"""ConsumerGroupHeartbeat (68): a member of a consumer group joins, reports that it is alive, receives its assignment,
or leaves.

v0 KIP-848. v1 member ids that clients generate, regular expressions (KIP-1082).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Container, Iterable
from inspect import isawaitable
from typing import TYPE_CHECKING

from kcli.broker.authorization import EVERYTHING
from kcli.broker.broker import Broker
from kcli.broker.coordinators.groups import (
    consumer_assignors,
    duration,
    milliseconds,
    speaks_consumer_protocol,
    when_answered,
)
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.process.turns import STEPS_AT_ONCE
from kcli.group.consumer.member import JOINING, LEAVING, LEAVING_STATIC
from kcli.group.consumer.topic_regex import compile_regex
from kcli.group.errors import GroupError
from kcli.group.requests import ConsumerHeartbeat, ConsumerHeartbeatAnswer
from kcli.java.linear_regex import LENGTH_MAX
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import consumer_group_heartbeat as types

OWN_MEMBER_ID_SINCE = 1
NAMES_MAX = 20_000
"""The greatest number of subscribed topic names in a request. It is limited because a heartbeat that changes the
subscription iterates over all of them several times."""


def consumer_group_heartbeat(
    broker: Broker, call: types.ConsumerGroupHeartbeatCall
) -> types.ConsumerGroupHeartbeatResponse | Awaitable[types.ConsumerGroupHeartbeatResponse]:
    """Errors: UNSUPPORTED_VERSION if the consumer group protocol is not enabled, INVALID_REQUEST, UNSUPPORTED_ASSIGNOR,
    GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID,
    GROUP_MAX_SIZE_REACHED, INVALID_REGULAR_EXPRESSION, and any code of CoordinatorError."""
    if not speaks_consumer_protocol(broker.config, broker.image):
        return _refused(call, ErrorCode.UNSUPPORTED_VERSION)
    if not broker.access.allows(call, Operation.READ, ResourceType.GROUP, call.request.group_id):
        return _refused(call, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = call.request.subscribed_topic_names or ()
    if len(names) > NAMES_MAX:
        message = f"SubscribedTopicNames are {len(names):,}, {NAMES_MAX:,} are allowed."
        return _refused(call, ErrorCode.INVALID_REQUEST, message)
    describable = broker.access.among(call, Operation.DESCRIBE, ResourceType.TOPIC)
    if describable is not EVERYTHING and len(names) > STEPS_AT_ONCE:
        return _handled_in_turns(broker, call, names, describable)
    return _handled(broker, call, describable, are_allowed=all(name in describable for name in names))


async def _handled_in_turns(
    broker: Broker, call: types.ConsumerGroupHeartbeatCall, names: Iterable[str], describable: Container[str]
) -> types.ConsumerGroupHeartbeatResponse:
    are_allowed = True
    async for name in broker.turns.over(names):
        if name not in describable:
            are_allowed = False
            break
    await broker.turns.next()
    answer = _handled(broker, call, describable, are_allowed=are_allowed)
    return await answer if isawaitable(answer) else answer


def _handled(
    broker: Broker, call: types.ConsumerGroupHeartbeatCall, describable: Container[str], *, are_allowed: bool
) -> types.ConsumerGroupHeartbeatResponse | Awaitable[types.ConsumerGroupHeartbeatResponse]:
    """Check a request, and pass it to the group coordinator; return the response. describable: the names of the topics
    that the client may describe; the coordinator subscribes the member's regular expression to no other topics.
    are_allowed: whether the client may describe all topics that the request names."""
    if not are_allowed:
        return _refused(call, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    try:
        _check(broker, call)
        answer = broker.groups.send(call.request.group_id, _request(call, describable))
    except GroupError as refused:
        return _refused(call, refused.code, refused.message)
    except CoordinatorError as error:
        return _refused(call, error.code)
    return when_answered(answer, lambda answer: _finished(call, answer))


def _check(broker: Broker, call: types.ConsumerGroupHeartbeatCall) -> None:
    """Check the fields of a request as Kafka does. Raises GroupError."""
    request, epoch = call.request, call.request.member_epoch
    if call.version >= OWN_MEMBER_ID_SINCE or epoch > JOINING or epoch == LEAVING:
        _check_text("MemberId", request.member_id)
    _check_text("GroupId", request.group_id)
    _check_text("InstanceId", request.instance_id)
    _check_text("RackId", request.rack_id)
    if epoch == JOINING:
        if milliseconds(request.rebalance_timeout) == -1:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and call.get("subscribed_topic_regex", None) is None:
            raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == LEAVING_STATIC and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVING_STATIC:
        raise _invalid("MemberEpoch is invalid.")
    regex = call.get("subscribed_topic_regex", None)
    if regex is not None and len(regex) > LENGTH_MAX:
        compile_regex(regex)
    assignors = consumer_assignors(broker.config)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise GroupError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _check_text(name: str, value: str | None) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{name} can't be empty.")


def _invalid(message: str) -> GroupError:
    return GroupError(ErrorCode.INVALID_REQUEST, message)


def _request(call: types.ConsumerGroupHeartbeatCall, describable: Container[str]) -> ConsumerHeartbeat:
    request = call.request
    names, owned = request.subscribed_topic_names, request.topic_partitions
    return ConsumerHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
        topics=None if names is None else frozenset(names),
        regex=call.get("subscribed_topic_regex", None),
        assignor=request.server_assignor,
        owned=None if owned is None else {each.topic_id: each.partitions for each in owned if each.topic_id},
        client_id=call.client_id,
        client_host=f"/{call.client_host}",
        describable=None if describable is EVERYTHING else describable,
    )


def _finished(
    call: types.ConsumerGroupHeartbeatCall, answer: asyncio.Future[ConsumerHeartbeatAnswer]
) -> types.ConsumerGroupHeartbeatResponse:
    try:
        result = answer.result()
    except CoordinatorError as error:
        return _refused(call, error.code)
    if result.error:
        return _refused(call, result.error, result.error_message)
    assignment = None
    if result.assignment is not None:
        topics = tuple(
            call.new("TopicPartitions", topic_id=topic_id, partitions=numbers)
            for topic_id, numbers in result.assignment.items()
        )
        assignment = call.new("Assignment", topic_partitions=topics)
    return call.respond(
        error_code=ErrorCode.NONE,
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval=duration(result.heartbeat_interval_ms),
        assignment=assignment,
    )


def _refused(
    call: types.ConsumerGroupHeartbeatCall, code: ErrorCode, message: str | None = None
) -> types.ConsumerGroupHeartbeatResponse:
    return call.respond(
        error_code=code, error_message=message, member_epoch=0, heartbeat_interval=duration(0), assignment=None
    )

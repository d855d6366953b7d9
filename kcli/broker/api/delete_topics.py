"""DeleteTopics (20): delete topics, by name or by id.

v1 throttle time. v3 TOPIC_DELETION_DISABLED. v4 flexible. v5 error messages, THROTTLING_QUOTA_EXCEEDED (KIP-599).
v6 ids (KIP-516).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.metadata.errors import NotController
from kcli.metadata.result import Error, Refused
from kcli.metadata.topic_control import TopicAnswer
from kcli.metadata.topic_deletion import ALL_RIGHTS, Rights
from kcli.metadata.topic_deletion import delete_topics as decide
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.broker.wire.types import delete_topics as types

STRICT_SINCE = 5
IDS_SINCE = 6
DISABLED_SINCE = 3


async def delete_topics(broker: Broker, call: types.DeleteTopicsCall) -> types.DeleteTopicsResponse:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_REQUEST, TOPIC_DELETION_DISABLED,
    THROTTLING_QUOTA_EXCEEDED. Raises NotController on a node that is not the active controller, but only if the client
    may delete at least one of the topics, as Kafka checks the ACLs first; such a node looks up the topics in the
    committed metadata."""
    topics: list[tuple[str | None, UUID | None]]
    if call.version >= IDS_SINCE:
        topics = [(each.name, each.topic_id) for each in call.request.topics]
    else:
        topics = [(name, None) for name in call.request.topic_names]
    metadata = broker.metadata
    rights = ALL_RIGHTS
    if not broker.access.allows(call, Operation.DELETE, ResourceType.CLUSTER, log_denied=False):
        rights = Rights(
            describable=broker.access.among(call, Operation.DESCRIBE, ResourceType.TOPIC),
            deletable=broker.access.among(call, Operation.DELETE, ResourceType.TOPIC),
        )
    context, is_active = broker.topics.context(call, STRICT_SINCE), metadata.is_leader
    image = metadata.draft if is_active else metadata.image
    if not is_active:
        context = replace(context, charge=_not_here)
    try:
        result = decide(image, topics, context, rights)
    except Refused as refused:
        error = refused.error if call.version >= DISABLED_SINCE else Error(ErrorCode.INVALID_REQUEST)
        answers = [TopicAnswer(name=name, topic_id=topic_id, error=error) for name, topic_id in topics]
        return call.respond(responses=tuple(_answer(call, each) for each in answers))
    if is_active:
        await metadata.append(result.records)
    return call.respond(responses=tuple(_answer(call, each) for each in result.response))


def _not_here(_: int) -> bool:
    """Raise NotController. On a node that is not the active controller, this function takes the place of the one that
    counts the deleted partitions against the client's quota: it is called at the first topic that exists and that the
    client may delete."""
    raise NotController("this node is not the active controller")


def _answer(call: types.DeleteTopicsCall, topic: TopicAnswer) -> types.DeletableTopicResult:
    return call.new(
        "DeletableTopicResult",
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=topic.error.code,
        error_message=topic.error.message,
    )

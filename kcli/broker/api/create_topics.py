"""CreateTopics (19): create topics, whose replicas the controller or the client places on brokers.

v2 throttle time. v4 -1 for the default number of partitions and replicas (KIP-464). v5 flexible; the response has
partitions, replicas and configurations (KIP-525). v6 THROTTLING_QUOTA_EXCEEDED (KIP-599). v7 topic ids (KIP-516).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.config.describe import effective_topic_configs
from kcli.metadata.result import RECORDS_PER_REQUEST_MAX, TOO_MANY_RECORDS, Error, Refused
from kcli.metadata.topic_control import NewTopic, TopicAnswer
from kcli.metadata.topic_control import create_topics as decide
from kcli.metadata.topic_names import CLUSTER_METADATA
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import create_topics as types

STRICT_SINCE = 6


async def create_topics(broker: Broker, call: types.CreateTopicsCall) -> types.CreateTopicsResponse:
    """Errors: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR,
    INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, INVALID_REQUEST, POLICY_VIOLATION, THROTTLING_QUOTA_EXCEEDED. Raises
    NotController on a node that is not the active controller, but only if the request may create at least one of its
    topics, as Kafka checks the ACLs first."""
    request = call.request
    metadata = broker.metadata
    if call.refusal is not None:
        return _refused(broker, call, Error(ErrorCode.POLICY_VIOLATION, call.refusal))
    if any(len(each.configs) > RECORDS_PER_REQUEST_MAX for each in request.topics):
        return _refused(broker, call, Error(ErrorCode.POLICY_VIOLATION, TOO_MANY_RECORDS))
    denied, described = _denied(broker, call), _described(broker, call)
    topics = [_new_topic(each) for each in request.topics if each.name not in denied]
    context = broker.topics.context(call, STRICT_SINCE)
    creates = any(name not in denied for name in _named_once(call))
    image = metadata.draft if creates else metadata.image
    try:
        result = decide(image, topics, context, validate_only=request.validate_only)
    except Refused as refused:
        return _refused(broker, call, refused.error)
    if creates:
        await metadata.append(result.records)
    error = Error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    answers = [*result.response, *(TopicAnswer(name=name, error=error) for name in denied)]
    return call.respond(topics=tuple(_answer(broker, call, each, described) for each in answers))


def _denied(broker: Broker, call: types.CreateTopicsCall) -> set[str]:
    """Return the names of the topics that the client is not allowed to create. Topics that the request names twice are
    left out, as they are refused with INVALID_REQUEST."""
    if broker.access.allows(call, Operation.CREATE, ResourceType.CLUSTER, log_denied=False):
        return set()
    creatable = broker.access.among(call, Operation.CREATE, ResourceType.TOPIC)
    return {name for name in _named_once(call) if name not in creatable}


def _described(broker: Broker, call: types.CreateTopicsCall) -> set[str]:
    """Return the names of the topics whose configurations the client is allowed to describe. For the other topics the
    response has no configurations."""
    describable = broker.access.among(call, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, log_denied=False)
    return {name for name in _named_once(call) if name in describable}


def _named_once(call: types.CreateTopicsCall) -> Iterator[str]:
    """Yield the topics for which the ACLs are checked. Left out are __cluster_metadata and the topics that the request
    names twice, which are refused whatever the ACLs."""
    times = Counter(each.name for each in call.request.topics)
    return (name for name in times if times[name] == 1 and name != CLUSTER_METADATA)


def _new_topic(topic: types.CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[(each.partition_index, list(each.broker_ids)) for each in topic.assignments],
        configs=[(each.name, each.value) for each in topic.configs],
    )


def _refused(broker: Broker, call: types.CreateTopicsCall, error: Error) -> types.CreateTopicsResponse:
    answers = (TopicAnswer(name=each.name, error=error) for each in call.request.topics)
    return call.respond(topics=tuple(_answer(broker, call, each, frozenset()) for each in answers))


def _answer(
    broker: Broker, call: types.CreateTopicsCall, topic: TopicAnswer, describable: Container[str]
) -> types.CreatableTopicResult:
    name, is_creating = topic.name or "", topic.topic_id is not None
    described = is_creating and name in describable
    entries = effective_topic_configs(broker.config, topic.configs) if described else []
    return call.new(
        "CreatableTopicResult",
        name=name,
        topic_id=topic.topic_id,
        error_code=topic.error.code,
        error_message=topic.error.message,
        topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if is_creating and not described
        else ErrorCode.NONE,
        num_partitions=topic.num_partitions if described else -1,
        replication_factor=topic.replication_factor if described else -1,
        configs=tuple(
            call.new(
                "CreatableTopicConfigs",
                name=each.name,
                value=each.value,
                read_only=each.is_read_only,
                config_source=int(each.source),
                is_sensitive=each.is_sensitive,
            )
            for each in sorted(entries, key=lambda entry: entry.name)
        ),
    )

"""CreateTopics (19): new topics, with partitions placed by the controller or by the client.

v2 throttle time. v4 -1 for the default number of partitions and replicas (KIP-464). v5 flexible; the answer has
partitions, replicas and configurations (KIP-525). v6 THROTTLING_QUOTA_EXCEEDED (KIP-599). v7 topic ids (KIP-516).
"""

from __future__ import annotations

from kcli.broker.config.describe import effective_topic_configs
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.broker.topic_changes import topic_context
from kcli.metadata.result import RECORDS_PER_REQUEST_MAX, TOO_MANY_RECORDS, Error, Refused
from kcli.metadata.result import ErrorCode as Code
from kcli.metadata.topic_control import NewTopic, TopicAnswer
from kcli.metadata.topic_control import create_topics as decide

STRICT_SINCE = 6


async def create_topics(call: Call) -> Entity:
    """Errors: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR,
    INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, INVALID_REQUEST, POLICY_VIOLATION, THROTTLING_QUOTA_EXCEEDED."""
    request = call.request
    metadata = call.broker.metadata
    if call.refusal is not None:
        return _refused(call, Error(Code.POLICY_VIOLATION, call.refusal))
    if any(len(each.configs) > RECORDS_PER_REQUEST_MAX for each in request.topics):
        return _refused(call, Error(Code.POLICY_VIOLATION, TOO_MANY_RECORDS))
    topics = [_new_topic(each) for each in request.topics]
    context = topic_context(call, STRICT_SINCE)
    try:
        result = decide(metadata.draft, topics, context, validate_only=request.validate_only)
    except Refused as refused:
        return _refused(call, refused.error)
    await metadata.append(result.records)
    return call.respond(topics=tuple(_answer(call, each) for each in result.response))


def _new_topic(topic: Entity) -> NewTopic:
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[(each.partition_index, list(each.broker_ids)) for each in topic.assignments],
        configs=[(each.name, each.value) for each in topic.configs],
    )


def _refused(call: Call, error: Error) -> Entity:
    answers = (TopicAnswer(name=each.name, error=error) for each in call.request.topics)
    return call.respond(topics=tuple(_answer(call, each) for each in answers))


def _answer(call: Call, topic: TopicAnswer) -> Entity:
    entries = [] if topic.topic_id is None else effective_topic_configs(call.broker.config, topic.configs)
    return call.new(
        "CreatableTopicResult",
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=ErrorCode(topic.error.code),
        error_message=topic.error.message,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
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

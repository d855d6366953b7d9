"""DescribeProducers (61): the idempotent and transactional producers that partitions know. KIP-664."""

from __future__ import annotations

from formats.producer_snapshot import ProducerEntry
from kcli.broker.logs.partitions import PartitionError
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.metadata.topic_names import fault

UNKNOWN_TOPIC = "This server does not host this topic-partition."


def describe_producers(call: Call) -> Entity:
    """Errors: INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR."""
    return call.respond(
        topics=tuple(
            call.new(
                "TopicResponse",
                name=topic.name,
                partitions=tuple(_partition(call, topic.name, index) for index in topic.partition_indexes),
            )
            for topic in call.request.topics
        )
    )


def _partition(call: Call, topic: str, index: int) -> Entity:
    code, message, producers = ErrorCode.none, fault(topic), ()
    if message is not None:
        code = ErrorCode.invalid_topic_exception
    elif call.broker.image.topic(topic) is None:
        code, message = ErrorCode.unknown_topic_or_partition, UNKNOWN_TOPIC
    else:
        try:
            log = call.broker.partitions.find(topic, index).log_for(leader_only=False)
            producers = tuple(_producer(call, ProducerEntry._make(each)) for each in log.producers.table.entries())
        except PartitionError as error:
            code = error.code
    return call.new(
        "PartitionResponse", partition_index=index, error_code=code, error_message=message, active_producers=producers
    )


def _producer(call: Call, entry: ProducerEntry) -> Entity:
    return call.new(
        "ProducerState",
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_txn_first_offset,
    )

"""DescribeProducers (61): the states of idempotent and transactional producers in partitions. KIP-664."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.producer_snapshot import ProducerEntry
from kcli.broker.broker import Broker
from kcli.broker.partition.partitions import PartitionError
from kcli.metadata.topic_names import fault
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import describe_producers as types

UNKNOWN_TOPIC = "This server does not host this topic-partition."


def describe_producers(broker: Broker, call: types.DescribeProducersCall) -> types.DescribeProducersResponse:
    """Errors: INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR."""
    return call.respond(
        topics=tuple(
            call.new(
                "TopicResponse",
                name=topic.name,
                partitions=tuple(_partition(broker, call, topic.name, index) for index in topic.partition_indexes),
            )
            for topic in call.request.topics
        )
    )


def _partition(broker: Broker, call: types.DescribeProducersCall, topic: str, index: int) -> types.PartitionResponse:
    code, message = ErrorCode.NONE, fault(topic)
    allowed = message is not None or broker.access.allows(call, Operation.READ, ResourceType.TOPIC, topic)
    producers: tuple[types.ProducerState, ...] = ()
    if message is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif not allowed:
        code, message = ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."
    elif broker.image.topic(topic) is None:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC
    else:
        try:
            log = broker.partitions.find(topic, index).log_for(leader_only=False)
            producers = tuple(_producer(call, each) for each in log.producer_entries())
        except PartitionError as error:
            code = error.code
    return call.new(
        "PartitionResponse", partition_index=index, error_code=code, error_message=message, active_producers=producers
    )


def _producer(call: types.DescribeProducersCall, entry: ProducerEntry) -> types.ProducerState:
    return call.new(
        "ProducerState",
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_txn_first_offset,
    )

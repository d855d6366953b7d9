"""AlterPartition (56): a leader says who is in sync with it.

v2 topic ids (KIP-841). v3 epochs of the brokers in sync (KIP-903). All flexible. KIP-497.
"""

from __future__ import annotations

from uuid import UUID

from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.metadata.isr_control import ANY_EPOCH, IsrAnswer, IsrChange, alter_partitions
from kcli.metadata.result import Refused

NONE = UUID(int=0)
EPOCHS_SINCE = 3
NO_LEADER, NO_EPOCH = 0, 0
"""What stands beside an error."""


async def alter_partition(call: Call) -> Entity:
    """Errors: STALE_BROKER_EPOCH; of a partition, see alter_partitions."""
    broker, request, metadata = call.broker, call.request, call.broker.metadata
    if not request.topics:
        return call.respond(error_code=ErrorCode.none, topics=())
    topics = [(each.topic_id or NONE, [_change(call, wanted) for wanted in each.partitions]) for each in request.topics]
    try:
        result = alter_partitions(
            metadata.draft, request.broker_id, request.broker_epoch, topics, broker.config.properties
        )
    except Refused as refused:
        return call.respond(error_code=ErrorCode(refused.error.code), topics=())
    await metadata.append(result.records)
    return call.respond(
        error_code=ErrorCode.none,
        topics=tuple(
            call.new("TopicData", topic_id=topic_id, partitions=tuple(_answer(call, each) for each in answers))
            for topic_id, answers in result.response
        ),
    )


def _change(call: Call, wanted: Entity) -> IsrChange:
    if call.version >= EPOCHS_SINCE:
        isr = [(each.broker_id, each.broker_epoch) for each in wanted.new_isr_with_epochs]
    else:
        isr = [(each, ANY_EPOCH) for each in wanted.new_isr]
    return IsrChange(
        partition=wanted.partition_index,
        leader_epoch=wanted.leader_epoch,
        partition_epoch=wanted.partition_epoch,
        isr=isr,
        recovery_state=wanted.leader_recovery_state,
    )


def _answer(call: Call, answer: IsrAnswer) -> Entity:
    state = answer.state
    return call.new(
        "PartitionData",
        partition_index=answer.partition,
        error_code=ErrorCode(answer.code),
        leader_id=NO_LEADER if state is None else state.leader,
        leader_epoch=NO_EPOCH if state is None else state.leader_epoch,
        isr=() if state is None else state.isr,
        leader_recovery_state=0 if state is None else state.leader_recovery_state,
        partition_epoch=NO_EPOCH if state is None else state.partition_epoch,
    )

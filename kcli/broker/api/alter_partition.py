"""AlterPartition (56): the leader of a partition asks the controller to change the partition's ISR.

v2 topic ids (KIP-841). v3 broker epochs of the ISR's members (KIP-903). All versions are flexible. KIP-497.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from kcli.broker.broker import Broker
from kcli.metadata.isr_control import ANY_EPOCH, IsrAnswer, IsrChange, alter_partitions
from kcli.metadata.result import Refused
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import alter_partition as types

NONE = UUID(int=0)
EPOCHS_SINCE = 3
NO_LEADER, NO_EPOCH = 0, 0
"""The leader id, and the leader epoch and partition epoch, in the result for a partition that has an error."""


async def alter_partition(broker: Broker, call: types.AlterPartitionCall) -> types.AlterPartitionResponse:
    """Errors: STALE_BROKER_EPOCH; for a partition, the errors that `alter_partitions` (kcli/metadata) lists."""
    broker.access.require(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    request, metadata = call.request, broker.metadata
    if not request.topics:
        return call.respond(error_code=ErrorCode.NONE, topics=())
    topics = [
        (each.topic_id or NONE, [_change(call, requested) for requested in each.partitions]) for each in request.topics
    ]
    try:
        result = alter_partitions(
            metadata.draft, request.broker_id, request.broker_epoch, topics, broker.config.properties
        )
    except Refused as refused:
        return call.respond(error_code=refused.error.code, topics=())
    await metadata.append(result.records)
    return call.respond(
        error_code=ErrorCode.NONE,
        topics=tuple(
            call.new("TopicData", topic_id=topic_id, partitions=tuple(_answer(call, each) for each in answers))
            for topic_id, answers in result.response
        ),
    )


def _change(call: types.AlterPartitionCall, requested: types.RequestPartitionData) -> IsrChange:
    if call.version >= EPOCHS_SINCE:
        isr = [(each.broker_id, each.broker_epoch) for each in requested.new_isr_with_epochs]
    else:
        isr = [(each, ANY_EPOCH) for each in requested.new_isr]
    return IsrChange(
        partition=requested.partition_index,
        leader_epoch=requested.leader_epoch,
        partition_epoch=requested.partition_epoch,
        isr=isr,
        recovery_state=requested.leader_recovery_state,
    )


def _answer(call: types.AlterPartitionCall, answer: IsrAnswer) -> types.PartitionData:
    state = answer.state
    return call.new(
        "PartitionData",
        partition_index=answer.partition,
        error_code=answer.code,
        leader_id=NO_LEADER if state is None else state.leader,
        leader_epoch=NO_EPOCH if state is None else state.leader_epoch,
        isr=() if state is None else state.isr,
        leader_recovery_state=0 if state is None else state.leader_recovery_state,
        partition_epoch=NO_EPOCH if state is None else state.partition_epoch,
    )

"""AllocateProducerIds (67): the next block of producer ids for a broker. KIP-730."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.metadata.producer_ids import next_block
from kcli.metadata.registration_control import check_epoch
from kcli.metadata.result import Refused
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import allocate_producer_ids as types


async def allocate_producer_ids(
    broker: Broker, call: types.AllocateProducerIdsCall
) -> types.AllocateProducerIdsResponse:
    """Errors: STALE_BROKER_EPOCH; UNKNOWN_SERVER_ERROR if all producer ids are used up."""
    broker.access.require(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    metadata, request = broker.metadata, call.request
    try:
        check_epoch(metadata.draft, request.broker_id, request.broker_epoch)
        records, block = next_block(metadata.draft, request.broker_id, request.broker_epoch)
    except Refused as refused:
        return call.respond(error_code=refused.error.code, producer_id_start=0, producer_id_len=0)
    await metadata.append(records)
    return call.respond(error_code=ErrorCode.NONE, producer_id_start=block.start, producer_id_len=len(block))

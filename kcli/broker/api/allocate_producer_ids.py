"""AllocateProducerIds (67): the next block of producer ids for a broker. KIP-730."""

from __future__ import annotations

from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.metadata.producer_ids import next_block
from kcli.metadata.registration_control import check_epoch
from kcli.metadata.result import Refused


async def allocate_producer_ids(call: Call) -> Entity:
    """Errors: STALE_BROKER_EPOCH; UNKNOWN_SERVER_ERROR when there are none left."""
    metadata, request = call.broker.metadata, call.request
    try:
        check_epoch(metadata.draft, request.broker_id, request.broker_epoch)
        records, block = next_block(metadata.draft, request.broker_id, request.broker_epoch)
    except Refused as refused:
        return call.respond(error_code=ErrorCode(refused.error.code), producer_id_start=0, producer_id_len=0)
    await metadata.append(records)
    return call.respond(error_code=ErrorCode.none, producer_id_start=block.start, producer_id_len=len(block))

"""UnregisterBroker (64): take a broker out of the cluster for good. KIP-631."""

from __future__ import annotations

from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.metadata.registration_control import unregister_broker as decide
from kcli.metadata.result import Refused


async def unregister_broker(call: Call) -> Entity:
    """Errors: BROKER_ID_NOT_REGISTERED."""
    metadata = call.broker.metadata
    try:
        records = decide(metadata.draft, call.request.broker_id, call.broker.config.properties)
    except Refused as refused:
        return call.respond(error_code=ErrorCode(refused.error.code), error_message=refused.error.message)
    await metadata.append(records)
    return call.respond(error_code=ErrorCode.none, error_message="")

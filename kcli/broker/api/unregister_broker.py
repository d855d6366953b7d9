"""UnregisterBroker (64): remove a broker's registration from the cluster. KIP-631."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.metadata.registration_control import unregister_broker as decide
from kcli.metadata.result import Refused
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import unregister_broker as types


async def unregister_broker(broker: Broker, call: types.UnregisterBrokerCall) -> types.UnregisterBrokerResponse:
    """Errors: BROKER_ID_NOT_REGISTERED."""
    broker.access.require(call, Operation.ALTER, ResourceType.CLUSTER)
    metadata = broker.metadata
    try:
        records = decide(metadata.draft, call.request.broker_id, broker.config.properties)
    except Refused as refused:
        return call.respond(error_code=refused.error.code, error_message=refused.error.message)
    await metadata.append(records)
    return call.respond(error_code=ErrorCode.NONE, error_message="")

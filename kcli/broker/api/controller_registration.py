"""ControllerRegistration (70): a controller that has started registers its endpoints and supported features.
KIP-919."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from kcli.broker.broker import Broker
from kcli.metadata.metadata_version import CONTROLLER_REGISTRATION
from kcli.metadata.registration import Controller, Endpoint, VersionRange
from kcli.metadata.result import Refused
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import controller_registration as types

NONE = UUID(int=0)


async def controller_registration(
    broker: Broker, call: types.ControllerRegistrationCall
) -> types.ControllerRegistrationResponse:
    """Errors: UNSUPPORTED_VERSION if metadata.version is too old for registrations of controllers; UNKNOWN_SERVER_ERROR
    for an unknown security protocol."""
    broker.access.require(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    request = call.request
    assert broker.active is not None, "only controllers get this request"
    if broker.metadata.draft.metadata_version < CONTROLLER_REGISTRATION:
        reason = "The current MetadataVersion is too old to support controller registrations."
        return call.respond(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=reason)
    controller = Controller(
        id=request.controller_id,
        incarnation_id=request.incarnation_id or NONE,
        endpoints={
            each.name: Endpoint(each.name, each.host, each.port, each.security_protocol) for each in request.listeners
        },
        features={
            each.name: VersionRange(each.min_supported_version, each.max_supported_version) for each in request.features
        },
    )
    try:
        await broker.active.register_controller(controller)
    except Refused as refused:
        broker.active.refused(f"the registration of controller {request.controller_id}", refused)
        return call.respond(error_code=refused.error.code, error_message=refused.error.message)
    return call.respond(error_code=ErrorCode.NONE, error_message="")

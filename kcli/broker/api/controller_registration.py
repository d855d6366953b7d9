"""ControllerRegistration (70): a controller has come up: where it is reached, and what it can do. KIP-919."""

from __future__ import annotations

from uuid import UUID

from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.metadata.metadata_version import CONTROLLER_REGISTRATION
from kcli.metadata.registration import Controller, Endpoint, VersionRange
from kcli.metadata.result import Refused

NONE = UUID(int=0)


async def controller_registration(call: Call) -> Entity:
    """Errors: UNSUPPORTED_VERSION before metadata.version has such records; UNKNOWN_SERVER_ERROR for a security
    protocol that there is not."""
    broker, request = call.broker, call.request
    assert broker.active is not None, "controllers are asked"
    if broker.metadata.draft.metadata_version < CONTROLLER_REGISTRATION:
        reason = "The current MetadataVersion is too old to support controller registrations."
        return call.respond(error_code=ErrorCode.unsupported_version, error_message=reason)
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
        return call.respond(error_code=ErrorCode(refused.error.code), error_message=refused.error.message)
    return call.respond(error_code=ErrorCode.none, error_message="")

"""DescribeClientQuotas (48): the quotas of entities that match a filter. v1 flexible. KIP-546."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.metadata.quota_control import FilterComponent
from kcli.metadata.quota_control import describe_client_quotas as find
from kcli.metadata.result import Refused
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import describe_client_quotas as types


def describe_client_quotas(broker: Broker, call: types.DescribeClientQuotasCall) -> types.DescribeClientQuotasResponse:
    """Errors: INVALID_REQUEST, UNSUPPORTED_VERSION for an unknown type of entity."""
    broker.access.require(call, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
    components = (FilterComponent(each.entity_type, each.match_type, each.match) for each in call.request.components)
    try:
        found = find(broker.image, components, strict=call.request.strict)
    except Refused as refused:
        code, message = refused.error
        return call.respond(error_code=code, error_message=message, entries=None)
    return call.respond(
        error_code=ErrorCode.NONE,
        error_message="",
        entries=tuple(
            call.new(
                "EntryData",
                entity=tuple(call.new("EntityData", entity_type=kind, entity_name=name) for kind, name in entity),
                values=tuple(call.new("ValueData", key=key, value=value) for key, value in quotas),
            )
            for entity, quotas in found
        ),
    )

"""IncrementalAlterConfigs (44): set, delete, append to and subtract from single configurations.

v1 flexible. KIP-339, KIP-412 (loggers), KIP-714 (client metrics), KIP-1043 (groups).
"""

from __future__ import annotations

from kcli.broker.config.admin import Alteration, alter
from kcli.broker.messages import Call, Entity, ErrorCode


async def incremental_alter_configs(call: Call) -> Entity:
    """Errors: INVALID_REQUEST, INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION."""
    resources = call.request.resources
    alterations = [
        Alteration(
            each.resource_type,
            each.resource_name,
            [(config.name, config.config_operation, config.value) for config in each.configs],
        )
        for each in resources
    ]
    errors = await alter(call.broker, alterations, incremental=True, validate_only=call.request.validate_only)
    return call.respond(
        responses=tuple(
            call.new(
                "AlterConfigsResourceResponse",
                error_code=ErrorCode(error.code),
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, error in zip(resources, errors, strict=True)
        )
    )

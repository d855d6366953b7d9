"""IncrementalAlterConfigs (44): set, delete, append to and subtract from single configurations.

v1 flexible. KIP-339, KIP-412 (loggers), KIP-714 (client metrics), KIP-1043 (groups).
"""

from __future__ import annotations

from kcli.broker.config.admin import Alteration, alter, responses
from kcli.broker.network.messages import Call, Entity


async def incremental_alter_configs(call: Call) -> Entity:
    """Errors: INVALID_REQUEST, INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION."""
    request = call.request
    alterations = [
        Alteration(
            each.resource_type,
            each.resource_name,
            [(config.name, config.config_operation, config.value) for config in each.configs],
        )
        for each in request.resources
    ]
    errors = await alter(call, alterations, incremental=True, validate_only=request.validate_only)
    return call.respond(responses=responses(call, alterations, errors))

"""AlterConfigs (33): replace all configurations of topics, brokers, client metrics and groups.

What is not named is taken back, which is why clients use IncrementalAlterConfigs. v1 the same. v2 flexible. KIP-133.
"""

from __future__ import annotations

from kcli.broker.config.admin import Alteration, alter, responses
from kcli.broker.network.messages import Call, Entity


async def alter_configs(call: Call) -> Entity:
    """Errors: INVALID_REQUEST, INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION."""
    request = call.request
    alterations = [
        Alteration(
            each.resource_type, each.resource_name, [(config.name, None, config.value) for config in each.configs]
        )
        for each in request.resources
    ]
    errors = await alter(call, alterations, incremental=False, validate_only=request.validate_only)
    return call.respond(responses=responses(call, alterations, errors))

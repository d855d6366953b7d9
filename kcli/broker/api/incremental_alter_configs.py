"""IncrementalAlterConfigs (44): set, delete, append to and subtract from single configurations.

v1 flexible. KIP-339, KIP-412 (loggers), KIP-714 (client metrics), KIP-1043 (groups).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.controller.config_admin import Alteration, responses

if TYPE_CHECKING:
    from kcli.broker.wire.types import incremental_alter_configs as types


async def incremental_alter_configs(
    broker: Broker, call: types.IncrementalAlterConfigsCall
) -> types.IncrementalAlterConfigsResponse:
    """Errors: INVALID_REQUEST, INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION,
    BROKER_ID_NOT_REGISTERED, POLICY_VIOLATION for too many changes, UNKNOWN_SERVER_ERROR for an unknown operation."""
    request = call.request
    alterations = [
        Alteration(
            each.resource_type,
            each.resource_name,
            [(config.name, config.config_operation, config.value) for config in each.configs],
        )
        for each in request.resources
    ]
    errors = await broker.config_admin.alter(call, alterations, incremental=True, validate_only=request.validate_only)
    return call.respond(responses=responses(call, alterations, errors))

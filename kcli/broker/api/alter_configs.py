"""AlterConfigs (33): replace all configurations of topics, brokers, client metrics and groups.

A configuration that the request does not name returns to its default, which is why clients prefer
IncrementalAlterConfigs. v1 as v0. v2 flexible. KIP-133.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.controller.config_admin import Alteration, responses

if TYPE_CHECKING:
    from kcli.broker.wire.types import alter_configs as types


async def alter_configs(broker: Broker, call: types.AlterConfigsCall) -> types.AlterConfigsResponse:
    """Errors: INVALID_REQUEST, INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION,
    BROKER_ID_NOT_REGISTERED, POLICY_VIOLATION for too many changes."""
    request = call.request
    alterations = [
        Alteration(
            each.resource_type, each.resource_name, [(config.name, None, config.value) for config in each.configs]
        )
        for each in request.resources
    ]
    errors = await broker.config_admin.alter(call, alterations, incremental=False, validate_only=request.validate_only)
    return call.respond(responses=responses(call, alterations, errors))

"""AlterClientQuotas (49): set quotas of users, clients and addresses, or take them back. v1 flexible. KIP-546."""

from __future__ import annotations

from kcli.broker.messages import Call, Entity, ErrorCode
from kcli.metadata.quota_control import Alteration
from kcli.metadata.quota_control import alter_client_quotas as decide


async def alter_client_quotas(call: Call) -> Entity:
    """Errors: INVALID_REQUEST."""
    request = call.request
    alterations = [
        Alteration(
            [(each.entity_type, each.entity_name) for each in entry.entity],
            [(op.key, None if op.remove else op.value) for op in entry.ops],
        )
        for entry in request.entries
    ]
    metadata = call.broker.metadata
    result = decide(metadata.draft, alterations, validate_only=request.validate_only)
    await metadata.append(result.records)
    return call.respond(
        entries=tuple(
            call.new(
                "EntryData",
                error_code=ErrorCode(error.code),
                error_message=error.message,
                entity=tuple(
                    call.new("EntityData", entity_type=kind, entity_name=name) for kind, name in entity.items()
                ),
            )
            for entity, error in result.response
        )
    )

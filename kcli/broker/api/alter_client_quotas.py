"""AlterClientQuotas (49): set or remove quotas of users, clients and IP addresses. v1 flexible. KIP-546."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.process.turns import STEPS_AT_ONCE, apart_if
from kcli.metadata.quota_control import Alteration
from kcli.metadata.quota_control import alter_client_quotas as decide
from kcli.metadata.result import Error
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import alter_client_quotas as types


async def alter_client_quotas(broker: Broker, call: types.AlterClientQuotasCall) -> types.AlterClientQuotasResponse:
    """Errors: INVALID_REQUEST."""
    broker.access.require(call, Operation.ALTER_CONFIGS, ResourceType.CLUSTER)
    request = call.request
    alterations = [
        Alteration(
            [(each.entity_type, each.entity_name) for each in entry.entity],
            [(op.key, None if op.remove else op.value) for op in entry.ops],
        )
        for entry in request.entries
    ]
    names = {name for each in alterations for kind, name in each.entity if kind == "ip" and name}
    hosts = {name for name in names if await _resolves(name)}
    metadata = broker.metadata
    validate_only = request.validate_only
    result = decide(metadata.draft, alterations, resolves=hosts.__contains__, validate_only=validate_only)
    await metadata.append(result.records)
    parts = sum(len(entity) for entity, _ in result.response)
    return await apart_if(parts > STEPS_AT_ONCE, _answer, call, result.response)


def _answer(
    call: types.AlterClientQuotasCall, answers: Iterable[tuple[Mapping[str, str | None], Error]]
) -> types.AlterClientQuotasResponse:
    return call.respond(
        entries=tuple(
            call.new(
                "EntryData",
                error_code=error.code,
                error_message=error.message,
                entity=tuple(
                    call.new("EntityData", entity_type=kind, entity_name=name) for kind, name in entity.items()
                ),
            )
            for entity, error in answers
        )
    )


async def _resolves(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        try:
            return bool(await asyncio.get_running_loop().getaddrinfo(host, None))
        except (OSError, UnicodeError):
            return False
    return True

"""AlterUserScramCredentials (51): set and delete the credentials with which users log in with SCRAM. v0: flexible.
KIP-554."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kcli.broker.broker import Broker
from kcli.broker.process.turns import STEPS_AT_ONCE, apart, apart_if
from kcli.broker.wire.failures import failed
from kcli.metadata.result import RECORDS_PER_REQUEST_MAX
from kcli.metadata.scram_control import Deletion, Upsertion, upsertion
from kcli.metadata.scram_control import alter_user_scram_credentials as decide
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import alter_user_scram_credentials as types


async def alter_user_scram_credentials(
    broker: Broker, call: types.AlterUserScramCredentialsCall
) -> types.AlterUserScramCredentialsResponse:
    """Errors of a user: DUPLICATE_RESOURCE, UNACCEPTABLE_CREDENTIAL, UNSUPPORTED_SASL_MECHANISM, RESOURCE_NOT_FOUND,
    UNSUPPORTED_VERSION; UNKNOWN_SERVER_ERROR for an empty salted password, and for all users if the request has more
    than RECORDS_PER_REQUEST_MAX deletions and upsertions."""
    broker.access.require(call, Operation.ALTER, ResourceType.CLUSTER)
    request = call.request
    alterations = len(request.deletions) + len(request.upsertions)
    if alterations > RECORDS_PER_REQUEST_MAX:
        return await apart(_refused, call)
    deletions = [Deletion(each.name, each.mechanism) for each in request.deletions]
    upsertions = await apart_if(alterations > STEPS_AT_ONCE, _upsertions, request)
    result = decide(broker.metadata.draft, deletions, upsertions)
    await broker.metadata.append(result.records)
    return call.respond(
        results=tuple(
            call.new("AlterUserScramCredentialsResult", user=name, error_code=error.code, error_message=error.message)
            for name, error in result.response
        )
    )


def _refused(call: types.AlterUserScramCredentialsCall) -> types.AlterUserScramCredentialsResponse:
    return cast("types.AlterUserScramCredentialsResponse", failed(call, ErrorCode.UNKNOWN_SERVER_ERROR))


def _upsertions(request: types.AlterUserScramCredentialsRequest) -> list[Upsertion]:
    return [
        upsertion(each.name, each.mechanism, each.salt, each.salted_password, each.iterations)
        for each in request.upsertions
    ]

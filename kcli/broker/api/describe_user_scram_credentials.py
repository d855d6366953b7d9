"""DescribeUserScramCredentials (50): the SCRAM mechanisms for which users have credentials, with their iterations.
KIP-554."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.process.turns import STEPS_AT_ONCE, apart_if
from kcli.metadata.scram_control import UserCredentials
from kcli.metadata.scram_control import describe_user_scram_credentials as describe
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import describe_user_scram_credentials as types


async def describe_user_scram_credentials(
    broker: Broker, call: types.DescribeUserScramCredentialsCall
) -> types.DescribeUserScramCredentialsResponse:
    """Errors of a user: DUPLICATE_RESOURCE if the request names the user twice, RESOURCE_NOT_FOUND if the user has no
    credentials."""
    broker.access.require(call, Operation.DESCRIBE, ResourceType.CLUSTER)
    credentials = broker.image.scram_credentials
    names = [each.name for each in call.request.users or ()]
    is_long = len(names or credentials) > STEPS_AT_ONCE
    described = await apart_if(is_long, describe, dict(credentials) if is_long else credentials, names)
    return await apart_if(is_long, _answer, call, described)


def _answer(
    call: types.DescribeUserScramCredentialsCall, described: list[UserCredentials]
) -> types.DescribeUserScramCredentialsResponse:
    return call.respond(
        error_code=ErrorCode.NONE,
        error_message="",
        results=tuple(
            call.new(
                "DescribeUserScramCredentialsResult",
                user=user.name,
                error_code=user.error.code,
                error_message=user.error.message or "",
                credential_infos=tuple(
                    call.new("CredentialInfo", mechanism=mechanism, iterations=iterations)
                    for mechanism, iterations in user.mechanisms
                ),
            )
            for user in described
        ),
    )

"""DescribeUserScramCredentials (50): which SCRAM mechanisms users have credentials for. KIP-554."""

from __future__ import annotations

from collections import Counter

from kcli.broker.network.messages import Call, Entity, ErrorCode


def describe_user_scram_credentials(call: Call) -> Entity:
    """Errors, each of a user: DUPLICATE_RESOURCE where it is asked for twice, RESOURCE_NOT_FOUND."""
    credentials = call.broker.image.scram_credentials
    asked = Counter(each.name for each in call.request.users or ())
    every = dict.fromkeys((name for _, name in credentials), 1)
    return call.respond(
        error_code=ErrorCode.none,
        error_message=None,
        results=tuple(_result(call, name, times) for name, times in (asked or every).items()),
    )


def _result(call: Call, name: str, times: int) -> Entity:
    found = [record for (_, user), record in call.broker.image.scram_credentials.items() if user == name]
    code, message = ErrorCode.none, None
    if times > 1:
        code = ErrorCode.duplicate_resource
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        found = []
    elif not found:
        code = ErrorCode.resource_not_found
        message = f"Attempt to describe a user credential that does not exist: {name}"
    return call.new(
        "DescribeUserScramCredentialsResult",
        user=name,
        error_code=code,
        error_message=message,
        credential_infos=tuple(
            call.new("CredentialInfo", mechanism=each["mechanism"], iterations=each["iterations"]) for each in found
        ),
    )

"""DescribeAcls (29): there are none, as there is no authorizer. v2 flexible. KIP-140, KIP-290.

Source: AclApis; DescribeAclsRequest, CreateAclsRequest and DeleteAclsRequest (what they do not take).
"""

from __future__ import annotations

from typing import Any, Final

from kcli.broker.network.messages import Call, Entity, ErrorCode, HangUp

NO_AUTHORIZER: Final = {
    "error_code": ErrorCode.security_disabled,
    "error_message": "No Authorizer is configured.",
}
UNKNOWN: Final = 0
"""Of each kind of code; Kafka takes those without a meaning."""


def describe_acls(call: Call) -> Entity:
    """Error: SECURITY_DISABLED."""
    request = call.request
    check_known(request, request.resource_type_filter, request.pattern_type_filter)
    return call.respond(
        error_code=ErrorCode.security_disabled,
        error_message="No Authorizer is configured on the broker",
        resources=(),
    )


def check_known(acl: Any, resource_type: int, pattern_type: int) -> None:
    """Of a filter, or an ACL to be made. Raises HangUp where it says itself that it is of an unknown kind."""
    if UNKNOWN in {resource_type, pattern_type, acl.operation, acl.permission_type}:
        raise HangUp("an ACL of an unknown kind")

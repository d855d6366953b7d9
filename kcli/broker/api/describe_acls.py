"""DescribeAcls (29): there are none, as there is no authorizer. v2 flexible. KIP-140, KIP-290."""

from __future__ import annotations

from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.broker.no_authorizer import check_known


def describe_acls(call: Call) -> Entity:
    """Error: SECURITY_DISABLED."""
    request = call.request
    check_known(request, request.resource_type_filter, request.pattern_type_filter)
    return call.respond(
        error_code=ErrorCode.security_disabled,
        error_message="No Authorizer is configured on the broker",
        resources=(),
    )

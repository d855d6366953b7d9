"""DescribeAcls (29): the ACLs that a filter matches, if an authorizer is configured. v2 flexible. v3 resource type
USER. KIP-140, KIP-290."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.process.turns import STEPS_AT_ONCE, apart_if
from kcli.broker.wire.acls import check_known, filter_of
from kcli.metadata.acl_control import describe_acls as find
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import describe_acls as types
    from kcli.security.acls import AclFields


async def describe_acls(broker: Broker, call: types.DescribeAclsCall) -> types.DescribeAclsResponse:
    """Error: SECURITY_DISABLED without an authorizer. Raises HangUp, which closes the connection, for a filter
    whose resource type, pattern type, operation or permission type is UNKNOWN."""
    request = call.request
    check_known(request, request.resource_type_filter, request.pattern_type_filter)
    broker.access.require(call, Operation.DESCRIBE, ResourceType.CLUSTER)
    if broker.authorizer is None:
        return call.respond(
            error_code=ErrorCode.SECURITY_DISABLED,
            error_message="No Authorizer is configured on the broker",
            resources=(),
        )
    acls = list(broker.image.acl_ids)
    return await apart_if(len(acls) > STEPS_AT_ONCE, _answer, call, acls)


def _answer(call: types.DescribeAclsCall, acls: list[AclFields]) -> types.DescribeAclsResponse:
    found = find(acls, filter_of(call.request))
    return call.respond(
        error_code=ErrorCode.NONE,
        error_message="",
        resources=tuple(
            call.new(
                "DescribeAclsResource",
                resource_type=resource_type,
                resource_name=name,
                pattern_type=pattern_type,
                acls=tuple(
                    call.new(
                        "AclDescription",
                        principal=each.principal,
                        host=each.host,
                        operation=each.operation,
                        permission_type=each.permission,
                    )
                    for each in group
                ),
            )
            for (resource_type, name, pattern_type), group in groupby(found, key=lambda each: each[:3])
        ),
    )

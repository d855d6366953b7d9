"""CreateAcls (30): create ACLs, if an authorizer is configured. v2 flexible. v3 resource type USER. KIP-140."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kcli.broker.broker import Broker
from kcli.broker.process.turns import STEPS_AT_ONCE, apart, apart_if
from kcli.broker.wire.acls import NO_AUTHORIZER, check_known
from kcli.broker.wire.failures import failed
from kcli.metadata.acl_control import check_acls
from kcli.metadata.acl_control import create_acls as decide
from kcli.metadata.result import Refused
from kcli.security.acls import AclFields, Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import create_acls as types
    from kcli.metadata.result import Error


async def create_acls(broker: Broker, call: types.CreateAclsCall) -> types.CreateAclsResponse:
    """Errors of an ACL: SECURITY_DISABLED without an authorizer; INVALID_REQUEST; POLICY_VIOLATION for all valid ACLs
    if there are more of them than one request may create; UNKNOWN_SERVER_ERROR for all ACLs if one has a code that only
    filters may have. Raises HangUp, which closes the connection, for an ACL whose resource type, pattern type,
    operation or permission type is UNKNOWN."""
    is_long = len(call.request.creations) > STEPS_AT_ONCE
    acls = await apart_if(is_long, _acls, call)
    broker.access.require(call, Operation.ALTER, ResourceType.CLUSTER)
    if broker.authorizer is None:
        return call.respond(results=(call.new("AclCreationResult", **NO_AUTHORIZER),) * len(acls))
    try:
        checked = await apart_if(is_long, check_acls, acls)
    except Refused as refused:
        return cast("types.CreateAclsResponse", await apart(failed, call, refused.error.code))
    result = decide(broker.metadata.draft, checked)
    await broker.metadata.append(result.records)
    return await apart_if(is_long, _answer, call, [result.response[acl] for acl in acls])


def _acls(call: types.CreateAclsCall) -> list[AclFields]:
    """Return the ACLs of the request. Raises HangUp, which closes the connection, for an ACL whose resource type,
    pattern type, operation or permission type is UNKNOWN."""
    for each in call.request.creations:
        check_known(each, each.resource_type, each.resource_pattern_type)
    return [
        AclFields(
            each.resource_type,
            each.resource_name,
            each.resource_pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for each in call.request.creations
    ]


def _answer(call: types.CreateAclsCall, errors: list[Error]) -> types.CreateAclsResponse:
    return call.respond(
        results=tuple(
            call.new("AclCreationResult", error_code=error.code, error_message=error.message or "") for error in errors
        )
    )

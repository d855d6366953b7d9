"""DeleteAcls (31): delete the ACLs that filters match, if an authorizer is configured. v2 flexible. v3 resource type
USER. KIP-140."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.process.turns import STEPS_AT_ONCE, apart_if
from kcli.broker.wire.acls import NO_AUTHORIZER, check_known, filter_of
from kcli.metadata.acl_control import delete_acls as decide
from kcli.metadata.acl_control import find_acls
from kcli.metadata.result import Error
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import delete_acls as types
    from kcli.security.acl_filter import AclFilter
    from kcli.security.acls import AclFields

    Found = list[AclFields] | Error


async def delete_acls(broker: Broker, call: types.DeleteAclsCall) -> types.DeleteAclsResponse:
    """Errors of a filter: SECURITY_DISABLED without an authorizer; INVALID_REQUEST, for all filters if together they
    match more ACLs than one request may delete. Raises HangUp, which closes the connection, for a filter whose resource
    type, pattern type, operation or permission type is UNKNOWN."""
    is_long = len(call.request.filters) > STEPS_AT_ONCE
    filters = await apart_if(is_long, _filters, call)
    broker.access.require(call, Operation.ALTER, ResourceType.CLUSTER)
    if broker.authorizer is None:
        refused = call.new("DeleteAclsFilterResult", matching_acls=(), **NO_AUTHORIZER)
        return call.respond(filter_results=(refused,) * len(filters))
    draft = broker.metadata.draft
    is_long = len(filters) * len(draft.acl_ids) > STEPS_AT_ONCE
    found = await apart_if(is_long, find_acls, list(draft.acl_ids), filters)
    await broker.metadata.append(decide(draft, (each for each in found.values() if not isinstance(each, Error))))
    return await apart_if(is_long, _answer, call, [found[each] for each in filters])


def _filters(call: types.DeleteAclsCall) -> list[AclFilter]:
    """Return the filters of the request. Raises HangUp, which closes the connection, for a filter whose resource type,
    pattern type, operation or permission type is UNKNOWN."""
    for each in call.request.filters:
        check_known(each, each.resource_type_filter, each.pattern_type_filter)
    return [filter_of(each) for each in call.request.filters]


def _answer(call: types.DeleteAclsCall, found: list[Found]) -> types.DeleteAclsResponse:
    return call.respond(filter_results=tuple(_result(call, each) for each in found))


def _result(call: types.DeleteAclsCall, found: Found) -> types.DeleteAclsFilterResult:
    if isinstance(found, Error):
        return call.new("DeleteAclsFilterResult", error_code=found.code, error_message=found.message, matching_acls=())
    return call.new(
        "DeleteAclsFilterResult",
        error_code=ErrorCode.NONE,
        error_message=None,
        matching_acls=tuple(
            call.new(
                "DeleteAclsMatchingAcl",
                error_code=ErrorCode.NONE,
                error_message=None,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                pattern_type=each.pattern_type,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in found
        ),
    )

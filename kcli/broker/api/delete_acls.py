"""DeleteAcls (31): there is none to delete, as there is no authorizer. v2 flexible. KIP-140."""

from __future__ import annotations

from kcli.broker.network.messages import Call, Entity
from kcli.broker.no_authorizer import NO_AUTHORIZER, check_known


def delete_acls(call: Call) -> Entity:
    """Error, of each filter: SECURITY_DISABLED."""
    for each in call.request.filters:
        check_known(each, each.resource_type_filter, each.pattern_type_filter)
    return call.respond(
        filter_results=tuple(
            call.new("DeleteAclsFilterResult", matching_acls=(), **NO_AUTHORIZER) for _ in call.request.filters
        )
    )

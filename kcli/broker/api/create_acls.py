"""CreateAcls (30): none is made, as there is no authorizer that would ask for it. v2 flexible. KIP-140."""

from __future__ import annotations

from kcli.broker.network.messages import Call, Entity
from kcli.broker.no_authorizer import NO_AUTHORIZER, check_known


def create_acls(call: Call) -> Entity:
    """Error, of each: SECURITY_DISABLED."""
    for each in call.request.creations:
        check_known(each, each.resource_type, each.resource_pattern_type)
    return call.respond(results=tuple(call.new("AclCreationResult", **NO_AUTHORIZER) for _ in call.request.creations))

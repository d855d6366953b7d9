"""Which rule decides an access, and which ACLs concern it: the authorizer's own answer, for a person to read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kcli.security.acls import Acl
from kcli.security.authorizer import Access, Authorizer, AuthorizerConfig, Rule


@dataclass(frozen=True, slots=True)
class Explanation:
    """The rule that decides an access. concerning: every ACL that concerns it, in the order in which Kafka searches
    them."""

    access: Access
    rule: Rule
    concerning: tuple[Acl, ...]


def explain(config: AuthorizerConfig, acls: Iterable[Acl], access: Access) -> Explanation:
    """Return how StandardAuthorizer decides the access with these ACLs."""
    records = {str(number): _record(acl) for number, acl in enumerate(acls)}
    authorizer = Authorizer(config)
    authorizer.loaded = True
    authorizer.follow(records, records.keys())
    return Explanation(access, authorizer.rule(access), tuple(authorizer.matching(access)))


def _record(acl: Acl) -> dict[str, Any]:
    """The fields of an AccessControlEntryRecord, without its id."""
    return {
        "resourceType": acl.resource_type,
        "resourceName": acl.resource_name,
        "patternType": acl.pattern_type,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permissionType": acl.permission,
    }

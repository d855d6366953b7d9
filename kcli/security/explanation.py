"""Which rule decides an access, and which ACLs concern it: the authorizer's own answer, for a person to read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kcli.security.acls import CLUSTER_NAME, SUPPORTED, WILDCARD, Acl, Operation, Permission, ResourceType
from kcli.security.authorizer import Access, Authorizer, AuthorizerConfig, Rule

SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
SETTINGS: Final = frozenset((SUPER_USERS, ALLOW_EVERYONE))
"""The configurations of a broker that decide accesses besides ACLs. Clients cannot read their values: DescribeConfigs
only shows whether a broker has set them."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The rule that decides an access. concerning: every ACL that concerns the access, in the order in which Kafka
    searches them. unless: if the rule denies the access and some of SETTINGS are unknown, the conditions on them under
    which the access is allowed nevertheless, as clauses ("allow.everyone.if.no.acl.found is true")."""

    access: Access
    rule: Rule
    concerning: tuple[Acl, ...]
    unless: tuple[str, ...] = ()


def explain(
    config: AuthorizerConfig, acls: Iterable[Acl], access: Access, unknown: Collection[str] = ()
) -> Explanation:
    """Return how StandardAuthorizer decides the access with these ACLs. unknown: the SETTINGS that the broker has set
    to values that are unknown and so not in `config`."""
    records = {str(number): acl.record for number, acl in enumerate(acls)}
    authorizer = _authorizer(config, records)
    rule, unless = authorizer.rule(access), []
    if not rule.allowed:
        if SUPER_USERS in unknown:
            unless.append(f"{access.principal} is among {SUPER_USERS}")
        if ALLOW_EVERYONE in unknown:
            generous = _authorizer(replace(config, allow_without_acl=True), records)
            unless += [f"{ALLOW_EVERYONE} is true"] if generous.authorize(access) else []
    return Explanation(access, rule, tuple(authorizer.matching(access)), tuple(unless))


def is_super_user(
    acls: Iterable[Acl], principal: str, operations: Collection[Operation], unknown: Collection[str] = ()
) -> bool | None:
    """Return whether a principal is a super user: False if it lacks an operation on the cluster; True if it has all of
    them although its ACLs do not allow all. None if its ACLs may allow all of them, or if `operations` is empty: then
    this is not known.

    acls: those of the cluster resource. operations: the principal's authorized operations on the cluster, as a broker
    returns them. unknown: as for `explain`.
    """
    every = SUPPORTED[ResourceType.CLUSTER]
    if not operations:  # a broker lists no operations for a principal without DESCRIBE
        return None
    if not set(every) <= set(operations):
        return False
    anywhere = [
        replace(each, host=WILDCARD) if each.permission is Permission.ALLOW else each
        for each in acls
        if each.permission is Permission.ALLOW or each.host == WILDCARD
    ]
    config = AuthorizerConfig(allow_without_acl=ALLOW_EVERYONE in unknown)
    authorizer = _authorizer(config, {str(number): acl.record for number, acl in enumerate(anywhere)})
    access = (Access(principal, "", each, ResourceType.CLUSTER, CLUSTER_NAME) for each in every)
    return None if all(map(authorizer.authorize, access)) else True


def _authorizer(config: AuthorizerConfig, records: Mapping[str, Mapping[str, Any]]) -> Authorizer:
    authorizer = Authorizer(config)
    authorizer.loaded = True
    authorizer.follow(records, records.keys())
    return authorizer

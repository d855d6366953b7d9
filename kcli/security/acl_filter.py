"""Filters of ACLs, by which DescribeAcls finds them and DeleteAcls deletes them.

    field of the filter                     the ACLs that match
    resource_type, operation, permission    ACLs with the same value; ANY: all
    resource_name, principal, host          ACLs with the same value; None: all
    pattern_type LITERAL, PREFIXED          ACLs of that pattern type and name
                 ANY                        ACLs of either pattern type and that name
                 MATCH                      ACLs that concern the resource of that name: its own, "*", and its prefixes

A code that Kafka does not know is UNKNOWN: such a filter matches nothing. Source: AclBindingFilter,
ResourcePatternFilter, AccessControlEntryFilter; KIP-290.
"""

from __future__ import annotations

from typing import NamedTuple

from kcli.security.acls import WILDCARD, AclFields, Operation, PatternType, Permission, ResourceType

_ANY_PATTERN = (PatternType.ANY, PatternType.MATCH)


class AclFilter(NamedTuple):
    """A filter, with its codes as numbers. resource_name, principal, host: None: all (see the module)."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    @property
    def has_unknown_pattern(self) -> bool:
        """Whether the code of the resource type or of the pattern type has no meaning."""
        return not (ResourceType.of(self.resource_type) and PatternType.of(self.pattern_type))

    @property
    def has_unknown_entry(self) -> bool:
        """Whether the code of the operation or of the permission type has no meaning."""
        return not (Operation.of(self.operation) and Permission.of(self.permission))

    def matches(self, acl: AclFields) -> bool:
        """Whether the filter matches the ACL."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and (self.pattern_type in _ANY_PATTERN or self.pattern_type == acl.pattern_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: AclFields) -> bool:
        name = self.resource_name
        if name is None or name == acl.resource_name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.pattern_type == PatternType.LITERAL and acl.resource_name == WILDCARD

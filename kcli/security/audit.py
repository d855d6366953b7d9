"""The lines of kafka.authorizer.logger: who was allowed or denied what, and by which rule. Source:
StandardAuthorizerData.buildAuditMessage."""

from __future__ import annotations

from typing import Any, NamedTuple

from kcli.security.authorizer import Access, Rule


class Decision(NamedTuple):
    """An access, the rule that decided it, and the request that it was part of. `str` returns the text of Kafka's audit
    line.

    request: the name of the API ("Fetch"). resource_count: how often the request refers to the resource.
    """

    access: Access
    rule: Rule
    request: str
    resource_count: int

    def __str__(self) -> str:
        access, rule = self.access, self.rule
        return (
            f"Principal = {access.principal} is {'Allowed' if rule.allowed else 'Denied'}"
            f" operation = {access.operation.name} from host = {access.host}"
            f" on resource = {access.resource_type.title}:LITERAL:{access.resource_name}"
            f" for request = {self.request} with resourceRefCount = {self.resource_count} based on rule {rule}"
        )

    def members(self) -> dict[str, Any]:
        """Return the decision as the members of a JSON object; `acl` is null if no ACL decided."""
        access, acl = self.access, self.rule.acl
        return {
            "principal": access.principal,
            "allowed": self.rule.allowed,
            "operation": access.operation.name,
            "host": access.host,
            "resourceType": access.resource_type.name,
            "resourceName": access.resource_name,
            "request": self.request,
            "resourceRefCount": self.resource_count,
            "rule": self.rule.name,
            "acl": acl
            and {
                "resourceType": acl.resource_type.name,
                "resourceName": acl.resource_name,
                "patternType": acl.pattern_type.name,
                "principal": acl.principal,
                "host": acl.host,
                "operation": acl.operation.name,
                "permissionType": acl.permission.name,
            },
        }

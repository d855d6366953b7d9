"""Code that CreateAcls, DeleteAcls and DescribeAcls share. Source: AclApis, and the builders of these requests."""

from __future__ import annotations

from typing import Final, Protocol, TypedDict

from kcli.broker.wire.answers import HangUp
from kcli.protocol.error_code import ErrorCode
from kcli.security.acl_filter import AclFilter


class Error(TypedDict):
    """The error fields in the result of an ACL, or of a filter of ACLs."""

    error_code: ErrorCode
    error_message: str


class Acl(Protocol):
    """An ACL of a CreateAcls request, or a filter of ACLs of a DescribeAcls or DeleteAcls request."""

    @property
    def operation(self) -> int:
        """The code of the operation that the ACL allows or denies."""

    @property
    def permission_type(self) -> int:
        """The code of ALLOW or DENY; in a filter also that of ANY."""


class Filter(Acl, Protocol):
    """A filter of ACLs: a DescribeAcls request, or an item of a DeleteAcls request."""

    @property
    def resource_type_filter(self) -> int:
        """The code of the resource type."""

    @property
    def resource_name_filter(self) -> str | None:
        """The resource name; None for any."""

    @property
    def pattern_type_filter(self) -> int:
        """The code of the pattern type."""

    @property
    def principal_filter(self) -> str | None:
        """The principal; None for any."""

    @property
    def host_filter(self) -> str | None:
        """The host; None for any."""


NO_AUTHORIZER: Final[Error] = {
    "error_code": ErrorCode.SECURITY_DISABLED,
    "error_message": "No Authorizer is configured.",
}
"""The error, if there is no authorizer, for each ACL of a CreateAcls request and for each filter of a DeleteAcls
request."""
UNKNOWN: Final = 0
"""The code UNKNOWN of resource types, pattern types, operations and permission types. Kafka refuses only this code, and
accepts other codes that have no meaning."""


def check_known(acl: Acl, resource_type: int, pattern_type: int) -> None:
    """Raise HangUp, which closes the connection, if the resource type, pattern type, operation or permission type of an
    ACL, or of a filter of ACLs, is UNKNOWN."""
    if UNKNOWN in {resource_type, pattern_type, acl.operation, acl.permission_type}:
        raise HangUp("an ACL of an unknown kind")


def filter_of(item: Filter) -> AclFilter:
    """Return the filter of a DescribeAcls request, or of an item of a DeleteAcls request."""
    return AclFilter(
        item.resource_type_filter,
        item.resource_name_filter,
        item.pattern_type_filter,
        item.principal_filter,
        item.host_filter,
        item.operation,
        item.permission_type,
    )

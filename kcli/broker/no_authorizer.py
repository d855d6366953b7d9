"""What is answered about ACLs where no authorizer is configured. Source: AclApis; the three requests' builders."""

from __future__ import annotations

from typing import Any, Final

from kcli.broker.network.messages import ErrorCode, HangUp

NO_AUTHORIZER: Final = {
    "error_code": ErrorCode.security_disabled,
    "error_message": "No Authorizer is configured.",
}
"""Fields of the result of one ACL, or of one filter, that was to be changed."""
UNKNOWN: Final = 0
"""Of each kind of code; Kafka takes those without a meaning."""


def check_known(acl: Any, resource_type: int, pattern_type: int) -> None:
    """Of a filter, or an ACL to be made. Raises HangUp where it says itself that it is of an unknown kind."""
    if UNKNOWN in {resource_type, pattern_type, acl.operation, acl.permission_type}:
        raise HangUp("an ACL of an unknown kind")

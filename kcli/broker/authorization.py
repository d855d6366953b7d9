"""The authorization of requests: each handler makes its checks with one of these calls.

    access.require(call, ALTER, CLUSTER)                 the request is refused as a whole
    if access.allows(call, DESCRIBE, GROUP, group_id)    one resource
    readable = access.among(call, READ, TOPIC)           `name in readable` for many resources
    access.operations(call, TOPIC, name)                 the authorized operations, for a response

Without an authorizer every operation is allowed. Every decision of the authorizer is audited (audit.py). A handler
calls with log_denied=False where a denial does not refuse the request yet, because a later check may allow it.

Source: AuthHelper; KIP-430.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Container, Hashable
from typing import Final

from kcli.broker.audit import LOGGER, TRACE, decided
from kcli.broker.wire.call import OWN, Call, Client
from kcli.errors import KcliError
from kcli.metadata.image import GROUP_RESOURCE, TOPIC_RESOURCE
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import CLUSTER_NAME, SUPPORTED, Operation, ResourceType
from kcli.security.authorizer import SAMPLE_NAME, Access, Authorizer, AuthorizerNotReady

FAILED: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""Resource type -> the error code if access to such a resource is denied."""
DENIED: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
}
"""Error code -> Kafka's error message."""
_EVERY_OPERATION: Final = {kind: sum(1 << each for each in supported) for kind, supported in SUPPORTED.items()}


def configured(resource_type: int, name: str) -> tuple[ResourceType, str]:
    """Return the resource whose ACLs decide whether a request may describe or alter the configurations of the resource
    `name`: for a topic or group that topic or group, for all others the cluster. resource_type: as in the metadata
    log's records of configurations."""
    if resource_type == TOPIC_RESOURCE:
        return ResourceType.TOPIC, name
    if resource_type == GROUP_RESOURCE:
        return ResourceType.GROUP, name
    return ResourceType.CLUSTER, CLUSTER_NAME


class Denied(KcliError):
    """Authorization is denied for a whole request. code: the error code of the response."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class _Everything:
    """A container that contains every name."""

    def __contains__(self, _: object) -> bool:
        return True


EVERYTHING: Final[Container[str]] = _Everything()


class _Among:
    """A container of the names of those resources of one type on which a principal may do an operation. The authorizer
    decides, and audits, each name once, however many partitions of a topic the request has."""

    __slots__ = ("_access", "_allowed", "_call", "_count", "_counts", "_log_denied", "_operation", "_resource_type")

    def __init__(
        self,
        access: Authorization,
        call: Call,
        operation: Operation,
        resource_type: ResourceType,
        counts: Callable[[], Counter[str]] | None,
        *,
        log_denied: bool,
    ) -> None:
        self._access, self._call, self._operation, self._resource_type = access, call, operation, resource_type
        self._log_denied = log_denied
        self._counts = counts
        self._count: Counter[str] | None = None  # the result of `counts`, None until it is called
        self._allowed: dict[str, bool] = {}

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        allowed = self._allowed.get(name)
        if allowed is None:
            allowed = self._allowed[name] = self._access.allows(
                self._call, self._operation, self._resource_type, name, count=self._times, log_denied=self._log_denied
            )
        return allowed

    def _times(self, name: str) -> int:
        """Return how often the request names the resource. Called only if the decision is audited, because counting
        takes time."""
        if self._counts is None:
            return 1
        if self._count is None:
            self._count = self._counts()
        return self._count[name] or 1


class Authorization:
    """The authorization checks of one node's request handlers. authorizer: None to allow every operation."""

    def __init__(self, authorizer: Authorizer | None) -> None:
        self._authorizer = authorizer

    def allows(
        self,
        call: Call,
        operation: Operation,
        resource_type: ResourceType,
        name: str = CLUSTER_NAME,
        *,
        count: Callable[[str], int] | int = 1,
        log_allowed: bool = True,
        log_denied: bool = True,
    ) -> bool:
        """Return whether the request's principal may do the operation on the resource. A request of the node itself may
        do everything.

        count: how often the request names the resource, or a function that returns this number for the name; 0 for a
        decision that was audited before. log_allowed: whether a permission is audited at level DEBUG; if False, it is
        audited at TRACE. log_denied: whether a denial is audited at level INFO; if False, it is audited at TRACE
        (audit.py). Raises AuthorizerNotReady.
        """
        if self._authorizer is None or call.principal == OWN:
            return True
        access = Access(call.principal, call.client_host, operation, resource_type, name)
        rule = self._authorizer.rule(access)
        if count != 0:
            decided(call, access, rule, count, is_told=log_allowed if rule.allowed else log_denied)
        return rule.allowed

    @property
    def allows_all(self) -> bool:
        """Whether every client may do everything: there is no authorizer."""
        return self._authorizer is None

    def allows_unaudited(self, client: Client, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Return True if the client may do the operation and the audit log gets no line about this decision. Return
        False if the client may not, if permissions are audited (level DEBUG), and while the authorizer is not ready."""
        if self._authorizer is None:
            return True
        if LOGGER.isEnabledFor(logging.DEBUG):
            return False
        try:
            return self._authorizer.authorize(
                Access(client.principal, client.client_host, operation, resource_type, name)
            )
        except AuthorizerNotReady:
            return False

    def writes_unaudited(self, client: Client) -> Callable[[str], bool] | None:
        """Return a function that calls `allows_unaudited` for WRITE to a topic, given the topic's name; None if every
        client may write to all topics."""
        if self._authorizer is None:
            return None
        return lambda topic: self.allows_unaudited(client, Operation.WRITE, ResourceType.TOPIC, topic)

    def allows_any(self, call: Call, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether the request's principal may do the operation on at least one resource of the type. Raises
        AuthorizerNotReady."""
        if self._authorizer is None or call.principal == OWN:
            return True
        access = Access(call.principal, call.client_host, operation, resource_type, SAMPLE_NAME)
        rule = self._authorizer.rule(access)
        decided(call, access, rule, 0, is_told=rule.allowed)
        return rule.allowed or self._authorizer.authorize_by_resource_type(
            access.principal, access.host, operation, resource_type
        )

    def among(
        self,
        call: Call,
        operation: Operation,
        resource_type: ResourceType,
        counts: Callable[[], Counter[str]] | None = None,
        *,
        log_denied: bool = True,
    ) -> Container[str]:
        """Return the container of the names of the resources of the type on which the request's principal may do the
        operation: `name in` the container decides and audits that name. The `in` test, not this call, raises
        AuthorizerNotReady.

        counts: a function that returns how often the request names each resource; None if the request names each of
        them once.
        log_denied: whether a denial is audited at level INFO, see `allows`.
        """
        if self._authorizer is None:
            return EVERYTHING
        return _Among(self, call, operation, resource_type, counts, log_denied=log_denied)

    def terms(self, client: Client) -> Hashable:
        """Return what the decisions about a client's request depend on, besides its resources: principal, host, and the
        version of the ACLs. Requests of one connection or fetch session with equal results of `terms` get equal
        decisions."""
        return None if self._authorizer is None else (client.principal, client.client_host, self._authorizer.changes)

    def require(self, call: Call, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> None:
        """Refuse the request as a whole unless its principal may do the operation on the resource. Raises Denied,
        AuthorizerNotReady."""
        if self._authorizer is not None and not self.allows(call, operation, resource_type, name):
            raise Denied(FAILED[resource_type])

    def operations(self, call: Call, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """Return the operations that the request's principal may do on the resource, as a bit set of operation codes.
        Raises AuthorizerNotReady."""
        if self._authorizer is None or call.principal == OWN:
            return _EVERY_OPERATION[resource_type]
        if not LOGGER.isEnabledFor(TRACE):
            return self._authorizer.operations(call.principal, call.client_host, resource_type, name)
        return sum(
            1 << each
            for each in SUPPORTED[resource_type]
            if self.allows(call, each, resource_type, name, log_allowed=False, log_denied=False)
        )

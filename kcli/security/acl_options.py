"""Converts the options of kafka-acls to the ACLs that they add, or to filters of the ACLs that they list or remove.

    resources     topics, groups, transactional ids, the cluster, delegation tokens, users; "*" is every one of a type
    rules         a principal, allowed or denied, and a host: one ACL for each operation on each resource
    --producer    WRITE, DESCRIBE and CREATE topics; WRITE and DESCRIBE transactional ids; with --idempotent also
                  IDEMPOTENT_WRITE the cluster
    --consumer    READ and DESCRIBE topics, READ groups

Source: AclCommand; KIP-11, KIP-290.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from kcli.errors import UsageError
from kcli.security.acl_filter import AclFilter
from kcli.security.acls import CLUSTER_NAME, SUPPORTED, WILDCARD, Acl, Operation, PatternType, Permission, ResourceType
from kcli.security.principals import USER, InvalidPrincipal, check_principal

_OPERATIONS: Final = {each.name.replace("_", "").lower(): each for each in Operation if each > Operation.ANY}
_TYPES: Final = {each.name.replace("_", "").lower(): each for each in ResourceType if each > ResourceType.ANY}
PRODUCER: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
CONSUMER: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (Operation.READ, Operation.DESCRIBE),
    ResourceType.GROUP: (Operation.READ,),
}


Code = TypeVar("Code", Operation, ResourceType)


class Resource(NamedTuple):
    """A resource, or the resource pattern of an ACL. name: None for any name, in filters only."""

    type: ResourceType
    name: str | None


class Rule(NamedTuple):
    """Whether a principal is allowed or denied access, and from which host; "*" is every host."""

    permission: Permission
    principal: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AclOptions:
    """The options of one call of kcli acls or kafka-acls. operations: those to allow or deny; if empty, ALL, or with
    `producer` or `consumer` the operations that these options stand for."""

    resources: Sequence[Resource]
    pattern_type: PatternType = PatternType.LITERAL
    rules: Sequence[Rule] = ()
    operations: Sequence[Operation] = ()
    producer: bool = False
    consumer: bool = False
    idempotent: bool = False

    def check(self) -> None:
        """Raise UsageError if the options name no resource, contradict each other, or name an operation that one of the
        resources does not have."""
        types = {each.type for each in self.resources}
        if not types:
            raise UsageError("no resource: give --topic, --group, --cluster, --transactional-id or another one")
        if (self.producer or self.consumer) and (self.operations or self._denies):
            given = "--producer" if self.producer else "--consumer"
            raise UsageError(f"{given} excludes --operation, --deny-principal and --deny-host")
        if self.producer and ResourceType.TOPIC not in types:
            raise UsageError("--producer needs --topic")
        if self.idempotent and not self.producer:
            raise UsageError("--idempotent needs --producer")
        others = {ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID} & types
        if self.consumer and (not types >= CONSUMER.keys() or (others and not self.producer)):
            raise UsageError("--consumer needs --topic and --group, without --cluster and --transactional-id")
        for resource, operation in self._accesses():
            check_operation(resource.type, operation, "--operation")

    def acls(self) -> list[Acl]:
        """Return the ACLs to add, each once. Raises UsageError."""
        self.check()
        if not self.rules:
            raise UsageError("nobody to allow or to deny: give --allow-principal or --deny-principal")
        if self.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise UsageError(f"--resource-pattern-type {self.pattern_type.name.lower()} is for list and remove alone")
        found = (
            Acl(
                resource_type=resource.type,
                resource_name=resource.name or WILDCARD,
                pattern_type=self._pattern_of(resource),
                principal=rule.principal,
                host=rule.host,
                operation=operation,
                permission=rule.permission,
            )
            for resource, operation in self._accesses()
            for rule in self.rules
        )
        return list(dict.fromkeys(found))

    def removed(self) -> list[AclFilter]:
        """Return filters of the ACLs to remove: one for each resource, operation and rule. Without rules, return
        filters that match all ACLs of the resources. Raises UsageError."""
        self.check()
        if not self.rules:
            return self.listed()
        return [
            AclFilter(*resource, self._pattern_of(resource), rule.principal, rule.host, operation, rule.permission)
            for resource, operation in self._accesses()
            for rule in self.rules
        ]

    def listed(self) -> list[AclFilter]:
        """Return filters that match all ACLs of the given resources, or of every resource if none is given."""
        resources = self.resources or [Resource(ResourceType.ANY, None)]
        return [
            AclFilter(each.type, each.name, self._pattern_of(each), None, None, Operation.ANY, Permission.ANY)
            for each in resources
        ]

    @property
    def _denies(self) -> bool:
        return any(each.permission is Permission.DENY for each in self.rules)

    def _pattern_of(self, resource: Resource) -> PatternType:
        """Return the pattern type of a resource; ANY if the options name no resource. For the cluster, PREFIXED becomes
        LITERAL. In this kcli differs from kafka-acls, which ignores --cluster with any pattern type but LITERAL."""
        if resource.type is ResourceType.ANY:
            return PatternType.ANY
        is_prefix = self.pattern_type is PatternType.PREFIXED
        return PatternType.LITERAL if resource.type is ResourceType.CLUSTER and is_prefix else self.pattern_type

    def _accesses(self) -> Iterator[tuple[Resource, Operation]]:
        """Yield each resource with each of the operations on it that the options give."""
        if not (self.producer or self.consumer):
            operations = self.operations or (Operation.ALL,)
            yield from ((resource, operation) for resource in self.resources for operation in operations)
            return
        for each in self.resources:
            operations = PRODUCER.get(each.type, ()) if self.producer else ()
            operations += CONSUMER.get(each.type, ()) if self.consumer else ()
            yield from ((each, operation) for operation in dict.fromkeys(operations))
        if self.idempotent:
            yield Resource(ResourceType.CLUSTER, CLUSTER_NAME), Operation.IDEMPOTENT_WRITE


def rules(
    allowed: Iterable[str], allowed_hosts: Iterable[str], denied: Iterable[str], denied_hosts: Iterable[str]
) -> list[Rule]:
    """Return a rule for each allowed principal from each allowed host, and for each denied principal from each denied
    host; without hosts, a rule for every host. Raises UsageError for text that is no principal, and for hosts without a
    principal."""
    found = []
    for permission, principals, hosts in (
        (Permission.ALLOW, list(allowed), list(allowed_hosts)),
        (Permission.DENY, list(denied), list(denied_hosts)),
    ):
        word = permission.name.lower()
        if hosts and not principals:
            raise UsageError(f"--{word}-host needs --{word}-principal")
        for each in principals:
            principal = parse_principal(each, f"--{word}-principal")
            found += [Rule(permission, principal, host) for host in hosts or [WILDCARD]]
    return found


def parse_principal(text: str, option: str) -> str:
    """Return the principal that a text names. option: the option that has the text, for the error. Raises
    UsageError."""
    try:
        return check_principal(text)
    except InvalidPrincipal:
        raise UsageError(f"{option} {text!r} is no principal: {USER}:{text}?") from None


def parse_operation(text: str, option: str) -> Operation:
    """Return the operation of that name, in any case, with or without _ and -. option: as for `parse_principal`. Raises
    UsageError."""
    return _named(text, _OPERATIONS, option)


def check_operation(resource_type: ResourceType, operation: Operation, option: str) -> None:
    """Raise UsageError if resources of the type do not have the operation. option: as for `parse_principal`."""
    supported = SUPPORTED.get(resource_type, ())
    if operation is not Operation.ALL and operation not in supported:
        known = ", ".join(each.name for each in supported)
        raise UsageError(f"{option} {operation.name}: a {resource_type.name} has {known}, ALL")


def parse_resource(text: str) -> Resource:
    """Return the resource of `topic:orders`, `group:billing`, `transactional-id:x`, `cluster`. Raises UsageError."""
    kind, colon, name = text.partition(":")
    resource_type = _named(kind, _TYPES, "resource")
    if resource_type is ResourceType.CLUSTER:
        if name not in ("", CLUSTER_NAME):
            raise UsageError(f"resource {text!r}: the only resource of its type is cluster:{CLUSTER_NAME}")
        return Resource(resource_type, CLUSTER_NAME)
    if not colon or not name:
        raise UsageError(f"resource {text!r} is not TYPE:NAME, such as topic:orders")
    return Resource(resource_type, name)


def _named(text: str, known: Mapping[str, Code], option: str) -> Code:
    found = known.get(text.replace("_", "").replace("-", "").lower())
    if found is None:
        raise UsageError(f"{option} {text!r} is none of {', '.join(each.name for each in known.values())}")
    return found

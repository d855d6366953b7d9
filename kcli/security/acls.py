"""One access control list entry (ACL): who is allowed or denied to do what, with which resources, from which host.

    resource_type    TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER
    resource_name    the name of the resource, "*", or a prefix of names
    pattern_type     LITERAL: the resource with resource_name; every resource of the type if resource_name is "*"
                     PREFIXED: each resource of the type whose name begins with resource_name
    principal        "User:alice"; "User:*" is everybody
    host             the address that the connection comes from, as Java writes it; "*" is every address
    operation        READ, WRITE, ...; ALL is every operation
    permission       ALLOW or DENY

Codes that Kafka does not know are UNKNOWN, as in Kafka. Source: StandardAcl, ResourceType, PatternType, AclOperation,
AclPermissionType; KIP-11, KIP-290.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple, Self

WILDCARD: Final = "*"
"""The name of all resources in a LITERAL pattern; the host of an ACL that concerns all hosts."""


CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class _Code(IntEnum):
    @classmethod
    def of(cls, code: int) -> Self:
        """Return the member of that code; UNKNOWN for a code that has no meaning."""
        return cls._value2member_map_.get(code, cls(0))  # type: ignore[return-value]

    @property
    def title(self) -> str:
        """The name in the case that Kafka's tools and audit lines use: "TransactionalId"."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class ResourceType(_Code):
    """What kind of resource an ACL concerns."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """How the resource name of an ACL is compared with that of a resource. ANY and MATCH occur in filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(_Code):
    """What is done with a resource. ANY occurs in filters only, ALL in ACLs only."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(_Code):
    """Whether an ACL allows or denies. ANY occurs in filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


SUPPORTED: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE, Operation.DELETE, Operation.ALTER,
        Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ, Operation.DESCRIBE, Operation.DELETE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE, Operation.CLUSTER_ACTION, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE, Operation.ALTER, Operation.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}  # fmt: skip
"""Resource type -> the operations that resources of the type have, without ALL. Source:
AclEntry.supportedOperations."""


class AclFields(NamedTuple):
    """The fields of an AccessControlEntryRecord without its id: ACLs with the same fields are the same ACL. The codes
    are numbers."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Return the fields of a record."""
        return cls(
            record["resourceType"],
            record["resourceName"],
            record["patternType"],
            record["principal"],
            record["host"],
            record["operation"],
            record["permissionType"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """One ACL. `str` returns it as Kafka's audit lines write it."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Return the ACL of an AccessControlEntryRecord."""
        return cls(
            resource_type=ResourceType.of(record["resourceType"]),
            resource_name=record["resourceName"],
            pattern_type=PatternType.of(record["patternType"]),
            principal=record["principal"],
            host=record["host"],
            operation=Operation.of(record["operation"]),
            permission=Permission.of(record["permissionType"]),
        )

    @property
    def record(self) -> dict[str, Any]:
        """The fields of the ACL's AccessControlEntryRecord, without its id."""
        return {
            "resourceType": self.resource_type,
            "resourceName": self.resource_name,
            "patternType": self.pattern_type,
            "principal": self.principal,
            "host": self.host,
            "operation": self.operation,
            "permissionType": self.permission,
        }

    @property
    def is_wildcard(self) -> bool:
        """Whether the ACL concerns every resource of its type."""
        return self.resource_name == WILDCARD and self.pattern_type is PatternType.LITERAL

    def __str__(self) -> str:
        return (
            f"StandardAcl[resourceType={self.resource_type.name}, resourceName={self.resource_name}, "
            f"patternType={self.pattern_type.name}, principal={self.principal}, host={self.host}, "
            f"operation={self.operation.name}, permissionType={self.permission.name}]"
        )


def search_order(acl: Acl) -> tuple[object, ...]:
    """Return the key by which Kafka sorts the ACLs that concern one resource: longest resource name first.

    Of several ACLs that deny, Kafka names the first in this order as the one that decides; of several that allow, the
    last. The ACLs compared must have "*" or a prefix of the same name as their resource names.
    """
    return (
        -len(acl.resource_name),
        acl.resource_name == WILDCARD,
        acl.pattern_type,
        acl.operation,
        _utf16(acl.principal),
        _utf16(acl.host),
        acl.permission,
    )


def _utf16(text: str) -> bytes:
    """Return a sort key for the order in which Java sorts strings: the text's code units in UTF-16."""
    return text.encode("utf-16-be", "surrogatepass")

"""Requests about ACLs to a fresh node with StandardAuthorizer, in this order: an API key, a version, a request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcli.security.acls import Operation, PatternType, Permission, ResourceType
from tests.metadata.answer_cases import Case

DESCRIBE, CREATE, DELETE = 29, 30, 31
RECORDS = frozenset(("AccessControlEntryRecord",))
KINDS = [(kind, name) for kind in range(1, 8) for name in ("a", "kafka-cluster")]
NO_MEANING = 99


def acl(name: str = "t", **fields: Any) -> dict[str, Any]:
    known = {"resource_type": 2, "resource_pattern_type": 3, "principal": "User:ann", "host": "*", "operation": 3}
    return {**known, "resource_name": name, "permission_type": 3, **fields}


def create(*acls: dict[str, Any], version: int = 3) -> Case:
    return CREATE, version, {"creations": list(acls)}


def filter_of(name: Any = None, **fields: Any) -> dict[str, Any]:
    known = {"resource_type_filter": 1, "pattern_type_filter": 1, "principal_filter": None, "host_filter": None}
    return {**known, "operation": 1, "permission_type": 1, "resource_name_filter": name, **fields}


def describe(name: str | None = None, version: int = 3, **fields: Any) -> Case:
    return DESCRIBE, version, filter_of(name, **fields)


def delete(*filters: dict[str, Any], version: int = 3) -> Case:
    return DELETE, version, {"filters": list(filters)}


def cases() -> Iterator[Case]:
    """All of them."""
    yield describe()
    yield create()
    yield delete()
    yield create(acl("t"), acl("t"), acl("u", principal="User:*", permission_type=2), version=1)
    yield create(acl("t"), acl("p", resource_pattern_type=4), acl("pre", resource_pattern_type=4, operation=4))
    yield create(acl("*"), acl("*", resource_pattern_type=4), acl("", resource_pattern_type=4))
    for kind, name in KINDS:
        yield create(acl(name, resource_type=kind))
    for fields in (
        {"resource_type": NO_MEANING},
        {"resource_pattern_type": NO_MEANING},
        {"operation": NO_MEANING},
        {"permission_type": NO_MEANING},
        {"resource_type": NO_MEANING, "resource_pattern_type": NO_MEANING, "operation": NO_MEANING},
        {"resource_pattern_type": 1},
        {"resource_pattern_type": 2},
        {"operation": 1},
        {"permission_type": 1},
        {"principal": ""},
        {"principal": "ann"},
        {"principal": ":"},
        {"principal": "Group:x:y"},
        {"host": ""},
        {"host": "10.0.0.1"},
        {"operation": 14},
    ):
        yield create(acl("fields"), acl("fields", **fields), acl("more", **fields))
    yield create(
        acl("", resource_type=NO_MEANING), acl("", resource_type=4), acl("x", operation=NO_MEANING, principal="")
    )
    yield create(*(acl("ops", operation=each) for each in Operation if each > Operation.ANY), version=2)
    for version in (1, 2, 3):
        yield describe(version=version)
    for kind in ResourceType:
        if kind:
            yield describe(resource_type_filter=kind)
    for pattern in PatternType:
        if pattern:
            for name in ("t", "prefix", "p", "*", "**", "", "pre"):
                yield describe(name, pattern_type_filter=pattern, resource_type_filter=2)
    yield describe(principal_filter="User:*")
    yield describe(principal_filter="")
    yield describe(host_filter="10.0.0.1")
    yield describe(host_filter="*", operation=4)
    for permission in Permission:
        if permission:
            yield describe(permission_type=permission)
    for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        yield DESCRIBE, 3, filter_of(**{field: NO_MEANING})
        yield delete(filter_of("fields", **{field: NO_MEANING}), filter_of("nothing"))
    yield delete(filter_of("nothing"), filter_of("fields", host_filter="10.0.0.1"), filter_of("t"), version=1)
    yield delete(filter_of("prefix", pattern_type_filter=2, resource_type_filter=2), filter_of("p"), version=2)
    yield describe()
    yield delete(filter_of("ops", operation=5), filter_of("ops"), filter_of("ops"))
    yield delete(filter_of(), filter_of(principal_filter="User:ann"))
    yield describe()
    yield create(acl("t"))

"""The lives of random authorizers: ACLs come and go, accesses are decided. What kcli answers, for Kafka's answers to be
compared with.

A case is a question to SecurityOracle.java: `configs`, and `steps` in order, each one of

    ["add", id, [resource type, name, pattern type, principal, host, operation, permission]]
    ["remove", id]
    ["access", principal, host, operation, resource type, name]        answered by Kafka's audit line
    ["type", principal, host, operation, resource type]                answered by true or false
"""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

from kcli.java.addresses import host_address
from kcli.metadata.image import MetadataImage
from kcli.security.acls import Operation, ResourceType
from kcli.security.audit import Decision
from kcli.security.authorizer import Access, Authorizer, AuthorizerConfig
from kcli.security.principals import InvalidPrincipal

Case = dict[str, Any]
Answer = str | bool

UNITS = ["a", "b", "ab", ".", "é", "\uffff", "\U0001f600", "*", "z-"]
NAMES = ["*", "hardcode", "hard", "har", "*a", "kafka-cluster"]
PRINCIPALS = ["User:alice", "User:bob", "User:CN=a,O=b", "Group:alice", "User:", "User:a:b", "User:\U0001f600"]
HOSTS = ["10.0.0.1", "10.0.0.2", "2001:db8::1"]
ALLOW, DENY, UNKNOWN = 3, 2, 77
CONFIGS: list[dict[str, str]] = [
    {},
    {"super.users": "User:root"},
    {"super.users": " User:root ;; User:alice\t;", "allow.everyone.if.no.acl.found": "false"},
    {"allow.everyone.if.no.acl.found": "true"},
    {"super.users": "Group:alice;User:a:b", "allow.everyone.if.no.acl.found": " TRUE "},
    {"super.users": "", "allow.everyone.if.no.acl.found": "yes"},
    {"super.users": "User:root;alice"},
]


def case(seed: int) -> Case:
    """A random life. Of one or two types of resources only, so that many ACLs concern an access."""
    chance = random.Random(seed)
    configs = CONFIGS[0] if chance.random() < 0.5 else chance.choice(CONFIGS)
    types = chance.sample(range(2, 8), chance.choice([1, 1, 2]))
    names = [*chance.sample(NAMES, 3), *(_name(chance) for _ in range(6))]
    operations = chance.sample(range(2, 16), 5)
    steps: list[list[Any]] = []
    present: dict[int, tuple[Any, ...]] = {}
    for number in range(chance.choice([3, 15, 60])):
        acl = _acl(chance, types, names, operations)
        if acl not in present.values():
            present[number] = acl
            steps.append(["add", number, list(acl)])
        if present and chance.random() < 0.15:
            gone = chance.choice(list(present))
            del present[gone]
            steps.append(["remove", gone])
        if chance.random() < 0.3:
            steps += _accesses(chance, types, names, operations)
    for _ in range(10):
        steps += _accesses(chance, types, names, operations)
    return {"ask": "authorize", "configs": configs, "steps": steps}


def _name(chance: random.Random) -> str:
    return "".join(chance.choices(UNITS, k=chance.randint(1, 5)))


def _acl(chance: random.Random, types: list[int], names: list[str], operations: list[int]) -> tuple[Any, ...]:
    name = chance.choice(names)
    fields = [
        chance.choice(types),
        name[: chance.randint(1, len(name))],
        chance.choice([3, 3, 4, 4, 4]),
        chance.choice(["User:*", *PRINCIPALS]),
        chance.choice(["*", "*", host_address(chance.choice(HOSTS))]),
        chance.choice([2, *operations]),
        chance.choice([ALLOW, ALLOW, DENY]),
    ]
    if chance.random() < 0.05:
        fields[chance.choice([2, 5, 6])] = UNKNOWN
    return tuple(fields)


def _accesses(chance: random.Random, types: list[int], names: list[str], operations: list[int]) -> list[list[Any]]:
    found = []
    for _ in range(5):
        who = chance.choice(PRINCIPALS), chance.choice(HOSTS), chance.choice(operations), chance.choice(types)
        name = chance.choice(names) + (_name(chance) if chance.random() < 0.4 else "")
        found.append(["access", *who, name])
    return [*found, ["type", chance.choice(PRINCIPALS), chance.choice(HOSTS), chance.choice(operations), types[0]]]


def questions(of: Case) -> int:
    """How many steps of a case are answered."""
    return sum(step[0] in ("access", "type") for step in of["steps"])


def answers(of: Case) -> list[Answer]:
    """Return kcli's answers; for a configuration that is refused the only answer is the reason."""
    try:
        authorizer = Authorizer(AuthorizerConfig.of(of["configs"]))
    except InvalidPrincipal as refused:
        return [str(refused)]
    authorizer.loaded = True
    image, found = MetadataImage(), list[Answer]()
    for offset, (kind, *details) in enumerate(of["steps"]):
        match kind:
            case "add":
                image.apply("AccessControlEntryRecord", record(*details), offset)
                authorizer.follow(image.acls, image.take_changes().acls)
            case "remove":
                image.apply("RemoveAccessControlEntryRecord", {"id": acl_id(*details)}, offset)
                authorizer.follow(image.acls, image.take_changes().acls)
            case "access":
                access = _access(*details)
                found.append(str(Decision(access, authorizer.rule(access), "Fetch", 1)))
            case _:
                principal, host, operation, resource_type = details
                found.append(
                    authorizer.authorize_by_resource_type(
                        principal, host_address(host), Operation.of(operation), ResourceType.of(resource_type)
                    )
                )
    return found


def _access(principal: str, host: str, operation: int, resource_type: int, name: str, *_: bool) -> Access:
    return Access(principal, host_address(host), Operation.of(operation), ResourceType.of(resource_type), name)


def acl_id(number: int) -> str:
    return str(UUID(int=number))


def record(number: int, acl: list[Any]) -> dict[str, Any]:
    """The AccessControlEntryRecord of an ACL."""
    fields = "resourceType", "resourceName", "patternType", "principal", "host", "operation", "permissionType"
    return {"id": acl_id(number), **dict(zip(fields, acl, strict=True))}

"""kcli's authorizer, compared with Kafka's recorded answers; and properties that Kafka was not asked about."""

from __future__ import annotations

import time
from itertools import combinations
from typing import Any

import pytest

from kcli.java.addresses import host_address
from kcli.metadata.image import MetadataImage
from kcli.security.acls import SUPPORTED, Operation, ResourceType
from kcli.security.authorizer import Access, Authorizer, AuthorizerConfig, AuthorizerNotReady
from kcli.security.principals import InvalidPrincipal
from tests.security import authorizer_cases, oracle
from tests.security.authorizer_cases import acl_id, record

ALLOW, DENY = 3, 2
LITERAL, PREFIXED = 3, 4
TOPIC = ResourceType.TOPIC


def authorizer(*acls: list[Any], **config: Any) -> Authorizer:
    made = Authorizer(AuthorizerConfig(**config))
    records = {acl_id(number): record(number, acl) for number, acl in enumerate(acls)}
    made.follow(records, records.keys())
    made.loaded = True
    return made


def acl(name: str, operation: Operation, permission: int = ALLOW, pattern: int = LITERAL) -> list[Any]:
    return [TOPIC, name, pattern, "User:alice", "*", operation, permission]


def access(operation: Operation, name: str = "orders", principal: str = "User:alice") -> Access:
    return Access(principal, "10.0.0.1", operation, TOPIC, name)


def test_answers_of_kafka() -> None:
    asked = 0
    for question, answer in oracle.recorded("authorizer"):
        assert authorizer_cases.answers(question) == answer
        asked += len(answer)
    assert asked > 5_000


def test_the_recorded_lives_decide_by_every_rule() -> None:
    lines = [line for _, answer in oracle.recorded("authorizer") for line in answer if isinstance(line, str)]
    types = [each for _, answer in oracle.recorded("authorizer") for each in answer if isinstance(each, bool)]
    rules = ("SuperUser", "DefaultAllow", "DefaultDeny", "permissionType=ALLOW)", "permissionType=DENY])")
    few = {rule: sum(rule.strip(")]") in line for line in lines) for rule in rules}
    assert min(few.values()) > 100, few
    assert 100 < sum(types) < len(types) - 100


def test_operations_are_those_that_are_authorized_one_by_one() -> None:
    """For every mix of up to three ACLs of a resource: allowed and denied operations, of alice and of others."""
    every = [each for each in Operation if each is not Operation.ANY]
    pool = [acl("orders", operation, permission) for operation in every for permission in (ALLOW, DENY)]
    pool += [[*each[:3], "User:bob", *each[4:]] for each in pool[:2]] + [acl("o", Operation.READ, DENY, PREFIXED)]
    mixes = [(), *((each,) for each in pool), *combinations(pool, 2), *list(combinations(pool, 3))[::7]]
    for mix in mixes:
        for allow_without_acl in (False, True):
            made = authorizer(*mix, allow_without_acl=allow_without_acl, super_users=frozenset({"User:root"}))
            for principal in ("User:alice", "User:root"):
                single = {each for each in SUPPORTED[TOPIC] if made.authorize(access(each, principal=principal))}
                bits = made.operations(principal, "10.0.0.1", TOPIC, "orders")
                assert bits == sum(1 << each for each in single), (mix, allow_without_acl, principal)


def test_a_change_of_acls_counts_at_once() -> None:
    image, made = MetadataImage(), authorizer()
    assert not made.authorize(access(Operation.READ))
    image.apply("AccessControlEntryRecord", record(1, acl("orders", Operation.READ)), 0)
    made.follow(image.acls, image.take_changes().acls)
    assert made.authorize(access(Operation.READ))
    assert made.authorize_by_resource_type("User:alice", "10.0.0.1", Operation.READ, TOPIC)
    image.apply("RemoveAccessControlEntryRecord", {"id": acl_id(1)}, 1)
    made.follow(image.acls, image.take_changes().acls)
    assert not made.authorize(access(Operation.READ))
    assert not made.authorize_by_resource_type("User:alice", "10.0.0.1", Operation.READ, TOPIC)


def test_a_new_image_is_followed() -> None:
    old, new = MetadataImage(), MetadataImage()
    old.apply("AccessControlEntryRecord", record(1, acl("orders", Operation.READ)), 0)
    new.apply("AccessControlEntryRecord", record(2, acl("orders", Operation.WRITE)), 0)
    made = authorizer()
    made.follow(old.acls, old.take_changes().acls)
    assert made.authorize(access(Operation.READ))
    old.become(new)
    made.follow(old.acls, old.take_changes().acls)
    assert not made.authorize(access(Operation.READ))
    assert made.authorize(access(Operation.WRITE))


def test_only_super_users_before_the_metadata_log_is_loaded() -> None:
    made = Authorizer(AuthorizerConfig(super_users=frozenset({"User:root"}), allow_without_acl=True))
    assert made.authorize(access(Operation.ALTER, principal="User:root"))
    with pytest.raises(AuthorizerNotReady):
        made.authorize(access(Operation.READ))
    with pytest.raises(AuthorizerNotReady):
        made.authorize_by_resource_type("User:alice", "10.0.0.1", Operation.READ, TOPIC)
    made.loaded = True
    assert made.authorize(access(Operation.READ))


def test_all_acls_that_concern_an_access() -> None:
    made = authorizer(
        acl("ord", Operation.ALL, pattern=PREFIXED),
        acl("*", Operation.READ, DENY),
        acl("orders", Operation.READ),
        acl("orders", Operation.WRITE),
        acl("other", Operation.READ),
    )
    names = [(each.resource_name, each.permission) for each in made.matching(access(Operation.READ))]
    assert names == [("orders", ALLOW), ("ord", ALLOW), ("*", DENY)]
    decisive = made.rule(access(Operation.READ))
    assert (decisive.allowed, str(decisive.acl)) == (False, str(made.matching(access(Operation.READ))[-1]))


@pytest.mark.parametrize("user", ["root", "User:root;admin", ";x"])
def test_super_users_that_are_no_principals(user: str) -> None:
    with pytest.raises(InvalidPrincipal, match="principalType:principalName"):
        AuthorizerConfig.of({"super.users": user})


@pytest.mark.parametrize(
    ("address", "java"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::00ab:0", "2001:db8:0:0:0:0:ab:0"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
    ],
)
def test_hosts_as_java_writes_them(address: str, java: str) -> None:
    assert host_address(address) == java


def test_ten_thousand_acls() -> None:
    """An access takes the same time with ten thousand ACLs as with a hundred: of one principal or many, of one resource
    or many."""
    asked = [access(Operation.READ, f"team-{i % 97}.{'x' * (i % 13)}{i}-a", f"User:u{i % 50}") for i in range(5_000)]
    asked += [Access("User:w", f"10.1.0.{i % 200}", Operation.READ, TOPIC, f"n{i}") for i in range(1_000)]
    few, many = (_authorizer_of_many(each) for each in (1, 100))
    few_s, many_s = _seconds(few, asked), _seconds(many, asked)
    print(f"{few_s / len(asked) * 1e6:.1f} us an access, {many_s / len(asked) * 1e6:.1f} us with 100 times the ACLs")
    assert many_s < 20 * few_s
    assert sum(map(many.authorize, asked)) == 2_500 + 1_000


def _authorizer_of_many(hundreds: int) -> Authorizer:
    acls = [
        [TOPIC, f"team-{i % 97}.{'x' * (i % 13)}{i}", PREFIXED if i % 2 else LITERAL, f"User:u{i % 50}", "*", 3, ALLOW]
        for i in range(80 * hundreds)
    ]
    acls += [[TOPIC, "*", LITERAL, f"User:v{i}", "*", 3, ALLOW] for i in range(10 * hundreds)]
    acls += [[TOPIC, "*", LITERAL, "User:w", f"10.1.{i // 250}.{i % 250}", 3, ALLOW] for i in range(10 * hundreds)]
    return authorizer(*acls)


def _seconds(made: Authorizer, asked: list[Access]) -> float:
    began = time.process_time()
    for each in asked:
        made.authorize(each)
    return time.process_time() - began


def test_kept_answers_are_bounded() -> None:
    made = authorizer(acl("a", Operation.READ, pattern=PREFIXED))
    for number in range(25_000):
        assert made.authorize(access(Operation.READ, f"a{number}"))
        assert not made.authorize_by_resource_type(f"User:{number}", "10.0.0.1", Operation.READ, TOPIC)
    assert len(made._kept) <= 10_000
    assert len(made._kept_types) <= 10_000
    made.authorize(access(Operation.READ, "a" * 30_000))
    assert max(len(each.resource_name) for each in made._kept) < 512

"""kcli acls: lists, adds and removes ACLs, and explains which rule decides."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.security.authorizer import CLASS_NAME
from tests.broker.security.secured import Secured, secured_node
from tests.cli.run import Ended, kcli

AUTHORIZED = {"authorizer.class.name": CLASS_NAME, "super.users": "User:ANONYMOUS"}


class Acls:
    """A node with an authorizer, where everybody who comes by PLAINTEXT is a super user."""

    def __init__(self, secured: Secured) -> None:
        self.secured = secured
        self.address = f"127.0.0.1:{secured.port('PLAINTEXT')}"

    def run(self, *arguments: str | Path) -> Ended:
        """Run a command of kcli acls."""
        return kcli("acls", *arguments, env=os.environ | {"KCLI_BOOTSTRAP_SERVER": self.address})

    def listed(self, *arguments: str) -> list[tuple[str, ...]]:
        """Return the ACLs that `list` shows with those arguments, in order."""
        ended = self.run("list", "--format", "jsonl", *arguments)
        assert (ended.stderr, ended.status) == ("", 0)
        return [tuple(json.loads(line).values()) for line in ended.stdout.splitlines()]

    def explained(self, *arguments: str | Path) -> tuple[dict[str, Any], int]:
        """What explain tells, and its exit status."""
        ended = self.run("explain", "--format", "jsonl", *arguments)
        assert not ended.stderr, ended.stderr
        return json.loads(ended.stdout), ended.status


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Acls]:
    with secured_node(tmp_path_factory.mktemp("node"), AUTHORIZED) as secured:
        yield Acls(secured)


@pytest.fixture
def acls(node: Acls) -> Iterator[Acls]:
    """The node, without any ACL afterwards."""
    yield node
    for resource_type, name, *_ in node.listed():
        option = {"USER": "--user-principal"}.get(resource_type, f"--{resource_type.lower().replace('_', '-')}")
        named = [option] if option == "--cluster" else [option, name]
        assert node.run("remove", *named, "--resource-pattern-type", "any", "--force").status in (0, 1)
    assert node.listed() == []


def test_add_list_remove(acls: Acls) -> None:
    added = ["--allow-principal", "User:alice", "--operation", "read", "--operation", "describe-configs", "--topic"]
    assert acls.run("add", *added, "orders") == ("", "", 0)
    assert acls.run("add", "--deny-principal", "User:*", "--deny-host", "10.0.0.1", "--cluster") == ("", "", 0)
    read = ("TOPIC", "orders", "LITERAL", "User:alice", "*", "READ", "ALLOW")
    configs = (*read[:5], "DESCRIBE_CONFIGS", "ALLOW")
    denied = ("CLUSTER", "kafka-cluster", "LITERAL", "User:*", "10.0.0.1", "ALL", "DENY")
    assert acls.listed() == [denied, configs, read]
    assert acls.listed("--topic", "orders") == [configs, read]
    assert acls.listed("--principal", "User:alice", "--cluster") == []
    table = acls.run("list").stdout.splitlines()
    assert [line.split() for line in table] == [
        ["RESOURCE-TYPE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION"],
        *map(list, sorted([denied, configs, read])),
    ]
    assert acls.run("remove", *added[:4], "--topic", "orders") == ("", "", 0)
    assert acls.listed() == [denied, configs]
    again = acls.run("remove", *added[:4], "--topic", "orders")
    assert (again.stdout, again.stderr, again.status) == ("", "kcli: no ACL matches\n", 1)


def test_all_of_a_resource_are_removed_by_force_alone(acls: Acls) -> None:
    for principal in ("User:alice", "User:bob"):
        assert acls.run("add", "--allow-principal", principal, "--topic", "orders").status == 0
    shown = acls.run("remove", "--topic", "orders")
    assert ("User:alice" in shown.stdout, "--force" in shown.stderr, shown.status) == (True, True, 1)
    assert len(acls.listed()) == 2
    ended = acls.run("remove", "--topic", "orders", "--operation", "read", "--force")
    assert (ended.complaint, ended.status) == (
        "kcli: whose ACLs? give --allow-principal or --deny-principal",
        2,
    )
    assert len(acls.listed()) == 2
    assert acls.run("remove", "--topic", "orders", "--force") == ("", "", 0)
    assert acls.listed() == []


def test_what_producers_and_consumers_need(acls: Acls) -> None:
    both = ["--producer", "--idempotent", "--consumer", "--topic", "t", "--group", "g", "--transactional-id", "x"]
    assert acls.run("add", "--allow-principal", "User:alice", *both) == ("", "", 0)
    found = {(kind, name, operation) for kind, name, _, _, _, operation, _ in acls.listed()}
    assert found == {
        ("CLUSTER", "kafka-cluster", "IDEMPOTENT_WRITE"),
        ("GROUP", "g", "READ"),
        *(("TOPIC", "t", operation) for operation in ("READ", "WRITE", "DESCRIBE", "CREATE")),
        *(("TRANSACTIONAL_ID", "x", operation) for operation in ("WRITE", "DESCRIBE")),
    }


def test_prefixes_and_matches(acls: Acls) -> None:
    prefixed = ["--resource-pattern-type", "prefixed"]
    assert acls.run("add", "--allow-principal", "User:alice", "--topic", "or", *prefixed) == ("", "", 0)
    assert acls.run("add", "--allow-principal", "User:alice", "--topic", "*") == ("", "", 0)
    assert acls.listed("--topic", "orders") == []
    assert len(acls.listed("--topic", "orders", "--resource-pattern-type", "match")) == 2
    assert len(acls.listed("--topic", "or", "--resource-pattern-type", "any")) == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--allow-principal", "User:a"], "no resource"),
        (["--topic", "t"], "nobody to allow or to deny"),
        (["--allow-principal", "alice", "--topic", "t"], "--allow-principal 'alice' is no principal: User:alice?"),
        (["--allow-host", "::1", "--topic", "t"], "--allow-host needs --allow-principal"),
        (["--allow-principal", "User:a", "--topic", "t", "--operation", "fly"], "--operation 'fly' is none of ALL"),
        (["--allow-principal", "User:a", "--group", "g", "--operation", "write"], "a GROUP has READ"),
        (["--allow-principal", "User:a", "--producer", "--group", "g"], "--producer needs --topic"),
        (["--allow-principal", "User:a", "--consumer", "--topic", "t"], "--consumer needs --topic and --group"),
        (["--deny-principal", "User:a", "--producer", "--topic", "t"], "--producer excludes"),
        (["--allow-principal", "User:a", "--idempotent", "--topic", "t"], "--idempotent needs --producer"),
        (["--allow-principal", "User:a", "--topic", "t", "--resource-pattern-type", "match"], "list and remove alone"),
    ],
)
def test_what_add_refuses(arguments: list[str], reason: str) -> None:
    ended = kcli("acls", "add", *arguments)
    assert (reason in ended.complaint, ended.status) == (True, 2), ended.complaint


def test_explain(acls: Acls, tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("super.users=User:root;User:admin\nallow.everyone.if.no.acl.found=true\n")
    for rule in (["--allow-principal", "User:alice"], ["--deny-principal", "User:*", "--deny-host", "10.0.0.1"]):
        assert acls.run("add", *rule, "--operation", "read", "--topic", "orders").status == 0
    allowed, status = acls.explained("alice", "describe", "topic:orders")
    assert (allowed["allowed"], allowed["rule"], status) == (True, "MatchingAcl", 0)
    assert (allowed["acl"]["operation"], allowed["acl"]["principal"]) == ("READ", "User:alice")
    denied, status = acls.explained("alice", "read", "topic:orders", "--host", "10.0.0.1")
    assert (denied["allowed"], denied["acl"]["permission"], len(denied["concerning"]), status) == (False, "DENY", 2, 1)
    assert acls.explained("bob", "read", "topic:orders")[0]["rule"] == "DefaultDeny"
    assert acls.explained("bob", "read", "topic:others")[0]["rule"] == "DefaultDeny"
    assert acls.explained("bob", "read", "topic:others", "--config", config)[0]["rule"] == "DefaultAllow"
    assert acls.explained("root", "alter", "cluster", "--config", config)[0]["rule"] == "SuperUser"


@pytest.mark.parametrize(
    ("operation", "resource"), [("write", "cluster"), ("write", "group:g"), ("read", "user:User:a")]
)
def test_explain_an_operation_that_there_is_not(operation: str, resource: str) -> None:
    """No ACL can have it, so that none is told to be added."""
    ended = kcli("acls", "explain", "bob", operation, resource)
    assert (ended.status, ended.stdout) == (2, "")
    assert ended.complaint.startswith(
        f"kcli: operation {operation.upper()}: a {resource.partition(':')[0].upper()} has "
    )


def test_explain_oneself(acls: Acls) -> None:
    """A broker tells nobody's super.users, and everybody what they may do themselves."""
    explained, status = acls.explained("ANONYMOUS", "write", "topic:orders")
    assert (explained["rule"], explained["unless"], status) == ("SuperUser", [], 0)
    explained, status = acls.explained("bob", "write", "topic:orders")
    assert (explained["rule"], explained["unless"], status) == ("DefaultDeny", ["User:bob is among super.users"], 1)


def test_explain_in_words_and_what_to_do_next(acls: Acls) -> None:
    words = ("explain", "alice", "create-tokens", "user:User:bob smith")
    ended = acls.run(*words)
    verdict, unless, rule, then = ended.stdout.splitlines()
    assert unless == "unless: User:alice is among super.users"  # all of AUTHORIZED that decides, with its value hidden
    assert verdict == "denied: User:alice CREATE_TOKENS USER User:bob smith from any host that no ACL names"
    assert (rule, ended.status) == ("rule: DefaultDeny", 1)
    assert ended.stderr == "kcli: a broker does not tell the value, its server.properties does: --config FILE\n"
    assert then.startswith("Next: kcli acls add ")
    elsewhere = kcli("acls", *words, "-b", acls.address).stdout.splitlines()[-1]
    assert elsewhere == f"{then} --bootstrap-server {acls.address}"
    assert kcli(*shlex.split(elsewhere)[2:]) == ("", "", 0)
    ended = acls.run(*words)
    assert (ended.stderr, ended.status) == ("", 0)
    assert "rule: MatchingAcl(acl=StandardAcl[resourceType=USER, resourceName=User:bob smith" in ended.stdout


def test_explain_from_a_log_directory(acls: Acls) -> None:
    assert acls.run("add", "--allow-principal", "User:alice", "--operation", "read", "--topic", "orders").status == 0
    data = ("--data-dir", acls.secured.folder / "data")
    offline = kcli("acls", "explain", "alice", "read", "topic:orders", *data)
    unknown = "unless: User:bob is among super.users or allow.everyone.if.no.acl.found is true"
    assert unknown in kcli("acls", "explain", "bob", "read", "topic:others", *data).stdout
    assert offline == acls.run("explain", "alice", "read", "topic:orders")
    assert kcli("acls", "list", *data) == acls.run("list")
    ended = kcli("acls", "list", "--data-dir", acls.secured.folder)
    assert (ended.status, "no metadata log" in ended.complaint) == (2, True)


def test_without_an_authorizer(tmp_path: Path) -> None:
    with secured_node(tmp_path) as secured:
        ended = Acls(secured).run("list")
        assert (ended.complaint, ended.status) == (
            "kcli: SECURITY_DISABLED: No Authorizer is configured on the broker",
            1,
        )

"""kcli tokens: creates, renews, expires and describes delegation tokens; only create shows the secret of one."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.security.authorizer import CLASS_NAME
from tests.broker.security.secured import Secured, secured_node
from tests.cli.run import KCLI, Ended, kcli

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PASSWORDS = " ".join(f'user_{name}="p"' for name in ("admin", "alice", "bob", "carol", "dora"))
OPTIONS = {
    "authorizer.class.name": CLASS_NAME,
    "super.users": "User:ANONYMOUS;User:admin",
    "delegation.token.secret.key": "secret",
    "delegation.token.max.lifetime.ms": str(2**63 - 1),
    "listener.name.sasl.plain.sasl.jaas.config": f"{PLAIN} {PASSWORDS};",
}
DAY_MS = 86_400_000


class TokenUsers:
    """A node, and kcli tokens as its users run it."""

    def __init__(self, secured: Secured) -> None:
        self.secured = secured
        self.address = f"127.0.0.1:{secured.port('SASL')}"

    def client(self, user: str) -> Path:
        """The file of --command-config of a user."""
        file = self.secured.folder / f"{user}.properties"
        login = f'sasl.jaas.config={PLAIN} username="{user}" password="p";'
        file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n{login}\n")
        return file

    def run(self, user: str, *arguments: str | Path, text: bytes | None = None, **variables: str) -> Ended:
        """Run a command of kcli tokens as a user. text: its standard input."""
        connection: list[str | Path] = ["-b", self.address, "--command-config", self.client(user)]
        return kcli("tokens", *arguments, *connection, input=text, env=os.environ | variables)

    def rows(self, user: str, *arguments: str, text: bytes | None = None) -> list[dict[str, Any]]:
        """What a command shows, which ends well."""
        ended = self.run(user, *arguments, "--format", "jsonl", text=text)
        assert (ended.stderr, ended.status) == ("", 0)
        return [json.loads(line) for line in ended.stdout.splitlines()]

    def created(self, user: str, *arguments: str) -> dict[str, Any]:
        """A new token."""
        (row,) = self.rows(user, "create", *arguments)
        return row


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenUsers]:
    with secured_node(tmp_path_factory.mktemp("node"), OPTIONS) as secured:
        yield TokenUsers(secured)


def test_create_describe_renew_expire(users: TokenUsers) -> None:
    made = users.created("alice", "--renewer-principal", "User:bob", "--max-life-time-period", str(2 * DAY_MS))
    hmac, token_id = made.pop("hmac"), made["token_id"]
    assert (made["owner"], made["requester"], made["renewers"]) == ("User:alice", "User:alice", ["User:bob"])
    assert (made["expires_ms"] - made["issued_ms"], made["max_ms"] - made["issued_ms"]) == (DAY_MS, 2 * DAY_MS)
    for user, arguments in [("alice", ()), ("bob", ()), ("admin", ("--owner-principal", "User:alice"))]:
        assert users.rows(user, "describe", *arguments) == [made]
    assert users.rows("carol", "describe") == []
    for user, arguments in [("alice", ("describe",)), ("bob", ("renew", token_id))]:
        assert hmac not in users.run(user, *arguments).stdout, "only create shows it"

    (renewed,) = users.rows("bob", "renew", token_id, "--renew-time-period", "3600000")
    assert renewed["token_id"] == token_id
    assert made["issued_ms"] + 3_600_000 <= renewed["expires_ms"] < made["expires_ms"]
    (renewed,) = users.rows("bob", "renew", "--hmac-file", "-", text=f"{hmac}\n".encode())
    assert renewed.keys() == {"expires_ms"}, "a broker does not say whose HMAC it is"
    assert renewed["expires_ms"] >= made["expires_ms"]
    (expiring,) = users.rows("alice", "expire", token_id, "--expiry-time-period", "60000")
    assert expiring["expires_ms"] < renewed["expires_ms"]
    shown = users.run("alice", "expire", "--hmac-env", "HMAC", HMAC=hmac).stdout.split()
    assert shown[:3] == ["TOKEN-ID", "EXPIRES", "-"]
    assert users.rows("alice", "describe") == []


def test_the_table(users: TokenUsers) -> None:
    head, row = users.run("alice", "create", "--renewer-principal", "User:b,c").stdout.splitlines()
    assert head.split() == ["TOKEN-ID", "OWNER", "REQUESTER", "RENEWERS", "ISSUED", "EXPIRES", "MAX", "HMAC"]
    token_id, *principals, _, _, ends, hmac = row.split()
    assert principals == ["User:alice", "User:alice", "User:b,c"]
    assert (ends, len(hmac)) == ("9999-12-31T23:59:59.999Z", 88)
    described = users.run("alice", "describe")
    assert described.stdout.splitlines()[1].split()[0] == token_id
    ended = users.run("alice", "expire", token_id, "--expiry-time-period", str(2**63 - 1))
    assert (ended.stdout.split()[2:], ended.status) == ([token_id, ends], 0)
    assert users.run("alice", "expire", token_id).status == 0


def test_a_token_that_cannot_be_shown(users: TokenUsers) -> None:
    """It is made all the same: its id is told, so that it can be taken back."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*KCLI, "tokens", "create", "-b", users.address, "--command-config", users.client("dora")],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    (made,) = users.rows("dora", "describe")
    told, failed = done.stderr.splitlines()
    assert told == f"kcli: the token {made['token_id']} is made, but not shown: kcli tokens expire {made['token_id']}"
    assert (failed, done.returncode) == ("kcli: standard output: No space left on device", 1)


def test_a_quorum_that_a_user_may_not_see(users: TokenUsers) -> None:
    def status(user: str, *options: str) -> Ended:
        return kcli("cluster", "status", "-b", users.address, "--command-config", users.client(user), *options)

    ended = status("carol")
    assert "quorum  not known: DescribeQuorum: CLUSTER_AUTHORIZATION_FAILED\n" in ended.stdout
    assert ended.status == 1
    found = json.loads(status("carol", "--format", "jsonl").stdout)
    assert (found["healthy"], found["quorum"]) == (False, None)
    assert found["quorum_error"] == "DescribeQuorum: CLUSTER_AUTHORIZATION_FAILED"
    assert status("admin").status == 0


def test_of_another_owner(users: TokenUsers) -> None:
    refused = users.run("alice", "create", "--owner-principal", "User:bob")
    assert (refused.complaint, refused.status) == ("kcli: DELEGATION_TOKEN_AUTHORIZATION_FAILED", 1)
    made = users.created("admin", "--owner-principal", "User:bob")
    assert (made["owner"], made["requester"]) == ("User:bob", "User:admin")
    assert [each["token_id"] for each in users.rows("bob", "describe")] == [made["token_id"]]
    assert len(users.rows("bob", "expire", made["token_id"])) == 1


def test_what_goes_wrong(users: TokenUsers) -> None:
    made = users.created("alice")
    token_id, hmac = made["token_id"], made["hmac"]
    both = users.run("alice", "renew", "none", token_id)
    assert (both.complaint, both.status) == ("kcli: none: DELEGATION_TOKEN_NOT_FOUND", 1)
    assert token_id in both.stdout, "the other one is renewed"
    for arguments, environment, reason in [
        (("renew", token_id), {}, f"kcli: {token_id}: DELEGATION_TOKEN_NOT_FOUND"),
        (("expire", "--hmac-env", "HMAC"), {"HMAC": hmac}, "kcli: DELEGATION_TOKEN_OWNER_MISMATCH"),
        (("expire", "--hmac-env", "HMAC"), {"HMAC": "eHg="}, "kcli: DELEGATION_TOKEN_NOT_FOUND"),
        (("create", "--renewer-principal", "Group:x"), {}, "kcli: INVALID_PRINCIPAL_TYPE"),
    ]:
        ended = users.run("bob", *arguments, **environment)
        assert (ended.stdout, ended.complaint, ended.status) == ("", reason, 1)
    admin = users.run("admin", "renew", token_id)
    assert admin.complaint == f"kcli: {token_id}: DELEGATION_TOKEN_OWNER_MISMATCH", "a super user describes, no more"
    open_to_all = f"127.0.0.1:{users.secured.port('PLAINTEXT')}"
    for command in ("create", "describe"):
        ended = kcli("tokens", command, "-b", open_to_all)
        assert (ended.complaint, ended.status) == ("kcli: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", 1)
    users.run("alice", "expire", token_id)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["renew"], "which tokens?"),
        (["expire", "x", "--hmac-env", "HMAC"], "which tokens?"),
        (["expire", "--hmac-env", "HMAC", "--hmac-file", "-"], "exclude each other"),
        (["renew", "--hmac-env", "HMAC"], "the hmac is not base64"),
        (["renew", "--hmac-file", "-"], "the hmac is empty"),
        (["create", "--renewer-principal", "bob"], "--renewer-principal 'bob' is no principal"),
        (["describe", "--owner-principal", "bob"], "--owner-principal 'bob' is no principal"),
    ],
)
def test_wrong_usage(users: TokenUsers, arguments: list[str], reason: str) -> None:
    ended = users.run("alice", *arguments, text=b"\n", HMAC="secret?")
    assert (reason in ended.complaint, ended.status) == (True, 2)
    assert "secret?" not in ended.stderr

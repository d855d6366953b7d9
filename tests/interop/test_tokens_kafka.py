"""`kcli tokens` and kafka-delegation-tokens, on kcli and on real Kafka: the same tokens and the same errors."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.broker.security.secured import secured_node, unused_port
from tests.cli.run import Ended, kcli
from tests.cli.test_tokens import OPTIONS, PLAIN
from tests.interop import kit
from tests.interop.kit import Output, ToolServer

pytestmark = pytest.mark.kafka
TOOL = "org.apache.kafka.tools.DelegationTokenCommand"
ERRORS = {
    "DelegationTokenAuthorizationException": "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
    "DelegationTokenNotFoundException": "DELEGATION_TOKEN_NOT_FOUND",
    "DelegationTokenOwnerMismatchException": "DELEGATION_TOKEN_OWNER_MISMATCH",
    "InvalidPrincipalTypeException": "INVALID_PRINCIPAL_TYPE",
    "UnsupportedByAuthenticationException": "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
}
"""The tool's message, and kcli's."""


@dataclass
class Tokens:
    """A broker, and the two tools for its tokens. secured, open_to_all: addresses of listeners."""

    tools: ToolServer
    folder: Path
    secured: str
    open_to_all: str

    def client(self, user: str) -> tuple[str, Path]:
        """Return a user's address and --command-config file; those without login for ""."""
        file = self.folder / f"{user}.properties"
        login = f'sasl.jaas.config={PLAIN} username="{user}" password="p";'
        file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n{login}\n" if user else "")
        return self.secured if user else self.open_to_all, file

    def kcli(self, user: str, *arguments: str) -> Ended:
        """Run kcli tokens as a user."""
        address, file = self.client(user)
        return kcli("tokens", *arguments, "-b", address, "--command-config", file)

    def kafka(self, user: str, *arguments: str) -> Output:
        """Run kafka-delegation-tokens as a user."""
        address, file = self.client(user)
        given = ["--bootstrap-server", address, "--command-config", str(file), *arguments]
        return self.tools.run(TOOL, given)

    def shown(self, command: Callable[[], str], found: str, *, there: bool = True) -> str:
        """Return what a command shows once it has a text, or no longer has it, since real Kafka's controller answers
        before its broker knows."""
        until = time.monotonic() + 20
        while (found in (text := command())) != there:
            assert time.monotonic() < until, text
            time.sleep(0.1)
        return text


@pytest.fixture(scope="module", params=["kcli", "Kafka"])
def tokens(
    request: pytest.FixtureRequest, kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tokens]:
    folder, tools = tmp_path_factory.mktemp("tokens"), kit.tool_server("off")
    if request.param == "kcli":
        with secured_node(folder, OPTIONS) as node:
            yield Tokens(tools, folder, *(f"127.0.0.1:{node.port(name)}" for name in ("SASL", "PLAINTEXT")))
        return
    name, ports = f"tokens-{os.getpid()}", [unused_port() for _ in range(3)]
    addresses = [f"127.0.0.1:{port}" for port in ports]
    own = {key: text for key, text in OPTIONS.items() if "max.lifetime" not in key}
    own |= {
        "listeners": f"PLAINTEXT://{addresses[0]},SASL://{addresses[1]},CONTROLLER://{addresses[2]}",
        "advertised.listeners": f"PLAINTEXT://{addresses[0]},SASL://{addresses[1]}",
        "controller.quorum.voters": f"1@{addresses[2]}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
    }
    command = [str(kit.SCRIPT), "start", name, *(f"{key}={text}" for key, text in own.items())]
    environment = os.environ | {"KAFKA_KIT_PORT": str(ports[0])}
    started = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    try:
        assert (started.returncode, started.stdout.strip()) == (0, addresses[0]), started.stderr
        yield Tokens(tools, folder, addresses[1], addresses[0])
    finally:
        subprocess.run([kit.SCRIPT, "kill", name], capture_output=True, check=False)
        subprocess.run([kit.SCRIPT, "rm", name], check=True)


def last_row(text: str) -> list[str]:
    return text.splitlines()[-1].split()


def test_what_one_tool_makes_the_other_one_shows(tokens: Tokens) -> None:
    given = ["--renewer-principal", "User:bob", "--max-life-time-period", "3600000"]
    made = tokens.kcli("alice", "create", *given)
    assert (made.stderr, made.status) == ("", 0)
    token_id, *row, hmac = last_row(made.stdout)
    owned = ("--describe", "--owner-principal", "User:alice")
    theirs = last_row(tokens.shown(lambda: tokens.kafka("alice", *owned).stdout, token_id))
    assert theirs[:5] == [token_id, hmac, *row[:2], f"[{row[2]}]"]
    assert [each[:16] for each in row[3:]] == theirs[5:], "the times, in UTC as the machine's are"

    created = tokens.kafka("bob", "--create", *given, "--renewer-principal", "User:alice").stdout
    their_id, their_hmac, *rest = last_row(created)
    ours = tokens.shown(lambda: tokens.kcli("alice", "describe").stdout, their_id)
    assert their_hmac not in ours
    shown = next(last_row(line) for line in ours.splitlines() if their_id in line)
    assert shown[1:4] == ["User:bob", "User:bob", "User:bob,User:alice"]
    assert [each[:16] for each in shown[4:]] == rest[-3:]

    for command, option in (("renew", "--renew-time-period"), ("expire", "--expiry-time-period")):
        ended = tokens.kcli("alice", command, their_id, option, "60000")
        assert ended.status == 0, ended
        expires = last_row(ended.stdout)[1]
        ours = tokens.shown(lambda: tokens.kcli("bob", "describe").stdout, expires)
    theirs_too = tokens.kafka("alice", "--renew", "--hmac", their_hmac, "--renew-time-period", "-1")
    assert "Completed renew operation" in theirs_too.stdout, theirs_too
    for name in (token_id, their_id):
        ended = tokens.kcli("alice", "expire", name)
        assert (ended.stderr, ended.status) == ("", 0)
        tokens.shown(lambda: tokens.kcli("alice", "describe").stdout, name, there=False)


def test_the_same_errors(tokens: Tokens) -> None:
    made = tokens.kcli("alice", "create")
    token_id, *_, hmac = last_row(made.stdout)
    tokens.shown(lambda: tokens.kcli("alice", "describe").stdout, token_id)
    secret = tokens.folder / "hmac"
    cases: list[tuple[str, list[str], list[str], str]] = [
        ("", ["create"], ["--create", "--max-life-time-period", "-1"], ""),
        ("", ["describe"], ["--describe"], ""),
        ("alice", ["create", "--owner-principal", "User:bob"], [], ""),
        ("alice", ["create", "--renewer-principal", "Group:bob"], [], ""),
        ("bob", ["renew"], ["--renew", "--renew-time-period", "-1"], "eHg="),
        ("bob", ["expire"], ["--expire", "--expiry-time-period", "-1"], "eHg="),
        ("bob", ["renew"], ["--renew", "--renew-time-period", "-1"], hmac),
        ("bob", ["expire"], ["--expire", "--expiry-time-period", "-1"], hmac),
    ]
    for user, ours, theirs, used in cases:
        secret.write_text(used)
        by_hmac = ["--hmac-file", str(secret)] if used else []
        ended = tokens.kcli(user, *ours, *by_hmac)
        words = theirs or ["--create", "--max-life-time-period", "-1", *ours[1:]]
        failed = tokens.kafka(user, *words, *(["--hmac", used] if used else []))
        named = re.search(r"errors\.(\w+):", failed.stdout + failed.stderr)
        assert named is not None, failed
        assert (ended.stdout, ended.complaint, ended.status) == ("", f"kcli: {ERRORS[named[1]]}", 1)
    assert tokens.kcli("alice", "expire", token_id).status == 0

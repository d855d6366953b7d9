"""kcli users: lists, adds and removes the users who log in by SCRAM; never with a password in a command line."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.security.secured import Secured, secured_node
from tests.cli.run import KCLI, Ended, kcli


class Users:
    """A node with users, who log in at its listener SASL."""

    def __init__(self, secured: Secured) -> None:
        self.secured = secured
        self.environment = os.environ | {"KCLI_BOOTSTRAP_SERVER": f"127.0.0.1:{secured.port('PLAINTEXT')}"}

    def run(self, *arguments: str | Path, text: bytes | None = None, **variables: str) -> Ended:
        """Run a command of kcli users. text: its standard input."""
        return kcli("users", *arguments, env=self.environment | variables, input=text)

    def listed(self, *names: str) -> list[tuple[str, str, int]]:
        """What list shows."""
        lines = self.run("list", "--format", "jsonl", *names).stdout.splitlines()
        return [tuple(json.loads(line).values()) for line in lines]

    def logs_in(self, name: str, password: str, mechanism: str = "SCRAM-SHA-512") -> bool:
        """Return whether the user can log in with a file of --command-config."""
        file = self.secured.folder / "client.properties"
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        written = password.replace("ä", "\\u00e4")  # Java reads properties as Latin-1
        file.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
            f'sasl.jaas.config={module} required username="{name}" password="{written}";\n'
        )
        address = f"127.0.0.1:{self.secured.port('SASL')}"
        ended = kcli("users", "list", "--bootstrap-server", address, "--command-config", file)
        assert ended.status == 0 or "Authentication failed" in ended.complaint, ended
        return ended.status == 0


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    with secured_node(tmp_path_factory.mktemp("node")) as secured:
        yield Users(secured)


def test_add_list_log_in_remove(users: Users, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("pässword\nnot of it\n")
    assert users.run("add", "alice", "bob", "--password-file", file) == ("", "", 0)
    both = ["--mechanism", "SCRAM-SHA-256", "--mechanism", "SCRAM-SHA-512", "--iterations", "8192"]
    assert users.run("add", "bob", *both, "--password-env", "SECRET", SECRET="other") == ("", "", 0)
    found = [("alice", "SCRAM-SHA-512", 4096), ("bob", "SCRAM-SHA-256", 8192), ("bob", "SCRAM-SHA-512", 8192)]
    assert users.listed() == found
    assert users.listed("bob") == found[1:]
    table = [line.split() for line in users.run("list").stdout.splitlines()]
    assert table == [["USER", "MECHANISM", "ITERATIONS"], *[list(map(str, each)) for each in found]]
    assert users.logs_in("alice", "pässword")
    assert users.logs_in("bob", "other", "SCRAM-SHA-256")
    assert not users.logs_in("alice", "other")

    assert users.run("remove", "bob", "--mechanism", "SCRAM-SHA-512") == ("", "", 0)
    assert users.listed() == found[:2]
    assert users.run("remove", "alice", "bob") == ("", "", 0)
    assert users.listed() == []
    assert not users.logs_in("alice", "pässword")
    for command in ("remove", "list"):
        ended = users.run(command, "alice")
        assert ("RESOURCE_NOT_FOUND" in ended.complaint, ended.status) == (True, 1)


def test_the_password_of_standard_input(users: Users) -> None:
    assert users.run("add", "carol", "--password-file", "-", text=b"secret\n") == ("", "", 0)
    assert users.logs_in("carol", "secret")


def _said(terminal: int) -> bytes:
    """What is written to a terminal next; nothing once nobody has it open."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


def test_a_terminal_is_asked_twice(users: Users) -> None:
    """Nothing of the password is shown."""
    ctrl_d = b"\4"
    for answers, status, reason in (
        ([b"one\n", b"one\n"], 0, b""),
        ([b"one\n", b"two\n"], 2, b"kcli: the two passwords differ"),
        ([b"one\n", ctrl_d], 2, b"kcli: no password: the terminal's input has ended"),
        ([ctrl_d], 2, b"kcli: no password: the terminal's input has ended"),
    ):
        own, other = pty.openpty()
        command = [*KCLI, "users", "add", "dora"]
        with subprocess.Popen(
            command, stdin=other, stdout=other, stderr=other, env=users.environment, start_new_session=True
        ) as process:
            os.close(other)
            shown, readable = b"", select.poll()  # select() knows no file above 1,023
            readable.register(own, select.POLLIN)
            try:
                for prompt, answer in zip((b"Password: ", b"Again: "), answers, strict=False):
                    while not shown.endswith(prompt):
                        assert readable.poll(30_000), shown
                        shown += os.read(own, 4096)
                    os.write(own, answer)
                assert process.wait(30) == status
                while readable.poll(100) and (said := _said(own)):
                    shown += said
            finally:
                process.kill()  # a command that still waits for an answer would never end
        os.close(own)
        assert b"one" not in shown
        assert reason in shown
    assert users.logs_in("dora", "one")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "no terminal to ask for the password"),
        (["--password-file", "-", "--password-env", "X"], "exclude each other"),
        (["--password-env", "KCLI_NOT_THERE"], "the environment has no KCLI_NOT_THERE"),
        (["--password-file", "-"], "the password is empty"),
    ],
)
def test_no_password(users: Users, arguments: list[str], reason: str) -> None:
    ended = users.run("add", "eve", *arguments, text=b"\n")
    assert (reason in ended.complaint, ended.status) == (True, 2)


@pytest.mark.parametrize("command", [("users", "list"), ("topics", "list"), ("cluster", "status")])
def test_who_is_not_let_in_is_told_so(users: Users, command: tuple[str, str], tmp_path: Path) -> None:
    login = ["-X", "sasl.mechanism=PLAIN", "-X", "sasl.username=alice", "-X", "sasl.password=wrong"]
    authority = ["-X", f"ssl.ca.location={users.secured.folder / 'ca.pem'}"]
    for listener, properties, words in [
        ("SASL", [], ["no broker answers", "want TLS or a login? --command-config"]),
        ("SSL", [], ["no broker answers", "want TLS or a login? --command-config"]),
        ("SASL", ["-X", "security.protocol=sasl_plaintext", *login], ["the login failed", "Authentication failed"]),
        ("SASL_SSL", ["-X", "security.protocol=sasl_ssl", *authority, *login], ["the login failed"]),
    ]:
        address = f"127.0.0.1:{users.secured.port(listener)}"
        ended = kcli(*command, "-b", address, "--timeout", "5", *properties)
        assert (ended.stdout, ended.status) == ("", 1)
        assert [each for each in words if each not in ended.complaint] == []


def test_reasons_of_tls_are_words(users: Users) -> None:
    address = f"127.0.0.1:{users.secured.port('SSL')}"
    ended = kcli("users", "list", "-b", address, "-X", "security.protocol=ssl")
    assert "the peer's certificate is not accepted: self-signed certificate" in ended.complaint
    authority = f"ssl.ca.location={users.secured.folder / 'ca.pem'}"
    ended = kcli("users", "list", "-b", address, "-X", "security.protocol=ssl", "-X", authority)
    assert "the peer asks for a certificate" in ended.complaint


def test_iterations_have_bounds() -> None:
    for number in ("4095", "16385"):
        ended = kcli("users", "add", "eve", "--iterations", number, "--password-file", "-", input=b"x\n")
        assert (ended.status, "4096<=x<=16384" in ended.stderr) == (2, True)

"""`kcli acls` and `kcli users` on real Kafka, and Kafka's tools on `kcli serve --secure`."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker.running import ServedNode
from tests.cli.run import Ended, kcli
from tests.interop import kit
from tests.interop.kit import ToolServer

pytestmark = pytest.mark.kafka
GUIDE = Path(__file__).parents[2] / "docs" / "securing.md"
ACLS = "org.apache.kafka.tools.AclCommand"
CONFIGS = "kafka.admin.ConfigCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
OF_LOGGERS = ["--entity-type", "broker-loggers", "--entity-name", "1"]
ALICE, BOB = ["--allow-principal", "User:alice"], ["--deny-principal", "User:bob"]
AUTHORIZED = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)
RULES = {
    "operations": [*ALICE, "--operation", "Read", "--operation", "AlterConfigs", "--topic", "t"],
    "hosts": [*ALICE, "--allow-host", "10.0.0.1", *BOB, "--group", "g"],
    "a prefix": [*BOB, "--topic", "p", "--resource-pattern-type", "prefixed"],
    "the cluster": [*BOB, "--cluster", "--operation", "Create"],
    "a producer": [*ALICE, "--producer", "--idempotent", "--topic", "t", "--transactional-id", "x"],
    "a consumer": [*ALICE, "--consumer", "--topic", "t", "--group", "g"],
    "both": [*ALICE, "--producer", "--consumer", "--topic", "t", "--group", "g"],
    "others": [*ALICE, "--delegation-token", "*", "--user-principal", "User:x", "--operation", "all"],
}


@pytest.fixture(scope="module")
def tools(kafka_jars: Path) -> ToolServer:
    return kit.tool_server("off")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Start real Kafka with an authorizer for which every client is a super user; yield its address."""
    name = f"people-{os.getpid()}"
    started = subprocess.run(
        [kit.SCRIPT, "start", name, *AUTHORIZED], capture_output=True, text=True, check=False, timeout=120
    )
    try:
        assert started.returncode == 0, started.stderr
        yield started.stdout.split()[-1]
    finally:
        subprocess.run([kit.SCRIPT, "kill", name], capture_output=True, check=False)
        subprocess.run([kit.SCRIPT, "rm", name], check=True)


def run(address: str, *arguments: str) -> Ended:
    return kcli(*arguments, env=os.environ | {"KCLI_BOOTSTRAP_SERVER": address})


def listed(address: str) -> list[str]:
    ended = run(address, "acls", "list", "--format", "jsonl")
    assert (ended.stderr, ended.status) == ("", 0)
    return sorted(ended.stdout.splitlines())


def until(address: str, expected: Callable[[list[str]], bool]) -> list[str]:
    """Return what is listed once it is as expected, since real Kafka's controller answers before its broker knows."""
    deadline = time.monotonic() + 20
    while not expected(found := listed(address)):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return found


@pytest.mark.parametrize("rule", RULES)
def test_what_kcli_adds_is_what_kafka_acls_adds(rule: str, address: str, tools: ToolServer, tmp_path: Path) -> None:
    arguments = ["--bootstrap-server", address]
    added = tools.run(ACLS, [*arguments, "--add", *RULES[rule]])
    assert added.exit == 0, added
    assert run(address, "acls", "add", "--allow-principal", "User:last", "--topic", "last") == ("", "", 0)
    theirs = [each for each in until(address, lambda found: "User:last" in "".join(found)) if "User:last" not in each]
    assert run(address, "acls", "remove", *RULES[rule]) == ("", "", 0)
    until(address, lambda found: len(found) == 1)
    assert run(address, "acls", "add", *RULES[rule]) == ("", "", 0)
    assert run(address, "acls", "remove", "--topic", "last", "--force") == ("", "", 0)
    assert until(address, lambda found: "User:last" not in "".join(found)) == theirs
    removed = tools.run(ACLS, [*arguments, "--remove", "--force", *RULES[rule]])
    assert removed.exit == 0, removed
    until(address, lambda found: not found)


def test_users(address: str, tools: ToolServer, tmp_path: Path) -> None:
    given = ("users", "add", "alice", "--password-env", "SECRET", "--iterations", "8192")
    ended = kcli(*given, env=os.environ | {"KCLI_BOOTSTRAP_SERVER": address, "SECRET": "pw"})
    assert ended == ("", "", 0)
    described = tools.run(CONFIGS, ["--bootstrap-server", address, "--describe", "--entity-type", "users"])
    assert re.search(r"user-principal 'alice' are SCRAM-SHA-512=iterations=8192", described.stdout), described
    assert "SCRAM-SHA-512  8192" in run(address, "users", "list").stdout
    assert run(address, "users", "remove", "alice") == ("", "", 0)
    assert run(address, "users", "list") == ("", "", 0)


def lines_of_the_guide() -> list[str]:
    """Return the arguments of each kafka-configs.sh that the guide to securing a cluster gives."""
    found: list[str] = re.findall(r"^    kafka-configs\.sh (.*)$", GUIDE.read_text(), re.MULTILINE)
    return found


def test_kafkas_tools_take_the_admins_file(tools: ToolServer, tmp_path: Path) -> None:
    node = ServedNode(tmp_path / "data", "--secure")
    try:
        client = str(tmp_path / "data-secure" / "client.properties")
        given = ["--bootstrap-server", node.bootstrap, "--command-config", client]
        created = tools.run(TOPICS, [*given, "--create", "--topic", "orders"])
        assert created.exit == 0, created
        assert tools.run(TOPICS, [*given, "--list"]).stdout.split() == ["orders"]
        for line, of in zip(lines_of_the_guide(), ("user alice", "broker-logger 1"), strict=True):
            of_page = line.replace("127.0.0.1:9092", node.bootstrap).replace("data-secure/client.properties", client)
            altered = tools.run(CONFIGS, shlex.split(of_page))
            assert altered.stdout == f"Completed updating config for {of}.\n", altered
        shown = tools.run(CONFIGS, [*given, "--describe", "--entity-type", "users"])
        assert "consumer_byte_rate=2097152.0, producer_byte_rate=1048576.0" in shown.stdout, shown
        loggers = tools.run(CONFIGS, [*given, "--describe", *OF_LOGGERS])
        assert "kafka.authorizer.logger=ERROR" in loggers.stdout, loggers
    finally:
        node.signal(signal.SIGTERM)

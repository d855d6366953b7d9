"""Kafka's own tools log in at kcli's listeners with each mechanism and with a certificate, and print why they are
refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.security.secured import Secured, secured_node
from tests.broker.security.test_listeners import AUTHORIZED
from tests.interop.kit import Output, ToolServer, tool_server

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
ACLS = "org.apache.kafka.tools.AclCommand"
MODULES = {"PLAIN": "plain.PlainLoginModule"} | dict.fromkeys(
    ("SCRAM-SHA-256", "SCRAM-SHA-512"), "scram.ScramLoginModule"
)
PROTOCOLS = {"SASL": "SASL_PLAINTEXT", "SASL_SSL": "SASL_SSL", "SSL": "SSL"}


class Tools:
    """Kafka's tools, as one user or another of the node."""

    def __init__(self, secured: Secured, server: ToolServer) -> None:
        self.secured, self._server = secured, server

    def run(self, tool: str, listener: str, settings: dict[str, str], *arguments: str) -> Output:
        """Run a tool through a listener. settings: those that the listener needs."""
        folder = self.secured.folder
        file = folder / "client.properties"
        lines = {"security.protocol": PROTOCOLS.get(listener, "PLAINTEXT"), **self.secured.trust(), **settings}
        file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        address = f"127.0.0.1:{self.secured.port(listener)}"
        given = ["--bootstrap-server", address, "--command-config", str(file), *arguments]
        return self._server.run(tool, given)


@pytest.fixture(scope="module")
def tools(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """The tools, after kafka-configs has made the users alice and carol and kafka-acls has let carol see topics."""
    server = tool_server("off")
    with secured_node(tmp_path_factory.mktemp("node"), AUTHORIZED) as secured:
        found = Tools(secured, server)
        for user in ("alice", "carol"):
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                entity = ("--entity-type", "users", "--entity-name", user)
                added = found.run(
                    CONFIGS, "PLAINTEXT", {}, "--alter", *entity, "--add-config", f"{mechanism}=[password=pw]"
                )
                assert added.exit == 0, added
        for topic in ("seen", "hidden"):
            assert found.run(TOPICS, "PLAINTEXT", {}, "--create", "--topic", topic).exit == 0
        rule = ("--allow-principal", "User:carol", "--operation", "Describe", "--topic", "seen")
        assert found.run(ACLS, "SASL", login("PLAIN", "alice", "secret"), "--add", *rule).exit == 0
        yield found


def login(mechanism: str, name: str, password: str) -> dict[str, str]:
    module = f"org.apache.kafka.common.security.{MODULES[mechanism]}"
    text = f'{module} required username="{name}" password="{password}";'
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": text}


def listed(found: Output) -> set[str]:
    assert found.exit == 0, found
    return set(found.stdout.split())


@pytest.mark.parametrize("listener", ["SASL", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MODULES)
def test_by_password(mechanism: str, listener: str, tools: Tools) -> None:
    password = "secret" if mechanism == "PLAIN" else "pw"
    assert listed(tools.run(TOPICS, listener, login(mechanism, "alice", password), "--list")) == {"seen", "hidden"}
    if mechanism != "PLAIN":
        assert listed(tools.run(TOPICS, listener, login(mechanism, "carol", "pw"), "--list")) == {"seen"}
    refused = tools.run(TOPICS, listener, login(mechanism, "alice", "wrong"), "--list")
    assert refused.exit == 1
    assert "Authentication failed" in refused.stdout + refused.stderr


def test_by_certificate(tools: Tools) -> None:
    keys = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tools.secured.folder / "alice.pem")}
    assert listed(tools.run(TOPICS, "SSL", keys, "--list")) == {"seen", "hidden"}

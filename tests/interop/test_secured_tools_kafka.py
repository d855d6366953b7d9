"""kafka-acls, kafka-configs and kafka-delegation-tokens print the same against kcli as against real Kafka, through
SASL_SSL, both with StandardAuthorizer.

The commands are in secured_tools/*.txt. alice, a super user, gives them, or whom their --command-config names.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kcli.security.authorizer import CLASS_NAME
from kcli.tls.certificates import make_authority
from tests.broker.running import RunningNode
from tests.broker.security.secured import NOW
from tests.interop.kit import ToolServer
from tests.interop.test_secured_listeners_kafka import MODULES, login
from tests.interop.test_tools_kafka import CLASSES, ID, Broker, Command, commands, free_port, kafka

SCRIPTS = sorted(Path(__file__).with_name("secured_tools").glob("*.txt"))
LOGINS = {
    "alice": login("PLAIN", "alice", "alices"),
    "bob": login("PLAIN", "bob", "bobs"),
    "wrong": login("PLAIN", "alice", "a guess"),
    "ann": login("SCRAM-SHA-256", "ann", "secret"),
}
"""File of a client's configuration -> its login."""
HMAC = re.compile(r"[A-Za-z0-9+/]{86}==")
SECURED_VARIES = [
    (HMAC.pattern, "HMAC"),
    (rf"(^|tokenId : ){ID}( |$)", r"\1ID\2"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d", "TIME"),
    # a Request of Kafka's as Java prints it
    (r"Request Request\(.*\) needs [A-Z_]+ permission\.", "Cluster authorization failed."),
]


@dataclass
class SecuredBroker(Broker):
    """One of the two brokers. address: of its listener PLAINTEXT; secured: of SASL_SSL."""

    secured: str = ""
    hmac: str = ""

    def run(self, command: Command) -> str:
        """Return what is printed, with sorted lines, since their order differs from run to run in Kafka too."""
        tool, *arguments = command.words
        if "--command-config" not in arguments:
            arguments += ["--command-config", "alice.properties"]
        given = [each.replace("$HMAC", self.hmac) for each in arguments]
        output = self.tools.run(
            CLASSES[tool], ["--bootstrap-server", self.secured, *given], self.cwd, command.text.encode()
        )
        if "--create" in given:
            self.hmac = "".join(HMAC.findall(output.stdout)) or self.hmac
        report = self._report(output)
        for pattern, name in SECURED_VARIES:
            report = re.sub(pattern, name, report, flags=re.MULTILINE)
        return "".join(sorted(report.splitlines(keepends=True)))


def properties(folder: Path) -> dict[str, str]:
    """Return the configuration of both brokers without ports. folder: receives the files of the brokers and their
    clients."""
    authority = make_authority("kcli test", NOW)
    (folder / "server.pem").write_bytes(authority.server(["127.0.0.1"], NOW).pem)
    (folder / "ca.pem").write_bytes(authority.certificate_pem)
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "ca.pem")}
    for name, found in LOGINS.items():
        lines = {"security.protocol": "SASL_SSL", **trust, **found}
        (folder / f"{name}.properties").write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    modules = {name: f"org.apache.kafka.common.security.{module} required" for name, module in MODULES.items()}
    modules["PLAIN"] += ' user_alice="alices" user_bob="bobs"'
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "sasl.enabled.mechanisms": ",".join(modules),
        **{f"listener.name.sasl_ssl.{name.lower()}.sasl.jaas.config": f"{text};" for name, text in modules.items()},
        "authorizer.class.name": CLASS_NAME,
        "super.users": "User:ANONYMOUS;User:alice",
        "delegation.token.secret.key": "secret",
    }


@pytest.fixture(scope="module")
def both(
    kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Iterator[tuple[SecuredBroker, SecuredBroker]]:
    """Real Kafka, and kcli on a thread."""
    name = f"kcli-secured-tools-{worker_id}-{os.getpid()}"
    tools, folder = ToolServer(kafka_jars, "off"), tmp_path_factory.mktemp("tools")
    configs = properties(folder)
    plain, secured, controller = (f"127.0.0.1:{free_port()}" for _ in range(3))
    for_clients = f"PLAINTEXT://{plain},SASL_SSL://{secured}"
    own = {
        "listeners": f"{for_clients},CONTROLLER://{controller}",
        "advertised.listeners": for_clients,
        "controller.quorum.voters": f"1@{controller}",
    }
    free = f"PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:{free_port()}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKA_KIT_PORT", plain.rpartition(":")[2])  # of the script's own listener, whose place ours take
        try:
            kafka("start", name, *(f"{key}={value}" for key, value in {**configs, **own}.items()))
            node = RunningNode(folder / "data", {**configs, "listeners": free})
            try:
                theirs = SecuredBroker(plain, [(secured, "ADDRESS")], tools, folder, secured=secured)
                ours = "{}:{}".format(*node.node.addresses["SASL_SSL"])
                yield theirs, SecuredBroker(node.bootstrap, [(ours, "ADDRESS")], tools, folder, secured=ours)
            finally:
                node.stop()
        finally:
            tools.close()
            kafka("kill", name)
            kafka("rm", name)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_tools_print_the_same(both: tuple[SecuredBroker, SecuredBroker], script: Path) -> None:
    real, ours = both
    differences: list[str] = []
    for command in commands(script):
        expected, found = real.run(command), ours.run(command)
        real.settle()
        if expected != found:
            lines = difflib.unified_diff(expected.splitlines(), found.splitlines(), "kafka", "kcli", lineterm="")
            differences.append("\n".join([f"$ {command.line}", *lines]))
    assert not differences, "\n\n".join(differences)

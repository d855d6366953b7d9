"""kcli's own connections, beside librdkafka, to a real Kafka with TLS and SASL."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from kcli.client.security import security_of
from kcli.client.transaction_wire import list_transactions
from kcli.client.wire import NoAnswer, Server
from kcli.views.transactions import TransactionFilter
from tests.cli.run import Ended, kcli
from tests.interop.kit import SCRIPT
from tests.interop.test_tools_kafka import free_port, kafka

NODE = f"kcli-security-{os.getpid()}"
USER, SCRAM_PASSWORD, PLAIN_PASSWORD = "al=ice,", "secret=of=course", "secret, of course="
JAAS = "org.apache.kafka.common.security"
SCRAM = f"{JAAS}.scram.ScramLoginModule required;"
PLAIN = f'{JAAS}.plain.PlainLoginModule required username="admin" password="x" user_bob="{PLAIN_PASSWORD}";'
LOGINS = {
    "PLAIN": ("bob", PLAIN_PASSWORD),
    "SCRAM-SHA-256": (USER, SCRAM_PASSWORD),
    "SCRAM-SHA-512": (USER, SCRAM_PASSWORD),
}


@dataclass
class Secured:
    """A Kafka with a listener for each protocol, and what clients need to know of it."""

    ca: Path
    tls: str
    sasl: str

    def run(self, address: str, protocol: str, *arguments: str, **properties: str) -> Ended:
        """Run a command with these librdkafka properties, _ for the dots."""
        given = {"security.protocol": protocol, "ssl.ca.location": str(self.ca)}
        given |= {name.replace("_", "."): value for name, value in properties.items()}
        options = [word for name, value in given.items() for word in ("-X", f"{name}={value}")]
        return kcli(*arguments, "-b", address, *options)

    def ask(self, host: str, ca: Path, **properties: str) -> None:
        """Ask past the library. Raises NoAnswer, OSError."""
        given = {"security.protocol": "sasl_ssl", "ssl.ca.location": str(ca)}
        given |= {name.replace("_", "."): value for name, value in properties.items()}
        server = Server(host, int(self.sasl.rpartition(":")[2]), 10.0, security_of(given))
        assert list_transactions(server, 1, TransactionFilter()) == (0, [])


def certificate(directory: Path) -> tuple[Path, Path]:
    """Make a self-signed certificate of 127.0.0.1, and a key store with it."""
    key, signed, store = directory / "key.pem", directory / "ca.pem", directory / "store.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=kafka -addext subjectAltName=IP:127.0.0.1"
    made = [*command.split(), "-keyout", str(key), "-out", str(signed)]
    subprocess.run(made, check=True, capture_output=True)
    store.write_text(key.read_text() + signed.read_text())
    return signed, store


@pytest.fixture(scope="module")
def secured(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    ca, store = certificate(tmp_path_factory.mktemp("security"))
    plain = free_port()
    controller, tls, sasl = (f"127.0.0.1:{free_port()}" for _ in range(3))
    for_clients = f"PLAINTEXT://127.0.0.1:{plain},TLS://{tls},BOTH://{sasl}"
    properties = [
        f"listeners={for_clients},CONTROLLER://{controller}",
        f"controller.quorum.voters=1@{controller}",
        f"advertised.listeners={for_clients}",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,BOTH:SASL_SSL",
        "listener.name.both.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"listener.name.both.plain.sasl.jaas.config={PLAIN}",
        f"listener.name.both.scram-sha-256.sasl.jaas.config={SCRAM}",
        f"listener.name.both.scram-sha-512.sasl.jaas.config={SCRAM}",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={store}",
        "transaction.state.log.num.partitions=1",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKA_KIT_PORT", str(plain))  # of the script's own listener, which ours take the place of
        try:
            kafka("start", NODE, *properties)
            admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{plain}"})
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
                info = ScramCredentialInfo(mechanism, 4096)
                stored = UserScramCredentialUpsertion(USER, info, SCRAM_PASSWORD.encode())
                admin.alter_user_scram_credentials([stored])[USER].result()
            yield Secured(ca, tls, sasl)
        finally:
            subprocess.run([SCRIPT, "kill", NODE], capture_output=True, check=False)
            kafka("rm", NODE)


@pytest.mark.kafka
def test_tls(secured: Secured) -> None:
    ended = secured.run(secured.tls, "ssl", "transactions", "describe", "nobody")
    assert "TRANSACTIONAL_ID_NOT_FOUND" in ended.complaint
    ended = secured.run(secured.tls, "ssl", "cluster", "--format", "jsonl")
    assert json.loads(ended.stdout)["features"]


@pytest.mark.kafka
@pytest.mark.parametrize("mechanism", LOGINS)
def test_sasl(secured: Secured, mechanism: str) -> None:
    user, password = LOGINS[mechanism]
    login = {"sasl_mechanism": mechanism, "sasl_username": user, "sasl_password": password}
    ended = secured.run(secured.sasl, "sasl_ssl", "transactions", "describe", "nobody", **login)
    assert "TRANSACTIONAL_ID_NOT_FOUND" in ended.complaint
    with pytest.raises(NoAnswer, match=r"SASL: .*nvalid"):
        secured.ask("127.0.0.1", secured.ca, **login | {"sasl_password": "a guess"})


@pytest.mark.kafka
def test_certificates_that_are_not_trusted(secured: Secured, tmp_path: Path) -> None:
    login = {"sasl_mechanism": "PLAIN", "sasl_username": "bob", "sasl_password": PLAIN_PASSWORD}
    secured.ask("127.0.0.1", secured.ca, **login)
    stranger, _ = certificate(tmp_path)
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        secured.ask("127.0.0.1", stranger, **login)
    with pytest.raises(OSError, match="localhost"):
        secured.ask("localhost", secured.ca, **login)
    secured.ask("localhost", secured.ca, **login, ssl_endpoint_identification_algorithm="none")

"""A cluster whose listeners are all SASL_SSL, with an authorizer; its nodes are User:admin, who is a super user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kcli.security.authorizer import CLASS_NAME
from kcli.security.plain import LOGIN_MODULE
from kcli.tls.certificates import Authority, make_authority
from kcli.tls.contexts import client_context
from tests.broker.cluster import Cluster
from tests.broker.running import Address, Client
from tests.broker.security.secured import NOW

PASSWORDS = {"admin": "admins", "alice": "alices", "mallory": "mallorys"}
REAUTH_MS = 2000


def plain(own_password: str = PASSWORDS["admin"]) -> str:
    """Return the login module for nodes that are User:admin. own_password: the password with which this node logs in to
    others."""
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    return f'{LOGIN_MODULE} required username="admin" password="{own_password}" {users};'


def secured_properties(folder: Path) -> dict[str, str]:
    """The security of every node. folder: has server.pem and ca.pem."""
    return {
        "listener.security.protocol.map": "SECURE:SASL_SSL,CONTROLLER:SASL_SSL",
        "inter.broker.listener.name": "SECURE",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": plain(),
        "listener.name.controller.plain.sasl.jaas.config": plain(),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "authorizer.class.name": CLASS_NAME,
        "super.users": "User:admin",
    }


def write_certificates(folder: Path, authority: Authority, *hosts: str) -> None:
    """Write server.pem and ca.pem. hosts: those of the certificate; 127.0.0.1 unless there are others."""
    (folder / "ca.pem").write_bytes(authority.certificate_pem)
    (folder / "server.pem").write_bytes(authority.server(list(hosts or ["127.0.0.1"]), NOW).pem)


class SecuredCluster(Cluster):
    """Sessions last REAUTH_MS. options: more configurations of all nodes."""

    def __init__(
        self, directory: Path, brokers: int = 3, controllers: int = 0, options: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(directory, brokers, controllers, connections_max_reauth_ms=str(REAUTH_MS))
        write_certificates(directory, make_authority("kcli test", NOW))
        self.options |= {**secured_properties(directory), **(options or {})}

    def properties(self, node_id: int) -> dict[str, str]:
        found = super().properties(node_id)
        return found | {"listeners": found["listeners"].replace("PLAINTEXT", "SECURE")}

    def client(self, node_id: int, user: str = "admin") -> Client:
        """A connection to a broker, logged in."""
        return logged_in(("127.0.0.1", self.client_ports[node_id]), self.directory, user)

    def librdkafka(self, user: str) -> dict[str, Any]:
        """The settings of a client of librdkafka."""
        return librdkafka(self.bootstrap, self.directory, user)


def logged_in(address: Address, folder: Path, user: str) -> Client:
    """Return a connection to a broker's listener, logged in as a user. folder: has ca.pem."""
    client = through_tls(address, folder)
    assert client.call("sasl_handshake", 1, mechanism="PLAIN")["error_code"] == 0
    login = f"\0{user}\0{PASSWORDS[user]}".encode()
    assert client.call("sasl_authenticate", 2, auth_bytes=login)["error_code"] == 0
    return client


def through_tls(address: Address, folder: Path, host: str = "127.0.0.1", client_id: str = "test") -> Client:
    """Return a TLS connection without login, from one of this machine's addresses. folder: has ca.pem."""
    client = Client(address, client_id, from_host=host)
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "ca.pem")}
    client.socket = client_context(trust, NOW).context.wrap_socket(client.socket, server_hostname=address[0])
    return client


def librdkafka(bootstrap: str, folder: Path, user: str) -> dict[str, Any]:
    """The settings of a client of librdkafka. folder: has ca.pem."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": PASSWORDS[user],
        "ssl.ca.location": str(folder / "ca.pem"),
        "log_level": 0,
    }


@contextmanager
def secured_cluster(
    directory: Path, brokers: int = 3, controllers: int = 0, options: Mapping[str, str] | None = None
) -> Iterator[SecuredCluster]:
    """A cluster that runs."""
    cluster = SecuredCluster(directory, brokers, controllers, options)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()

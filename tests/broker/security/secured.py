"""A node with a listener of each kind: PLAINTEXT, between nodes; SASL; SSL, which asks for certificates; SASL_SSL."""

from __future__ import annotations

import datetime as dt
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kcli.broker.config.security import SIGNED_TOKENS
from kcli.tls.certificates import Authority, make_authority
from kcli.tls.contexts import client_context
from tests.broker.running import Client, RunningNode
from tests.broker.security.sasl_cases import LOGINS, SASL
from tests.security.tokens import Issuer

NOW = dt.datetime.now(dt.UTC)


@dataclass
class SecuredBroker(ABC):
    """A broker with a listener of each kind, and what its clients need. folder: has ca.pem, alice.pem."""

    folder: Path
    authority: Authority
    issuer: Issuer
    options: Mapping[str, str]

    @abstractmethod
    def port(self, listener: str) -> int:
        """The port of a listener."""

    def trust(self) -> dict[str, str]:
        """Settings of a client that trusts the broker."""
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.folder / "ca.pem")}

    def connect(self, listener: str, user: str | None = None) -> Client:
        """Open a connection, with TLS and a user's certificate where the listener needs them."""
        client = Client(("127.0.0.1", self.port(listener)))
        if listener.endswith("SSL"):
            settings = self.trust()
            if user is not None:
                keys = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.folder / f"{user}.pem")}
                settings |= keys
            context = client_context(settings, NOW).context
            client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
        return client


@dataclass
class Secured(SecuredBroker):
    """A node of kcli, on a thread."""

    node: RunningNode

    def port(self, listener: str) -> int:
        return self.node.node.addresses[listener][1]


def listeners(folder: Path, authority: Authority) -> dict[str, str]:
    """Return the configuration of the listeners. folder: receives the files that it names."""
    (folder / "ca.pem").write_bytes(authority.certificate_pem)
    (folder / "server.pem").write_bytes(authority.server(["localhost", "127.0.0.1"], NOW).pem)
    (folder / "alice.pem").write_bytes(authority.client("CN=alice,O=Acme", NOW).pem)
    free = ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", "SASL", "SSL", "SASL_SSL"))
    protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL"
    found = {
        "listeners": f"{free},CONTROLLER://127.0.0.1:{unused_port()}",
        "listener.security.protocol.map": protocols,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "ssl.client.auth": "required",
        "listener.name.ssl.ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/,DEFAULT",
        "sasl.oauthbearer.jwks.endpoint.url": (folder / "jwks.json").as_uri(),
        "sasl.oauthbearer.expected.audience": "kafka",
        **SASL,
    }
    for listener in ("sasl", "sasl_ssl"):
        found |= {f"listener.name.{listener}.{name.lower()}.sasl.jaas.config": text for name, text in LOGINS.items()}
        found[f"listener.name.{listener}.oauthbearer.sasl.server.callback.handler.class"] = SIGNED_TOKENS
    return found


def unused_port() -> int:
    """A port for a listener that is not opened."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


@contextmanager
def secured_node(folder: Path, options: Mapping[str, str] | None = None) -> Iterator[Secured]:
    """A node on a thread. options: more of its configuration."""
    authority, issuer = make_authority("kcli test", NOW), Issuer()
    (folder / "jwks.json").write_text(issuer.jwks())
    configured = {**listeners(folder, authority), **(options or {})}
    node = RunningNode(folder / "data", configured)
    try:
        yield Secured(folder, authority, issuer, configured, node)
    finally:
        node.stop()

"""Clients' certificates that are not accepted: the broker logs the reason in one line, and the client gets an alert.

Real Kafka's listeners answer certificate_unknown or bad_certificate to all of them, with which a client of Java fails
as with any alert (SslAuthenticationException); OpenSSL's alerts are more exact.
"""

from __future__ import annotations

import datetime as dt
import logging
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from cryptography.x509 import Name, NameAttribute, ObjectIdentifier
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kcli.tls.certificates import Authority, Identity, make_authority
from kcli.tls.contexts import client_context
from tests.broker.cluster import wait_for
from tests.broker.running import Client
from tests.broker.security.secured import NOW, Secured, secured_node

WRONG_PURPOSE = (
    "the peer's certificate is not accepted: unsuitable certificate purpose: its extended key usage lacks clientAuth "
    "(serverAuth), or its key usage digitalSignature"
)
MONTH, DAY = dt.timedelta(days=30), dt.timedelta(days=1)


def used_for(authority: Authority, *usages: ObjectIdentifier) -> Identity:
    """Return a certificate of alice with this extended key usage."""
    return authority._signed(Name([NameAttribute(NameOID.COMMON_NAME, "alice")]), usages, NOW)


CASES: Mapping[str, tuple[Callable[[Authority], Identity | None], str, str]] = {
    "expired": (
        lambda authority: Authority(authority.identity, DAY).client("CN=alice", NOW - MONTH),
        "CERTIFICATE_EXPIRED",
        "the peer's certificate is not accepted: certificate has expired",
    ),
    "not valid yet": (
        lambda authority: authority.client("CN=alice", NOW + MONTH),
        "BAD_CERTIFICATE",
        "the peer's certificate is not accepted: certificate is not yet valid",
    ),
    "of another authority": (
        lambda _: make_authority("another", NOW).client("CN=alice", NOW),
        "UNKNOWN_CA",
        "the peer's certificate is not accepted: unable to get local issuer certificate",
    ),
    "signed by itself": (
        lambda _: make_authority("alice", NOW).identity,
        "UNKNOWN_CA",
        "the peer's certificate is not accepted: self-signed certificate",
    ),
    "for servers": (
        lambda authority: used_for(authority, ExtendedKeyUsageOID.SERVER_AUTH),
        "UNSUPPORTED_CERTIFICATE",
        WRONG_PURPOSE,
    ),
    "for any use": (
        lambda authority: used_for(authority, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE),
        "UNSUPPORTED_CERTIFICATE",
        WRONG_PURPOSE,
    ),
    "none": (
        lambda _: None,
        "CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE",
        "the peer shows no certificate, which ssl.client.auth=required asks for",
    ),
}
"""The client's certificate, the alert, and the broker's line."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_node(tmp_path_factory.mktemp("node")) as node:
        yield node


def shown(identity: Identity | None, folder: Path) -> dict[str, str]:
    """Return the settings of a client with a certificate."""
    if identity is None:
        return {}
    (folder / "shown.pem").write_bytes(identity.pem)
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(folder / "shown.pem")}


def alert(secured: Secured, context: ssl.SSLContext) -> str:
    """Return the alert to a client that connects and sends nothing; "" for no alert."""
    try:
        with Client(("127.0.0.1", secured.port("SSL"))) as client:
            client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
            client.socket.recv(1)
    except ssl.SSLError as error:
        return error.reason or ""
    return ""


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
@pytest.mark.parametrize("name", CASES)
def test_one_line_and_an_alert(
    name: str, version: str, secured: Secured, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make, told, line = CASES[name]
    context = client_context(secured.trust() | shown(make(secured.authority), tmp_path), NOW).context
    context.maximum_version = ssl.TLSVersion[version]
    secured.node.run(secured.node.node.server._complaints._kinds.clear)
    with caplog.at_level(logging.WARNING, "kcli.broker"):
        assert re.search(told, alert(secured, context))
        wait_for(lambda: "handshakes fail" in caplog.text, "line")
    lines = [each for each in caplog.messages if "handshakes fail" in each]
    assert lines == [f"TLS handshakes fail: {line}, at SSL, from 127.0.0.1 (1 since the last such line)"]

"""Kafka's TLS and kcli's: both accept or refuse the same settings, and each connects to the other."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.tls.certificates import make_authority
from kcli.tls.contexts import client_context, listener_context
from kcli.tls.failures import failure_text
from kcli.tls.settings import InvalidTlsSetting
from tests.interop.kit import Oracle
from tests.tls.test_settings import JKS, P12, PBES2, PLAIN_CHAIN, REFUSED, STORES, TRUST, p12

PROGRAM = Path(__file__).with_name("TlsOracle.java")
NOW = dt.datetime.now(dt.UTC)
AUTHORITY = make_authority("kcli test", NOW)
Settings = dict[str, str]
KCLI_ALONE = (
    "a listener of SSL needs a key",  # Kafka starts, and every handshake fails
    "ssl.truststore.location: must be there where ssl.client.auth",  # Java's public authorities would be trusted
    "ssl.client.auth: 'maybe'",  # refused by Kafka's configuration, before TLS
    "ssl.secure.random",
    "ssl.keymanager",
    "ssl.trustmanager.algorithm: SunX509",
    "ssl.endpoint.identification.algorithm: no algorithm",  # Kafka fails when it connects
    "ssl.enabled.protocols: neither",  # Kafka starts, and every handshake fails
    "TLS_DH_anon",
    "TLS_RSA_WITH_NULL",
    "with suites of TLS 1.3",
    "none of",
    "JCEKS",
    "BKS",  # Kafka ignores the type where no store is named
    "no private key is in it",  # Kafka starts, and every handshake fails
    "belong together",  # Kafka starts, and every handshake fails
    "both keys of kind EC",
    "is encrypted, and no password is there",  # Kafka starts, and trusts nobody
    "has a private key, too",
)
"""Settings that kcli refuses and Kafka accepts, each with its reason."""


def pem(hosts: list[str] | None = None, subject: str = "") -> Settings:
    made = AUTHORITY.server(hosts, NOW) if hosts else AUTHORITY.client(subject, NOW)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": made.key_pem.decode(),
        "ssl.keystore.certificate.chain": made.chain_pem.decode(),
    }


TRUST_PEM = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": AUTHORITY.certificate_pem.decode()}
ALICE = "CN=alice\\, of Acme,OU=Büro,O=Acme"


@pytest.fixture(scope="module")
def kafka(kafka_jars: Path) -> Iterator[Oracle]:
    started = Oracle(kafka_jars, PROGRAM, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
    yield started
    started.close()


def is_taken(settings: Settings) -> bool:
    try:
        listener_context(settings, NOW)
    except InvalidTlsSetting:
        return False
    return True


def test_settings_are_taken_or_refused_as_by_kafka(kafka: Oracle) -> None:
    """A key encrypted by PBES2, which Java reads from version 19 on, is left out."""
    pbe = PBES2 | PLAIN_CHAIN | {"ssl.keystore.key": (STORES / "pbe.pem").read_text()}
    for settings in (
        JKS,
        P12,
        p12("legacy.p12"),
        p12("openssl.p12"),
        pbe,
        P12 | TRUST,
        P12 | {"ssl.keystore.type": "JKS"},
    ):
        assert is_taken(settings)
        assert kafka.ask("load", settings=settings) is None, settings
    differing = [line for settings, line in REFUSED if kafka.ask("load", settings=settings) is None]
    assert [line for line in differing if not any(known in line for known in KCLI_ALONE)] == []
    print("refused by kcli alone:", *differing, sep="\n    ")


def asked_by_kafka(kafka: Oracle, listener: Settings, client: Settings, host: str) -> tuple[list[str], str]:
    """Return what Kafka's client sees of kcli's listener, and what the listener reports: the subject, or the
    failure."""
    said: list[str] = []

    def serve(server: socket.socket) -> None:
        plain, _ = server.accept()
        try:
            with listener_context(listener, NOW).context.wrap_socket(plain, server_side=True) as sock:
                sock.sendall(sock.recv(4))
                said.append(str((sock.getpeercert() or {}).get("subject", "")))
        except OSError as error:
            said.append(failure_text(error))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        seen = kafka.ask("connect", settings=client, port=server.getsockname()[1], host=host)
        thread.join(30)
    return seen, said[0]


@pytest.mark.parametrize(
    ("listener", "version"),
    [({}, "TLSv1.3"), ({"ssl.enabled.protocols": "TLSv1.2"}, "TLSv1.2")],
)
def test_kafkas_client_and_kclis_listener(kafka: Oracle, listener: Settings, version: str) -> None:
    settings = pem(["localhost", "127.0.0.1"]) | TRUST_PEM | {"ssl.client.auth": "required"} | listener
    seen, said = asked_by_kafka(kafka, settings, pem(subject=ALICE) | TRUST_PEM, "localhost")
    assert (seen[0], seen[2]) == (version, "CN=localhost")
    assert "Büro" in said


@pytest.mark.parametrize(
    ("client", "host", "seen", "said"),
    [
        (
            pem(subject=ALICE) | TRUST_PEM,
            "elsewhere",
            "SSLHandshakeException",
            "does not accept this side's certificate",
        ),
        (pem(subject=ALICE) | TRUST, "localhost", "SSLHandshakeException", "does not accept this side's certificate"),
        (TRUST_PEM, "localhost", "SSL|SocketException", "shows no certificate"),
        (P12 | TRUST_PEM, "localhost", "SSL|SocketException", "not accepted: self-signed certificate"),
        (
            pem(subject=ALICE) | TRUST_PEM | {"ssl.enabled.protocols": "TLSv1.2"},
            "localhost",
            "SSL",
            "none of the protocols",
        ),
    ],
    ids=["host", "trust", "no-certificate", "self-signed", "protocol"],
)
def test_kafkas_client_is_refused(kafka: Oracle, client: Settings, host: str, seen: str, said: str) -> None:
    settings = pem(["localhost"]) | TRUST_PEM | {"ssl.client.auth": "required", "ssl.enabled.protocols": "TLSv1.3"}
    answer, line = asked_by_kafka(kafka, settings, client, host)
    assert any(each in answer[0] for each in seen.split("|")), answer
    assert said in line


@pytest.mark.parametrize("listener", [P12, JKS, pem(["localhost"])], ids=["pkcs12", "jks", "pem"])
def test_kclis_client_and_kafkas_listener(kafka: Oracle, listener: Settings) -> None:
    """Kafka's listener requires a certificate, and reads its subject as kcli does."""
    port = kafka.ask("listen", settings=listener | TRUST_PEM | {"ssl.client.auth": "required"})
    with socket.create_connection(("127.0.0.1", port)) as plain:
        context = client_context(pem(subject=ALICE) | TRUST_PEM, NOW).context
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with context.wrap_socket(plain, server_hostname="localhost") as sock:
            sock.sendall(b"ping")
            assert sock.recv(4) == b"ping"
    assert kafka.ask("accepted")[2] == ALICE


def test_kclis_client_checks_kafkas_listener(kafka: Oracle) -> None:
    for host, trust, reason in (
        ("elsewhere", TRUST_PEM, "not valid for 'elsewhere'"),
        ("localhost", {"ssl.truststore.location": str(STORES / "trust.jks")}, "unable to get local issuer"),
    ):
        port = kafka.ask("listen", settings=pem(["localhost"]))
        context = client_context(trust, NOW).context
        refused = pytest.raises(ssl.SSLCertVerificationError, match=reason)
        with socket.create_connection(("127.0.0.1", port)) as plain, refused:
            context.wrap_socket(plain, server_hostname=host)
        kafka.ask("accepted")

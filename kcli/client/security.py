"""How a connection of our own is secured: librdkafka's properties, as far as they are spoken here.

    security.protocol  plaintext, ssl, sasl_plaintext, sasl_ssl
    ssl.*              ca.location, certificate.location, key.location, key.password,
                       endpoint.identification.algorithm (none), enable.ssl.certificate.verification (false)
    sasl.*             mechanism or mechanisms: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; username, password

What is asked of SASL is the same for every mechanism: what to send first, and what to answer. Source: librdkafka's
CONFIGURATION.md; RFC 4616 (PLAIN), RFC 5802 (SCRAM); KIP-84.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.errors import KcliError, UsageError

if TYPE_CHECKING:
    import ssl

PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
TLS_PROPERTIES = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
)
VERIFICATION = "enable.ssl.certificate.verification"
ITERATIONS_MAX = 1_000_000
NONCE_BYTES = 18

Conversation = Generator[bytes, bytes, None]
"""Gives what to send, is sent what was answered; ends when nothing more is to be sent."""


class NotTrusted(Exception):
    """The broker does not prove that it knows the password, or its answer is none."""


@dataclass(frozen=True, slots=True)
class Sasl:
    """mechanism: as Kafka names it. begin(): a new conversation, which raises NotTrusted."""

    mechanism: str
    begin: Callable[[], Conversation]


@dataclass(frozen=True, slots=True)
class Security:
    """None stands for none."""

    tls: ssl.SSLContext | None = None
    sasl: Sasl | None = None


PLAIN_TEXT = Security()


def security_of(properties: Mapping[str, str]) -> Security:
    """What librdkafka's properties ask for. Raises UsageError; KcliError for what is not spoken here."""
    protocol = properties.get("security.protocol", PROTOCOLS[0]).lower()
    if protocol not in PROTOCOLS:
        raise UsageError(f"-X security.protocol={protocol} is none of {', '.join(PROTOCOLS)}")
    return Security(
        _tls(properties) if protocol.endswith("ssl") else None,
        _sasl(properties) if protocol.startswith("sasl") else None,
    )


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    import ssl

    unknown = [name for name in properties if name.startswith("ssl.") and name not in TLS_PROPERTIES]
    if unknown:
        raise KcliError(f"{', '.join(unknown)}: not for what is asked without the client library")
    try:
        context = ssl.create_default_context(cafile=properties.get("ssl.ca.location"))
        certificate = properties.get("ssl.certificate.location")
        if certificate is not None:
            context.load_cert_chain(certificate, properties.get("ssl.key.location"), properties.get("ssl.key.password"))
    except OSError as error:  # that of ssl too
        raise KcliError(f"-X ssl.*: {error}") from None
    if properties.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    if properties.get(VERIFICATION, "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _sasl(properties: Mapping[str, str]) -> Sasl:
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "GSSAPI")).upper()
    user, password = properties.get("sasl.username", ""), properties.get("sasl.password", "")
    if mechanism == "PLAIN":
        return Sasl(mechanism, lambda: _plain(user, password))
    algorithm = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}.get(mechanism)
    if algorithm is None:
        raise KcliError(f"SASL mechanism {mechanism}: not for what is asked without the client library")
    return Sasl(mechanism, lambda: scram(algorithm, user, password, base64.b64encode(os.urandom(NONCE_BYTES)).decode()))


def _plain(user: str, password: str) -> Conversation:
    yield f"\0{user}\0{password}".encode()


def scram(algorithm: str, user: str, password: str, nonce: str) -> Conversation:
    """A client's side of SCRAM, without channel binding. algorithm: sha256 or sha512."""
    name = user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}"
    said = (yield f"n,,{first}".encode()).decode(errors="replace")
    fields = _fields(said)
    iterations = int(fields["i"]) if fields.get("i", "").isdecimal() else 0
    if not fields.get("r", "").startswith(nonce) or not 0 < iterations <= ITERATIONS_MAX:
        raise NotTrusted(f"SASL: {said[:200]}")
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), _decoded(fields.get("s", "")), iterations)

    def keyed(key: bytes, message: str) -> bytes:
        return hmac.digest(key, message.encode(), algorithm)

    without_proof = f"c=biws,r={fields['r']}"
    conversation = f"{first},{said},{without_proof}"
    client_key = keyed(salted, "Client Key")
    signature = keyed(hashlib.new(algorithm, client_key).digest(), conversation)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    said = (yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()).decode(errors="replace")
    expected = keyed(keyed(salted, "Server Key"), conversation)
    if not hmac.compare_digest(_decoded(_fields(said).get("v", "")), expected):
        raise NotTrusted(f"SASL: {said[:200]}")


def _fields(message: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in message.split(",") if part[1:2] == "="}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise NotTrusted("SASL: what is said is not base64") from None

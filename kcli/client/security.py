"""TLS and SASL of kcli's own connections, by librdkafka's property names; a property outside this table is refused.

    security.protocol  plaintext, ssl, sasl_plaintext, sasl_ssl
    ssl.*              ca.location, certificate.location, key.location, key.password, ca.pem, certificate.pem, key.pem,
                       cipher.suites (of TLS 1.2, by OpenSSL's names), endpoint.identification.algorithm (none),
                       enable.ssl.certificate.verification (false)
    sasl.*             mechanism or mechanisms: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; username, password;
                       tokenauth (true: a delegation token), a name of kcli's, as librdkafka has no such login
    sasl.oauthbearer.* of OAUTHBEARER: method (oidc), token.endpoint.url (also of a file, which librdkafka lacks),
                       client.id, client.secret, scope, extensions
    https.*            ca.location, ca.pem: the authorities of that endpoint

Source: librdkafka's CONFIGURATION.md; RFC 4616 (PLAIN).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.errors import KcliError, UsageError

if TYPE_CHECKING:
    import ssl

    from kcli.client.oauth import Tokens
    from kcli.security.client_login import ClientLogin

PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
CIPHERS = "ssl.cipher.suites"
TLS_PROPERTIES = (
    CIPHERS,
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
)
TOKEN_AUTH = "sasl.tokenauth"  # noqa: S105 (a name)
OIDC = "oidc"
OAUTH = "sasl.oauthbearer."
CLIENT_ID, CLIENT_SECRET, SCOPE = f"{OAUTH}client.id", f"{OAUTH}client.secret", f"{OAUTH}scope"
EXTENSIONS, METHOD = f"{OAUTH}extensions", f"{OAUTH}method"
ENDPOINT = f"{OAUTH}token.endpoint.url"
OAUTH_PROPERTIES = (METHOD, ENDPOINT, CLIENT_ID, CLIENT_SECRET, SCOPE, EXTENSIONS)
HTTPS_CA, HTTPS_CA_FILE = "https.ca.pem", "https.ca.location"
VERIFICATION = "enable.ssl.certificate.verification"


@dataclass(frozen=True, slots=True)
class Security:
    """The TLS context and the SASL login of a connection; None for a connection without TLS, or without SASL."""

    tls: ssl.SSLContext | None = None
    sasl: ClientLogin | None = None


PLAIN_TEXT = Security()
CLOSED = (
    "does its listener want TLS or a login? --command-config, in Spark kafka.security.protocol, says how to connect"
)
"""The end of the error for a connection without TLS that a broker closes before its first response."""


def security_of(properties: Mapping[str, str]) -> Security:
    """Return the TLS and SASL that librdkafka's properties configure. Raises UsageError, and KcliError for TLS or SASL
    that kcli's own connections do not support."""
    protocol = properties.get("security.protocol", PROTOCOLS[0]).lower()
    if protocol not in PROTOCOLS:
        raise UsageError(f"security.protocol={protocol} is none of {', '.join(PROTOCOLS)}")
    return Security(
        _tls(properties) if protocol.endswith("ssl") else None,
        _sasl(properties) if protocol.startswith("sasl") else None,
    )


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    import ssl

    unknown = [name for name in properties if name.startswith("ssl.") and name not in TLS_PROPERTIES]
    if unknown:
        raise KcliError(f"{', '.join(unknown)}: not spoken by kcli's own connections, only by librdkafka's")
    try:
        context = ssl.create_default_context(
            cafile=properties.get("ssl.ca.location"), cadata=properties.get("ssl.ca.pem")
        )
        if CIPHERS in properties:
            context.set_ciphers(properties[CIPHERS])
        certificate = properties.get("ssl.certificate.location")
        if certificate is not None:
            context.load_cert_chain(certificate, properties.get("ssl.key.location"), properties.get("ssl.key.password"))
        elif "ssl.certificate.pem" in properties:
            from kcli.tls.contexts import as_file

            pem = properties.get("ssl.key.pem", "") + properties["ssl.certificate.pem"]
            with as_file(pem.encode()) as path:
                context.load_cert_chain(path, password=properties.get("ssl.key.password"))
    except OSError as error:  # ssl.SSLError is one
        from kcli.tls.failures import failure_text

        raise KcliError(f"ssl.*: {failure_text(error)}") from None
    if properties.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    if properties.get(VERIFICATION, "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _sasl(properties: Mapping[str, str]) -> ClientLogin:
    from kcli.security.client_login import MECHANISMS, client_login

    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "GSSAPI")).upper()
    if (tokens := oauth_tokens(properties)) is not None:
        return tokens.login()
    if mechanism not in MECHANISMS:
        raise KcliError(f"SASL mechanism {mechanism}: not spoken by kcli's own connections, only by librdkafka's")
    name, password = properties.get("sasl.username", ""), properties.get("sasl.password", "")
    return client_login(mechanism, name, password, with_token=properties.get(TOKEN_AUTH) == "true")


def oauth_tokens(properties: Mapping[str, str]) -> Tokens | None:
    """Return the tokens of a login by OAUTHBEARER that librdkafka's properties configure; None for another login.
    Raises UsageError, and KcliError for a property that kcli does not support."""
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "")).upper()
    if mechanism != "OAUTHBEARER":
        return None
    from kcli.client.oauth import Endpoint, Tokens

    unknown = [name for name in properties if name.startswith(OAUTH) and name not in OAUTH_PROPERTIES]
    if properties.get(METHOD, "").lower() != OIDC:
        unknown.append(f"{METHOD} other than {OIDC}")
    if unknown:
        raise KcliError(f"{', '.join(unknown)}: not spoken by kcli's own connections, only by librdkafka's")
    endpoint = Endpoint(
        url=properties.get(ENDPOINT, ""),
        client_id=properties.get(CLIENT_ID, ""),
        client_secret=properties.get(CLIENT_SECRET, ""),
        scope=properties.get(SCOPE, ""),
        tls=_endpoint_tls(properties),
    )
    pairs = (each.partition("=") for each in properties.get(EXTENSIONS, "").split(",") if each)
    return Tokens(endpoint, {name: text for name, _, text in pairs})


def _endpoint_tls(properties: Mapping[str, str]) -> ssl.SSLContext | None:
    if not {HTTPS_CA, HTTPS_CA_FILE} & set(properties):
        return None
    import ssl

    try:
        return ssl.create_default_context(cafile=properties.get(HTTPS_CA_FILE), cadata=properties.get(HTTPS_CA))
    except OSError as error:
        raise KcliError(f"https.ca.*: {error}") from None

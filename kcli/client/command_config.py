"""Converts the file of --command-config, a client's properties under Kafka's names, to librdkafka's properties.

    security.protocol, client.id     as they are
    sasl.mechanism                   PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER
    sasl.jaas.config                 PlainLoginModule, ScramLoginModule: username and password; tokenauth=true of SCRAM,
                                     for a delegation token
                                     OAuthBearerLoginModule: extension_NAME, ssl.* towards the token endpoint; clientId,
                                     clientSecret and scope if the settings below are not set
    sasl.login.callback.handler.class
                                     of OAUTHBEARER: OAuthBearerLoginCallbackHandler; without it Kafka's clients log in
                                     with tokens that nobody has signed
    sasl.oauthbearer.token.endpoint.url
                                     a file with a token, or the endpoint that issues tokens for client credentials
                                     (http, https)
    sasl.oauthbearer.client.credentials.client.id, .client.secret, sasl.oauthbearer.scope, .header.urlencode
    ssl.keystore.*, ssl.truststore.*, ssl.key.password
                                     PEM, PKCS12 or JKS: read here, and given to librdkafka as PEM texts
    ssl.endpoint.identification.algorithm
                                     https, or nothing: host names are not checked
    ssl.cipher.suites                Java's names. They choose among the suites of TLS 1.2; those of TLS 1.3 are all
                                     offered, as neither librdkafka nor Python can leave one out
    config.providers.*               FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider

Any other setting of security.*, ssl.* or sasl.* is refused: a connection is never less safe than the file says.
Settings that do not concern security (serializers, acks) are ignored, as only Kafka's own clients need them, and so are
those of sasl.kerberos.*, which only GSSAPI reads. No error contains a part of a secret. Source: SslConfigs,
SaslConfigs, CommonClientConfigs; librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote_plus

from kcli.client.security import (
    CIPHERS,
    CLIENT_ID,
    CLIENT_SECRET,
    ENDPOINT,
    EXTENSIONS,
    HTTPS_CA,
    OIDC,
    PROTOCOLS,
    SCOPE,
    TOKEN_AUTH,
)
from kcli.errors import UsageError
from kcli.log.config import InvalidConfig
from kcli.log.config_providers import resolve
from kcli.log.log_directory import read_properties
from kcli.security import oauth
from kcli.security.jaas import InvalidJaasConfig, LoginModule, login_module
from kcli.security.oauth_client import check_extension

_PASSED: Final = frozenset({"client.id", "security.protocol", "sasl.mechanism"})
_LOGINS: Final = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": frozenset({"PLAIN"}),
    "org.apache.kafka.common.security.scram.ScramLoginModule": frozenset({"SCRAM-SHA-256", "SCRAM-SHA-512"}),
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": frozenset({oauth.MECHANISM}),
}
"""Class name of a login module -> the SASL mechanisms that it serves."""
_STORES: Final = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
_HOST_CHECK: Final = "ssl.endpoint.identification.algorithm"
_JAAS: Final = "sasl.jaas.config"
_HANDLER: Final = "sasl.login.callback.handler.class"
_OAUTH_HANDLER: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
_URLENCODE: Final = "sasl.oauthbearer.header.urlencode"
_CREDENTIALS: Final = {
    CLIENT_ID: ("sasl.oauthbearer.client.credentials.client.id", "clientId"),
    CLIENT_SECRET: ("sasl.oauthbearer.client.credentials.client.secret", "clientSecret"),
    SCOPE: ("sasl.oauthbearer.scope", "scope"),
}
"""librdkafka's property -> Kafka's property for it, and the option of the login module that is used if Kafka's property
is not set."""
_EXTENSION: Final = "extension_"
_OF_OAUTH: Final = frozenset({_HANDLER, ENDPOINT, _URLENCODE, *(each for each, _ in _CREDENTIALS.values())})
_KNOWN: Final = _PASSED | _STORES | _OF_OAUTH | {_HOST_CHECK, _JAAS, CIPHERS}
_NOT_HONOURED: Final = frozenset(
    {
        "sasl.client.callback.handler.class",
        "sasl.login.class",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.oauthbearer.assertion.algorithm",
        "sasl.oauthbearer.assertion.claim.aud",
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        "sasl.oauthbearer.assertion.claim.iss",
        "sasl.oauthbearer.assertion.claim.jti.include",
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        "sasl.oauthbearer.assertion.claim.sub",
        "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.template.file",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.jwt.retriever.class",
        "sasl.oauthbearer.jwt.validator.class",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "security.providers",
        "ssl.enabled.protocols",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)
"""The settings of Kafka's clients that begin with a prefix in _SECURING and that kcli's clients do not support: a file
that has one is refused."""
_OF_GSSAPI: Final = "sasl.kerberos."
_SECURING: Final = ("security.", "ssl.", "sasl.")


def read_command_config(path: Path) -> dict[str, str]:
    """Return librdkafka's properties for a file of client properties. Raises UnreadableInput, UsageError."""
    return _read(path)[1]


def read_client_properties(path: Path) -> Mapping[str, str]:
    """Return Kafka's properties in a file of client properties, once librdkafka's could be made of them. Raises as
    `read_command_config`."""
    return _read(path)[0]


def _read(path: Path) -> tuple[Mapping[str, str], dict[str, str]]:
    """Return Kafka's properties in a file of client properties, and librdkafka's for them."""
    try:
        resolved = resolve(read_properties(path))
    except InvalidConfig as error:
        raise UsageError(f"{path}: {error}") from None
    try:
        return resolved.properties, librdkafka_properties(resolved.properties)
    except UsageError as error:
        raise UsageError(f"{path}: {resolved.hide(str(error))}") from None


def librdkafka_properties(entries: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's properties for client properties of Kafka. Raises UsageError."""
    for name in entries:
        if name in _NOT_HONOURED:
            raise UsageError(f"{name}: not honoured by kcli's clients")
        if name.startswith(_SECURING) and name not in _KNOWN and not name.startswith(_OF_GSSAPI):
            raise UsageError(f"{name}: Kafka's clients have no setting of this name")
    found = {name: entries[name].strip() for name in sorted(_PASSED & set(entries))}
    protocol = found.get("security.protocol", "PLAINTEXT").upper()
    if protocol.lower() not in PROTOCOLS:
        raise UsageError(f"security.protocol: {protocol} is none of {', '.join(PROTOCOLS).upper()}")
    if protocol.startswith("SASL"):
        found |= _login(entries, found)
    else:
        found.pop("sasl.mechanism", None)
    return found | (_tls(entries) if protocol.endswith("SSL") else {})


def _login(entries: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    mechanism = found.get("sasl.mechanism", "GSSAPI")
    if mechanism not in {each for mechanisms in _LOGINS.values() for each in mechanisms}:
        raise UsageError(
            f"sasl.mechanism: {mechanism} is not honoured by kcli's clients: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or "
            "OAUTHBEARER"
        )
    if _JAAS not in entries:
        raise UsageError(f"{_JAAS}: must be there where security.protocol is one of SASL")
    try:
        module = login_module(entries[_JAAS])
    except InvalidJaasConfig as error:
        raise UsageError(f"{_JAAS}: {error}") from None
    if mechanism not in _LOGINS.get(module.name, ()):
        raise UsageError(f"{_JAAS}: its login module is not that of {mechanism}")
    if mechanism == oauth.MECHANISM:
        return _oauth(entries, module)
    if settings := sorted(_OF_OAUTH & set(entries)):
        raise UsageError(f"{settings[0]}: only of {oauth.MECHANISM}")
    if missing := [name for name in ("username", "password") if name not in module.options]:
        raise UsageError(f"{_JAAS}: no {missing[0]}")
    known = {"username", "password"} | ({"tokenauth"} if mechanism.startswith("SCRAM") else set())
    if unknown := sorted(set(module.options) - known):
        raise UsageError(f"{_JAAS}: option {unknown[0]} is not honoured by kcli's clients")
    with_token = module.options.get("tokenauth", "").lower() == "true"
    login = {"sasl.username": module.options["username"], "sasl.password": module.options["password"]}
    return login | ({TOKEN_AUTH: "true"} if with_token else {})


def _oauth(entries: Mapping[str, str], module: LoginModule) -> dict[str, str]:
    """Return librdkafka's properties for a login by OAUTHBEARER with sasl.oauthbearer.method=oidc. Raises
    UsageError."""
    if entries.get(_HANDLER, "").strip() != _OAUTH_HANDLER:
        raise UsageError(f"{_HANDLER}: must be {_OAUTH_HANDLER} for kcli's clients, which make no unsigned tokens")
    if not (url := entries.get(ENDPOINT, "").strip()):
        raise UsageError(f"{ENDPOINT}: must be there for {oauth.MECHANISM}")
    options = dict(module.options)
    given = {name: options.pop(option, "") for name, (_, option) in _CREDENTIALS.items()}
    given |= {name: entries[setting] for name, (setting, _) in _CREDENTIALS.items() if entries.get(setting, "")}
    extensions = {name.removeprefix(_EXTENSION): text for name, text in options.items() if name.startswith(_EXTENSION)}
    tls = {name: text for name, text in options.items() if name.startswith("ssl.truststore.")}
    if unknown := sorted(set(options) - set(tls) - {f"{_EXTENSION}{name}" for name in extensions}):
        raise UsageError(f"{_JAAS}: option {unknown[0]} is not honoured by kcli's clients")
    for name, text in extensions.items():
        try:
            check_extension(name, text)
        except oauth.InvalidToken as error:
            raise UsageError(f"{_JAAS}: {error}") from None
    found = {"sasl.oauthbearer.method": OIDC, ENDPOINT: url}
    if not url.startswith("file:"):
        for name in (CLIENT_ID, CLIENT_SECRET):
            if not given[name]:
                raise UsageError(f"{_CREDENTIALS[name][0]}: must be there where {ENDPOINT} is no file")
        if entries.get(_URLENCODE, "").strip().lower() == "true":
            given = {name: quote_plus(text) for name, text in given.items()}
        found |= {name: text for name, text in given.items() if text}
    if extensions:
        found[EXTENSIONS] = ",".join(f"{name}={text}" for name, text in extensions.items())
    if trusted := _tls(tls).get("ssl.ca.pem"):
        found[HTTPS_CA] = trusted
    return found


def _tls(entries: Mapping[str, str]) -> dict[str, str]:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    from kcli.tls.cipher_suites import older_suites
    from kcli.tls.key_stores import key_entries, trusted_certificates
    from kcli.tls.settings import InvalidTlsSetting, read_settings

    try:
        settings = read_settings({name: text for name, text in entries.items() if text or name == _HOST_CHECK})
        keys, trusted, suites = (
            key_entries(settings),
            trusted_certificates(settings),
            older_suites(settings.cipher_suites),
        )
    except InvalidTlsSetting as error:
        raise UsageError(str(error)) from None
    if settings.cipher_suites and suites is None:
        raise UsageError(f"{CIPHERS}: suites of TLS 1.3 alone: librdkafka does without TLS 1.2 only if the broker does")
    found = {} if settings.checks_host else {_HOST_CHECK: "none"}
    if suites is not None:
        found[CIPHERS] = suites
    if trusted:
        found["ssl.ca.pem"] = b"".join(each.public_bytes(Encoding.PEM) for each in trusted).decode()
    if len(keys) > 1:
        raise UsageError("ssl.keystore.location: more than one key is in it")
    for each in keys:
        key = each.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        found["ssl.key.pem"] = key.decode()
        found["ssl.certificate.pem"] = b"".join(one.public_bytes(Encoding.PEM) for one in each.chain).decode()
    return found

"""The security of a test's broker: its listener, its users, and how their clients are configured.

    tls      TLS; whoever connects is User:ANONYMOUS
    mtls     TLS; a client shows the certificate of its user, "alice" is User:alice
    scram    TLS, and a login by SCRAM-SHA-512 with the user's password
    oauth    TLS, and a login by OAUTHBEARER with a token that names the user

Authority, certificates, passwords and tokens are made for the broker, in a directory of its own.
"""

from __future__ import annotations

import datetime as dt
import json
import secrets
import ssl
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal

from kcli.errors import UsageError
from kcli.security.acl_options import parse_operation, parse_resource
from kcli.security.acls import WILDCARD, Acl, PatternType, Permission
from kcli.security.authorizer import CLASS_NAME
from kcli.security.principals import user as principal_of

Kind = Literal["tls", "mtls", "scram", "oauth"]
KINDS: Final = ("tls", "mtls", "scram", "oauth")
LIBRARIES: Final = ("kafka-python", "aiokafka", "confluent")
SCRAM: Final = "SCRAM-SHA-512"
_OAUTH: Final = "OAUTHBEARER"
_HOSTS: Final = ("localhost", "127.0.0.1")
_DAY_S: Final = 86_400
_AUDIENCE: Final = "kafka"
_LOGINS: Final = {
    SCRAM: "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    _OAUTH: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
}
_TOKEN_HANDLER: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"  # noqa: S105 (a class)


class Security:
    """The security of one broker. protocol: the security protocol of its listener, which is also the listener's
    name."""

    def __init__(self, kind: str, directory: Path) -> None:
        """kind: one of KINDS. directory: a new one, for keys and certificates. Raises UsageError."""
        from kcli.tls.certificates import make_authority, write_secret

        if kind not in KINDS:
            raise UsageError(f"security {kind!r} is none of {', '.join(KINDS)}")
        self.kind = kind
        self.mechanism = {"scram": SCRAM, "oauth": _OAUTH}.get(kind)
        self.protocol = "SSL" if self.mechanism is None else "SASL_SSL"
        self._directory = directory
        self._passwords: dict[str, str] = {}
        directory.mkdir(mode=0o700, parents=True)
        now = dt.datetime.now(dt.UTC)
        self._authority = make_authority("kcli.testing", now)
        self.ca_file = directory / "ca.pem"
        self.ca_file.write_bytes(self._authority.certificate_pem)
        write_secret(directory / "server.pem", self._authority.server(_HOSTS, now).pem)
        if kind == "oauth":
            from joserfc.jwk import ECKey, KeySet

            self._key = ECKey.generate_key("P-256", {"kid": "test"})
            (directory / "jwks.json").write_text(json.dumps(KeySet([self._key]).as_dict(private=False)))

    def properties(self) -> dict[str, str]:
        """Return the configurations that give a broker this security."""
        found = {
            "listener.security.protocol.map": f"{self.protocol}:{self.protocol},CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": self.protocol,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._directory / "server.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_file),
        }
        if self.kind == "mtls":
            found |= {"ssl.client.auth": "required", "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/"}
        if self.mechanism is not None:
            prefix = f"listener.name.{self.protocol.lower()}.{self.mechanism.lower()}"
            found |= {
                "sasl.enabled.mechanisms": self.mechanism,
                "sasl.mechanism.inter.broker.protocol": self.mechanism,
                f"{prefix}.sasl.jaas.config": _LOGINS[self.mechanism],
            }
        if self.kind == "oauth":
            found |= {
                f"{prefix}.sasl.server.callback.handler.class": _TOKEN_HANDLER,
                "sasl.oauthbearer.jwks.endpoint.url": (self._directory / "jwks.json").as_uri(),
                "sasl.oauthbearer.expected.audience": _AUDIENCE,
            }
        return found

    def client_config(self, library: str, user: str | None) -> dict[str, Any]:
        """Return the keyword arguments, or for confluent the properties, with which a user's client connects, without
        the bootstrap servers.

        library: one of LIBRARIES. user: None if the kind is tls, which has no users. Raises UsageError if a user is
        given for tls, or none for another kind.
        """
        if (user is None) is not (self.kind == "tls"):
            wanted = "has no users" if self.kind == "tls" else "wants a user"
            raise UsageError(f'a client of a broker with security="{self.kind}" {wanted}: client_config({library!r})')
        build = {"kafka-python": self._kafka_python, "aiokafka": self._aiokafka, "confluent": self._confluent}
        return build[library](user)

    def password(self, user: str) -> str:
        """Return the password of a user, the same at each call."""
        return self._passwords.setdefault(user, secrets.token_urlsafe(12))

    def token(self, user: str) -> str:
        """Return a token for a user, which is valid for a day."""
        from joserfc import jws

        now_s = int(dt.datetime.now(dt.UTC).timestamp())
        claims = {"sub": user, "aud": _AUDIENCE, "iat": now_s, "exp": now_s + _DAY_S}
        return jws.serialize_compact({"alg": "ES256", "kid": "test"}, json.dumps(claims).encode(), self._key)

    def own_client(self, user: str) -> dict[str, str]:
        """Return librdkafka's properties, all texts, with which a connection of kcli's own logs in as a user. For oauth
        the token is in a file."""
        from kcli.tls.certificates import write_secret

        found = self._confluent(user)
        if found.pop("oauth_cb", None) is not None:
            path = self._directory / f"user-{user.encode().hex()}.jwt"
            if not path.exists():
                write_secret(path, self.token(user).encode())
            found |= {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.token.endpoint.url": path.as_uri()}
        return found

    def _certificate(self, user: str) -> Path:
        from kcli.tls.certificates import write_secret

        path = self._directory / f"user-{user.encode().hex()}.pem"
        if not path.exists():
            write_secret(path, self._authority.client(f"CN={user}", dt.datetime.now(dt.UTC)).pem)
        return path

    def _kafka_python(self, user: str | None) -> dict[str, Any]:
        found: dict[str, Any] = {"security_protocol": self.protocol, "ssl_cafile": str(self.ca_file)}
        if user is not None and self.kind == "mtls":
            found |= dict.fromkeys(("ssl_certfile", "ssl_keyfile"), str(self._certificate(user)))
        elif user is not None:
            found |= self._login(user)
        if self.kind == "oauth":
            found["sasl_oauth_token_provider"] = _provider(
                # The second module is that of kafka-python before 3.0.
                _token_provider("kafka-python", "kafka.net.sasl.oauth", "kafka.sasl.oauth"),
                self.token(user or ""),
                is_async=False,
            )
        return found

    def _aiokafka(self, user: str | None) -> dict[str, Any]:
        context = ssl.create_default_context(cafile=str(self.ca_file))
        found: dict[str, Any] = {"security_protocol": self.protocol, "ssl_context": context}
        if user is not None and self.kind == "mtls":
            context.load_cert_chain(self._certificate(user))
        elif user is not None:
            found |= self._login(user)
        if self.kind == "oauth":
            found["sasl_oauth_token_provider"] = _provider(
                _token_provider("aiokafka", "aiokafka.abc"), self.token(user or ""), is_async=True
            )
        return found

    def _confluent(self, user: str | None) -> dict[str, Any]:
        found: dict[str, Any] = {"security.protocol": self.protocol.lower(), "ssl.ca.location": str(self.ca_file)}
        if user is not None and self.kind == "mtls":
            found |= dict.fromkeys(("ssl.certificate.location", "ssl.key.location"), str(self._certificate(user)))
        elif user is not None and self.kind == "scram":
            found |= {"sasl.mechanism": SCRAM, "sasl.username": user, "sasl.password": self.password(user)}
        elif user is not None:
            expires_s = dt.datetime.now(dt.UTC).timestamp() + _DAY_S
            token = self.token(user)
            found |= {"sasl.mechanism": _OAUTH, "oauth_cb": lambda _: (token, expires_s)}
        return found

    def _login(self, user: str) -> dict[str, Any]:
        found: dict[str, Any] = {"sasl_mechanism": self.mechanism}
        if self.kind == "scram":
            found |= {"sasl_plain_username": user, "sasl_plain_password": self.password(user)}
        return found


def authorizing() -> dict[str, str]:
    """Return the configurations of a broker with an authorizer that allows nothing without an ACL."""
    return {"authorizer.class.name": CLASS_NAME}


def parse_acl(text: str) -> Acl:
    """Return the ACL of a text: `[allow|deny] USER OPERATION RESOURCE`, such as `alice read topic:orders`.

    USER: a name, a principal (`User:alice`), or `*` for everybody. RESOURCE: as `kcli acls explain` takes it; a name
    that ends with `*` is a prefix, and `*` alone every resource of its type. Raises UsageError.
    """
    words = text.split(maxsplit=3)
    permission = Permission.DENY if words[:1] == ["deny"] else Permission.ALLOW
    words = words[1:] if words[:1] in (["allow"], ["deny"]) else text.split(maxsplit=2)
    if len(words) != 3:
        raise UsageError(f"acls: {text!r} is not [allow|deny] USER OPERATION RESOURCE")
    who, operation, resource = words
    kind, name = parse_resource(resource)
    assert name is not None
    is_prefix = name.endswith(WILDCARD) and name != WILDCARD
    return Acl(
        resource_type=kind,
        resource_name=name.removesuffix(WILDCARD) if is_prefix else name,
        pattern_type=PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
        principal=who if ":" in who else principal_of(who),
        host=WILDCARD,
        operation=parse_operation(operation, "acls:"),
        permission=permission,
    )


def plain_config(library: str, bootstrap_servers: str) -> dict[str, Any]:
    """Return only the bootstrap servers, as an argument or property of a client. Raises UsageError."""
    if library not in LIBRARIES:
        raise UsageError(f"client_config({library!r}): it is one of {', '.join(LIBRARIES)}")
    return {"bootstrap.servers" if library == "confluent" else "bootstrap_servers": bootstrap_servers}


def _token_provider(library: str, *homes: str) -> Any:
    """Return the library's base class of token providers, from the first of the modules `homes` that can be imported.
    Raises UsageError if none can be: the test must install the library, as kcli does not depend on it."""
    for home in homes:
        try:
            return import_module(home).AbstractTokenProvider
        except ModuleNotFoundError:
            continue
    raise UsageError(f"client_config({library!r}): {library} is not installed")


def _provider(base: Any, token: str, *, is_async: bool) -> Any:
    async def later(_: object) -> str:
        return token

    methods: Mapping[str, Any] = {"token": later if is_async else lambda _: token, "extensions": lambda _: {}}
    return type("TokenProvider", (base,), dict(methods))()

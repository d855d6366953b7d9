"""How each listener of a node is secured, by listener.security.protocol.map and these configurations, of which the
first that is set counts:

    listener.name.<listener>.<mechanism>.<name>     sasl.jaas.config, sasl.server.callback.handler.class,
                                                    connections.max.reauth.ms, sasl.oauthbearer.*
    listener.name.<listener>.<name>                 any configuration in PER_LISTENER
    <name>                                          for all listeners; sasl.jaas.config and
                                                    sasl.server.callback.handler.class cannot be set in this way

A listener without a sasl.jaas.config for a mechanism uses the login module of Java's static JAAS configuration
(static_jaas.py). To connect to a listener of another node, a node uses its own configurations of the listener of that
name: ssl.* as a TLS client, and the login module's options username and password to log in. The SASL mechanism is in

    sasl.mechanism.inter.broker.protocol    for the inter-broker listener
    sasl.mechanism.controller.protocol      for the first of controller.listener.names

A node with a configuration that kcli cannot enforce as written does not start; `problem_of` and `outgoing_problem`
return the reason.

Source: ChannelBuilders, SaslChannelBuilder, JaasContext.loadServerContext, BrokerSecurityConfigs; KIP-103, KIP-684.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from kcli.broker.config.broker_keys import BROKER_KEYS
from kcli.broker.config.names import LISTENER_PREFIX
from kcli.java.values import java_trim
from kcli.log.config import InvalidConfig
from kcli.security import oauth, plain, scram
from kcli.security.client_login import MECHANISMS, ClientLogin, client_login
from kcli.security.jaas import InvalidJaasConfig, LoginModule, login_module
from kcli.security.principal_mapping import InvalidMappingRule, PrincipalMapping
from kcli.security.principals import ANONYMOUS, user
from kcli.tls.settings import InvalidTlsSetting, read_listener_settings, read_settings

if TYPE_CHECKING:
    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.broker.config.keys import Key
    from kcli.broker.config.static_jaas import StaticJaas

PLAINTEXT: Final = "PLAINTEXT"
_TLS: Final = frozenset({"SSL", "SASL_SSL"})
_SASL: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})
SCRAM_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH_LOGIN: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
LOGINS: Final[Mapping[str, str]] = {
    plain.MECHANISM: plain.LOGIN_MODULE,
    **dict.fromkeys(scram.MECHANISMS, SCRAM_LOGIN),
    oauth.MECHANISM: _OAUTH_LOGIN,
}
"""SASL mechanism -> the login module that its sasl.jaas.config must contain."""
SIGNED_TOKENS: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
"""The sasl.server.callback.handler.class of OAUTHBEARER that checks signatures. Without it Kafka accepts unsigned
tokens."""
JAAS: Final = "sasl.jaas.config"
HANDLER: Final = "sasl.server.callback.handler.class"
REAUTH: Final = "connections.max.reauth.ms"
JWKS: Final = "sasl.oauthbearer.jwks.endpoint.url"
_JWKS_TIMES: Final = (
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
)
TO_BROKERS: Final = "sasl.mechanism.inter.broker.protocol"
TO_CONTROLLERS: Final = "sasl.mechanism.controller.protocol"
_CLIENT_AUTH: Final = "ssl.client.auth"
_MAPPING: Final = "ssl.principal.mapping.rules"
PER_MECHANISM: Final = frozenset(
    {
        JAAS,
        HANDLER,
        REAUTH,
        JWKS,
        *_JWKS_TIMES,
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
    }
)
"""Configurations that can be set for a single SASL mechanism of a listener."""
OF_TLS: Final = frozenset(
    {
        _CLIENT_AUTH,
        _MAPPING,
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.key.password",
        "ssl.keymanager.algorithm",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
OF_SASL: Final = PER_MECHANISM | {"sasl.enabled.mechanisms", "sasl.server.max.receive.size"}
PER_LISTENER: Final = OF_TLS | OF_SASL
_CLAIM_NAMES: Final = ("sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name")
_FILES: Final = ("ssl.keystore.location", "ssl.truststore.location")
_MAY_BE_EMPTY: Final = "ssl.endpoint.identification.algorithm"


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """How one listener is secured.

    settings: name -> text, the configurations for all listeners, overridden by those for this listener. own: only the
    configurations for this listener. The names in both have no listener prefix; the name of a configuration for a
    single mechanism begins with that mechanism. static: Java's static JAAS configuration.

    `repr` leaves out the texts, which may be secrets.
    """

    listener: str
    protocol: str
    settings: Mapping[str, str] = field(repr=False)
    own: Mapping[str, str] = field(repr=False)
    static: StaticJaas = field(repr=False)

    @property
    def has_tls(self) -> bool:
        """Whether connections to this listener begin with a TLS handshake."""
        return self.protocol in _TLS

    @property
    def has_sasl(self) -> bool:
        """Whether clients of this listener log in by SASL."""
        return self.protocol in _SASL

    @property
    def tls(self) -> Mapping[str, str]:
        """Return the ssl.* settings. On a SASL_SSL listener, ssl.client.auth is left out unless it is set for this
        listener."""
        found = {
            name: text for name, text in self.settings.items() if name in OF_TLS and (text or name == _MAY_BE_EMPTY)
        }
        if self.has_sasl and _CLIENT_AUTH not in self.own:
            found.pop(_CLIENT_AUTH, None)
        return found

    @property
    def mapping(self) -> PrincipalMapping:
        """Return the rules of ssl.principal.mapping.rules. Raises InvalidMappingRule."""
        return PrincipalMapping(self.settings.get(_MAPPING, "DEFAULT"))

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Return the mechanisms of sasl.enabled.mechanisms."""
        return self._words("sasl.enabled.mechanisms")

    @property
    def receive_max_bytes(self) -> int:
        """Return sasl.server.max.receive.size: the largest size, in bytes, of a request while the client is not
        authenticated yet."""
        return self._number("sasl.server.max.receive.size", self.settings.get("sasl.server.max.receive.size"))

    def of_mechanism(self, mechanism: str, name: str) -> str | None:
        """Return the text of a configuration for one SASL mechanism, None if it is not set."""
        return self.settings.get(f"{mechanism.lower()}.{name}") or self.settings.get(name) or None

    def reauth_ms(self, mechanism: str) -> int:
        """Return connections.max.reauth.ms of a mechanism; 0 if a session never ends."""
        return self._number(REAUTH, self.of_mechanism(mechanism, REAUTH))

    def login(self, mechanism: str) -> LoginModule:
        """Return the login module of a SASL mechanism. Raises InvalidConfig, whose message leaves out the
        configuration's text, as it contains passwords."""
        name = f"{mechanism.lower()}.{JAAS}"
        text = self.own.get(name)
        if text is None:
            return self._static_login(mechanism)
        try:
            module = login_module(text)
        except InvalidJaasConfig as error:
            raise self.wrong(name, str(error)) from None
        if module.name != LOGINS[mechanism]:
            raise self.wrong(name, f"the login module of {mechanism} is {LOGINS[mechanism]}")
        return module

    def _static_login(self, mechanism: str) -> LoginModule:
        """Return the entry of the static JAAS configuration for the mechanism's login module. If there are several
        entries, each option comes from the first entry that has it, as in Kafka. Raises InvalidConfig if there is no
        entry."""
        entries = [each for each in self.static.entries(self.listener) if each.name == LOGINS[mechanism]]
        if not entries:
            where = "" if self.static.where is None else f", here or in {self.static.where}"
            reason = f"{mechanism} is enabled and has no login module{where}"
            raise self.wrong(f"{mechanism.lower()}.{JAAS}", reason)
        options = {key: text for each in reversed(entries) for key, text in each.options.items()}
        return replace(entries[0], options=options)

    def oauth(self) -> oauth.OAuthConfig:
        """Return the configurations sasl.oauthbearer.* of the listener. Raises InvalidConfig."""

        def text(name: str) -> str | None:
            return self.of_mechanism(oauth.MECHANISM, f"sasl.oauthbearer.{name}")

        for name in _CLAIM_NAMES:
            if self.settings.get(f"{oauth.MECHANISM.lower()}.{name}", self.settings.get(name)) == "":
                raise self.wrong(f"{oauth.MECHANISM.lower()}.{name}", "names no claim")
        audiences = text("expected.audience")
        return oauth.OAuthConfig(
            audiences=frozenset(each for word in (audiences or "").split(",") if (each := java_trim(word))),
            issuer=text("expected.issuer"),
            clock_skew_s=self._number("sasl.oauthbearer.clock.skew.seconds", text("clock.skew.seconds")),
            scope_claim=text("scope.claim.name") or "scope",
            sub_claim=text("sub.claim.name") or "sub",
        )

    def jwks_times_ms(self) -> tuple[int, int, int]:
        """Return sasl.oauthbearer.jwks.endpoint.refresh.ms, sasl.oauthbearer.jwks.endpoint.retry.backoff.ms and
        sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms. Raises InvalidConfig."""
        refresh, backoff, backoff_max = (
            self._number(name, self.of_mechanism(oauth.MECHANISM, name)) for name in _JWKS_TIMES
        )
        for name, value in zip(_JWKS_TIMES, (refresh, backoff, backoff_max), strict=True):
            if value < 1:
                raise self.wrong(f"{oauth.MECHANISM.lower()}.{name}", "must be at least 1")
        return refresh, backoff, backoff_max

    def client_login(self, mechanism: str) -> ClientLogin:
        """Return how this node logs in when it connects to another node's listener of the same name: with the options
        username, password and, for SCRAM, tokenauth of the login module. Raises InvalidConfig, whose message leaves out
        the configuration's text, as it contains passwords."""
        options = self.login(mechanism).options
        missing = next((name for name in ("username", "password") if not options.get(name)), None)
        if missing is not None:
            reason = f"this node has no {missing} to log in to others with"
            raise self.wrong(f"{mechanism.lower()}.{JAAS}", reason)
        is_token = mechanism in scram.MECHANISMS and options.get("tokenauth", "").lower() == "true"
        return client_login(mechanism, options["username"], options["password"], with_token=is_token)

    def wrong(self, name: str, reason: str) -> InvalidConfig:
        """Return an error with the name of this listener's configuration and the reason."""
        return InvalidConfig(f"listener.name.{self.listener.lower()}.{name}: {reason}")

    def check(self) -> None:
        """Check the texts of the configurations one by one and against each other, without reading files.

        Raises InvalidConfig, InvalidTlsSetting, InvalidMappingRule.
        """
        if self.has_sasl:
            for mechanism in self.mechanisms:
                self._check_mechanism(mechanism)
            if not self.mechanisms:
                raise self.wrong("sasl.enabled.mechanisms", "no mechanism is enabled")
            self._number("sasl.server.max.receive.size", self.settings.get("sasl.server.max.receive.size"))
        if self.has_tls:
            for name in _FILES:
                if self.settings.get(name) == "":
                    raise self.wrong(name, "names no file")
            read_listener_settings(self.tls)
            _ = self.mapping

    def _check_mechanism(self, mechanism: str) -> None:
        if mechanism not in LOGINS:
            raise self.wrong("sasl.enabled.mechanisms", f"{mechanism} is none of kcli's: {', '.join(LOGINS)}")
        self.login(mechanism)
        self.reauth_ms(mechanism)
        handler = self.own.get(f"{mechanism.lower()}.{HANDLER}")
        name = f"{mechanism.lower()}.{HANDLER}"
        if mechanism != oauth.MECHANISM:
            if handler:
                raise self.wrong(name, "that class is not there")
            return
        if handler != SIGNED_TOKENS:
            reason = f"only {SIGNED_TOKENS} is there: without it tokens need no signature"
            raise self.wrong(name, reason)
        url = self.of_mechanism(mechanism, JWKS)
        if url is None or not url.startswith(("file:", "https://", "http://")):
            reason = "must be the URL of a file, file:///..., or of an endpoint, https://... or http://..."
            raise self.wrong(f"{mechanism.lower()}.{JWKS}", reason)
        self.jwks_times_ms()
        self.oauth()

    def _words(self, name: str) -> tuple[str, ...]:
        value = _key(name).parse(name, self.settings[name]) if name in self.settings else _key(name).default
        assert isinstance(value, tuple), "a list"
        return value

    def _number(self, name: str, text: str | None) -> int:
        value = _key(name).default if text is None else _key(name).parse(name, text)
        assert isinstance(value, int), "a number"
        return value


def _key(name: str) -> Key:
    return BROKER_KEYS[name]


def listener_security(config: BrokerConfig, listener: str) -> ListenerSecurity:
    """Return how that listener of the node is secured."""
    prefix = f"{LISTENER_PREFIX}{listener.lower()}."
    texts = {name: java_trim(text) for name, text in config.properties.items()}
    own = {name.removeprefix(prefix): text for name, text in texts.items() if name.startswith(prefix)}
    common = {name: text for name, text in texts.items() if name in PER_LISTENER and name not in (JAAS, HANDLER)}
    return ListenerSecurity(listener, config.protocols.get(listener, PLAINTEXT), common | own, own, config.static_jaas)


def problem_of(config: BrokerConfig, listener: str) -> str | None:
    """Return the first problem of a listener's security configuration, in one line; None if there is none."""
    try:
        listener_security(config, listener).check()
    except (InvalidConfig, InvalidMappingRule) as error:
        return str(error)
    except InvalidTlsSetting as error:
        return f"listener {listener}: {error}"
    return None


@dataclass(frozen=True, slots=True)
class OutgoingSecurity:
    """How this node connects to a listener of other nodes. security: this node's configurations for that listener.
    mechanism: the SASL mechanism. setting: the name of the configuration that selects it."""

    security: ListenerSecurity
    setting: str
    mechanism: str

    def login(self) -> ClientLogin | None:
        """Return the credentials with which this node logs in; None if the listener has no SASL. Raises InvalidConfig,
        whose message has no secret."""
        if not self.security.has_sasl:
            return None
        if self.mechanism not in MECHANISMS:
            known = ", ".join(MECHANISMS)
            raise InvalidConfig(f"{self.setting}: {self.mechanism} is none of those by which nodes log in: {known}")
        return self.security.client_login(self.mechanism)

    @property
    def principal(self) -> str | None:
        """The principal of this node's connections to other nodes; None if a TLS certificate or a delegation token
        determines the principal."""
        if not self.security.has_sasl:
            asks = self.security.has_tls and self.security.tls.get(_CLIENT_AUTH, "none").lower() != "none"
            return None if asks else ANONYMOUS
        options = self.security.login(self.mechanism).options
        return None if options.get("tokenauth", "").lower() == "true" else user(options["username"])

    def check(self) -> None:
        """Check the texts of the configurations, without reading files. Raises InvalidConfig, InvalidTlsSetting."""
        self.login()
        if self.security.has_tls:
            read_settings(self.security.tls)


def to_brokers(config: BrokerConfig) -> OutgoingSecurity:
    """Return how the node connects to brokers."""
    security = listener_security(config, config.inter_broker_listener)
    return OutgoingSecurity(security, TO_BROKERS, config.text(TO_BROKERS))


def to_controllers(config: BrokerConfig) -> OutgoingSecurity:
    """Return how the node connects to controllers."""
    security = listener_security(config, config.controller_listener_names[0])
    return OutgoingSecurity(security, TO_CONTROLLERS, config.text(TO_CONTROLLERS))


def outgoing_problem(config: BrokerConfig) -> str | None:
    """Return the first problem of the configurations by which the node connects to other nodes, in one line; None if
    there is none."""
    for outgoing in [to_controllers(config), *([to_brokers(config)] if config.is_broker else [])]:
        try:
            outgoing.check()
        except InvalidConfig as error:
            return str(error)
        except InvalidTlsSetting as error:
            return f"listener {outgoing.security.listener}: {error}"
    return None

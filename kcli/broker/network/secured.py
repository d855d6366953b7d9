"""The security of a node's listeners: their TLS contexts, and the mechanisms by which their clients log in.

They are made from config/security.py before the node writes anything to disk, so that a node whose files cannot be used
does not start.
"""

from __future__ import annotations

import datetime as dt
import hmac
import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kcli.broker.config.security import ListenerSecurity, listener_security
from kcli.broker.config.served import CannotServe
from kcli.broker.network.authentication import Mechanism, SaslListener, load_messages
from kcli.broker.network.tls_socket import TlsSocket
from kcli.log.config import InvalidConfig
from kcli.security import oauth, plain, scram
from kcli.security.distinguished_name import subject_name
from kcli.security.oauth import OAuthServer, check_claims
from kcli.security.plain import PlainServer, passwords_of
from kcli.security.principal_mapping import PrincipalMapping
from kcli.security.principals import ANONYMOUS, user
from kcli.security.sasl import SaslServer
from kcli.security.scram import ScramCredential, ScramServer, ScramUsers, TokenCredential, server_nonce
from kcli.tls.contexts import TlsContext, check_among_nodes, listener_context
from kcli.tls.settings import InvalidTlsSetting

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.network.token_keys import KeyEndpoint, TokenKeys
    from kcli.security.delegation_tokens import DelegationTokens

log = logging.getLogger("kcli.broker")
_RANDOM_BYTES: Final = 32
COUNTED_EVERY_MS: Final = 1000


@dataclass(slots=True)
class Users:
    """The data of the node that the SASL mechanisms read. now_ms: returns the time in ms since 1970. credentials:
    returns the UserScramCredentialRecords of the metadata image, by mechanism code and user name; empty until the image
    is loaded. tokens: the delegation tokens, None if they are not enabled. decoy_key: the key for the salts of unknown
    users (see `cluster_key`)."""

    now_ms: Callable[[], int]
    credentials: Callable[[], Mapping[tuple[int, str], Mapping[str, Any]]] = dict
    tokens: DelegationTokens | None = None
    decoy_key: bytes = field(default_factory=lambda: os.urandom(_RANDOM_BYTES), repr=False)
    _users: dict[str, ScramUsers] = field(default_factory=dict, init=False, repr=False)
    _usual: dict[str, tuple[int, int]] = field(default_factory=dict, init=False, repr=False)

    def of(self, mechanism: scram.ScramMechanism) -> ScramUsers:
        """Return the users that can log in with a mechanism."""
        users = self._users.get(mechanism.name)
        if users is None or users.decoy_key is not self.decoy_key:
            users = self._users[mechanism.name] = self._new(mechanism)
        return users

    def _new(self, mechanism: scram.ScramMechanism) -> ScramUsers:

        def credential(name: str) -> ScramCredential | None:
            record = self.credentials().get((mechanism.code, name))
            return None if record is None else ScramCredential.of(record)

        def of_token(token_id: str) -> TokenCredential | None:
            return None if self.tokens is None else self.tokens.credential(token_id, mechanism, self.now_ms())

        return ScramUsers(
            mechanism=mechanism,
            of_user=credential,
            of_token=of_token,
            decoy_key=self.decoy_key,
            usual_iterations=lambda: self._usual_iterations(mechanism),
        )

    def _usual_iterations(self, mechanism: scram.ScramMechanism) -> int:
        """The number of iterations that most users have with that mechanism, or the mechanism's minimum if there are no
        users. Counted at most once a second."""
        now_ms = self.now_ms()
        counted_ms, usual = self._usual.get(mechanism.name, (None, 0))
        if counted_ms is None or abs(now_ms - counted_ms) >= COUNTED_EVERY_MS:
            counts = Counter(
                each["iterations"] for (code, _), each in self.credentials().items() if code == mechanism.code
            )
            usual = min(counts, key=lambda each: (-counts[each], each), default=mechanism.iterations_min)
            self._usual[mechanism.name] = now_ms, usual
        return usual


def cluster_key(cluster_id: str, secret_key: str) -> bytes:
    """Return the key for the salts that clients get for unknown users (ScramUsers), which are the same on all nodes of
    a cluster. secret_key: delegation.token.secret.key, "" if it is not set. Without a secret key, a client that knows
    the cluster id can distinguish such a salt from that of an existing user; but the broker sends the cluster id only
    after a login."""
    return hmac.digest(secret_key.encode(), f"salts of {cluster_id}".encode(), "sha256")


@dataclass(frozen=True, slots=True)
class SecuredListener:
    """A listener that is not PLAINTEXT. tls: None without TLS. mapping: the rules that make a principal of a client
    certificate's subject. sasl: None if clients do not log in by SASL. endpoint: where the keys that verify OAUTHBEARER
    tokens are fetched; None if no keys are fetched."""

    tls: TlsContext | None
    mapping: PrincipalMapping
    sasl: SaslListener | None
    endpoint: KeyEndpoint | None = None

    def principal_of(self, sock: TlsSocket) -> str:
        """Return the principal of a client's certificate; User:ANONYMOUS without a certificate, or if the client still
        has to log in by SASL. Raises NoMatchingRule, InvalidDer."""
        certificate = None if self.sasl is not None else sock.peer_certificate
        return ANONYMOUS if certificate is None else user(self.mapping.name(subject_name(certificate)))


def secured_listeners(config: BrokerConfig, users: Users) -> dict[str, SecuredListener]:
    """Return listener name -> SecuredListener for the listeners of a node that are not PLAINTEXT. Raises
    CannotServe."""
    now = dt.datetime.fromtimestamp(users.now_ms() / 1000, dt.UTC)
    found: dict[str, SecuredListener] = {}
    for each in config.listeners:
        security = listener_security(config, each.listener)
        if not security.has_tls and not security.has_sasl:
            continue
        try:
            found[each.listener] = _secured(config, security, users, now)
        except InvalidTlsSetting as error:
            raise CannotServe(config.resolved.hide(f"listener {each.listener}: {error}")) from None
        except InvalidConfig as error:
            raise CannotServe(config.resolved.hide(str(error))) from None
    return found


def _secured(config: BrokerConfig, security: ListenerSecurity, users: Users, now: dt.datetime) -> SecuredListener:
    """Return the SecuredListener of one listener that is not PLAINTEXT, and log warnings about its TLS settings. Raises
    InvalidTlsSetting, InvalidConfig."""
    tls = None
    if security.has_tls:
        tls = listener_context(security.tls, now)
        for warning in tls.warnings:
            log.warning("listener %s: %s", security.listener, warning)
        if security.listener == config.inter_broker_listener:
            check_among_nodes(security.tls, now)
    if not security.has_sasl:
        return SecuredListener(tls, security.mapping, None)
    load_messages()
    hide = config.resolved.hide
    keys, endpoint = _token_keys(security, now, hide) if oauth.MECHANISM in security.mechanisms else (None, None)
    mechanisms = {
        name: Mechanism(_new_server(security, name, users, keys), security.reauth_ms(name))
        for name in security.mechanisms
    }
    delay_s = config.number("connection.failed.authentication.delay.ms") / 1000
    sasl = SaslListener(mechanisms, security.receive_max_bytes, delay_s)
    return SecuredListener(tls, PrincipalMapping(), sasl, endpoint)


def _token_keys(
    security: ListenerSecurity, now: dt.datetime, hide: Callable[[str], str]
) -> tuple[TokenKeys, KeyEndpoint | None]:
    """Return the keys that verify OAUTHBEARER tokens, and the endpoint from which they are fetched, None for keys in a
    file. hide: a function that removes secrets from the text of an error. Raises InvalidConfig."""
    from kcli.broker.network.token_keys import KeyEndpoint, token_keys

    keys = token_keys(security, now, hide)
    return keys, keys if isinstance(keys, KeyEndpoint) else None


def _new_server(
    security: ListenerSecurity, mechanism: str, users: Users, keys: TokenKeys | None
) -> Callable[[], SaslServer]:
    """Return a function that returns the server's side of a new SASL exchange with the mechanism. Raises
    InvalidConfig."""
    module = security.login(mechanism)
    if mechanism == plain.MECHANISM:
        passwords = passwords_of(module)
        return lambda: PlainServer(passwords)
    if mechanism == oauth.MECHANISM:
        assert keys is not None, "a listener of tokens has keys"
        known, config = keys, security.oauth()
        return lambda: OAuthServer(lambda token: check_claims(known.claims(token), config, users.now_ms()))
    return lambda: ScramServer(users.of(scram.MECHANISMS[mechanism]), server_nonce())

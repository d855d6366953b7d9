"""SASL OAUTHBEARER: the client sends, in one message, a token that an OAuth provider has issued.

    message   n,[a=AUTHZID],^A KEY=VALUE ^A ... ^A      ^A is the byte 1; one key is "auth", its value "Bearer TOKEN"
    answer    empty; or {"status":"invalid_token"}, which the client answers with ^A, and then the exchange fails

`check_claims` decides whether a client may log in with the claims of a token whose signature is valid.
Source: OAuthBearerSaslServer, OAuthBearerClientInitialResponse, BrokerJwtValidator, ClaimValidationUtils; RFC 7628,
KIP-255, KIP-768.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from string import ascii_letters
from typing import Any, Final

from kcli.errors import KcliError
from kcli.java.values import java_trim
from kcli.security.sasl import AuthenticationFailed, Login
from kcli.security.scram import is_sasl_name

MECHANISM: Final = "OAUTHBEARER"
_SEPARATOR: Final = "\x01"
_LETTERS: Final = frozenset(ascii_letters)
_VALUE: Final = frozenset(map(chr, range(0x20, 0x7F))) | frozenset("\t\r\n")
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-_~+/.]++=*+")
_FIRST_MESSAGE: Final = re.compile(
    r"n,(?:a=([\x01-\x2b\x2d-\x7f]++))?,((?:\x01[A-Za-z]++=[\x20-\x7e\t\r\n]++)*+)\x01\x01"
)
"""Groups: the authorization id, and the pairs of key and value. All quantifiers are possessive, which makes matching
ten times as fast."""
_SECONDS_MAX: Final = (2**63 - 1) // 1_000
_REFUSED: Final = '{"status":"invalid_token"}'


class InvalidToken(KcliError):
    """A token with which no client can log in. `str` is for the log of the broker, and quotes nothing of the token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthConfig:
    """A listener's sasl.oauthbearer.*: expected.audience, expected.issuer, clock.skew.seconds, scope.claim.name and
    sub.claim.name."""

    audiences: frozenset[str] = frozenset()
    issuer: str | None = None
    clock_skew_s: int = 30
    scope_claim: str = "scope"
    sub_claim: str = "sub"


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthToken:
    """The claims of a valid token that a login uses. name: the user's name. expires_ms: in ms since 1970."""

    name: str
    expires_ms: int
    scopes: frozenset[str]


def check_claims(claims: Mapping[str, Any], config: OAuthConfig, now_ms: int) -> OAuthToken:
    """Check the claims of a token with a valid signature; return those that a login uses. now_ms: the time, in ms since
    1970.

    Raises InvalidToken. As in Kafka, a token with an audience is refused if no audience is expected.
    """
    _check_audience(claims.get("aud"), config.audiences)
    for name in ("iss", "jti", "sub"):
        if not isinstance(claims.get(name, ""), str | None):
            raise InvalidToken(f"{name} is no string")
    if config.issuer is not None and claims.get("iss") != config.issuer:
        raise InvalidToken("iss is not the expected issuer")
    expires_s, issued_s, not_before_s = (_seconds(claims, name) for name in ("exp", "iat", "nbf"))
    if expires_s is None or issued_s is None:
        raise InvalidToken("exp or iat is missing")
    now_s = now_ms // 1_000
    if now_s - config.clock_skew_s >= expires_s:
        raise InvalidToken("the token has expired")
    if expires_s < issued_s or (not_before_s is not None and expires_s < not_before_s):
        raise InvalidToken("the token expires before it begins")
    if not_before_s is not None and now_s + config.clock_skew_s < not_before_s:
        raise InvalidToken("the token is not valid yet")
    if expires_s < 0 or issued_s < 0:
        raise InvalidToken("exp or iat is negative")
    scopes = claims.get(config.scope_claim)
    listed = [scopes] if isinstance(scopes, str) else scopes if isinstance(scopes, list) else []
    checked = [_text(config.scope_claim, each) for each in listed]
    if len(set(checked)) != len(checked):
        raise InvalidToken(f"{config.scope_claim} has duplicates")
    name = _text(config.sub_claim, claims.get(config.sub_claim))
    return OAuthToken(name=name, expires_ms=expires_s * 1_000, scopes=frozenset(checked))


def _check_audience(claim: object, expected: frozenset[str]) -> None:
    """Raise InvalidToken if the `aud` claim is neither a string nor a list of strings, if it has none of the expected
    audiences, or if there is one although no audience is expected."""
    audiences = claim if isinstance(claim, list) else [] if claim is None else [claim]
    if not all(isinstance(each, str) for each in audiences):
        raise InvalidToken("aud is no string, nor a list of strings")
    if claim is not None and not expected:
        raise InvalidToken("aud is there, but no audience is expected")
    if expected and expected.isdisjoint(audiences):
        raise InvalidToken("aud has none of the expected audiences")


def _seconds(claims: Mapping[str, Any], name: str) -> int | None:
    """Return a claim that is a time in s since 1970; None if it is missing. Raises InvalidToken."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _SECONDS_MAX:
        raise InvalidToken(f"{name} is no time")
    return int(value)


def _text(name: str, value: object) -> str:
    """Return a claim's text, trimmed. Raises InvalidToken if it is missing or empty. name: the claim's name."""
    text = java_trim(value) if isinstance(value, str) else ""
    if not text:
        raise InvalidToken(f"{name} is missing or empty")
    return text


class OAuthServer:
    """The server's side of one exchange. validate(token): returns the claims of a valid token, raises InvalidToken."""

    def __init__(self, validate: Callable[[str], OAuthToken]) -> None:
        self.login: Login | None = None
        self._validate = validate
        self._is_over = False
        self._reason: str | None = None

    @property
    def refusal(self) -> str | None:
        """The reason why the token was refused; None if it was not refused, or once the client has acknowledged the
        refusal."""
        return self._reason

    def step(self, message: bytes) -> bytes:
        """Return the answer to the client's next message. Raises AuthenticationFailed."""
        if self._reason is not None and message == _SEPARATOR.encode():
            reason, self._reason = self._reason, None
            raise AuthenticationFailed(reason, _REFUSED)
        if self._is_over:
            self.login = self._reason = None
            raise AuthenticationFailed("a message after the end of the exchange")
        self._is_over = True
        authorization_id, token = _first_message(message)
        try:
            valid = self._validate(token)
        except InvalidToken as invalid:
            self._reason = str(invalid)
            return _REFUSED.encode()
        if authorization_id not in ("", valid.name):
            error_message = (
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different"
                f" from the token's principal name ({valid.name})"
            )
            raise AuthenticationFailed(error_message, error_message)
        self.login = Login(name=valid.name, expires_ms=valid.expires_ms)
        return b""


def _first_message(message: bytes) -> tuple[str, str]:
    """Return the authorization id, not decoded, and the token of a client's first message.

    Raises AuthenticationFailed.
    """
    found = _FIRST_MESSAGE.fullmatch(message.decode("ascii", "replace"))
    if found is None:
        raise _invalid()
    authorization_id, pairs = found.groups("")
    if authorization_id and not is_sasl_name(authorization_id):
        raise _invalid()
    auth = pairs.rpartition("\x01auth=")[2].partition(_SEPARATOR)[0] if "\x01auth=" in pairs else ""
    scheme, space, token = auth.partition(" ")
    token = token.lstrip(" ")
    if scheme.lower() != "bearer" or not space or not _TOKEN.fullmatch(token):
        raise _invalid()
    return authorization_id, token


def is_extension(name: str, value: str) -> bool:
    """Return whether name and value are valid as a key and value of the client's message."""
    return bool(name and value) and _LETTERS.issuperset(name) and _VALUE.issuperset(value)


def _invalid() -> AuthenticationFailed:
    return AuthenticationFailed("OAUTHBEARER client first message of an invalid format")

"""SASL PLAIN: a name and a password, in one message.

    message   authorization id, NUL, name, NUL, password     UTF-8; the authorization id is empty, or the name
    answer    empty

Source: PlainSaslServer, PlainServerCallbackHandler; RFC 4616.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from formats.java_text import java_utf8
from kcli.security.jaas import LoginModule
from kcli.security.sasl import AuthenticationFailed, Login

MECHANISM: Final = "PLAIN"
LOGIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_USER_PREFIX: Final = "user_"
_TOKENS: Final = 3
_NOBODYS: Final = "\0"
"""The password compared for an unknown user; it never matches, as no password contains a NUL."""


def passwords_of(module: LoginModule) -> dict[str, str]:
    """Return name -> password of the users that a listener's login module lets in, from its options user_NAME; empty
    for a module other than PlainLoginModule."""
    options = module.options.items() if module.name == LOGIN_MODULE else ()
    return {key.removeprefix(_USER_PREFIX): value for key, value in options if key.startswith(_USER_PREFIX)}


class PlainServer:
    """The server's side of one exchange. passwords: user name -> password. refusal: always None, see SaslServer."""

    refusal: str | None = None

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self.login: Login | None = None
        self._passwords = passwords
        self._is_over = False

    def step(self, message: bytes) -> bytes:
        """Return the answer to the client's only message. Raises AuthenticationFailed, with the error message that
        Kafka sends to the client."""
        if self._is_over:
            raise AuthenticationFailed("a message after the end of the exchange")
        self._is_over = True
        tokens = java_utf8(message).split("\0", _TOKENS)
        if len(tokens) != _TOKENS:
            raise _refused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}")
        authorization_id, name, password = tokens
        if not name:
            raise _refused("Authentication failed: username not specified")
        if not password:
            raise _refused("Authentication failed: password not specified")
        expected = self._passwords.get(name)
        same = hmac.compare_digest(_bytes(password), _bytes(_NOBODYS if expected is None else expected))
        if expected is None or not same:
            raise _refused("Authentication failed: Invalid username or password")
        if authorization_id not in ("", name):
            raise _refused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.login = Login(name=name)
        return b""


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _refused(error_message: str) -> AuthenticationFailed:
    return AuthenticationFailed(error_message, error_message)

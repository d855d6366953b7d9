"""What all SASL mechanisms share: how an exchange goes on, and how it ends.

`step` of a mechanism's server takes the client's messages one after another, and returns the answer to each. Once
`login` is set, the client is authenticated. AuthenticationFailed ends the exchange, and every later message fails too.
Source: SaslServerAuthenticator; RFC 4422.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

from kcli.errors import KcliError


class AuthenticationFailed(KcliError):
    """The end of an exchange that has failed. `str` is for the log of the broker.

    error_message: the error message of the SaslAuthenticate response; None: `generic_failure`.
    """

    def __init__(self, reason: str, error_message: str | None = None) -> None:
        super().__init__(reason)
        self.error_message = error_message


class Unanswered(AuthenticationFailed):
    """The end of an exchange after a message at which Kafka's own code fails: the connection is closed without a
    response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """An authenticated user. expires_ms: when the credentials expire, in ms since 1970; None: never. with_token:
    whether the login was by a delegation token."""

    name: str
    with_token: bool = False
    expires_ms: int | None = None


Conversation = Generator[bytes, bytes, None]
"""The client's side of a SASL exchange: a generator that yields the bytes to send to the broker and receives the
broker's answers; it returns after the last answer.

It raises NotTrusted.
"""


class NotTrusted(Exception):
    """For a client that logs in: the broker does not prove that it knows the password, refuses the token, or sends a
    malformed message."""


class SaslServer(Protocol):
    """The server's side of one exchange."""

    @property
    def login(self) -> Login | None:
        """The authenticated user; None while the exchange goes on, and after it has failed."""

    @property
    def refusal(self) -> str | None:
        """The reason why the client was refused, until the client has acknowledged the refusal (OAUTHBEARER); else
        None."""

    def step(self, message: bytes) -> bytes:
        """Return the answer to the client's message. Raises AuthenticationFailed."""


def generic_failure(mechanism: str, *, again: bool = False) -> str:
    """Return the error message of Kafka for credentials that are wrong. again: whether the login is a
    re-authentication."""
    during = "re-authentication" if again else "authentication"
    return f"Authentication failed during {during} due to invalid credentials with SASL mechanism {mechanism}"

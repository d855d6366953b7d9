"""What all SASL mechanisms share: how an exchange goes on, and how it ends.

A mechanism's server is given the client's messages one after another by `step`, which returns the answer to each.
When `login` is set the client is who it says; AuthenticationFailed ends the exchange, and whatever comes after it fails
as well. Source: SaslServerAuthenticator; RFC 4422.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

from kcli.errors import KcliError


class AuthenticationFailed(KcliError):
    """The end of an exchange. `str` is for the log of the broker.

    error_message: of the SaslAuthenticate response; None: `generic_failure`.
    """

    def __init__(self, reason: str, error_message: str | None = None) -> None:
        super().__init__(reason)
        self.error_message = error_message


class Unanswered(AuthenticationFailed):
    """The end of an exchange by a message on which Kafka fails itself: the connection ends at once, without answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Who has logged in. name: of the user. expires_ms: when the credentials end, in ms since 1970; None: never."""

    name: str
    with_token: bool = False
    expires_ms: int | None = None


Conversation = Generator[bytes, bytes, None]
"""The client's side of an exchange: yields the bytes to send, is sent the broker's answers, and ends after the last.

It raises NotTrusted.
"""


class NotTrusted(Exception):
    """The broker does not know the password, or its answer is malformed."""


class SaslServer(Protocol):
    """The server's side of one exchange."""

    @property
    def login(self) -> Login | None:
        """Who has logged in; None while the exchange goes on, and after it has failed."""

    @property
    def refusal(self) -> str | None:
        """Why the client is refused, while it has not said yet that it knows; None for an exchange that goes on."""

    def step(self, message: bytes) -> bytes:
        """Return the answer to the client's message. Raises AuthenticationFailed."""


def generic_failure(mechanism: str, *, again: bool = False) -> str:
    """Return the error message of Kafka for credentials that are wrong. again: at a re-authentication."""
    during = "re-authentication" if again else "authentication"
    return f"Authentication failed during {during} due to invalid credentials with SASL mechanism {mechanism}"

"""A login by PLAIN or SCRAM, as kcli's own connections make it. Source: RFC 4616, RFC 5802; SaslClientAuthenticator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kcli.security import plain, scram
from kcli.security.sasl import Conversation
from kcli.security.scram_client import converse

MECHANISMS: Final = (plain.MECHANISM, *scram.MECHANISMS)
"""The SASL mechanisms by which kcli can log in as a client."""


@dataclass(frozen=True, slots=True)
class ClientLogin:
    """How a user logs in by a SASL mechanism. mechanism: the name of the mechanism. begin(): begins a login, and
    returns its Conversation (see kcli.security.sasl)."""

    mechanism: str
    begin: Callable[[], Conversation]


def client_login(mechanism: str, name: str, password: str, *, with_token: bool = False) -> ClientLogin:
    """Return how a user logs in with these credentials. mechanism: one of MECHANISMS. with_token: whether name and
    password are the id of a delegation token and its HMAC in base64."""
    if mechanism == plain.MECHANISM:
        return ClientLogin(mechanism, lambda: _plain(name, password))
    known = scram.MECHANISMS[mechanism]
    return ClientLogin(mechanism, lambda: converse(known, name, password, scram.new_nonce(), with_token=with_token))


def _plain(name: str, password: str) -> Conversation:
    yield f"\0{name}\0{password}".encode()

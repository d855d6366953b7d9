"""How this node connects to a listener of other nodes: its TLS context, and its login by SASL.

    TLS handshake    verifies the certificate of the other node, and its host name unless
                     ssl.endpoint.identification.algorithm is empty; this node sends its own certificate if the other
                     node requests it
    ApiVersions      once for each connection
    SaslHandshake    the mechanism
    SaslAuthenticate PLAIN or SCRAM, until the other node has authenticated this node

If the other node ends sessions (connections.max.reauth.ms), this node logs in again after SESSION_PART of the session's
length, plus a random part of up to SESSION_JITTER of that length: the next request then waits for a SaslHandshake and
SaslAuthenticate on the same connection. An Outbound is made from config/security.py before the node writes anything to
disk, so that a node whose files cannot be used does not start.

Source: SaslClientAuthenticator, ChannelBuilders.clientChannelBuilder, KafkaChannel; KIP-368.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kcli.broker.config.security import OutgoingSecurity
from kcli.broker.config.served import CannotServe
from kcli.broker.network.peers import LoginFailed, error_of
from kcli.log.config import InvalidConfig
from kcli.protocol.error_code import ErrorCode
from kcli.security.sasl import Conversation, NotTrusted
from kcli.tls.contexts import TlsContext, client_context
from kcli.tls.settings import InvalidTlsSetting

if TYPE_CHECKING:
    from kcli.security.client_login import ClientLogin

SESSION_PART: Final = 0.85
SESSION_JITTER: Final = 0.1
REASON_MAX: Final = 200
"""The greatest number of characters of the other node's text that an error message quotes."""


@dataclass(slots=True)
class Outbound:
    """How this node connects to a listener of other nodes. tls: the context for new connections, None without TLS;
    certificates.py replaces it when a file changes. login: None without SASL."""

    tls: TlsContext | None = None
    login: ClientLogin | None = None


IN_THE_CLEAR: Final = Outbound()


def outbound(security: OutgoingSecurity, now: dt.datetime) -> Outbound:
    """Return how this node connects to the listener that `security` describes. now: the current time, with a time zone.
    Raises CannotServe."""
    listener = security.security.listener
    try:
        tls = client_context(security.security.tls, now) if security.security.has_tls else None
        return Outbound(tls, security.login())
    except InvalidTlsSetting as error:
        raise CannotServe(f"listener {listener}: {error}") from error
    except InvalidConfig as error:
        raise CannotServe(str(error)) from error


Ask = Callable[..., Awaitable[Any]]
"""A function that sends a SASL request, given the name of its API and its fields, and returns the response."""


async def log_in(login: ClientLogin, ask: Ask) -> float | None:
    """Log in on a connection. Return the time, in seconds, after which to log in again; None for never.

    ask: sends a SASL request (see Ask). Raises LoginFailed with the other node's reason, and what `ask` raises.
    """
    answer = await ask("sasl_handshake", mechanism=login.mechanism)
    if error_of(answer) != ErrorCode.NONE:
        known = ", ".join(answer.mechanisms) or "none"
        raise LoginFailed(f"SASL mechanism {login.mechanism} is not enabled there, but {known[:REASON_MAX]}")
    conversation = login.begin()
    message: bytes | None = next(conversation)
    session: dt.timedelta | None = None
    while message is not None:
        answer = await ask("sasl_authenticate", auth_bytes=message)
        code = error_of(answer)
        if code != ErrorCode.NONE:
            error_message = answer.error_message or code.name
            raise LoginFailed(f"SASL {login.mechanism}: {error_message[:REASON_MAX]}")
        session = getattr(answer, "session_lifetime", None)  # the response has this field from version 1 on
        try:  # in a thread, as the other node chooses how often SCRAM hashes the password
            message = await asyncio.to_thread(_next, conversation, bytes(answer.auth_bytes))
        except NotTrusted as error:
            raise LoginFailed(
                f"SASL {login.mechanism}: the other node does not prove that it knows the password: {error}"
            ) from None
    if not session:
        return None
    return session.total_seconds() * (SESSION_PART + SESSION_JITTER * random.random())  # noqa: S311 (no secret)


def _next(conversation: Conversation, said: bytes) -> bytes | None:
    """Return the next message to send in a SASL exchange, None at its end. said: the other node's last message. Raises
    NotTrusted if the other node does not prove that it knows the password."""
    try:
        return conversation.send(said)
    except StopIteration:
        return None

"""SASL on one connection: authenticates the client, from its first request to the end of its session. The states, and
what each accepts:

    START       ApiVersions, until one succeeds; or SaslHandshake
    VERSIONS    after ApiVersions: only SaslHandshake
    EXCHANGE    SaslAuthenticate; after SaslHandshake 0 the mechanism's bare messages, each with its size in front
    BARRED      the handshake of a re-authentication has named another mechanism: every further request fails
    DONE        requests go to their handlers, until the session ends; a SaslHandshake begins a re-authentication
    FAILED      no request is handled any more

A request that the state does not list closes the connection at once (HangUp), except in EXCHANGE, which responds with
ILLEGAL_SASL_STATE. After a failure, the response is sent and the connection closed only when
connection.failed.authentication.delay.ms is over. Source: SaslServerAuthenticator, KafkaChannel; KIP-43, KIP-152,
KIP-306, KIP-368.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from typing import Final, NamedTuple

from formats.errors import FormatError
from formats.java_text import java_utf8
from formats.kernels.wire import behind_tags
from formats.message import read_uvarint
from formats.varint import uvarint
from kcli.broker.process.turns import LONG_BYTES
from kcli.broker.wire.answers import HangUp
from kcli.broker.wire.apis import APIS
from kcli.broker.wire.call import Call
from kcli.broker.wire.client_software import names_software
from kcli.broker.wire.failures import failed, tells_reason
from kcli.broker.wire.messages import (
    API_VERSIONS,
    PRODUCE,
    BadRequest,
    Messages,
    RequestHeader,
    imported,
    messages,
    read_body,
    read_header,
)
from kcli.java.hashing import hash_map_order
from kcli.protocol.error_code import ErrorCode
from kcli.security.principals import ANONYMOUS, user
from kcli.security.sasl import AuthenticationFailed, Login, SaslServer, Unanswered, generic_failure

SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36
REAUTH_PAUSE_S: Final = 1.0
"""The shortest time, in seconds, between the beginnings of two re-authentications of a client."""
SESSION_MS_MAX: Final = 2**53
"""The longest session, in ms: 285,000 years."""
SIZE_BYTES: Final = 4
VARINT_BYTES_MAX: Final = 5
ERROR_MESSAGE_MAX: Final = 2**15 - 1
"""The longest error message of a response, in bytes. A message may contain an authorization id that the client has
sent, and so be too long."""
FLEXIBLE_SINCE: Final = 2
"""The first flexible version of SaslAuthenticate."""
REASON_MAX: Final = 200
"""The greatest number of characters of a failure's reason that are logged, as it may contain names that the client has
sent."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A SASL mechanism of a listener. new_server: a function that returns the server's side of a new exchange.
    reauth_ms: the longest session in ms; 0 for sessions that do not end."""

    new_server: Callable[[], SaslServer]
    reauth_ms: int


@dataclass(frozen=True, slots=True)
class SaslListener:
    """The configuration that all connections of a listener share. mechanisms: name -> Mechanism. receive_max_bytes: the
    size, in bytes, of the largest request of a client that is not authenticated yet. delay_s: the time, in seconds,
    from a failure until its response. names: the names of the mechanisms in the order in which SaslHandshake lists
    them, that of a Java HashMap."""

    mechanisms: Mapping[str, Mechanism]
    receive_max_bytes: int
    delay_s: float
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(hash_map_order(self.mechanisms)))


class Step(NamedTuple):
    """The result of a SASL request. answer: the frame to send, b"" for none. failure: the reason for which the
    connection is closed after the delay, with `answer` as its last frame; None if the connection stays open."""

    answer: bytes
    failure: str | None = None


class _State(Enum):
    START = auto()
    VERSIONS = auto()
    EXCHANGE = auto()
    BARRED = auto()
    DONE = auto()
    FAILED = auto()


START, VERSIONS, EXCHANGE, BARRED, DONE, FAILED = _State


def load_messages() -> None:
    """Import the message classes that an authentication needs. This takes milliseconds, so it is done before
    `Authentication`, which runs on the event loop, needs them."""
    for key in (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE):
        for version in range(APIS[key].least, APIS[key].most + 1):
            messages(key, version)


class Authentication:
    """The authentication of one client. principal: User:ANONYMOUS until the client has logged in. with_token: whether
    the client has logged in with a delegation token."""

    __slots__ = (
        "_began_s",
        "_ends_s",
        "_has_headers",
        "_listener",
        "_mechanism",
        "_server",
        "_state",
        "is_again",
        "principal",
        "with_token",
    )

    def __init__(self, listener: SaslListener) -> None:
        self._listener = listener
        self.principal = ANONYMOUS
        self.with_token = False
        self.is_again = False
        """Whether the current exchange, or the last one, is a re-authentication."""
        self._state = START
        self._server: SaslServer | None = None
        self._mechanism = ""
        self._has_headers = False
        self._ends_s: float | None = None  # when the session ends, by the clock of now_s in `take`
        self._began_s: float | None = None  # when the last re-authentication began, in seconds

    @property
    def is_done(self) -> bool:
        """Whether the client is authenticated, and no re-authentication is under way."""
        return self._state is DONE

    @property
    def refusal(self) -> str | None:
        """The reason why the mechanism (OAUTHBEARER) refuses the client, while the client has yet to send the message
        that ends the exchange; else None."""
        refusal = None if self._server is None else self._server.refusal
        return None if refusal is None else self._failure(refusal)

    @property
    def receive_max_bytes(self) -> int:
        """The size, in bytes, of the largest request that is accepted from a client that is not authenticated."""
        return self._listener.receive_max_bytes

    @property
    def delay_s(self) -> float:
        """The time from a failure until its response, in seconds."""
        return self._listener.delay_s

    def take(self, frame: memoryview, now_s: float, now_ms: int) -> Step | None:
        """Handle a request if it belongs to an authentication, and return the result. Return None for any other
        request, which the handler of its API is to handle. frame: the request, without its length.

        now_s: the time of a monotonic clock, in seconds. now_ms: the time in ms since 1970. Raises HangUp, BadRequest.
        """
        if self._state is EXCHANGE:
            return self._exchange(frame, now_s, now_ms)
        if self._state is BARRED:
            return self._fail(b"", f"another mechanism than {self._mechanism} at a re-authentication")
        header = read_header(frame)
        if self._state is DONE:
            if header.api_key == SASL_HANDSHAKE and self._may_begin_again(now_s):
                self._began_s, self.is_again = now_s, True
                return self._handshake(frame, header)
            if self._ends_s is not None and now_s > self._ends_s:
                raise HangUp("the session has ended: the client has not authenticated again")
            return None
        if header.api_key == API_VERSIONS and self._state is START:
            if len(frame) > LONG_BYTES:
                raise HangUp(f"ApiVersions of {len(frame):,} bytes before the login")
            self._look_at_versions(frame, header)
            return None
        if header.api_key != SASL_HANDSHAKE or self._state not in (START, VERSIONS):
            raise HangUp(f"a request of API key {header.api_key} before SaslHandshake")
        return self._handshake(frame, header)

    def _may_begin_again(self, now_s: float) -> bool:
        return self._ends_s is not None and (self._began_s is None or now_s - self._began_s >= REAUTH_PAUSE_S)

    def _look_at_versions(self, frame: memoryview, header: RequestHeader) -> None:
        """Enter VERSIONS after an ApiVersions request without an error; after an error the client may send another
        ApiVersions."""
        if APIS[API_VERSIONS].least <= header.version <= APIS[API_VERSIONS].most and names_software(
            read_body(messages(API_VERSIONS, header.version), frame, header)
        ):
            self._state = VERSIONS

    def _handshake(self, frame: memoryview, header: RequestHeader) -> Step:
        if not 0 <= header.version <= APIS[SASL_HANDSHAKE].most:
            raise BadRequest(f"SaslHandshake version {header.version}, which this broker does not speak")
        kind = messages(SASL_HANDSHAKE, header.version)
        asked = _asked_mechanism(frame, header.position)
        known = self._listener.mechanisms.get(asked)
        code = ErrorCode.UNSUPPORTED_SASL_MECHANISM if known is None else ErrorCode.NONE
        answer = _handshake_answer(kind, code, self._listener.names)
        answer = answer[:SIZE_BYTES] + header.correlation_id.to_bytes(4, signed=True) + answer[SIZE_BYTES + 4 :]
        if known is None:
            return self._fail(answer, f"SASL mechanism {asked} is not enabled")
        if self.is_again and asked != self._mechanism:
            self._state = BARRED
            return Step(answer)
        self._mechanism, self._server = asked, known.new_server()
        self._has_headers = header.version > 0
        self._state = EXCHANGE
        return Step(answer)

    def _exchange(self, frame: memoryview, now_s: float, now_ms: int) -> Step:
        if not self._has_headers:
            try:
                answer, _ = self._evaluate(bytes(frame), now_s, now_ms)
            except AuthenticationFailed as error:
                return self._fail(b"", str(error))
            return Step(len(answer).to_bytes(SIZE_BYTES) + answer)
        header = read_header(frame)
        api = APIS.get(header.api_key)
        if api is None or not api.least <= header.version <= api.most:
            raise BadRequest(f"API key {header.api_key} version {header.version}, which this broker does not speak")
        if header.api_key != SASL_AUTHENTICATE:
            return self._fail(_illegal(frame, header), f"a request of API key {header.api_key} during authentication")
        message = _auth_bytes(frame, header)
        try:
            answer, session_ms = self._evaluate(message, now_s, now_ms)
        except AuthenticationFailed as error:
            error_message = error.error_message or generic_failure(self._mechanism, again=self.is_again)
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            return self._fail(_respond(header, code, error_message, b"", 0), str(error))
        return Step(_respond(header, ErrorCode.NONE, "", answer, session_ms))

    def _evaluate(self, message: bytes, now_s: float, now_ms: int) -> tuple[bytes, int]:
        """Pass a message to the mechanism. Return the mechanism's message, and the length of the session in ms: 0 if
        the session does not end, or while the exchange goes on. Raises AuthenticationFailed, HangUp."""
        assert self._server is not None, "made at the handshake"
        try:
            answer = self._server.step(message)
        except Unanswered as error:
            raise HangUp(f"authentication failed: {error}") from None
        login = self._server.login
        if login is None:
            return answer, 0
        principal = user(login.name)
        if self.is_again and principal != self.principal:
            was, now = self.principal.replace(":", ".", 1), principal
            raise AuthenticationFailed(
                f"another principal at a re-authentication: {now}",
                f"Cannot change principals during re-authentication from {was}: {now.replace(':', '.', 1)}",
            )
        session_ms = self._session_ms(login, now_ms)
        self.principal, self.with_token, self._server, self._state = principal, login.with_token, None, DONE
        self._ends_s = None if session_ms is None else now_s + session_ms / 1000
        return answer, session_ms or 0

    def _session_ms(self, login: Login, now_ms: int) -> int | None:
        """Return how long the session lasts, in ms; None if it does not end."""
        reauth_ms = self._listener.mechanisms[self._mechanism].reauth_ms
        ends = [reauth_ms] if reauth_ms > 0 else []
        if login.expires_ms is not None:
            ends.append(login.expires_ms - now_ms)
        return max(min(*ends, SESSION_MS_MAX), 0) if ends else None

    def _fail(self, answer: bytes, reason: str) -> Step:
        self._state, self._server = FAILED, None
        return Step(answer, self._failure(reason))

    def _failure(self, reason: str) -> str:
        during = "re-authentication" if self.is_again else "authentication"
        return f"{during} failed: {reason[:REASON_MAX]}"


# SaslHandshake and SaslAuthenticate are decoded and encoded here, not by kio: creating kio's objects takes as long as
# the whole exchange, and kio needs a third of a second for the tagged fields that fit into
# sasl.server.max.receive.size.


def _asked_mechanism(frame: memoryview, position: int) -> str:
    """Return the mechanism that a SaslHandshake names. Raises BadRequest."""
    begin = position + 2
    length = int.from_bytes(frame[position:begin], signed=True)
    if length < 0 or begin + length > len(frame):
        raise BadRequest(f"SaslHandshake: a mechanism of {length:,} bytes", position)
    return java_utf8(frame[begin : begin + length])


def _auth_bytes(frame: memoryview, header: RequestHeader) -> bytes:
    """Return the SASL message in a SaslAuthenticate: int32 length, bytes; from version 2 on a varint of the length + 1,
    and tagged fields behind the header and the message. Raises BadRequest."""
    position = header.position
    try:
        if header.version < FLEXIBLE_SINCE:
            begin = position + 4
            length = int.from_bytes(frame[position:begin], signed=True) if begin <= len(frame) else -1
        else:
            position = behind_tags(frame, position)
            length, size = read_uvarint(bytes(frame[position : position + VARINT_BYTES_MAX]), 0)
            length, begin = length - 1, position + size
        if not 0 <= length <= len(frame) - begin:
            raise BadRequest(f"SaslAuthenticate: a message of {length:,} bytes", position)
        if header.version >= FLEXIBLE_SINCE:
            behind_tags(frame, begin + length)
    except FormatError as error:
        raise BadRequest(f"SaslAuthenticate: {error.reason}", error.position) from error
    return bytes(frame[begin : begin + length])


def _respond(header: RequestHeader, code: ErrorCode, error_message: str, answer: bytes, session_ms: int) -> bytes:
    """Return the frame of a SaslAuthenticateResponse: error code, error message, SASL message, and from version 1 on
    the length of the session in ms."""
    text = error_message[:ERROR_MESSAGE_MAX].encode()[:ERROR_MESSAGE_MAX]
    if header.version >= FLEXIBLE_SINCE:
        body = b"".join((
            header.correlation_id.to_bytes(4, signed=True), b"\0", code.to_bytes(2), uvarint(len(text) + 1), text,
            uvarint(len(answer) + 1), answer, session_ms.to_bytes(8), b"\0",
        ))  # fmt: skip
    else:
        body = b"".join((
            header.correlation_id.to_bytes(4, signed=True), code.to_bytes(2), len(text).to_bytes(2), text,
            len(answer).to_bytes(4), answer, session_ms.to_bytes(8) if header.version else b"",
        ))  # fmt: skip
    return len(body).to_bytes(SIZE_BYTES) + body


@cache
def _handshake_answer(kind: Messages, code: ErrorCode, mechanisms: tuple[str, ...]) -> bytes:
    """Return the response to a SaslHandshake, with correlation id 0: the caller puts the request's id into a copy, as
    all else is the same for all clients of a listener. kind: the message classes of the request's version."""
    return kind.encode(0, kind.new(kind.response_name, {"error_code": code, "mechanisms": mechanisms}))


def _illegal(frame: memoryview, header: RequestHeader) -> bytes:
    """Return the response with ILLEGAL_SASL_STATE to a request that does not belong to an authentication. Return b"" if
    the request has no response (Produce with acks=0), or if making the response would block the event loop, because the
    request is long or the messages of its API are not imported yet. Raises BadRequest."""
    kind = imported(header.api_key, header.version)
    if kind is None or len(frame) > LONG_BYTES:
        return b""
    request = read_body(kind, frame, header)
    if header.api_key == PRODUCE and request.acks == 0:
        return b""
    call = Call(kind, header, request, 0)
    api = APIS[header.api_key].name.upper()
    reason = f"Unexpected Kafka request of type {api} during SASL authentication."
    told = reason if tells_reason(kind) else None
    return kind.encode(header.correlation_id, failed(call, ErrorCode.ILLEGAL_SASL_STATE, told))

"""TLS handshakes, which do not block the event loop: signing and verifying run in threads.

A handshake that is not done after HANDSHAKE_S is aborted. Until a client has sent its first whole record, its
connection costs a coroutine and the bytes that it has sent; then OpenSSL needs 45 to 80 kB for it. OpenSSL has memory
for at most HANDSHAKES_MAX handshakes at a time: a further one aborts the oldest of them. So 10,000 connections that
never finish their handshake need only bounded memory, and keep out no client that finishes within milliseconds. At most
STEPS_AT_ONCE steps of handshakes run at a time, so that many new clients do not delay those that are connected.

A client may resume a session of TLS 1.2 for two hours, as long as its own certificate is valid. The intermediate
certificates and the authority are not verified again, unless the trust store has changed, which makes a new context
without sessions.

Source: RFC 5077 (tickets); RFC 8446, section 5.1 (records); Kafka's SslTransportLayer, which has no such limits.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from kcli.broker.network.tls_socket import RECORD_BYTES_MAX, TlsBuffers, TlsSocket
from kcli.errors import KcliError
from kcli.tls.contexts import TlsContext
from kcli.tls.failures import failure_text

HANDSHAKE_S: Final = 10.0
HANDSHAKES_MAX: Final = 1_000
HEADER_BYTES: Final = 5
RECEIVED_AT_ONCE: Final = 16 << 10
STEPS_AT_ONCE: Final = 32
_CHANGE_CIPHER, _DATA = 20, 23  # the lowest and the highest content type of a TLS record
_MAJOR_VERSION: Final = 3
_THREADS: Final = ThreadPoolExecutor(2, "handshakes")


class HandshakeFailed(KcliError):
    """A handshake has failed. The message has the reason, in one line. The socket is closed."""


class Handshakes:
    """The TLS handshakes of one event loop that are under way. buffers: those of the TlsSockets that `accept` and
    `connect` return. most: the greatest number of handshakes for which OpenSSL has memory at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, buffers: TlsBuffers, *, most: int = HANDSHAKES_MAX) -> None:
        self._loop, self._buffers, self._most = loop, buffers, most
        self._steps = asyncio.Semaphore(STEPS_AT_ONCE)
        self._deadlines: dict[asyncio.Timeout, None] = {}  # of handshakes for which OpenSSL has memory, oldest first
        self._given_up: set[asyncio.Timeout] = set()  # deadlines of handshakes that were aborted for newer ones

    async def accept(self, sock: socket.socket, context: TlsContext, *, timeout_s: float = HANDSHAKE_S) -> TlsSocket:
        """Make the handshake with a client that has connected. Return the secured connection. sock: non-blocking.
        Raises HandshakeFailed."""
        return await self._shake(sock, context, None, timeout_s)

    async def connect(
        self, sock: socket.socket, context: TlsContext, host: str, *, timeout_s: float = HANDSHAKE_S
    ) -> TlsSocket:
        """Make the handshake with a node to which this node has connected. Return the secured connection. sock:
        non-blocking. host: the name or address of that node, which must be in its certificate if the context checks
        host names. Raises HandshakeFailed."""
        return await self._shake(sock, context, host, timeout_s)

    async def _shake(self, sock: socket.socket, context: TlsContext, host: str | None, timeout_s: float) -> TlsSocket:
        deadline = asyncio.timeout(timeout_s)
        try:
            async with deadline:
                return await self._shaken(sock, context, host, deadline)
        except TimeoutError:
            sock.close()
            if deadline in self._given_up:
                reason = f"given up, as {self._most:,} other TLS handshakes are not done either"
            else:
                reason = f"no TLS handshake within {timeout_s:g} s"
            raise HandshakeFailed(reason) from None
        except (OSError, ValueError) as error:
            sock.close()
            raise HandshakeFailed(failure_text(error) if isinstance(error, OSError) else str(error)) from None
        except BaseException:
            sock.close()
            raise
        finally:
            self._deadlines.pop(deadline, None)
            self._given_up.discard(deadline)

    async def _shaken(
        self, sock: socket.socket, context: TlsContext, host: str | None, deadline: asyncio.Timeout
    ) -> TlsSocket:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session: ssl.SSLObject | None = None
        received = b"" if host is not None else await self._records(sock)
        while True:
            async with self._steps:
                if session is None:
                    self._enter(deadline)
                    session = context.context.wrap_bio(
                        incoming, outgoing, server_side=host is None, server_hostname=host
                    )
                incoming.write(received)
                error = await self._loop.run_in_executor(_THREADS, _step, session)
            if outgoing.pending:
                await self._loop.sock_sendall(sock, outgoing.read())
            if error is None:
                if (session.cipher() or ("",))[0] in context.refused_suites:
                    raise ValueError("the peer knows none of the suites of TLS 1.3 in ssl.cipher.suites")
                if session.session_reused:
                    _check_dates(session)
                return TlsSocket(sock, session, incoming, outgoing, self._buffers)
            if not isinstance(error, ssl.SSLWantReadError):
                raise error
            received = await self._records(sock)

    def _enter(self, deadline: asyncio.Timeout) -> None:
        """Note that OpenSSL is about to allocate memory for a handshake. If it has memory for the greatest number of
        handshakes already, abort the oldest of them. deadline: the timeout of the new handshake."""
        if len(self._deadlines) >= self._most:
            oldest = next(iter(self._deadlines))
            del self._deadlines[oldest]
            self._given_up.add(oldest)
            oldest.reschedule(self._loop.time())
        self._deadlines[deadline] = None

    async def _records(self, sock: socket.socket) -> bytes:
        """Receive bytes until they contain at least one whole record. Bytes that are no record are returned, too, so
        that OpenSSL refuses them."""
        received = await self._received(sock)
        record_bytes = _record_bytes(received)
        while len(received) < record_bytes:
            received += await self._received(sock)
            record_bytes = _record_bytes(received)
        return bytes(received)

    async def _received(self, sock: socket.socket) -> bytearray:
        data = await self._loop.sock_recv(sock, RECEIVED_AT_ONCE)
        if not data:
            raise ConnectionResetError("the peer has closed the connection")
        return bytearray(data)


def _record_bytes(received: bytearray) -> int:
    """Return the size of the first record, header and content, in bytes; the size of the header while the header is
    incomplete; 0 if the bytes are no record."""
    if not _CHANGE_CIPHER <= received[0] <= _DATA or (len(received) > 1 and received[1] != _MAJOR_VERSION):
        return 0
    if len(received) < HEADER_BYTES:
        return HEADER_BYTES
    size = HEADER_BYTES + int.from_bytes(received[3:HEADER_BYTES])
    return size if size <= RECORD_BYTES_MAX else 0


def _check_dates(session: ssl.SSLObject) -> None:
    """Check that the peer's certificate is valid at this time, as OpenSSL does not check it again when a session of TLS
    1.2 is resumed. Raises ValueError."""
    certificate = session.getpeercert()
    if not certificate:
        return
    if time.time() > ssl.cert_time_to_seconds(str(certificate["notAfter"])):
        raise ValueError("the peer's certificate is not accepted: certificate has expired")
    if time.time() < ssl.cert_time_to_seconds(str(certificate["notBefore"])):
        raise ValueError("the peer's certificate is not accepted: certificate is not yet valid")


def _step(session: ssl.SSLObject) -> ssl.SSLError | None:
    """Run OpenSSL's next step of a handshake, in a thread. Return None if the handshake is done, else OpenSSL's error:
    SSLWantReadError if the next step needs more bytes from the peer, any other error if the handshake has failed."""
    try:
        session.do_handshake()
    except ssl.SSLError as error:
        return error
    return None

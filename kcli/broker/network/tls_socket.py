"""A TLS connection on a non-blocking socket, with those methods of a socket that connection.py and outgoing.py call.

OpenSSL works in memory (ssl.MemoryBIO): one call receives up to 239 KiB from the socket, and one call sends up to 256
KiB to it. An ssl.SSLSocket, which receives and sends each record by itself, needs a tenth more CPU time for full
records (16 KiB), and up to a third more for records of 4 KiB.

    received bytes -> _incoming -> OpenSSL -> the caller's buffer
    the caller's bytes, or a log file's -> OpenSSL -> _outgoing -> _unsent -> the socket

Two things differ from a plain socket:

has_unread   OpenSSL may have bytes that the event loop does not see on the socket: bytes that came together with the
             end of the handshake, bytes for which the caller's buffer had no room, the peer's close_notify. While
             has_unread is true, the caller receives again without waiting for the socket
sending      a call either sends all bytes that it has encrypted, and returns how many of the caller's bytes they are;
             or it raises BlockingIOError, and the next call, which must begin with the same bytes, goes on sending

Source: RFC 8446; Kafka's SslTransportLayer.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, cast

PIECE_BYTES: Final = 32 << 10
"""The greatest number of bytes that OpenSSL encrypts or decrypts at a time. For each direction a connection occupies a
third more memory than this."""
SENT_AT_ONCE: Final = 256 << 10
RECORD_BYTES_MAX: Final = 5 + (16 << 10) + 256
"""The largest TLS record, in bytes: header, content, and what encryption adds."""


class TlsBuffers:
    """Buffers for encrypted and decrypted bytes, which all connections of one event loop use one after another."""

    def __init__(self) -> None:
        self.received = memoryview(bytearray(SENT_AT_ONCE))
        self.plain = memoryview(bytearray(SENT_AT_ONCE))


class TlsSocket:
    """A socket whose TLS handshake is done. Only the event loop's thread uses it.

    sock: non-blocking, closed by `close`. session: OpenSSL's side of the connection. incoming: the encrypted bytes from
    the peer for OpenSSL. outgoing: the encrypted bytes from OpenSSL for the peer.
    """

    __slots__ = (
        "_buffers",
        "_incoming",
        "_is_ended",
        "_outgoing",
        "_owed",
        "_peeked",
        "_session",
        "_socket",
        "_unsent",
        "has_unread",
    )

    def __init__(
        self,
        sock: socket.socket,
        session: ssl.SSLObject,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        buffers: TlsBuffers,
    ) -> None:
        self._socket, self._session, self._buffers = sock, session, buffers
        self._incoming, self._outgoing = incoming, outgoing
        self._unsent: list[bytes | memoryview] = []
        self._owed = 0  # the number of the caller's bytes whose encrypted form is in _unsent
        self._peeked = b""  # a byte that `recv` has read from OpenSSL, for the next recv_into
        self._is_ended = False  # whether the peer has sent close_notify
        self.has_unread = True
        """Whether the next call of recv_into may return bytes, or 0 at the end, although the socket is not readable."""

    def fileno(self) -> int:
        """The socket's file descriptor."""
        return self._socket.fileno()

    @property
    def peer_certificate(self) -> bytes | None:
        """The peer's certificate (DER), which is valid; None if the peer has sent none."""
        return self._session.getpeercert(binary_form=True)

    @property
    def protocol(self) -> str:
        """The version of TLS, such as "TLSv1.3"."""
        return self._session.version() or ""

    @property
    def cipher_suite(self) -> str:
        """OpenSSL's name of the cipher suite."""
        return (self._session.cipher() or ("",))[0]

    # receiving

    def recv_into(self, buffer: memoryview) -> int:
        """Receive bytes into the buffer. Return how many; 0 if the peer sends no more bytes.

        Raises BlockingIOError if no bytes have arrived yet, OSError (ssl.SSLError for bytes that are no TLS).
        """
        count = len(self._peeked)
        if count:
            buffer[:count], self._peeked = self._peeked, b""
        if self.has_unread:
            count = self._decrypt(buffer, count)
        if not self.has_unread and count < len(buffer):
            count = self._receive(buffer, count)
        if count == 0 and not self._is_ended:
            raise BlockingIOError
        return count

    def _receive(self, buffer: memoryview, count: int) -> int:
        """Receive encrypted bytes from the socket, and decrypt them into the buffer, behind the `count` bytes that it
        contains. One read takes at most as many bytes as fit into the buffer once they are decrypted, but at least one
        record. Repeat this until the socket has no more bytes, or the buffer has no room for two records. Return how
        many bytes the buffer then contains."""
        received, is_first = self._buffers.received, True
        while is_first or len(buffer) - count >= 2 * RECORD_BYTES_MAX:
            size = min(len(received), max(len(buffer) - count - RECORD_BYTES_MAX, RECORD_BYTES_MAX))
            try:
                size = self._socket.recv_into(received, size)
            except OSError as error:
                if count:  # an error other than "no bytes yet" is raised by the next call
                    self.has_unread = not isinstance(error, (BlockingIOError, InterruptedError))
                    return count
                raise
            if size == 0:
                self._is_ended = True
                self.has_unread = count > 0
                return count
            for at in range(0, size, PIECE_BYTES):
                self._incoming.write(received[at : min(at + PIECE_BYTES, size)])
                count = self._decrypt(buffer, count)
            if self.has_unread:
                return count
            is_first = False
        return count

    def _decrypt(self, buffer: memoryview, count: int) -> int:
        """Decrypt the bytes that OpenSSL has into the buffer, behind `count` bytes. Return how many bytes are in the
        buffer."""
        read = cast("Callable[[int, memoryview], int]", self._session.read)
        size = len(buffer)
        self.has_unread = True
        try:
            while count < size:
                got = read(size - count, buffer[count:])
                if got == 0:
                    self._is_ended = True
                    break
                count += got
        except ssl.SSLWantReadError:
            self.has_unread = False
        except ssl.SSLZeroReturnError:
            self._is_ended = True
        except ssl.SSLError:
            self._send_rest()
            raise
        return count

    def recv(self, count: int, flags: int = 0) -> bytes:
        """Receive up to `count` bytes. With socket.MSG_PEEK return at most one byte, which the next call receives
        again.

        Returns b"" if the peer sends no more bytes. Raises the errors of `recv_into`.
        """
        buffer = memoryview(bytearray(1 if flags & socket.MSG_PEEK else count))
        received = bytes(buffer[: self.recv_into(buffer)])
        if flags & socket.MSG_PEEK:
            self._peeked = received
            self.has_unread = True
        return received

    # sending

    def send(self, data: bytes | memoryview) -> int:
        """Send bytes. Return how many were sent. Raises BlockingIOError, OSError."""
        return self.sendmsg((memoryview(data),))

    def sendmsg(self, parts: Sequence[memoryview], ancillary: Iterable[object] = (), flags: int = 0) -> int:  # noqa: ARG002
        """Send the first bytes of the parts, at most SENT_AT_ONCE. Return how many were sent. ancillary, flags:
        parameters of socket.sendmsg, which are ignored. Raises BlockingIOError, OSError."""
        if self._owed:
            return self._paid()
        if len(parts) == 1:
            return self._encrypt_and_send(parts[0][:SENT_AT_ONCE])
        plain, count = self._buffers.plain, 0
        for part in parts:
            taken = part[: len(plain) - count]
            plain[count : count + len(taken)] = taken
            count += len(taken)
        return self._encrypt_and_send(plain[:count])

    def sendfile(self, file: int, position: int, count: int) -> int:
        """Send bytes of a file, as os.sendfile does. Return how many were sent, 0 at the end of the file. file: its
        descriptor. Raises BlockingIOError, OSError."""
        if self._owed:
            return self._paid()
        plain = self._buffers.plain[: min(count, SENT_AT_ONCE)]
        return self._encrypt_and_send(plain[: os.preadv(file, [plain], position)])

    def _encrypt_and_send(self, plain: memoryview) -> int:
        write, read, size = self._session.write, self._outgoing.read, len(plain)
        done = 0
        while done < size:
            end = min(done + PIECE_BYTES, size)
            while done < end:
                done += write(plain[done:end])
            self._unsent.append(read())
        self._owed = size
        return self._paid() if size else 0

    def _paid(self) -> int:
        """Send all encrypted bytes. Return the number of the caller's bytes that were encrypted in them. Raises
        BlockingIOError, OSError."""
        unsent = self._unsent
        while unsent:
            sent = self._socket.sendmsg(unsent)
            while unsent and sent >= len(unsent[0]):
                sent -= len(unsent.pop(0))
            if sent:
                unsent[0] = memoryview(unsent[0])[sent:]
        owed, self._owed = self._owed, 0
        return owed

    def _send_rest(self) -> None:
        """Send the alert that OpenSSL has made, if the socket takes it."""
        try:
            self._unsent.append(self._outgoing.read())
            self._socket.sendmsg(self._unsent)
        except OSError:
            return

    def close(self) -> None:
        """Send close_notify, if the socket takes it, and close the socket."""
        if not self._unsent and self._socket.fileno() >= 0:
            with suppress(OSError, ValueError):  # do not wait for the peer's own close_notify
                self._session.unwrap()
            self._send_rest()
        self._socket.close()

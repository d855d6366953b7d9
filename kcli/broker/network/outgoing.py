"""The unsent responses of one connection: bytes, and regions of log files that go from the page cache to the socket.

A region up to COPY_LIMIT_BYTES is read into memory and sent together with other bytes in one call; a larger one is sent
by sendfile(2), uncopied, or through the TLS socket, which encrypts it. The file of an unsent region stays open even if
its segment is deleted meanwhile, as its descriptor is duplicated when a send has to wait.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from contextlib import suppress
from functools import partial

from kcli.broker.network.tls_socket import TlsSocket
from kcli.broker.wire.answers import Part
from kcli.log.live.segments import FileRegion

COPY_LIMIT_BYTES = 32 << 10
SENT_TOGETHER = 64
"""The greatest number of parts that are sent with one call of sendmsg(2), which accepts up to 1,024."""
MSG_MORE = getattr(socket, "MSG_MORE", 0)
HAS_SENDFILE = hasattr(os, "sendfile")


class TornRegion(OSError):
    """A log file ends before the end of a region, although the response already contains the region's length."""


class _Pending:
    """A region that is partly sent. fd: the file's descriptor. position: the next byte to send. left: the number of
    bytes to send. owned: whether fd is a duplicate that is to be closed here."""

    __slots__ = ("fd", "left", "owned", "position")

    def __init__(self, region: FileRegion) -> None:
        self.fd, self.position, self.left = region.fd, region.position, region.length
        self.owned = False

    def keep(self) -> None:
        if not self.owned:
            self.fd = os.dup(self.fd)
            self.owned = True

    def close(self) -> None:
        if self.owned:
            os.close(self.fd)
            self.owned = False


class Outgoing:
    """A queue of unsent parts of responses, which are written to a non-blocking socket. size_bytes: the size of all
    unsent parts."""

    __slots__ = ("_is_tls", "_parts", "_sendfile", "_socket", "size_bytes")

    def __init__(self, sock: socket.socket | TlsSocket) -> None:
        self._socket = sock
        self._is_tls = isinstance(sock, TlsSocket)
        self._sendfile = sock.sendfile if isinstance(sock, TlsSocket) else partial(os.sendfile, sock.fileno())
        self._parts: deque[memoryview | _Pending] = deque()
        self.size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, parts: list[Part]) -> None:
        """Queue parts of responses. Small regions of log files are read now. Raises TornRegion, OSError."""
        for part in parts:
            if not isinstance(part, FileRegion):
                self._add_bytes(part)
            elif part.length <= COPY_LIMIT_BYTES or not HAS_SENDFILE:
                self._add_bytes(read_region(part))
            else:
                self._parts.append(_Pending(part))
                self.size_bytes += part.length

    def _add_bytes(self, data: bytes | bytearray | memoryview) -> None:
        if data:
            self._parts.append(memoryview(data))
            self.size_bytes += len(data)

    def send(self) -> bool:
        """Send as much as the socket takes. Return whether all parts are sent. Raises TornRegion, OSError."""
        is_full = False
        with suppress(BlockingIOError, InterruptedError):
            while self._parts and not is_full:
                part = self._parts[0]
                if isinstance(part, _Pending):
                    is_full = self._send_region(part)
                elif len(self._parts) == 1:
                    self._sent(self._socket.send(part))
                else:
                    self._send_together()
        for part in self._parts:
            if isinstance(part, _Pending):
                part.keep()
        return not self._parts

    def _send_together(self) -> None:
        """Send the parts in front of the next large region in one call, at most SENT_TOGETHER of them."""
        together: list[memoryview] = []
        for part in self._parts:
            if isinstance(part, _Pending) or len(together) == SENT_TOGETHER:
                break
            together.append(part)
        more = MSG_MORE if len(together) < len(self._parts) else 0
        self._sent(self._socket.sendmsg(together, (), more))

    def _sent(self, count: int) -> None:
        """Remove `count` sent bytes from the front of the queue."""
        self.size_bytes -= count
        while count:
            part = self._parts[0]
            assert isinstance(part, memoryview), "regions go by themselves"
            if count < len(part):
                self._parts[0] = part[count:]
                return
            count -= len(part)
            self._parts.popleft()

    def _send_region(self, part: _Pending) -> bool:
        """Send a part of a region. Return whether the socket is full; False also over TLS, where the next call raises
        BlockingIOError if the socket is full."""
        sent = self._sendfile(part.fd, part.position, part.left)
        if sent == 0:
            raise TornRegion(f"a log file ends {part.left:,} bytes before what a client was promised")
        part.position += sent
        part.left -= sent
        self.size_bytes -= sent
        if part.left == 0:
            part.close()
            self._parts.popleft()
            return False
        return not self._is_tls  # sendfile(2) sends less than part.left only if the socket is full

    def close(self) -> None:
        """Drop all unsent parts, and close duplicated descriptors."""
        for part in self._parts:
            if isinstance(part, _Pending):
                part.close()
        self._parts.clear()
        self.size_bytes = 0


def read_region(region: FileRegion) -> bytes:
    """Return the bytes of a region. Raises TornRegion, OSError."""
    data = os.pread(region.fd, region.length, region.position)
    if len(data) != region.length:
        raise TornRegion(f"{region.path}: {region.length:,} bytes promised at {region.position:,}, {len(data):,} there")
    return data

"""A TLS connection on a non-blocking socket, with a client's ssl.SSLSocket in a thread as its peer."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import random
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from kcli.broker.network.tls_handshake import HandshakeFailed, Handshakes
from kcli.broker.network.tls_socket import RECORD_BYTES_MAX, TlsBuffers, TlsSocket
from kcli.tls.certificates import make_authority
from kcli.tls.contexts import TlsContext, client_context, listener_context

NOW = dt.datetime.now(dt.UTC)
AUTHORITY = make_authority("kcli test", NOW)
SERVER = AUTHORITY.server(["localhost"], NOW)
CLIENT = AUTHORITY.client("CN=alice", NOW)
TRUSTED = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": AUTHORITY.certificate_pem.decode()}


def keys(pem: tuple[bytes, bytes]) -> dict[str, str]:
    return TRUSTED | {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": pem[0].decode(),
        "ssl.keystore.certificate.chain": pem[1].decode(),
    }


def listener(**more: str) -> TlsContext:
    settings = keys((SERVER.key_pem, SERVER.chain_pem)) | {name.replace("_", "."): each for name, each in more.items()}
    return listener_context(settings, NOW)


def client(*, has_key: bool = False) -> ssl.SSLContext:
    return client_context(keys((CLIENT.key_pem, CLIENT.chain_pem)) if has_key else TRUSTED, NOW).context


class Peer:
    """The client's side of a socket, in a thread."""

    def __init__(self, act: Callable[[ssl.SSLSocket], object], context: ssl.SSLContext | None = None) -> None:
        self.ours, self._theirs = socket.socketpair()
        self.ours.settimeout(0)
        self._act, self._context = act, context or client()
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with self._context.wrap_socket(self._theirs, server_hostname="localhost") as sock:
                self._act(sock)
        except OSError as error:
            self.error = error

    def join(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()


def shaken(peer: Peer, context: TlsContext | None = None, **how: float) -> TlsSocket:
    async def shake() -> TlsSocket:
        return await Handshakes(asyncio.get_running_loop(), TlsBuffers()).accept(
            peer.ours, context or listener(), **how
        )

    return uvloop.run(shake())


def all_received(sock: TlsSocket, size: int) -> bytes:
    """Receive until the peer closes the connection, as the event loop does: when the socket is readable, or while
    decrypted bytes are left."""
    buffer, got, until = memoryview(bytearray(size)), bytearray(), time.monotonic() + 30
    while time.monotonic() < until:
        try:
            count = sock.recv_into(buffer)
        except BlockingIOError:
            assert not sock.has_unread
            time.sleep(0.001)
            continue
        if count == 0:
            return bytes(got)
        got += buffer[:count]
    raise AssertionError(f"{len(got):,} bytes, and no end")


def send_all(send: Callable[[], int], wanted: int, sock: TlsSocket) -> None:
    sent, until = 0, time.monotonic() + 30
    while sent < wanted and time.monotonic() < until:
        try:
            sent += send()
        except BlockingIOError:
            time.sleep(0.001)
    assert sent == wanted


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("size", [1, 4, 100, RECORD_BYTES_MAX, 64 << 10, 256 << 10])
def test_receives_what_was_sent(size: int, version: ssl.TLSVersion) -> None:
    chance = random.Random(size)
    data = chance.randbytes(20_000 if size < 100 else 2_000_000)

    def send(sock: ssl.SSLSocket) -> None:
        at = 0
        while at < len(data):
            end = at + chance.choice([1, 7, 1_000, 16_384, 100_000, 900_000])
            sock.sendall(data[at:end])
            at = end

    context = client()
    context.maximum_version = version
    peer = Peer(send, context)
    ours = shaken(peer)
    assert all_received(ours, size) == data
    ours.close()
    peer.join()
    assert peer.error is None


def test_sends_bytes_parts_and_files(tmp_path: Path) -> None:
    data = random.Random(1).randbytes(3_000_000)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    parts = [memoryview(data[at : at + 999]) for at in range(0, 200_000, 999)]
    got = bytearray()

    def receive(sock: ssl.SSLSocket) -> None:
        while part := sock.recv(70_000):
            got.extend(part)
            time.sleep(0.0005)

    peer = Peer(receive)
    ours = shaken(peer)
    rest = memoryview(data)

    def send() -> int:
        nonlocal rest
        count = ours.send(rest)
        rest = rest[count:]
        return count

    send_all(send, len(data), ours)
    send_all(lambda: ours.sendmsg(parts, (), 0), sum(map(len, parts)), ours)
    with path.open("rb") as file:
        position = 0

        def send_region() -> int:
            nonlocal position
            count = ours.sendfile(file.fileno(), position, len(data) - position)
            position += count
            return count

        send_all(send_region, len(data), ours)
        assert ours.sendfile(file.fileno(), len(data), 10) == 0
    ours.close()
    peer.join()
    assert peer.error is None
    assert bytes(got) == data + b"".join(parts) + data


def test_a_call_that_blocks_is_repeated_with_the_same_bytes_in_front() -> None:
    begin = threading.Event()
    got = bytearray()

    def receive(sock: ssl.SSLSocket) -> None:
        begin.wait(30)
        while part := sock.recv(1 << 20):
            got.extend(part)

    peer = Peer(receive)
    ours = shaken(peer)
    data = os.urandom(8 << 20)
    rest = memoryview(data)
    while True:
        try:
            rest = rest[ours.send(rest) :]
        except BlockingIOError:
            break
    with pytest.raises(BlockingIOError):
        ours.send(rest)
    begin.set()
    longer = [rest, memoryview(b"more")]

    def send() -> int:
        count = ours.sendmsg(longer)
        left = count
        while longer and left >= len(longer[0]):
            left -= len(longer.pop(0))
        if left:
            longer[0] = longer[0][left:]
        return count

    send_all(send, len(rest) + 4, ours)
    ours.close()
    peer.join()
    assert bytes(got) == data + b"more"


def test_peeks() -> None:
    said, heard = threading.Event(), threading.Event()

    def talk(sock: ssl.SSLSocket) -> None:
        said.wait(30)
        sock.sendall(b"hello")
        heard.wait(30)

    peer = Peer(talk)
    ours = shaken(peer)
    for _ in range(20):  # the server's tickets are no bytes for the client
        with pytest.raises(BlockingIOError):
            ours.recv(1, socket.MSG_PEEK)
    said.set()
    waited = time.monotonic() + 30
    while time.monotonic() < waited:
        try:
            assert ours.recv(1, socket.MSG_PEEK) == b"h"
            break
        except BlockingIOError:
            time.sleep(0.001)
    assert ours.recv(1, socket.MSG_PEEK) == b"h"
    assert ours.has_unread
    assert ours.recv(100) == b"hello"
    heard.set()
    peer.join()
    assert ours.recv(1, socket.MSG_PEEK) == b""
    assert ours.recv(100) == b""
    ours.close()


def test_bytes_that_came_with_the_handshake_are_unread() -> None:
    peer = Peer(lambda sock: sock.sendall(b"at once"))
    ours = shaken(peer)
    assert ours.has_unread
    assert all_received(ours, 100) == b"at once"
    ours.close()
    peer.join()


def test_bytes_before_a_reset_are_received() -> None:
    class Reset:
        """A socket that delivers its bytes and then raises ConnectionResetError."""

        def __init__(self, sock: socket.socket) -> None:
            self._sock = sock

        def recv_into(self, buffer: memoryview, size: int) -> int:
            try:
                return self._sock.recv_into(buffer, size)
            except BlockingIOError:
                raise ConnectionResetError from None

        def fileno(self) -> int:
            return -1

        def close(self) -> None:
            self._sock.close()

    sent, held = threading.Event(), threading.Event()

    def send(sock: ssl.SSLSocket) -> None:
        sock.sendall(b"last words")
        sent.set()
        held.wait(30)

    peer = Peer(send)
    ours = shaken(peer)
    assert sent.wait(30)
    ours._socket = Reset(ours._socket)  # type: ignore[assignment]
    assert ours.recv(100) == b"last words"
    with pytest.raises(ConnectionResetError):
        ours.recv(100)
    held.set()
    ours.close()
    peer.join()


def test_damaged_records_end_the_connection() -> None:
    raw: list[socket.socket] = []

    def keep(sock: ssl.SSLSocket) -> None:
        raw.append(socket.socket(fileno=os.dup(sock.fileno())))
        time.sleep(0.05)
        raw[0].sendall(b"\x17\x03\x03\x00\x20" + b"x" * 32)
        raw[0].recv(1_000)
        raw[0].close()

    peer = Peer(keep)
    ours = shaken(peer)
    with pytest.raises(ssl.SSLError):
        all_received(ours, 1_000)
    ours.close()
    peer.join()


def test_the_peer_of_mutual_tls() -> None:
    peer = Peer(lambda sock: sock.recv(1), client(has_key=True))
    ours = shaken(peer, listener(ssl_client_auth="required"))
    assert ours.peer_certificate is not None
    assert (ours.protocol, ours.cipher_suite) == ("TLSv1.3", "TLS_AES_256_GCM_SHA384")
    ours.close()
    peer.join()


def test_a_session_is_not_resumed_with_a_certificate_that_has_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = listener(ssl_client_auth="required"), client(has_key=True)
    theirs.maximum_version = ssl.TLSVersion.TLSv1_2
    sessions: list[ssl.SSLSession | None] = [None]
    reused: list[bool] = []

    def connect(sock: socket.socket) -> None:
        with theirs.wrap_socket(sock, server_hostname="localhost", session=sessions[-1]) as tls:
            sessions.append(tls.session)
            reused.append(bool(tls.session_reused))

    def shake_hands() -> None:
        one, other = socket.socketpair()
        one.settimeout(0)
        thread = threading.Thread(target=connect, args=(other,))
        thread.start()

        async def shake() -> TlsSocket:
            return await Handshakes(asyncio.get_running_loop(), TlsBuffers()).accept(one, ours)

        try:
            sock = uvloop.run(shake())
            assert sock.peer_certificate is not None
            sock.close()
        finally:
            thread.join()

    shake_hands()
    shake_hands()
    assert reused == [False, True]
    for days, reason in ((4_000, "certificate has expired"), (-1, "certificate is not yet valid")):
        now_s = (NOW + dt.timedelta(days=days)).timestamp()
        with monkeypatch.context() as patch:
            patch.setattr("kcli.broker.network.tls_handshake.time.time", lambda now_s=now_s: now_s)
            with pytest.raises(HandshakeFailed, match=reason):
                shake_hands()


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "the peer speaks HTTP, not TLS"),
        (b"\x00\x00\x00\x1a\x00\x12\x00\x04" + b"\0" * 30, "the peer does not speak TLS"),
        (b"\x16\x03\x01\xff\xff" + b"\0" * 100, "TLS: "),
        (b"\x16\x03\x01\x00\x04\x01\x00\x00\x00", "TLS: "),
        (b"", "the peer has closed the connection"),
        (b"\x16\x03\x01\x40\x00\x01", "the peer has closed the connection"),
    ],
)
def test_what_is_no_handshake(sent: bytes, reason: str) -> None:
    async def refused() -> str:
        ours, theirs = socket.socketpair()
        with theirs:
            ours.settimeout(0)
            theirs.sendall(sent)
            theirs.shutdown(socket.SHUT_WR)
            with pytest.raises(HandshakeFailed) as failed:
                await Handshakes(asyncio.get_running_loop(), TlsBuffers()).accept(ours, listener())
            assert ours.fileno() < 0
        return str(failed.value)

    assert uvloop.run(refused()).startswith(reason)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl on the PATH")
@pytest.mark.parametrize("offered", ["TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"])
def test_a_suite_of_tls_1_3_that_is_left_out(offered: str) -> None:
    context = listener(ssl_cipher_suites="TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384")

    async def agreed() -> str:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(0)
            command = [
                "openssl",
                "s_client",
                "-ciphersuites",
                offered,
                "-connect",
                f"127.0.0.1:{server.getsockname()[1]}",
            ]
            silent = subprocess.DEVNULL
            peer = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=silent, stderr=silent)
            plain, _ = await loop.sock_accept(server)
            plain.settimeout(0)
            try:
                sock = await Handshakes(loop, TlsBuffers()).accept(plain, context)
            except HandshakeFailed as error:
                return str(error)
            finally:
                peer.kill()
                await peer.communicate()
            sock.close()
            return sock.cipher_suite

    refused = "the peer knows none of the suites of TLS 1.3 in ssl.cipher.suites"
    assert uvloop.run(agreed()) == (refused if "CHACHA" in offered else "TLS_AES_256_GCM_SHA384")


def test_a_client_without_a_certificate_is_refused() -> None:
    peer = Peer(lambda sock: sock.recv(1))
    with pytest.raises(HandshakeFailed, match="shows no certificate"):
        shaken(peer, listener(ssl_client_auth="required"))
    peer.join()
    assert peer.error is not None


def test_a_client_that_does_not_trust_the_node_says_so() -> None:
    context = client_context({}, NOW).context
    peer = Peer(lambda sock: sock.version(), context)
    with pytest.raises(HandshakeFailed, match="does not trust the authority"):
        shaken(peer)
    peer.join()


def test_connects_to_a_node() -> None:
    async def both() -> bytes:
        ours, theirs = socket.socketpair()
        for each in (ours, theirs):
            each.settimeout(0)
        handshakes = Handshakes(asyncio.get_running_loop(), TlsBuffers())
        node, asked = await asyncio.gather(
            handshakes.connect(ours, client_context(TRUSTED, NOW), "localhost"), handshakes.accept(theirs, listener())
        )
        assert node.send(b"question") == 8
        answer = asked.recv(100)
        node.close()
        asked.close()
        return answer

    assert uvloop.run(both()) == b"question"


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01"])
def test_a_slow_handshake_has_a_deadline(sent: bytes) -> None:
    async def timed() -> str:
        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        with theirs:
            theirs.sendall(sent)
            with pytest.raises(HandshakeFailed) as failed:
                await Handshakes(asyncio.get_running_loop(), TlsBuffers()).accept(ours, listener(), timeout_s=0.1)
        return str(failed.value)

    assert uvloop.run(timed()) == "no TLS handshake within 0.1 s"


def test_the_oldest_handshake_makes_room() -> None:
    """Three clients begin a handshake and stop, with room for two; then one completes its handshake."""

    def hello() -> bytes:
        outgoing = ssl.MemoryBIO()
        session = client().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            session.do_handshake()
        return outgoing.read()

    async def crowd() -> list[str]:
        handshakes, context = Handshakes(asyncio.get_running_loop(), TlsBuffers(), most=2), listener()
        pairs = [socket.socketpair() for _ in range(3)]
        tasks = []
        for ours, theirs in pairs:
            ours.settimeout(0)
            theirs.sendall(hello())
            tasks.append(asyncio.ensure_future(handshakes.accept(ours, context, timeout_s=1)))
            await asyncio.sleep(0.05)
        peer = Peer(lambda sock: sock.recv(1))
        (await handshakes.accept(peer.ours, context)).close()
        peer.join()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for _, theirs in pairs:
            theirs.close()
        return [str(each) for each in ended]

    given_up = "given up, as 2 other TLS handshakes are not done either"
    assert uvloop.run(crowd()) == [given_up, given_up, "no TLS handshake within 1 s"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl on the PATH")
def test_renegotiation_is_refused() -> None:
    """`R` lets openssl's client request a renegotiation. Bytes that it sends afterwards still arrive, or the connection
    is closed."""

    async def asked() -> str:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(0)
            command = ["openssl", "s_client", "-tls1_2", "-connect", f"127.0.0.1:{server.getsockname()[1]}"]
            peer = await asyncio.create_subprocess_exec(
                *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            plain, _ = await loop.sock_accept(server)
            plain.settimeout(0)
            sock = await Handshakes(loop, TlsBuffers()).accept(plain, listener())
            assert peer.stdin is not None
            peer.stdin.write(b"R\n")
            await peer.stdin.drain()
            readable = asyncio.Event()
            loop.add_reader(sock.fileno(), readable.set)
            await asyncio.wait_for(readable.wait(), 20)
            loop.remove_reader(sock.fileno())
            with contextlib.suppress(BlockingIOError, ssl.SSLError):
                assert sock.recv(100) == b""
            sock.close()
            said, _ = await peer.communicate()
            return said.decode(errors="replace")

    assert "no renegotiation" in uvloop.run(asked())

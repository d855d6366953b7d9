"""HTTP as clients speak it, and as nobody should: each gets a clear answer, or is closed, and memory stays bounded."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kcli.registry.messages import error_answer
from kcli.service.http import Connections, HttpLimits, encode
from kcli.service.messages import Answer, Request
from tests.registry.running import Loop, looped

LIMITS = HttpLimits(head_size_max=4096, body_size_max=10_000, request_s=0.3, idle_s=0.6, answer_s=0.6)
HELLO = b"GET /now HTTP/1.1\r\nHost: h\r\n\r\n"


class Echo:
    """Answers with what was asked; /later after a while, in another order than asked if it could."""

    def __init__(self) -> None:
        self.seen: list[Request] = []

    def answer_now(self, request: Request, _peer: str) -> bytes | Answer | None:
        self.seen.append(request)
        if request.path == "/fails":
            raise RuntimeError("a bug")
        if request.path == "/bytes":
            return encode(Answer(200, b"{}"))
        return None if request.path in ("/later", "/large", "/fails-later") else self.echo(request)

    async def answer(self, request: Request, _peer: str) -> Answer:
        if request.path == "/fails-later":
            raise RuntimeError("a bug")
        if request.path == "/large":
            return Answer(200, bytes(8 << 20))
        await asyncio.sleep(0.05)
        return self.echo(request)

    def echo(self, request: Request) -> Answer:
        found = [request.method, request.path, request.query, dict(request.headers), len(request.body)]
        return Answer(200, json.dumps(found).encode(), headers={"X-Test": "1"})


class Served:
    """A port at which Echo answers."""

    def __init__(self, loop: Loop, limits: HttpLimits) -> None:
        self.echo = Echo()
        self.loop = loop

        async def begin() -> tuple[Connections, asyncio.Server]:
            connections = Connections(asyncio.get_running_loop(), self.echo, limits)
            server = await asyncio.get_running_loop().create_server(connections.new, "127.0.0.1", 0)
            return connections, server

        self.connections, self.server = loop.run(begin())
        self.port: int = self.server.sockets[0].getsockname()[1]

    def close(self) -> None:
        async def end() -> None:
            self.server.close()
            self.connections.abort()

        self.loop.run(end())

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 10)

    def say(self, data: bytes) -> bytes:
        """Send bytes, and return all that comes until the server closes the connection."""
        with self.connect() as sock:
            sock.sendall(data)
            return rest(sock)


def rest(sock: socket.socket) -> bytes:
    found = b""
    try:
        while data := sock.recv(1 << 16):
            found += data
    except ConnectionResetError:
        pass
    return found


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with looped() as loop:
        server = Served(loop, LIMITS)
        yield server
        server.close()


def close(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_a_request_has_its_path_query_headers_and_body(served: Served) -> None:
    data = b"POST /a%2Fb?x=%20 HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nX-A: 2\r\nContent-Length: 5\r\n\r\nhello"
    head, _, body = served.say(close(data)).partition(b"\r\n\r\n")
    method, path, query, headers, size = json.loads(body)
    assert (method, path, query, size) == ("POST", "/a%2Fb", "x=%20", 5)
    assert headers["x-a"] == "1, 2"
    assert b"X-Test: 1" in head
    assert b"Connection: close" in head


@pytest.mark.parametrize("path", ["/now", "/later", "/bytes"])
def test_a_connection_serves_many_requests(served: Served, path: str) -> None:
    with served.connect() as sock:
        for _ in range(3):
            sock.sendall(HELLO.replace(b"/now", path.encode()))
            assert sock.recv(4096).startswith(b"HTTP/1.1 200 OK\r\n")


def test_requests_that_a_client_sends_ahead_are_answered_in_their_order(served: Served) -> None:
    paths = [b"/now?1", b"/later?2", b"/bytes", b"/now?3", b"/later?4", b"/now?5"]
    data = b"".join(HELLO.replace(b"/now", path) for path in paths)
    answers = served.say(data + close(HELLO.replace(b"/now", b"/now?6")))
    assert [each[0:1] for each in answers.split(b'", "')[2::1] if each[:1].isdigit()] == [
        b"1",
        b"2",
        b"3",
        b"4",
        b"5",
        b"6",
    ]


def test_thousands_of_requests_sent_ahead_are_all_answered(served: Served) -> None:
    answers = served.say(HELLO * 5000 + close(HELLO))
    assert answers.count(b"HTTP/1.1 200 OK") == 5001


def test_head_has_no_body(served: Served) -> None:
    head, _, body = served.say(close(b"HEAD /now HTTP/1.1\r\nHost: h\r\n\r\n")).partition(b"\r\n\r\n")
    assert body == b""
    assert b"Content-Length: 0" not in head


def test_a_chunked_body_is_put_together(served: Served) -> None:
    data = b"POST /now HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    assert json.loads(served.say(close(data)).partition(b"\r\n\r\n")[2])[4] == 5


CHUNKED = b"POST /now HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"


def test_trailer_fields_are_ignored(served: Served) -> None:
    found = json.loads(served.say(close(CHUNKED + b"A: b\r\nHost: x\r\n\r\n")).partition(b"\r\n\r\n")[2])
    assert (found[3]["host"], "a" in found[3], found[4]) == ("h", False, 3)


@pytest.mark.parametrize("line", [b"a: b\r\n", b"a: " + b"b" * 4096, b"0;"])
def test_what_follows_a_chunk_is_refused_at_the_limit(served: Served, line: bytes) -> None:
    data = CHUNKED.removesuffix(b"0\r\n") + line if line == b"0;" else CHUNKED + line
    with served.connect() as sock:
        sock.sendall(data)
        try:
            for _ in range(10_000):
                sock.sendall(b"c" * 4096 if line == b"0;" else line if line.endswith(b"\n") else b"b" * 4096)
        except (BrokenPipeError, ConnectionResetError):
            return
        assert status(rest(sock)) == 431


def test_a_client_that_asks_first_is_told_to_go_on(served: Served) -> None:
    with served.connect() as sock:
        sock.sendall(b"POST /now HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"{}")
        assert sock.recv(100).startswith(b"HTTP/1.1 200")


def test_an_upgrade_is_declined_by_an_answer(served: Served) -> None:
    upgrade = b"GET /now HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nA: b\r\n\r\n"
    with_body = upgrade.replace(b"GET", b"POST").replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\n{}")
    answers = served.say(upgrade + with_body + close(HELLO))
    assert answers.count(b"HTTP/1.1 200 OK") == 3


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"GET /x HTTP/1.1\r\nHost: h\r\nA: " + b"b" * 8000 + b"\r\n\r\n", 431),
        (b"GET /x HTTP/1.1\r\nHost: h\r\nA: " + b"b" * 300_000, 431),
        (b"GET /" + b"x" * 300_000, 431),
        (b"GET /x HTTP/1.1\r\n" + b"".join(b"A%d: b\r\n" % i for i in range(2000)) + b"\r\n", 431),
        (b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1073741824\r\n\r\n", 413),
        (b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1073741824\r\nExpect: 100-continue\r\n\r\n", 413),
        (b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400),
        (b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n400\r\n" + b"a" * 1024 + b"\r\n", 408),
        (b"NONSENSE\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"GET x HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"GET /x HTTP/1.1\r\nHost h\r\n\r\n", 400),
        (b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", 405),
        (b"GET /slow HTTP/1.1\r\nHost: h\r\n", 408),
        (b"POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab", 408),
        (b"GET /fails HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 500),
        (b"GET /fails-later HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 500),
    ],
)
def test_what_is_no_request_gets_an_answer(served: Served, data: bytes, expected: int) -> None:
    answer = served.say(data)
    assert status(answer) == expected
    found = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert found["error_code"] == expected
    assert "Traceback" not in found["message"]


def test_chunks_without_end_are_refused_at_the_limit(served: Served) -> None:
    with served.connect() as sock:
        sock.sendall(b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(1000):
                sock.sendall(b"400\r\n" + b"a" * 1024 + b"\r\n")
        except (BrokenPipeError, ConnectionResetError):
            return
        assert status(rest(sock)) == 413


def test_many_large_bodies_are_refused_above_a_sum() -> None:
    with looped() as loop:
        server = Served(loop, LIMITS._replace(bodies_size_max=20_000, request_s=30.0))
        held = [server.connect() for _ in range(3)]
        for each in held:
            each.sendall(b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 9000\r\n\r\n" + b"a" * 8000)
        deadline = time.monotonic() + 10
        while server.connections.held_bytes != 16_000:
            assert time.monotonic() < deadline, server.connections.held_bytes
            time.sleep(0.01)
        with suppress(ConnectionError):
            for each in held:
                each.sendall(b"a" * 1000)
        assert sorted(status(each.recv(100)) for each in held) == [200, 200, 503]
        for each in held:
            each.close()
        while server.connections.held_bytes:
            assert time.monotonic() < deadline, server.connections.held_bytes
            time.sleep(0.01)
        whole = b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 9000\r\n\r\n" + b"a" * 9000
        assert status(server.say(close(whole))) == 200
        assert server.connections.held_bytes == 0
        server.close()


def test_a_slow_loris_is_closed_in_time(served: Served) -> None:
    started = time.monotonic()
    with served.connect() as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n")
        try:
            while time.monotonic() - started < 10:
                sock.sendall(b"A: b\r\n")
                time.sleep(0.02)
        except (BrokenPipeError, ConnectionResetError):
            pass
    assert time.monotonic() - started < 5


def test_an_idle_connection_is_closed(served: Served) -> None:
    with served.connect() as sock:
        assert rest(sock) == b""


def test_a_client_that_takes_no_answer_is_reset(served: Served) -> None:
    before = len(served.connections.open)
    with served.connect() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(HELLO.replace(b"/now", b"/large") * 100)
        deadline = time.monotonic() + 10
        while len(served.connections.open) <= before and time.monotonic() < deadline:
            time.sleep(0.01)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        while len(served.connections.open) > before:
            assert time.monotonic() < deadline, "the connection is still open"
            time.sleep(0.02)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 100 << 10, "100 answers are not made at once"


@pytest.fixture
def narrow() -> Iterator[Served]:
    """A port for two connections."""
    with looped() as loop:
        server = Served(loop, LIMITS._replace(connections_max=2, request_s=30, idle_s=60, answer_s=30))
        yield server
        server.close()


def test_connections_above_the_limit_are_told_so(narrow: Served) -> None:
    """If all others are being answered."""
    held = [narrow.connect() for _ in range(2)]
    for each in held:
        each.sendall(HELLO.replace(b"now", b"large"))
        assert each.recv(100).startswith(b"HTTP/1.1 200")
    assert status(narrow.say(HELLO)) == 503
    held[0].close()
    deadline = time.monotonic() + 10
    while len(narrow.connections.open) > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert status(narrow.say(close(HELLO))) == 200
    held[1].close()


def test_the_request_that_is_incomplete_the_longest_gives_way(narrow: Served) -> None:
    """A client that never ends its requests shuts nobody out."""
    with narrow.connect() as first, narrow.connect() as second:
        for each in (first, second):
            each.sendall(HELLO[:-2])
            time.sleep(0.1)
        assert status(narrow.say(close(HELLO))) == 200
        assert status(rest(first)) == 503
        second.sendall(b"\r\n")
        assert status(second.recv(1000)) == 200
        assert status(narrow.say(close(HELLO))) == 200


def test_the_connection_that_is_idle_the_longest_gives_way(narrow: Served) -> None:
    with narrow.connect() as first, narrow.connect() as second:
        first.sendall(HELLO)
        assert status(first.recv(1000)) == 200
        time.sleep(0.1)
        second.sendall(HELLO)
        assert status(second.recv(1000)) == 200
        assert status(narrow.say(close(HELLO))) == 200
        assert rest(first) == b""
        second.sendall(close(HELLO))
        assert status(rest(second)) == 200


CHUNKS = b"POST /now HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("head", [CHUNKS, CHUNKS + b"5\r\nabcde\r\n"])
@pytest.mark.parametrize("line", [b"FFFFFFFFFFFFFFFF\r\n", b"2711\r\n", b"2711;a=b\r\n"])
@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_a_chunk_that_is_too_large_is_refused_at_once(narrow: Served, head: bytes, line: bytes, piece: int) -> None:
    data = head + line
    with narrow.connect() as sock:
        for start in range(0, len(data), piece):
            sock.sendall(data[start : start + piece])
            time.sleep(0.002)
        assert status(sock.recv(1000)) == 413


def test_a_chunk_that_has_begun_is_refused(narrow: Served) -> None:
    with narrow.connect() as sock:
        sock.sendall(CHUNKS + b"2710\r\n" + bytes(10_000) + b"\r\n1;a=2\r\n")
        assert status(sock.recv(1000)) == 413
    with narrow.connect() as sock:
        sock.sendall(CHUNKS + b"FFFFFF\r\nFFFFFF\r\n")
        assert status(sock.recv(1000)) == 413


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_what_looks_like_a_chunk_s_size_is_a_body(narrow: Served, piece: int) -> None:
    body = b"FFFFFFFFFFFFFFFF\r\nFFFFFFFFFFFFFFFF\r\n"
    data = close(CHUNKS) + b"%x\r\n%s\r\n" % (len(body), body) * 3 + b"0\r\nFFFFFFFFFFFF: FFFFFFFFFF\r\n\r\n"
    with narrow.connect() as sock:
        for start in range(0, len(data), piece):
            sock.sendall(data[start : start + piece])
            time.sleep(0.001)
        answer = rest(sock)
    assert status(answer) == 200
    assert json.loads(answer.partition(b"\r\n\r\n")[2])[4] == len(body) * 3


def test_an_answer_is_written_as_http_has_it() -> None:
    answer = error_answer(40401, "Subject 's' not found.")
    assert encode(answer, keeps=False) == (
        b"HTTP/1.1 404 Not Found\r\nContent-Type: application/vnd.schemaregistry.v1+json\r\nContent-Length: 55\r\n"
        b'Connection: close\r\n\r\n{"error_code":40401,"message":"Subject \'s\' not found."}'
    )


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"GET /now HTTP/1.1\r\n", 400),
        (b"GET /now HTTP/1.1\r\nHost: a\r\nHost: b\r\n", 400),
        (b"GET /now HTTP/1.1\r\nHost: a, b\r\n", 400),
        (b"GET /now HTTP/1.0\r\n", 200),
        (b"GET /now HTTP/1.0\r\nHost: a\r\nHost: b\r\n", 400),
    ],
)
def test_a_request_names_one_host(served: Served, head: bytes, expected: int) -> None:
    assert status(served.say(head + b"Connection: close\r\n\r\n")) == expected

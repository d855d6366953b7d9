"""An S3 server on this machine, and a proxy before it that does what networks and servers do when they fail."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote
from uuid import uuid4

import boto3

from tests.conftest import SAMPLES

SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""
REGION = "us-east-1"
Reply = Iterable[bytes | float]
"""Bytes to send and seconds to wait; the connection is closed behind them."""
Fault = Callable[[bytes, Callable[[], bytes]], Reply]
"""What the proxy answers: takes the request, and what fetches the server's whole answer to it."""


@contextmanager
def s3_server() -> Iterator[str]:
    """A process of moto's server, which ends with this one; its URL."""
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.stdin.close()


@contextmanager
def sample_server(directory: Path) -> Iterator[str]:
    """Run the S3 server of samples/ until the context ends, by kill -9; yield its URL."""
    command = [sys.executable, str(SAMPLES / "s3_server.py"), str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


def client(endpoint: str) -> boto3.client:
    """Amazon's own client of it."""
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    return boto3.client("s3", endpoint_url=endpoint, region_name=REGION, **keys)


def new_bucket(endpoint: str) -> str:
    """Create a bucket that no other test, and no earlier run of this one, has written to; return its name."""
    name = f"bucket-{uuid4()}"
    client(endpoint).create_bucket(Bucket=name)
    return name


def pass_on(_: bytes, answer: Callable[[], bytes]) -> Reply:
    """No fault."""
    yield answer()


class Proxy:
    """A proxy before a server. fault: what it does to the next requests. seen: all of them."""

    def __init__(self, server: str) -> None:
        host, _, port = server.removeprefix("http://").partition(":")
        self._server = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.fault: Fault = pass_on
        self.seen: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def lines(self) -> list[str]:
        """The first line of each request, without %-codes."""
        return [unquote(each.partition(b"\r\n")[0].decode()) for each in self.seen]

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                request = _request(connection)
                self.seen.append(request)
                for part in self.fault(request, lambda: self._ask(request)):
                    if isinstance(part, float):
                        time.sleep(part)
                    else:
                        connection.sendall(part)
            except OSError:
                return

    def _ask(self, request: bytes) -> bytes:
        line, _, rest = request.partition(b"\r\n")
        with socket.create_connection(self._server) as server:
            server.sendall(line + b"\r\nConnection: close\r\n" + rest)
            return b"".join(iter(lambda: server.recv(1 << 16), b""))


def _request(connection: socket.socket) -> bytes:
    """Receive a request whole."""
    data = b""
    while b"\r\n\r\n" not in data:
        got = connection.recv(1 << 16)
        if not got:
            raise ConnectionResetError
        data += got
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    missing = int(lengths[0]) - len(body) if lengths else 0
    while missing > 0:
        got = connection.recv(1 << 16)
        if not got:
            raise ConnectionResetError
        data += got
        missing -= len(got)
    return data


def http(status: str, body: bytes = b"", *headers: str) -> bytes:
    """An answer of a server."""
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
    return "\r\n".join(head).encode() + body


def s3_error(status: str, code: str) -> bytes:
    """An answer of S3 that says what is wrong."""
    return http(status, f"<Error><Code>{code}</Code><Message>Secret is s3cr3t</Message></Error>".encode())

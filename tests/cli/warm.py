"""A process that has imported kcli's commands and a node, and forks for each call: `python -m tests.cli.warm FD`.

A fresh interpreter spends more time on imports than most calls on their work. A forked child differs from it only in
what is imported, and which readers of messages are compiled, already; it ends as any interpreter does. Modules that
start threads are not imported here.

    request   through the socket FD: JSON of argv, cwd, env, with descriptors for stdin, stdout, stderr and a channel
    channel   of each child: its process id, and once it has ended its exit status, as JSON
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import FrameType
from typing import IO, Any, Final

REQUEST_BYTES: Final = 1 << 20
DESCRIPTORS: Final = 4
PACKAGES: Final = (
    "formats",
    "kcli.broker.api",
    "kcli.cli",
    "kcli.client",
    "kcli.inspector",
    "kcli.launcher",
    "kcli.log",
    "kcli.metadata_log",
    "kcli.views",
)
MODULES: Final = (
    "confluent_kafka.admin",
    "cramjam",
    "encodings.utf_16_be",
    "isal.isal_zlib",
    "kcli.broker.process.log_lines",
    "kcli.broker.startup.secure",
    "lz4.block",
    "rich.progress",
    "rich.table",
    "typer._click.decorators",
    "xxhash",
)
File = IO[bytes] | IO[str] | int
SPARKS: Final = {"kcli.cli.export", "kcli.cli.export_to_parquet", "kcli.cli.import_from_parquet"}


class Forked:
    """A forked process, with those methods of subprocess.Popen that tests use. stdout, stderr: where they are pipes."""

    def __init__(self, channel: socket.socket, stdout: IO[str] | None = None, stderr: IO[str] | None = None) -> None:
        self._channel, self.stdout, self.stderr = channel, stdout, stderr
        self.pid: int = json.loads(channel.recv(REQUEST_BYTES))
        self.returncode: int | None = None
        self._lock = threading.Lock()

    def _ended(self, timeout: float | None) -> int | None:
        with self._lock:
            if self.returncode is None:
                self._channel.settimeout(timeout)
                try:
                    self.returncode = json.loads(self._channel.recv(REQUEST_BYTES))
                except (TimeoutError, BlockingIOError):
                    return None
                self._channel.close()
            return self.returncode

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit status. Raises TimeoutExpired."""
        status = self._ended(timeout)
        if status is None:
            assert timeout is not None, "it was waited for"
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end; return what is left in the pipes, "" for what is none. Raises TimeoutExpired."""
        texts = ["", ""]

        def read(number: int, stream: IO[str]) -> None:
            with stream:
                texts[number] = stream.read()

        pipes = [(number, each) for number, each in enumerate((self.stdout, self.stderr)) if each is not None]
        readers = [threading.Thread(target=read, args=each, daemon=True) for each in pipes if not each[1].closed]
        for each in readers:
            each.start()
        self.wait(timeout)
        for each in readers:
            each.join(timeout)
        return texts[0], texts[1]


class WarmKcli:
    """The client's side: the process, started at the first call."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.cli.warm", str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd=Path(__file__).parents[2])
        theirs.close()

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        self._process.wait()

    def _fork(self, arguments: list[str], cwd: Path, env: Mapping[str, str] | None, files: list[int]) -> socket.socket:
        """Fork kcli; return its channel. files: descriptors for stdin, stdout and stderr."""
        channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = json.dumps([arguments, str(cwd), dict(os.environ if env is None else env)])
        with theirs:
            socket.send_fds(self._socket, [request.encode("utf-8", "surrogateescape")], [*files, theirs.fileno()])
        return channel

    def run(
        self, arguments: list[str], cwd: Path, *, env: dict[str, str] | None, given: bytes | None, timeout: float
    ) -> tuple[bytes, bytes, int]:
        """Run kcli; return stdout, stderr and the exit status, negative for a signal. given: the bytes of stdin.
        Raises TimeoutExpired."""
        with (
            tempfile.TemporaryFile() as stdin,
            tempfile.TemporaryFile() as stdout,
            tempfile.TemporaryFile() as stderr,
        ):
            if given is not None:
                stdin.write(given)
                stdin.seek(0)
            forked = Forked(self._fork(arguments, cwd, env, [each.fileno() for each in (stdin, stdout, stderr)]))
            try:
                status = forked.wait(timeout)
            except subprocess.TimeoutExpired:
                forked.kill()
                forked.wait()
                raise subprocess.TimeoutExpired(arguments, timeout) from None
            stdout.seek(0)
            stderr.seek(0)
            return stdout.read(), stderr.read(), status

    def start(
        self,
        arguments: list[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: File | None = None,
        stdout: File | None = None,
        stderr: File | None = None,
    ) -> Forked:
        """Start kcli. cwd, env: by default this process's. stdin, stdout, stderr: files or descriptors, by default
        nothing to read and pipes of text."""
        pipes: list[IO[str] | None] = []
        ours: list[int] = []
        theirs = []
        for file in (stdout, stderr):
            if file is None:
                end, other = os.pipe()
                pipes.append(os.fdopen(end, encoding="utf-8"))
                ours.append(other)
            else:
                other = _descriptor(file)
                pipes.append(None)
            theirs.append(other)
        with Path(os.devnull).open("rb") as nothing:
            given = nothing.fileno() if stdin is None else _descriptor(stdin)
            channel = self._fork(arguments, cwd or Path.cwd(), env, [given, *theirs])
        for each in ours:
            os.close(each)
        return Forked(channel, *pipes)


def _descriptor(file: File) -> int:
    return file if isinstance(file, int) else file.fileno()


@cache
def warm_kcli() -> WarmKcli:
    """The one of this process."""
    return WarmKcli()


def _become(arguments: list[str], cwd: str, env: dict[str, str], files: list[int]) -> None:
    """Make this forked process the one that was asked for."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path[0] = cwd
    sys.argv = ["kcli", *arguments]
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        like = getattr(sys, name)
        stream = open(number, mode, encoding=like.encoding, errors=like.errors, closefd=False)  # noqa: SIM115  (to the end)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _serve(sock: socket.socket) -> bool:
    """Fork for each request. Return True in a child, False where the client has closed."""
    channels: dict[int, socket.socket] = {}

    def reap(_number: int = 0, _frame: FrameType | None = None) -> None:
        for pid in list(channels):
            try:
                ended, status = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:  # a signal has come within this loop, and was served before it goes on
                continue
            if ended:
                with channels.pop(pid) as channel, contextlib.suppress(OSError):
                    channel.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())

    signal.signal(signal.SIGCHLD, reap)
    while True:
        data, files, _, _ = socket.recv_fds(sock, REQUEST_BYTES, DESCRIPTORS)
        if not data:
            return False
        request: Any = json.loads(data.decode("utf-8", "surrogateescape"))
        *files, channel_fd = files
        channel = socket.socket(fileno=channel_fd)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        child = os.fork()
        if child == 0:
            for each in (sock, channel, *channels.values()):
                each.close()
            arguments, cwd, env = request
            _become(arguments, cwd, env, files)
            return True
        for file in files:
            os.close(file)
        channel.send(json.dumps(child).encode())
        channels[child] = channel
        signal.signal(signal.SIGCHLD, reap)
        reap()


def _import_all() -> None:
    from formats.message import reader, schema_files, schemas
    from kcli.broker.dispatch.preload import preload
    from kcli.launcher.node_process import import_all

    import_all()
    for package in map(import_module, PACKAGES):
        for each in walk_packages(package.__path__, f"{package.__name__}."):
            if each.name not in SPARKS:
                import_module(each.name)
    for name in MODULES:
        import_module(name)
    preload(threading.Event(), 0.0)
    for file in schema_files():
        for message in schemas(file):
            for version in range(message.versions.low, message.versions.high + 1):
                reader(message.name, version)


def _main() -> None:
    _import_all()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        if _serve(socket.socket(fileno=int(sys.argv[1]))):
            from kcli.cli import main

            main()


if __name__ == "__main__":
    _main()

"""A process that has imported kcli's commands, and forks for each call: `python -m tests.cli.warm FD`.

A fresh interpreter spends more time on imports than most calls on their work. A forked child differs from it only in
what is imported already; it ends as any interpreter does. Modules that start threads are not imported here.

    request   through the socket FD: JSON of argv, cwd, env, with the descriptors for stdin, stdout, stderr
    reply     the child's process id, and once it has ended its exit status, as JSON lines
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
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

REQUEST_BYTES: Final = 1 << 20
DESCRIPTORS: Final = 3
IMPORTED: Final = (
    "kcli.cli.app",
    "kcli.cli.dump_segment",
    "kcli.cli.verify",
    "kcli.cli.recover",
    "kcli.cli.compact",
    "kcli.cli.format",
    "kcli.cli.topics",
    "kcli.cli.groups",
    "kcli.cli.transactions",
    "kcli.cli.acls",
    "kcli.cli.users",
    "kcli.inspector.verify.directory",
    "kcli.inspector.cluster_metadata",
    "kcli.log.recovery.plan",
    "kcli.log.recovery.salvage",
    "kcli.metadata_log.recovery",
    "rich.table",
)


class WarmKcli:
    """The client's side: the process, started at the first call."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.cli.warm", str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd=Path(__file__).parents[2])
        theirs.close()

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
            request = json.dumps([arguments, str(cwd), dict(os.environ if env is None else env)])
            files = [each.fileno() for each in (stdin, stdout, stderr)]
            socket.send_fds(self._socket, [request.encode("utf-8", "surrogateescape")], files)
            child = json.loads(self._socket.recv(REQUEST_BYTES))
            self._socket.settimeout(timeout)
            try:
                status = json.loads(self._socket.recv(REQUEST_BYTES))
            except TimeoutError:
                os.kill(child, signal.SIGKILL)
                self._socket.settimeout(None)
                self._socket.recv(REQUEST_BYTES)
                raise subprocess.TimeoutExpired(arguments, timeout) from None
            stdout.seek(0)
            stderr.seek(0)
            return stdout.read(), stderr.read(), status


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
    while True:
        data, files, _, _ = socket.recv_fds(sock, REQUEST_BYTES, DESCRIPTORS)
        if not data:
            return False
        request: Any = json.loads(data.decode("utf-8", "surrogateescape"))
        child = os.fork()
        if child == 0:
            sock.close()
            arguments, cwd, env = request
            _become(arguments, cwd, env, files)
            return True
        for file in files:
            os.close(file)
        sock.send(json.dumps(child).encode())
        _, status = os.waitpid(child, 0)
        sock.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())


def _main() -> None:
    for name in IMPORTED:
        import_module(name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        if _serve(socket.socket(fileno=int(sys.argv[1]))):
            from kcli.cli import main

            main()


if __name__ == "__main__":
    _main()

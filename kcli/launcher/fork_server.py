"""A process that has imported all that a node needs, and is forked for each: they start in ms and share its memory.

It is forked from the launcher before there is an event loop or a thread, and has neither itself. Over one socket:

    launcher ->   {"start": node, "config": path}, and two descriptors: the node's channel, where its output goes
    -> launcher   {"started": pid}              the answer to each
                  {"exited": pid, "status": n}  a node's process has ended; -9: by signal 9

Nodes are in a process group of their own: an interrupt from the terminal is the launcher's alone. Where the launcher
has gone, each node sees the end of its own channel and stops; what has not stopped in time is killed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kcli.errors import KcliError

NodeMain = Callable[[int, Path, socket.socket], int]
"""(node id, its server.properties, its channel) -> exit status"""

LINE_BYTES = 64 << 10
ORPHANS_STOP_S = 30.0


class ForkServerDied(KcliError):
    """The process that starts nodes is gone."""


class ForkServer:
    """The launcher's side. on_exit(pid, status) hears of ends, on_death of its own."""

    def __init__(self, main: NodeMain) -> None:
        """Fork it, from a process that has imported what nodes need."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        gc.collect()
        gc.freeze()  # a collection in a child would write to, and so copy, every page that has an object
        self.pid = os.fork()
        if not self.pid:
            self._socket.close()
            _end(lambda: _serve(theirs, main))
        theirs.close()
        self._socket.setblocking(False)
        self._received = b""
        self._answer: asyncio.Future[int] | None = None
        self._lock = asyncio.Lock()
        self.on_exit: Callable[[int, int], None] = lambda _pid, _status: None
        self.on_death: Callable[[], None] = lambda: None

    def attach(self) -> None:
        """Listen to it on the running loop."""
        asyncio.get_running_loop().add_reader(self._socket, self._read)

    async def start(self, node: int, config: Path, channel: socket.socket, output: int) -> int:
        """Start a node. Returns its pid. Raises ForkServerDied."""
        async with self._lock:
            self._answer = asyncio.get_running_loop().create_future()
            request = json.dumps({"start": node, "config": str(config)}) + "\n"
            try:
                socket.send_fds(self._socket, [request.encode()], [channel.fileno(), output])
            except OSError as error:
                raise ForkServerDied("the process that starts nodes is gone") from error
            return await self._answer

    def close(self) -> None:
        """Let it go; it ends once its nodes have. Wait for it."""
        with suppress(RuntimeError):
            asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _read(self) -> None:
        try:
            data = self._socket.recv(LINE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._socket)
            if self._answer is not None and not self._answer.done():
                self._answer.set_exception(ForkServerDied("the process that starts nodes is gone"))
            self.on_death()
            return
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            told = json.loads(line)
            if "started" in told:
                assert self._answer is not None, "asked"
                self._answer.set_result(told["started"])
            else:
                self.on_exit(told["exited"], told["status"])


def _serve(control: socket.socket, main: NodeMain) -> int:
    os.setpgid(0, 0)
    woken, wake = os.pipe()
    for each in (woken, wake):
        os.set_blocking(each, False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(woken, select.POLLIN)
    running: set[int] = set()
    while True:
        for fd, _ in poll.poll():
            if fd == woken:
                os.read(woken, LINE_BYTES)
                for pid, status in _ended(running):
                    with suppress(OSError):
                        control.sendall(f'{{"exited":{pid},"status":{status}}}\n'.encode())
                continue
            request, descriptors, _, _ = socket.recv_fds(control, LINE_BYTES, 2)
            if not request:
                return _orphaned(running)
            asked = json.loads(request)
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                control.close()
                os.close(woken)
                os.close(wake)
                _end(lambda asked=asked, fds=descriptors: _node(asked, fds, main))  # type: ignore[misc]
            for each in descriptors:
                os.close(each)
            running.add(pid)
            control.sendall(f'{{"started":{pid}}}\n'.encode())


def _ended(running: set[int]) -> list[tuple[int, int]]:
    """Pids that have ended, with how."""
    found = []
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            break
        running.discard(pid)
        found.append((pid, os.waitstatus_to_exitcode(status)))
    return found


def _orphaned(running: set[int]) -> int:
    deadline = time.monotonic() + ORPHANS_STOP_S
    while running and time.monotonic() < deadline:
        _ended(running)
        time.sleep(0.02)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    return 0


def _node(asked: dict[str, object], descriptors: list[int], main: NodeMain) -> int:
    channel, output = descriptors
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    return main(int(str(asked["start"])), Path(str(asked["config"])), socket.socket(fileno=channel))


def _end(run: Callable[[], int]) -> None:
    """What a forked process does instead of going on: run this, and nothing that its parent had in mind."""
    status = 1
    try:
        status = run()
    except BaseException:  # noqa: BLE001  (nobody is there to catch it)
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(status)

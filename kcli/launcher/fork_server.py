"""The fork server: a process that has imported all modules of a node and is forked for each node.

A forked node starts within milliseconds and shares the imported modules' memory. The launcher forks the server before
it has an event loop or a thread; the server has neither. Launcher and server exchange JSON lines:

    launcher ->   {"start": node, "config": path}, and two descriptors: the node's channel, the node's output
    -> launcher   {"started": pid}              the answer to each "start"
                  {"exited": pid, "status": n}  a node's process has ended; -9: by signal 9

The nodes' process group is not the launcher's, so an interrupt from the terminal reaches only the launcher. When the
launcher ends, each node's channel closes and the node stops; the server kills the nodes that still run after 30 s.
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
"""The main function of a node's process: is called with node id, server.properties and channel, and returns the exit
status."""

LINE_BYTES = 64 << 10
ORPHANS_STOP_S = 30.0


class ForkServerDied(KcliError):
    """The fork server's process has ended."""


class ForkServer:
    """The launcher's side of the fork server.

    on_exit(pid, status): called when a node's process has ended; on_death(): when the fork server has ended.
    """

    def __init__(self, main: NodeMain) -> None:
        """Fork the server, which runs `main` in each node's process. Before this call, import the modules that a node
        needs, so that all nodes share their memory."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        gc.collect()
        gc.freeze()  # otherwise a garbage collection in a child would write to, and so copy, all shared pages
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
        """From now on, read the fork server's messages on the running event loop, and call `on_exit` and `on_death`."""
        asyncio.get_running_loop().add_reader(self._socket, self._read)

    async def start(self, node: int, config: Path, channel: socket.socket, output: int) -> int:
        """Start a node's process and return its pid. node: its node id. config: the path of its server.properties.
        channel: the node's end of a socket pair with the launcher. output: descriptor for its stdout and stderr. Raises
        ForkServerDied."""
        async with self._lock:
            self._answer = asyncio.get_running_loop().create_future()
            request = json.dumps({"start": node, "config": str(config)}) + "\n"
            try:
                socket.send_fds(self._socket, [request.encode()], [channel.fileno(), output])
            except OSError as error:
                raise ForkServerDied("the process that starts nodes has ended") from error
            return await self._answer

    def close(self) -> None:
        """Close the socket, and wait for the server, which ends after its nodes."""
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
                self._answer.set_exception(ForkServerDied("the process that starts nodes has ended"))
            self.on_death()
            return
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "started" in message:
                assert self._answer is not None, "a start was requested"
                self._answer.set_result(message["started"])
            else:
                self.on_exit(message["exited"], message["status"])


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
            line, descriptors, _, _ = socket.recv_fds(control, LINE_BYTES, 2)
            if not line:
                return _orphaned(running)
            request = json.loads(line)
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                control.close()
                os.close(woken)
                os.close(wake)
                _end(lambda request=request, fds=descriptors: _node(request, fds, main))  # type: ignore[misc]
            for each in descriptors:
                os.close(each)
            running.add(pid)
            control.sendall(f'{{"started":{pid}}}\n'.encode())


def _ended(running: set[int]) -> list[tuple[int, int]]:
    """Return pid and exit status of the processes that have ended, and remove them from `running`."""
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


def _node(request: dict[str, object], descriptors: list[int], main: NodeMain) -> int:
    channel, output = descriptors
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    return main(int(str(request["start"])), Path(str(request["config"])), socket.socket(fileno=channel))


def _end(run: Callable[[], int]) -> None:
    """Call `run`, and end this process, which was just forked, with the status that `run` returns, or 1 after an
    exception. So the process never returns to the launcher's code that it was forked from."""
    status = 1
    try:
        status = run()
    except BaseException:  # noqa: BLE001  (nobody is there to catch it)
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(status)

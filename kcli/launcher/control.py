"""The launcher's socket, `control.sock` below the data directory, which only the launcher's user may connect to.

A request and its answer are one JSON object each, on a line; a connection may send several requests.

    {"command": "status"}                           -> {"cluster": ..., "nodes": [...], ...}
    {"command": "stop"}                             -> {} when all nodes have stopped; then the launcher ends
    {"command": "stop" | "start" | "restart" | "pause" | "resume", "node": 2}   -> {} after the command has taken effect
    {"command": "kill", "node": 2, "stays_down": false}                         -> {}
    an invalid or refused request                   -> {"error": "..."}

Source: none, the protocol is kcli's own. The path may be longer than a socket address (108 bytes): it is then bound and
connected to through /proc/self/fd.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from kcli.broker.process.unattended import report
from kcli.errors import KcliError, error_text
from kcli.launcher.directory import ClusterDirectory
from kcli.launcher.paths import reachable
from kcli.launcher.plan import bootstrap
from kcli.launcher.supervisor import Child, Refused, Supervisor

REQUEST_BYTES_MAX = 64 << 10
KIB = 1024

Answer = dict[str, Any]


class ControlServer:
    """Answers the requests on the launcher's socket. stop_all: stops all nodes, and returns when they have ended."""

    def __init__(
        self, cluster: ClusterDirectory, supervisor: Supervisor, stop_all: Callable[[], Awaitable[None]]
    ) -> None:
        self._cluster, self._supervisor, self._stop_all = cluster, supervisor, stop_all
        self._since_ms = int(time.time() * 1000)
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen on the socket. An existing socket file is replaced: a launcher that has died left it, since this
        launcher holds the directory's lock. Raises OSError."""
        path = self._cluster.control_socket
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            with reachable(path) as name:
                self._server = await asyncio.start_unix_server(self._serve, name, limit=REQUEST_BYTES_MAX)
        finally:
            os.umask(before)

    def close(self) -> None:
        """Stop listening and remove the socket."""
        if self._server is not None:
            self._server.close()
        self._cluster.control_socket.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # ValueError: a line of more than 64 KiB. CancelledError: the launcher ends.
        with suppress(OSError, ValueError, asyncio.CancelledError):
            while line := await reader.readline():
                writer.write(json.dumps(await self._answer(line)).encode() + b"\n")
                await writer.drain()
        writer.close()

    async def _answer(self, line: bytes) -> Answer:
        try:
            return await self._do(_request(line))
        except (KcliError, OSError) as error:
            return {"error": error_text(error)}
        except Exception as error:  # noqa: BLE001  (a bug ends one request, not the launcher)
            report("a request on the control socket failed", error)
            return {"error": f"the launcher failed: {type(error).__name__}"}

    async def _do(self, request: dict[str, Any]) -> Answer:
        supervisor, command, node = self._supervisor, request.get("command"), request.get("node")
        if command == "status":
            return self._status()
        if command == "stop" and node is None:
            await self._stop_all()
            return {}
        if not isinstance(command, str):
            raise Refused("a request has a command")
        if not isinstance(node, int):
            raise Refused(f"{command}: which node?")
        match command:
            case "stop":
                await supervisor.stop(node)
            case "start":
                await supervisor.start(node)
            case "restart":
                await supervisor.restart(node)
            case "kill":
                await supervisor.kill(node, stays_down=bool(request.get("stays_down")))
            case "pause":
                supervisor.pause(node)
            case "resume":
                supervisor.resume(node)
            case _:
                raise Refused(f"{command}: no such command")
        return {}

    def _status(self) -> Answer:
        cluster = self._cluster
        return {
            "cluster": cluster.cluster_id,
            "data": str(cluster.path),
            "bootstrap": bootstrap(cluster.plans),
            "launcher": {"pid": os.getpid(), "since_ms": self._since_ms, "memory": memory_bytes(os.getpid())},
            "nodes": [_node(each) for each in self._supervisor.children.values()],
        }


def _request(line: bytes) -> dict[str, Any]:
    """Return the JSON object in a line. Raises Refused if the line is no JSON object."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):  # no JSON; JSON nested too deeply
        raise Refused("a request is a line of JSON") from None
    if not isinstance(request, dict):
        raise Refused("a request is an object")
    return request


def _node(child: Child) -> Answer:
    return {
        "id": child.id,
        "roles": list(child.plan.roles),
        "address": child.plan.address,
        "state": child.state.value,
        "pid": child.pid,
        "since_ms": None if child.pid is None else child.started_ms,
        "memory": None if child.pid is None else memory_bytes(child.pid),
        "restarts": child.restarts,
        "last_exit": child.last_exit,
    }


def memory_bytes(pid: int) -> int | None:
    """Return the memory of a process in bytes, to which a page that n processes share contributes an nth of its size
    (Pss); None if /proc does not show it."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * KIB for line in lines if line.startswith("Pss:")), None)

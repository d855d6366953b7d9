"""Send a request to the control socket of a running launcher; kcli.launcher.control lists the requests."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from kcli.errors import KcliError
from kcli.launcher.paths import CONTROL_SOCKET, is_cluster, reachable

PART_BYTES = 64 << 10
ANSWER_BYTES_MAX = 16 << 20


class NoLauncher(KcliError):
    """No launcher runs the cluster of the directory."""


class LauncherRefused(KcliError):
    """The launcher refused the request; the message is its reason."""


def ask(data_dir: Path, command: str, **more: object) -> dict[str, Any]:
    """Send a request to the launcher of the cluster in `data_dir`, and return the fields of its answer; {} for a
    command that has no result. There is no timeout. command: the request's name. more: the request's other fields, such
    as `node`. Raises NoLauncher, LauncherRefused."""
    path = data_dir.absolute() / CONTROL_SOCKET
    try:
        with reachable(path) as name, socket.socket(socket.AF_UNIX) as connection:
            connection.connect(name)
            connection.sendall(json.dumps({"command": command, **more}).encode() + b"\n")
            data = bytearray()
            while not data.endswith(b"\n"):
                part = connection.recv(PART_BYTES)
                if not part:
                    raise NoLauncher(f"{data_dir}: its launcher has ended")
                data += part
                if len(data) > ANSWER_BYTES_MAX:
                    raise NoLauncher(f"{path}: no launcher answers there")
    except OSError as error:
        if not is_cluster(data_dir):
            raise NoLauncher(f"{data_dir}: no cluster of `kcli serve --nodes`") from error
        raise NoLauncher(f"{data_dir}: the cluster is not running ({error.strerror or error})") from error
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise NoLauncher(f"{path}: no launcher answers there")
    if "error" in answer:
        raise LauncherRefused(answer["error"])
    return answer

"""The file names in the directory of a cluster on one machine.

.lock                      held by the launcher
control.sock               the launcher's socket, while it runs
node-1/server.properties   Kafka's configuration names; a change takes effect at the node's next start
node-1/data/               the node's log directory, formatted as Kafka does it: Kafka can open it
node-2/ ...
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SERVER_PROPERTIES = "server.properties"
CONTROL_SOCKET = "control.sock"
ADDRESS_BYTES_MAX = 100


def is_cluster(path: Path) -> bool:
    """Whether `kcli serve --nodes` made this directory: it has the server.properties of a node."""
    return any(path.glob(f"node-*/{SERVER_PROPERTIES}"))


def node_directory(home: Path, node: int) -> Path:
    """Return the directory of a node, with its configuration and data."""
    return home / f"node-{node}"


def data_directory(home: Path, node: int) -> Path:
    """Return a node's log directory."""
    return node_directory(home, node) / "data"


def server_properties(data: Path) -> Path | None:
    """Return the server.properties of the node that has the log directory `data`; None if `kcli serve --nodes` did not
    make that directory."""
    found = data.absolute().parent / SERVER_PROPERTIES
    return found if is_cluster(found.parent.parent) and found.is_file() else None


@contextmanager
def reachable(path: Path) -> Iterator[str]:
    """Yield a path by which the socket `path` can be bound or connected to. An address of a Unix socket has at most
    some 100 bytes, so a longer path is replaced by a short one in /proc, valid within the `with` block. Raises
    OSError."""
    if len(os.fsencode(path)) <= ADDRESS_BYTES_MAX:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)

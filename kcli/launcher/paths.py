"""Names in the directory of a cluster on one machine.

.lock                      held by the launcher
control.sock               the launcher's socket, while it runs
node-1/server.properties   Kafka's names; what is changed here holds from the node's next start
node-1/data/               the node's log directory, formatted: real Kafka opens it
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
    """Is this a directory that `kcli serve --nodes` made?"""
    return any(path.glob(f"node-*/{SERVER_PROPERTIES}"))


def node_directory(home: Path, node: int) -> Path:
    """What belongs to a node."""
    return home / f"node-{node}"


def data_directory(home: Path, node: int) -> Path:
    """A node's log directory."""
    return node_directory(home, node) / "data"


@contextmanager
def reachable(path: Path) -> Iterator[str]:
    """A name for a socket that is no longer than an address may be, good within the block. Raises OSError."""
    if len(os.fsencode(path)) <= ADDRESS_BYTES_MAX:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)

"""What a node's process does, once it is forked: `kcli serve --config` of its server.properties, with the launcher at
the other end of a socket."""

from __future__ import annotations

import logging
import socket
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from kcli.errors import KcliError

log = logging.getLogger("kcli.broker")
MODULES = ("kcli.broker.node", "kcli.broker.serve", "kcli.broker.supervised", "kcli.broker.single_node", "uvloop")
PROCESS_NAME = Path("/proc/self/comm")


def run_node(node: int, config: Path, channel: socket.socket) -> int:
    """Serve until a signal, or until the launcher has gone. Returns the exit status; why it is not 0 is logged."""
    from kcli.broker.serve import serve
    from kcli.broker.single_node import single_node_config
    from kcli.log.log_directory import read_properties

    with suppress(OSError):
        PROCESS_NAME.write_text(f"kcli node {node}")
    try:
        serve(single_node_config(None, None, None, read_properties(config), {}), lambda _: None, launcher=channel)
    except (KcliError, OSError) as error:
        log.error("%s", error)  # noqa: TRY400  (one line for people)
        return error.exit_status if isinstance(error, KcliError) else 1
    return 0


def import_all() -> None:
    """Import what a node needs, so that forked processes need not, and share it."""
    for module in MODULES:
        import_module(module)

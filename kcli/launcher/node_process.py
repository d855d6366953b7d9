"""The main function of a forked node process: `kcli serve --config` with the node's server.properties and a socket to
the launcher."""

from __future__ import annotations

import logging
import socket
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from kcli.errors import KcliError, error_text

log = logging.getLogger("kcli.broker")
PACKAGES = (
    "kcli.raft",
    "kcli.broker.metadata",
    "kcli.broker.network",
    "kcli.broker.wire",
    "kcli.broker.replication",
)
MODULES = (
    "encodings.idna",
    "uvloop",
    "kcli.broker.startup.serve",
    "kcli.broker.config.single_node",
    "kcli.broker.startup.supervised",
)
BETWEEN_NODES = {
    "alter_partition",
    "api_versions",
    "begin_quorum_epoch",
    "broker_heartbeat",
    "broker_registration",
    "controller_registration",
    "fetch",
    "update_raft_voter",
    "vote",
}
RAFT_FETCH_VERSION = 17
PROCESS_NAME = Path("/proc/self/comm")


def run_node(node: int, config: Path, channel: socket.socket) -> int:
    """Serve the node until a signal comes or the launcher ends; then return the exit status. A nonzero status means
    that an error has been logged. config: the node's server.properties. channel: the node's socket to the launcher."""
    from kcli.broker.config.single_node import single_node_config
    from kcli.broker.startup.serve import serve
    from kcli.log.log_directory import read_properties

    with suppress(OSError):
        PROCESS_NAME.write_text(f"kcli node {node}")
    try:
        served = single_node_config(None, None, None, read_properties(config), {})
        serve(served, lambda _: None, joinable=True, launcher=channel)
    except (KcliError, OSError) as error:
        log.error("%s", error_text(error))  # noqa: TRY400  (one line for people)
        return error.exit_status if isinstance(error, KcliError) else 1
    return 0


def import_all() -> None:
    """Import the modules that a node needs to start and to join its cluster, so that forked processes share them."""
    for module in MODULES:
        import_module(module)
    for package in map(import_module, PACKAGES):
        for each in iter_modules(package.__path__, f"{package.__name__}."):
            import_module(each.name)
    from kcli.broker.dispatch.handlers import handler
    from kcli.broker.wire.apis import APIS
    from kcli.broker.wire.messages import messages

    for api in APIS.values():
        if api.name in BETWEEN_NODES:
            handler(api.key)
            messages(api.key, api.most)
            if api.name == "fetch":
                messages(api.key, RAFT_FETCH_VERSION)

"""The configuration of the only node of a cluster: server.properties, and the values that such a node needs besides.

Without a file the node id, unless it is an option, is that in the data directory's meta.properties, else 1, and the
internal topics have one replica, as there is one broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from formats.file_name import FileKind
from kcli.broker.config import BrokerConfig
from kcli.broker.config.security import PLAINTEXT
from kcli.log.log_directory import read_properties

CONTROLLER = "CONTROLLER"
CONTROLLER_PORT = 9093
ONE_REPLICA = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


def single_node_config(
    data_dir: Path | None,
    listen: tuple[str, int] | None,
    advertise: tuple[str, int] | None,
    file: Mapping[str, str] | None,
    options: Mapping[str, str],
    protocol: str = PLAINTEXT,
) -> BrokerConfig:
    """Return the node's configuration.

    file: the properties of --config, None without --config; options override them. listen: the host and port at which
    the listener named after `protocol` listens; None for the address in `file`, or without `file` for 127.0.0.1:9092.
    advertise: the host and port that Metadata responses name for that listener; None for the address at which it
    listens, or without `listen` for the advertised address in `file`. data_dir: the log directory, None if the file or
    the options have log.dirs.

    Raises InvalidConfig, UnreadableInput.
    """
    if file is None:
        listen = listen or ("127.0.0.1", 9092)
        first = Path(options["log.dirs"].partition(",")[0]) if data_dir is None else data_dir
        node_id = options.get("node.id") or _known_node_id(first)
        entries = {
            "process.roles": "broker,controller",
            "node.id": node_id,
            "controller.listener.names": CONTROLLER,
            "controller.quorum.voters": f"{node_id}@localhost:{_controller_port(listen[1])}",
            **ONE_REPLICA,
        }
    else:
        entries = dict(file)
    if data_dir is not None:
        entries["log.dirs"] = str(data_dir)
        entries.pop("metadata.log.dir", None)
    if listen is not None:
        host, port = listen
        others = [each for each in entries.get("listeners", "").split(",") if each and not _is_named(each, protocol)]
        controller = f"{CONTROLLER}://localhost:{_controller_port(port)}"
        entries["listeners"] = ",".join([f"{protocol}://{_bracketed(host)}:{port}", *(others or [controller])])
        entries.pop("advertised.listeners", None)
    if advertise is not None:
        host, port = advertise
        others = [each for each in entries.get("advertised.listeners", "").split(",") if each]
        others = [each for each in others if not _is_named(each, protocol)]
        entries["advertised.listeners"] = ",".join([f"{protocol}://{_bracketed(host)}:{port}", *others])
    return BrokerConfig({**entries, **options})


def _is_named(listener: str, name: str) -> bool:
    return listener.strip().upper().startswith(f"{name}:")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _controller_port(port: int) -> int:
    """Return a port other than `port` for the controller listener, which is never bound."""
    return CONTROLLER_PORT if port != CONTROLLER_PORT else CONTROLLER_PORT + 1


def _known_node_id(data_dir: Path) -> str:
    path = data_dir / FileKind.META_PROPERTIES
    return read_properties(path).get("node.id", "1") if path.exists() else "1"

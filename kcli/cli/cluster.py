"""kcli cluster: shows brokers and controllers, the status (see cluster_status), and stops and starts nodes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.cli.client_options import (
    DEFAULT_TIMEOUT_S,
    ClusterOptions,
    CommandConfig,
    Properties,
    client_properties,
    with_options,
    written_config,
)
from kcli.cli.cluster_status import status
from kcli.cli.options import Format
from kcli.cli.output import aligned, count_text, json_line, write_text
from kcli.errors import KcliError, UsageError
from kcli.printable import printable

if TYPE_CHECKING:
    from kcli.client.admin import Cluster
    from kcli.client.security import Security
    from kcli.client.wire import Feature, Replica

EPILOG = """
Examples:

kcli cluster --format jsonl -b kafka-1:9092,kafka-2:9092 | jq -r .id

kcli cluster status --data-dir cluster --watch

kcli cluster kill 2 --data-dir cluster

kcli cluster restart --data-dir cluster         one node after the other, each once all replicas are in sync

kcli cluster stop --data-dir cluster
"""

app = typer.Typer(
    help="Show who is in a cluster and how it is; stop, kill and restart nodes that kcli serve runs.\n\n"
    "Without a command: the cluster's id, brokers, controllers and features.",
    epilog=EPILOG,
)
app.command("status")(status)

IN_SYNC_S = 60.0
LOOK_S = 0.1


@app.callback(invoke_without_command=True)
@with_options
def cluster(
    context: typer.Context,
    output: Annotated[Format, typer.Option("--format", help="How to show it.")] = Format.TABLE,
    *,
    options: ClusterOptions,
) -> None:
    """Show the cluster's id, brokers, controllers and features. --help shows the text given to `typer.Typer`."""
    if context.invoked_subcommand is not None:
        sources = [context.get_parameter_source(name) for name in context.params]
        if any(source is not None and source.name == "COMMANDLINE" for source in sources):
            raise UsageError(f"options go behind {context.invoked_subcommand}")
        return
    from kcli.client.admin import Admin

    found = Admin(options.connection()).cluster()
    write_text(_json(found) if output is Format.JSONL else _text(found))


# commands to the launcher of `kcli serve --nodes`


def _known_nodes(context: typer.Context) -> list[str]:
    """The node ids in the directory that --data-dir names, for the shell's completion."""
    directory = context.params.get("data_dir")
    paths = [] if directory is None else Path(directory).glob("node-*/server.properties")
    return sorted(each.parent.name.removeprefix("node-") for each in paths)


DataDir = Annotated[
    Path, typer.Option("--data-dir", metavar="DIR", help="The directory that kcli serve --nodes was given, or made.")
]
Nodes = Annotated[list[int], typer.Argument(metavar="NODE...", help="Nodes.", autocompletion=_known_nodes)]
SomeNodes = Annotated[
    list[int] | None,
    typer.Argument(metavar="[NODE...]", help="Nodes; all if none is named.", autocompletion=_known_nodes),
]


@app.command("stop")
def stop(data_dir: DataDir, nodes: SomeNodes = None) -> None:
    """Stop nodes in order; they stay down until started. Without a node: stop the cluster, and its launcher."""
    if nodes:
        _each(data_dir, "stop", nodes, "stopped")
        return
    from kcli.launcher.control_client import ask

    ask(data_dir, "stop")
    write_text("cluster stopped\n")


@app.command("start")
def start(data_dir: DataDir, nodes: Nodes) -> None:
    """Start nodes that are down; returns once they are ready."""
    _each(data_dir, "start", nodes, "started")


@app.command("restart")
def restart(
    data_dir: DataDir, nodes: SomeNodes = None, command_config: CommandConfig = None, properties: Properties = None
) -> None:
    """Stop nodes in order and start them, one after the other; without a node: all of them.

    Before the next node is stopped, the one before must be ready and every partition must have all its replicas in
    sync; if that takes more than a minute, the restart ends. To check it, kcli connects to the brokers with the client
    properties of --command-config and -X; by default, in a cluster of --secure, with the admin's client.properties.
    """
    from kcli.client.security import security_of
    from kcli.launcher.control_client import ask

    security = security_of(client_properties(written_config(data_dir, command_config), properties))
    status = ask(data_dir, "status")
    node_ids = nodes or [each["id"] for each in status["nodes"]]
    for node in node_ids:
        _each(data_dir, "restart", [node], "restarted")
        if node != node_ids[-1]:
            _wait_until_healthy(status["bootstrap"], node, security)


@app.command("kill")
def kill(
    data_dir: DataDir,
    nodes: Nodes,
    stay_down: Annotated[
        bool, typer.Option("--stay-down", help="It is not started again, until kcli cluster start.")
    ] = False,
) -> None:
    """Kill nodes (SIGKILL), as a crash would. The launcher starts them again."""
    _each(data_dir, "kill", nodes, "killed", stays_down=stay_down)


@app.command("pause")
def pause(data_dir: DataDir, nodes: Nodes) -> None:
    """Pause nodes (SIGSTOP): their connections stay open, and they answer nothing."""
    _each(data_dir, "pause", nodes, "paused")


@app.command("resume")
def resume(data_dir: DataDir, nodes: Nodes) -> None:
    """Resume paused nodes (SIGCONT)."""
    _each(data_dir, "resume", nodes, "resumed")


def _each(data_dir: Path, command: str, nodes: list[int], past_tense: str, **more: object) -> None:
    from kcli.launcher.control_client import ask

    for node in nodes:
        ask(data_dir, command, node=node, **more)
        write_text(f"node {node} {past_tense}\n")


def _wait_until_healthy(bootstrap: str, node: int, security: Security) -> None:
    from kcli.client.cluster_status import StatusClient

    client = StatusClient(bootstrap, DEFAULT_TIMEOUT_S, security)
    deadline = time.monotonic() + IN_SYNC_S
    while not client.state().is_healthy:
        if time.monotonic() >= deadline:
            raise NotInSync(f"node {node} is up, and not all partitions are in sync: the next one is not restarted")
        time.sleep(LOOK_S)


class NotInSync(KcliError):
    """A restart of several nodes was given up before its last node: after a node had restarted, not all partitions got
    back in sync in time."""


# output


def _json(cluster: Cluster) -> str:
    features, quorum = cluster.details
    row = {
        "id": cluster.id,
        "controller": cluster.controller,
        "brokers": [each._asdict() for each in cluster.brokers],
        "quorum": None
        if quorum is None
        else {
            **quorum._asdict(),
            "voters": [each._asdict() for each in quorum.voters],
            "observers": [each._asdict() for each in quorum.observers],
        },
        "features": None if features is None else [each._asdict() for each in features],
    }
    return json_line(row)


def _text(cluster: Cluster) -> str:
    controller = "none" if cluster.controller is None else str(cluster.controller)
    title = f"cluster {printable(cluster.id or 'without an id')}  controller {controller}"
    brokers = [
        (f"  {each.id}", f"{each.host}:{each.port}", "" if each.rack is None else f"rack {each.rack}")
        for each in cluster.brokers
    ]
    features, quorum = cluster.details
    lines = [f"{title}  {count_text(len(brokers), 'broker')}\n", aligned(brokers)]
    if quorum is not None:
        leader = f"leader {quorum.leader}  epoch {quorum.leader_epoch}  high watermark {quorum.high_watermark:,}"
        replicas = [("voter", each) for each in quorum.voters] + [("observer", each) for each in quorum.observers]
        reaches = [(f"  {role} {each.node}", _reach(each, quorum.high_watermark)) for role, each in replicas]
        lines += [f"quorum  {leader}\n", aligned(reaches)]
    if features:
        lines += ["features\n", aligned([_feature_row(each) for each in features])]
    return "".join(lines)


def _feature_row(feature: Feature) -> tuple[str, ...]:
    from kcli.metadata.metadata_version import level_name

    def name(level: int) -> str:
        return level_name(level) if feature.name == "metadata.version" else str(level)

    return f"  {feature.name}", name(feature.level), f"of {name(feature.supported_min)}..{name(feature.supported_max)}"


def _reach(replica: Replica, high_watermark: int) -> str:
    if replica.log_end_offset is None:
        return "log end unknown"
    behind = max(0, high_watermark - replica.log_end_offset)
    return f"log end {replica.log_end_offset:,}" + (f", {behind:,} behind" if behind else "")

"""kcli cluster status: the nodes, the quorum and the partitions of a cluster, once or over and over."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kcli.cli.client_options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT_S,
    Bootstrap,
    CommandConfig,
    Output,
    Properties,
    Timeout,
    client_properties,
    written_config,
)
from kcli.cli.error_report import cell
from kcli.cli.options import Format
from kcli.cli.output import aligned, count_text, json_line, on_terminal, write_text
from kcli.cli.progress import size_text
from kcli.errors import KcliError
from kcli.printable import printable

if TYPE_CHECKING:
    from kcli.client.cluster_status import ClusterState, StatusClient

SHOWN_PARTITIONS = 20
HOME_AND_CLEAR = "\x1b[H\x1b[J"
FINDINGS = 1
HEAD = ("NODE", "ROLES", "ADDRESS", "STATE", "PID", "UP", "MEMORY", "RESTARTS", "QUORUM", "LAG")

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="DIR", help="The cluster that kcli serve --nodes runs in this directory."),
]


def status(
    data_dir: DataDir = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it over and over, until interrupted.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, metavar="SECONDS", help="With --watch: how often.")
    ] = 1.0,
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Show the state of a cluster: nodes, quorum, and partitions that are under-replicated, offline, under min ISR.

    With --data-dir also the state, start time and memory of each node's process; kcli then connects to a cluster of
    --secure with the admin's client.properties beside the data, unless --command-config is given. Exit status: 1 if a
    node does not run or is fenced, the quorum has no leader, or a partition lacks replicas in sync.
    """
    source = _Source(
        data_dir, bootstrap, client_properties(written_config(data_dir, command_config), properties), timeout
    )
    while True:
        found = source.look()
        text = json_line(found) if output is Format.JSONL else _text(found)
        clear = HOME_AND_CLEAR if watch and output is Format.TABLE and on_terminal() else ""
        write_text(clear + text)
        if not watch:
            raise typer.Exit(0 if found["healthy"] else FINDINGS)
        if not clear and output is Format.TABLE:
            write_text("\n")
        sys.stdout.flush()
        time.sleep(interval)


class _Source:
    """Reads the status of a cluster from its launcher, if there is one, and from its brokers."""

    def __init__(self, data_dir: Path | None, bootstrap: str, properties: dict[str, str], timeout_s: float) -> None:
        self._data_dir, self._bootstrap = data_dir, bootstrap
        self._properties, self._timeout_s = properties, timeout_s
        self._client: StatusClient | None = None

    def look(self) -> dict[str, Any]:
        """Return the status of the cluster as a JSON object. Raises KcliError if the launcher that --data-dir names
        does not answer, or if there is no launcher and no broker answers."""
        launcher = None
        if self._data_dir is not None:
            from kcli.launcher.control_client import ask

            launcher = ask(self._data_dir, "status")
        try:
            state = self._status_client(None if launcher is None else launcher["bootstrap"]).state()
        except KcliError:
            if launcher is None:
                raise
            state = None
        return _found(launcher, state)

    def _status_client(self, bootstrap: str | None) -> StatusClient:
        if self._client is None:
            from kcli.client.cluster_status import StatusClient
            from kcli.client.security import security_of

            self._client = StatusClient(bootstrap or self._bootstrap, self._timeout_s, security_of(self._properties))
        return self._client


def _found(launcher: dict[str, Any] | None, state: ClusterState | None) -> dict[str, Any]:
    nodes: dict[int, dict[str, Any]] = {}
    for each in [] if launcher is None else launcher["nodes"]:
        nodes[each["id"]] = dict(each)
    brokers = {each.id: each for each in (() if state is None else state.brokers)}
    for number, broker in brokers.items():
        node = nodes.setdefault(number, {"id": number, "roles": ["broker"]})
        node |= {"address": f"{broker.host}:{broker.port}", "rack": broker.rack, "fenced": broker.is_fenced}
    for number in () if state is None else nodes.keys() - brokers.keys():
        if "broker" in nodes[number]["roles"]:
            nodes[number]["registered"] = False  # False until DescribeCluster lists the broker
    quorum = None if state is None else state.quorum
    for voice in () if quorum is None else quorum.nodes:
        node = nodes.setdefault(voice.node, {"id": voice.node, "roles": []})
        if voice.role != "observer" and "controller" not in node["roles"]:
            node["roles"] = [*node["roles"], "controller"]
        node |= {"quorum": voice.role, "log_end_offset": voice.log_end_offset, "lag": voice.lag}
    all_run = all(each.get("state", "running") == "running" for each in nodes.values())
    known = {} if launcher is None else {key: launcher[key] for key in ("data", "bootstrap", "launcher")}
    return {
        "id": launcher["cluster"] if launcher is not None else state and state.id,
        "healthy": state is not None and state.is_healthy and all_run and all(map(_is_registered, nodes.values())),
        **known,
        "nodes": [nodes[number] for number in sorted(nodes)],
        "quorum": None
        if quorum is None
        else {"leader": quorum.leader, "epoch": quorum.epoch, "high_watermark": quorum.high_watermark},
        "quorum_error": None if state is None else state.quorum_error,
        "partitions": None
        if state is None
        else {
            "topics": state.topics,
            "partitions": state.partitions,
            "under_replicated": [each._asdict() for each in state.under_replicated],
            "offline": [each._asdict() for each in state.offline],
            "under_min_isr": [each._asdict() for each in state.under_min_isr],
        },
    }


def _is_registered(node: dict[str, Any]) -> bool:
    """Return whether DescribeCluster lists the node as a broker. A node that is a controller only never registers as a
    broker: for it, return True."""
    return node.get("registered", True) is True


def _text(found: dict[str, Any]) -> str:
    title = f"cluster {printable(found['id'] or 'without an id')}  {count_text(len(found['nodes']), 'node')}"
    if "data" in found:
        title += f"  data {printable(found['data'])}"
    rows = [tuple(map(cell, row)) for row in (HEAD, *map(_node_row, found["nodes"]))]
    empty = [all(row[at] == "-" for row in rows[1:]) for at in range(len(HEAD))]
    kept = [tuple(text for text, is_empty in zip(row, empty, strict=True) if not is_empty) for row in rows]
    lines = [title + "\n", aligned(kept)]
    quorum, partitions = found["quorum"], found["partitions"]
    if quorum is None:
        no_reason = "no broker answers" if partitions is None else "the brokers have no DescribeQuorum"
        lines.append(f"quorum  not known: {found['quorum_error'] or no_reason}\n")
    else:
        leader = "none" if quorum["leader"] is None else quorum["leader"]
        lines.append(f"quorum  leader {leader}  epoch {quorum['epoch']}  high watermark {quorum['high_watermark']:,}\n")
    if partitions is None:
        lines.append("partitions  no broker answers\n")
        return "".join(lines)
    kinds = ("under_replicated", "offline", "under_min_isr")
    counts = "  ".join(f"{_name(kind)} {len(partitions[kind]):,}" for kind in kinds)
    in_topics = f"{partitions['partitions']:,} in {count_text(partitions['topics'], 'topic')}"
    lines.append(f"partitions  {in_topics}  {counts}\n")
    lines += [_partitions_text(_name(kind), partitions[kind]) for kind in kinds]
    return "".join(lines)


def _node_row(node: dict[str, Any]) -> tuple[object, ...]:
    state = node.get("state") or ("fenced" if node.get("fenced") else "answers" if "fenced" in node else None)
    if node.get("state") == "running" and (node.get("fenced") or not _is_registered(node)):
        state = "fenced" if node.get("fenced") else "unregistered"
    since_ms, memory, lag = node.get("since_ms"), node.get("memory"), node.get("lag")
    return (
        node["id"],
        ",".join(node["roles"]) or None,
        node.get("address"),
        state,
        node.get("pid"),
        None if since_ms is None else _ago_text(time.time() - since_ms / 1000),
        None if memory is None else size_text(memory),
        node.get("restarts"),
        node.get("quorum"),
        None if lag is None else f"{lag:,}",
    )


def _partitions_text(name: str, partitions: Sequence[dict[str, Any]]) -> str:
    if not partitions:
        return ""
    rows = [
        (
            f"  {name}",
            f"{each['topic']}-{each['partition']}",
            f"leader {'none' if each['leader'] is None else each['leader']}",
            f"replicas {_ids(each['replicas'])}",
            f"isr {_ids(each['isr']) or 'none'}",
            *([] if each["min_isr"] is None else [f"min isr {each['min_isr']}"]),
        )
        for each in partitions[:SHOWN_PARTITIONS]
    ]
    width = max(map(len, rows))
    more = len(partitions) - len(rows)
    text = aligned([row + ("",) * (width - len(row)) for row in rows])
    return text + (f"  {name}  and {more:,} more\n" if more else "")


def _name(kind: str) -> str:
    return {"under_replicated": "under-replicated", "under_min_isr": "under-min-isr"}.get(kind, kind)


def _ids(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _ago_text(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"

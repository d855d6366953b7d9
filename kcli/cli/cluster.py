"""kcli cluster: who is in the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kcli.cli.client_options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT_S,
    Bootstrap,
    Properties,
    Timeout,
    Verbose,
    connection,
    count_text,
)
from kcli.cli.options import Format
from kcli.cli.output import aligned, json_line, write_text

if TYPE_CHECKING:
    from kcli.client.admin import Cluster
    from kcli.client.wire import Feature, Replica

EPILOG = """
Examples:

kcli cluster

kcli cluster --format jsonl -b kafka-1:9092,kafka-2:9092 | jq -r .id
"""


def cluster(
    output: Annotated[Format, typer.Option("--format", help="How to show it.")] = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    verbose: Verbose = False,
) -> None:
    """Show the cluster's id, brokers, controllers and features."""
    from kcli.client.admin import Admin

    found = Admin(connection(bootstrap, properties, timeout, verbose)).cluster()
    write_text(_json(found) if output is Format.JSONL else _text(found))


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
    title = f"cluster {cluster.id or 'without an id'}  controller {controller}"
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

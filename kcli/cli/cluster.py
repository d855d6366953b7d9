"""kcli cluster: who is in the cluster."""

from __future__ import annotations

import json
from typing import Annotated

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
from kcli.cli.output import write_text
from kcli.cli.topics import aligned

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
    """Show the cluster's id, controller and brokers."""
    from kcli.client.admin import Admin

    found = Admin(connection(bootstrap, properties, timeout, verbose)).cluster()
    if output is Format.JSONL:
        brokers = [{"id": each.id, "host": each.host, "port": each.port, "rack": each.rack} for each in found.brokers]
        row = {"id": found.id, "controller": found.controller, "brokers": brokers}
        write_text(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
        return
    controller = "none" if found.controller is None else str(found.controller)
    write_text(
        f"cluster {found.id or 'without an id'}  controller {controller}  {count_text(len(found.brokers), 'broker')}\n"
    )
    rows = [
        (f"  {each.id}", f"{each.host}:{each.port}", "" if each.rack is None else f"rack {each.rack}")
        for each in found.brokers
    ]
    write_text(aligned(rows))

"""`kcli format`: formats the log directories of a node for its first start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kcli.cli.output import write_text
from kcli.errors import UnreadableInput, UsageError
from kcli.printable import printable

EPILOG = """
Examples:

    kcli format --random-uuid                      an id for a new cluster

    kcli format -t 5L6g3nShT-eMCtK--X86sw -c server.properties

    kcli format -t 5L6g3nShT-eMCtK--X86sw -c node.properties --standalone

    kcli format -t 5L6g3nShT-eMCtK--X86sw -c old.properties -r 4.2

    kcli format -t 5L6g3nShT-eMCtK--X86sw -c server.properties -S 'SCRAM-SHA-512=[name=admin,password=...]'
"""


def format(  # noqa: A001, PLR0913, PLR0917 (the command's name; one parameter an option)
    cluster_id: Annotated[
        str | None, typer.Option("--cluster-id", "-t", metavar="ID", help="The cluster's id: the same for all nodes.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", exists=True, dir_okay=False, help="Kafka's server.properties.")
    ] = None,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", "-g", help="Skip directories that are formatted already.")
    ] = False,
    release_version: Annotated[
        str | None,
        typer.Option("--release-version", "-r", metavar="VERSION", help="Features as of this release. [4.3]"),
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option("--feature", "-f", metavar="NAME=LEVEL", help="Level of a feature; may be repeated."),
    ] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", "-s", help="This controller is the only voter of a dynamic quorum.")
    ] = False,
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            "--initial-controllers",
            "-I",
            metavar="ID@HOST:PORT:DIRECTORY,...",
            help="The voters of a dynamic quorum; the same for all nodes.",
        ),
    ] = None,
    no_initial_controllers: Annotated[
        bool, typer.Option("--no-initial-controllers", "-N", help="This node learns of a dynamic quorum from others.")
    ] = False,
    add_scram: Annotated[
        list[str] | None,
        typer.Option(
            "--add-scram",
            "-S",
            metavar="MECHANISM=[name=...,password=...]",
            help="A user who may log in by SCRAM; may be repeated.",
        ),
    ] = None,
    random_uuid: Annotated[
        bool, typer.Option("--random-uuid", help="Print an id, for a new cluster or a directory, and no more.")
    ] = False,
) -> None:
    """Format the log directories of a node, as kafka-storage format does: same files, same options.

    The node is the one that server.properties describes. Real Kafka starts on what this formats, and kcli serve on what
    kafka-storage formats. A node that is the only voter of its quorum need not be formatted: kcli serve does that.
    """
    from kcli.broker.config import BrokerConfig
    from kcli.broker.metadata.format import random_id
    from kcli.broker.metadata.storage_tool import FormatOptions, format_node
    from kcli.cli.options import current_ms
    from kcli.log.disk import Disk
    from kcli.log.log_directory import read_properties

    if random_uuid:
        write_text(f"{random_id()}\n")
        return
    if not cluster_id or config is None:
        raise UsageError("--cluster-id and --config are needed")
    if standalone + no_initial_controllers + (initial_controllers is not None) > 1:
        raise UsageError("--standalone, --initial-controllers and --no-initial-controllers exclude each other")
    options = FormatOptions(
        cluster_id,
        ignore_formatted,
        release_version,
        feature or (),
        standalone,
        no_initial_controllers,
        initial_controllers,
        add_scram or (),
    )
    try:
        found = format_node(BrokerConfig(read_properties(config)), options, now_ms=current_ms(), disk=Disk())
    except OSError as error:
        raise UnreadableInput(error.filename or str(config), error.strerror or str(error)) from error
    for each in found:
        write_text(f"Formatting {each.kind} {printable(each.path)} with metadata.version {each.metadata_version}.\n")
    if not found:
        write_text("All of the log directories are already formatted.\n")

"""The Typer application: every command, by name. The module of a command is imported only when the command runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kcli.cli.lazy import Target, lazy_group
from kcli.cli.output import on_terminal

COMMANDS = {
    "dump-segment": Target(
        "kcli.cli.dump_segment",
        "dump_segment",
        "Show what is in a log segment, an index, a snapshot or a checkpoint: any file that Kafka writes.",
    ),
    "verify": Target(
        "kcli.cli.verify",
        "verify",
        "Check logs, and all that Kafka keeps beside them, byte for byte and against each other.",
    ),
    "recover": Target(
        "kcli.cli.recover",
        "recover",
        "Tell what Kafka would cut or rebuild when it starts, and do the same in a copy or in place.",
    ),
    "compact": Target(
        "kcli.cli.compact", "compact", "Compact logs as Kafka's log cleaner does, or show what it would do and why."
    ),
    "tier": Target(
        "kcli.cli.tier",
        "app",
        "List, check, fetch and attach segments in tiered storage, with or without a broker's log directory.",
    ),
    "backup": Target(
        "kcli.cli.backup",
        "backup",
        "Back up a node's log directories: segments, leader epochs, producers, the metadata log, groups, transactions.",
    ),
    "restore": Target(
        "kcli.cli.restore",
        "restore",
        "Make a log directory of a backup: the same offsets, leader epochs, groups, transactions, metadata.",
    ),
    "serve": Target(
        "kcli.cli.serve",
        "serve",
        "Run a Kafka 4.3 node: broker and controller in one process, no JVM.",
        no_args_is_help=False,
    ),
    "registry": Target(
        "kcli.cli.registry",
        "registry",
        "Run a schema registry that keeps its schemas in a topic of any Kafka, as Confluent's does.",
        no_args_is_help=False,
    ),
    "format": Target(
        "kcli.cli.format",
        "format",
        "Format the log directories of a node, as kafka-storage format does: same files, same options.",
    ),
    "topics": Target("kcli.cli.topics", "app", "List, describe, create, delete and alter topics of a cluster."),
    "produce": Target(
        "kcli.cli.produce",
        "produce",
        "Produce records from files or standard input, and report how many were delivered.",
    ),
    "consume": Target(
        "kcli.cli.consume",
        "consume",
        "Show the records of a topic's partitions, then new ones as they are appended, until interrupted.",
    ),
    "groups": Target(
        "kcli.cli.groups",
        "app",
        "List, describe, reset and delete groups of consumers, of a cluster or in a log directory.",
    ),
    "transactions": Target(
        "kcli.cli.transactions",
        "app",
        "List and describe transactions, find those that hang and abort them; of a cluster or in a log directory.",
    ),
    "acls": Target("kcli.cli.acls", "app", "List, add and remove ACLs, and explain which rule decides an access."),
    "tokens": Target("kcli.cli.tokens", "app", "Create, renew, expire and describe delegation tokens."),
    "users": Target("kcli.cli.users", "app", "List, add and remove the users who log in by SCRAM."),
    "schemas": Target(
        "kcli.cli.schemas",
        "app",
        "List, show, register, check, compare, delete, export and import schemas of a registry.",
    ),
    "export-to-parquet": Target(
        "kcli.cli.export_to_parquet",
        "export_to_parquet",
        "Export logs to Parquet, with Spark and without Kafka.",
    ),
    "import-from-parquet": Target(
        "kcli.cli.import_from_parquet",
        "import_from_parquet",
        "Write the segments of an export to Parquet back: same offsets, timestamps, keys, values, headers, producers.",
    ),
    "pipe": Target(
        "kcli.cli.pipe",
        "pipe",
        "Pipe records from one end to another, each once; a later run continues where the last one ended.",
    ),
    "connect": Target(
        "kcli.cli.connect",
        "app",
        "Run a worker of Kafka Connect, look at its connectors, and check a configuration.",
    ),
    "streams": Target(
        "kcli.cli.streams",
        "app",
        "Run a program of streams and tables, describe and reset it, and look at its stores.",
    ),
    "cluster": Target(
        "kcli.cli.cluster",
        "app",
        "Show who is in a cluster and how it is; stop, kill and restart nodes that kcli serve runs.",
    ),
}

SETTINGS: dict[str, Any] = {
    "pretty_exceptions_enable": False,
    # only on a terminal: for "markdown" Typer imports rich, which takes as long as all other imports
    "rich_markup_mode": "markdown" if on_terminal() else None,
}

app = typer.Typer(
    name="kcli",
    help="Run Apache Kafka, read, check and repair its logs, without a JVM.",
    epilog="Exit status: 0 fine, 1 findings or a failure, 2 usage or unreadable input. See also kcli(1).",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    cls=lazy_group(COMMANDS, SETTINGS),
    **SETTINGS,
)


def _version(is_given: bool) -> None:
    if is_given:
        from importlib.metadata import version

        from kcli.errors import DISTRIBUTION

        print(f"kcli {version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Run Apache Kafka, read, check and repair its logs, without a JVM."""

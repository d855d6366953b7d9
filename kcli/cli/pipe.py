"""kcli pipe: copies records from a topic, a log directory or a table to a topic or a table, with Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kcli.cli.options import Format, utf8_path
from kcli.cli.spark_options import Debug, Master, SparkConf

WHAT = "What to pipe"
TABLE = "Into a table"

EPILOG = """
Examples:

kcli pipe kafka://eu-1:9092/orders kafka://us-1:9092/orders --checkpoint orders.pipe

kcli pipe kafka://broker:9092/orders iceberg:lake/orders --value-format avro:http://registry:8081 --follow

kcli pipe log:/backup/broker-1/orders kafka://broker:9092/orders-again --checkpoint again.pipe

kcli pipe delta:lake/orders kafka://broker:9092/orders --checkpoint back.pipe --dry-run
"""


def _schemes(incomplete: str) -> list[str]:
    """Return the texts with which an end may begin, for the shell's completion."""
    return [each for each in ("kafka://", "log:", "iceberg:", "delta:") if each.startswith(incomplete)]


def pipe(  # noqa: PLR0913, PLR0917 (one parameter an option)
    source: Annotated[
        str,
        typer.Argument(
            metavar="FROM",
            show_default=False,
            help="kafka://HOST:PORT/TOPIC, log:DIR/TOPIC, iceberg:DIR or delta:DIR.",
            autocompletion=_schemes,
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="TO",
            show_default=False,
            help="kafka://HOST:PORT/TOPIC, iceberg:DIR or delta:DIR.",
            autocompletion=_schemes,
        ),
    ],
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where a pipe into a topic keeps how far it is; a table knows.", callback=utf8_path
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with what comes, until interrupted; else end at what is there.")
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(min=0.1, max=86_400, metavar="SECONDS", help="How often to look: 1, into a table 60."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and do nothing.")] = False,
    source_config: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, metavar="FILE", help="Client properties for FROM: TLS and login."),
    ] = None,
    target_config: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, metavar="FILE", help="The same for TO."),
    ] = None,
    isolation: Annotated[
        str, typer.Option("--isolation-level", metavar="LEVEL", rich_help_panel=WHAT, help="Or read_uncommitted.")
    ] = "read_committed",
    bootstrap_from: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", rich_help_panel=WHAT, help="A topic: begin with what this log directory has of it."
        ),
    ] = None,
    max_offsets: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", rich_help_panel=WHAT, help="Into a topic: about how many are read at a time: 1000000."
        ),
    ] = None,
    on_corruption: Annotated[
        str, typer.Option(metavar="MODE", rich_help_panel=WHAT, help="At damage: fail, or skip it.")
    ] = "fail",
    beyond_high_watermark: Annotated[
        bool,
        typer.Option(
            "--beyond-high-watermark", rich_help_panel=WHAT, help="A log directory: records too that may go again."
        ),
    ] = False,
    allow_data_loss: Annotated[
        bool,
        typer.Option("--allow-data-loss", rich_help_panel=WHAT, help="Go on where offsets are gone, with a warning."),
    ] = False,
    keep_partitions: Annotated[
        bool, typer.Option("--keep-partitions", rich_help_panel=WHAT, help="Into partitions of the same number.")
    ] = False,
    compression: Annotated[
        str,
        typer.Option(
            "--compression-type", metavar="CODEC", rich_help_panel=WHAT, help="Into a topic: gzip, snappy, lz4, zstd."
        ),
    ] = "none",
    key_format: Annotated[
        str, typer.Option(metavar="FORMAT", rich_help_panel=TABLE, help="raw, string, json, avro:..., protobuf:...")
    ] = "raw",
    value_format: Annotated[
        str, typer.Option(metavar="FORMAT", rich_help_panel=TABLE, help="The same, for values.")
    ] = "raw",
    latest_by_key: Annotated[
        bool,
        typer.Option(
            "--latest-by-key", rich_help_panel=TABLE, help="The latest record of each key; tombstones delete."
        ),
    ] = False,
    partition_by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS", rich_help_panel=TABLE, help="topic, partition, date, hour; Iceberg: transforms."
        ),
    ] = None,
    catalog: Annotated[
        str | None,
        typer.Option(
            metavar="URL|NAME", rich_help_panel=TABLE, help="Iceberg: the catalog, of a table to read from, too."
        ),
    ] = None,
    table_name: Annotated[
        str | None,
        typer.Option(metavar="SPACE.NAME", rich_help_panel=TABLE, help="Iceberg: the table's name in the catalog."),
    ] = None,
    master: Master = "local[*]",
    spark_conf: SparkConf = None,
    debug: Debug = False,
    output: Annotated[Format, typer.Option("--format", help="How to show the plan and the result.")] = Format.TABLE,
) -> None:
    """Pipe records from one end to another, each once; a later run continues where the last one ended.

    FROM is a topic, a topic in a log directory, or a table; TO a topic that exists, or a table. A pipe that was killed
    is started again with the same command. Exit status: 0 done, 1 a failure, 2 usage or unreadable input.
    """
    from kcli.cli.options import pairs
    from kcli.errors import UsageError, needing

    if interval is not None and not follow:
        raise UsageError("--interval goes with --follow")
    with needing("spark"):
        from kcli.cli import piping
    ends = piping.ends(source, target, source_config, target_config)
    with piping.told_by_options():
        made = piping.pipe_of(
            *ends,
            checkpoint=checkpoint,
            more={
                "isolation": isolation,
                "onCorruption": on_corruption,
                "failOnDataLoss": str(not allow_data_loss).lower(),
                **({} if bootstrap_from is None else {"bootstrapFrom": bootstrap_from}),
            },
            max_offsets=max_offsets,
            beyond=beyond_high_watermark,
            keeps_partitions=keep_partitions,
            compression=compression,
            formats=(key_format, value_format),
            latest_by_key=latest_by_key,
            layout=partition_by,
            catalog=catalog,
            table_name=table_name,
        )
        if dry_run:
            piping.show_plan(made, output)
            return
        follow_s = None if not follow else interval or made.interval_s
        piping.run(made, master, pairs(spark_conf, "--spark-conf"), follow_s, output, debug=debug)

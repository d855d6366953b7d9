"""kcli export-to-parquet: logs to Parquet, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kcli.cli.options import Format, utf8_path
from kcli.cli.spark_options import SPARK, Debug, Master, SparkConf

WHAT = "What to export"
DECODING = "Keys and values"
TABLE = "The table"

EPILOG = """
Examples:

kcli export-to-parquet /var/lib/kafka --topic orders --out orders

kcli export-to-parquet 'backup/*' --out lake --partition-by topic,date --incremental lake.state

kcli export-to-parquet /var/lib/kafka --topic orders --out orders --value-format avro:http://registry:8081

kcli export-to-parquet /var/lib/kafka --tier s3://bucket/tier --topic orders --out orders

kcli export-to-parquet /var/lib/kafka --topic orders --out orders --table delta

kcli export-to-parquet --check orders
"""


def export_to_parquet(  # noqa: PLR0913, PLR0917 (one parameter an option)
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="SRC...", help="Directories of partitions or logs, segments, globs, URLs (s3://...)."),
    ] = None,
    tier: Annotated[
        str | None,
        typer.Option(
            "--tier",
            metavar="DIR|URL",
            help="Tiered storage, for offsets below the local logs; without SRC for all that it has.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="The directory of the table to make.", callback=utf8_path),
    ] = None,
    incremental: Annotated[
        Path | None,
        typer.Option(
            metavar="STATE",
            help="Add only what is new since the run that wrote STATE, exactly once.",
            callback=utf8_path,
        ),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            "--check", metavar="DIR", help="Prove an export against its sources; no Spark.", callback=utf8_path
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            metavar="FORMAT",
            rich_help_panel=TABLE,
            help="iceberg or delta: a table, to which each export adds what is new, exactly once.",
        ),
    ] = None,
    catalog: Annotated[
        str | None,
        typer.Option(
            metavar="URL|NAME",
            rich_help_panel=TABLE,
            help="Iceberg: a REST or SQL catalog, or one that pyiceberg's configuration names.",
        ),
    ] = None,
    table_name: Annotated[
        str | None,
        typer.Option(metavar="SPACE.NAME", rich_help_panel=TABLE, help="Iceberg: the table's name in the catalog."),
    ] = None,
    compact: Annotated[
        bool, typer.Option("--compact", rich_help_panel=TABLE, help="Join the table's small files after that.")
    ] = False,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="NAME", rich_help_panel=WHAT, help="A topic, or several (a,b).")
    ] = None,
    topic_pattern: Annotated[
        str | None, typer.Option(metavar="REGEX", rich_help_panel=WHAT, help="Topics by regular expression.")
    ] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC-N", rich_help_panel=WHAT, help="A partition, as its directory is named."),
    ] = None,
    include_internal: Annotated[
        bool, typer.Option("--include-internal", rich_help_panel=WHAT, help="Internal topics too (__...).")
    ] = False,
    from_offset: Annotated[int | None, typer.Option(rich_help_panel=WHAT, help="First offset wanted.")] = None,
    to_offset: Annotated[int | None, typer.Option(rich_help_panel=WHAT, help="First offset not wanted.")] = None,
    from_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", rich_help_panel=WHAT, help="From the first record of this time on: ms, ISO 8601, -2h."
        ),
    ] = None,
    to_time: Annotated[
        str | None, typer.Option(metavar="TIME", rich_help_panel=WHAT, help="To the first record of this time.")
    ] = None,
    isolation: Annotated[
        str, typer.Option(metavar="LEVEL", rich_help_panel=WHAT, help="read_uncommitted or read_committed.")
    ] = "read_uncommitted",
    on_corruption: Annotated[
        str,
        typer.Option(metavar="MODE", rich_help_panel=WHAT, help="At damage: fail, skip it, or skip and report it."),
    ] = "fail",
    beyond_high_watermark: Annotated[
        bool,
        typer.Option("--beyond-high-watermark", rich_help_panel=WHAT, help="Records too that may not be replicated."),
    ] = False,
    include_control: Annotated[
        bool, typer.Option("--include-control", rich_help_panel=WHAT, help="Control records too (for a backup).")
    ] = False,
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAMES", rich_help_panel=TABLE, help="Columns: a,b; * for all."),
    ] = None,
    key_format: Annotated[
        str, typer.Option(metavar="FORMAT", rich_help_panel=DECODING, help="raw, string, json, avro:..., protobuf:...")
    ] = "raw",
    value_format: Annotated[
        str, typer.Option(metavar="FORMAT", rich_help_panel=DECODING, help="The same, for values.")
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
    sort: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", rich_help_panel=TABLE, help="Sort all rows; -NAME: descending."),
    ] = None,
    codec: Annotated[
        str, typer.Option(metavar="CODEC", rich_help_panel=TABLE, help="zstd, snappy, gzip, lz4, brotli or none.")
    ] = "zstd",
    level: Annotated[int | None, typer.Option(rich_help_panel=TABLE, help="Level of the codec.")] = None,
    file_mb: Annotated[int, typer.Option(min=1, rich_help_panel=TABLE, help="Size of a file, about, in MB.")] = 128,
    master: Master = "local[*]",
    spark_conf: SparkConf = None,
    environment: Annotated[
        str | None,
        typer.Option(metavar="ARCHIVE", rich_help_panel=SPARK, help="A packed Python for executors elsewhere."),
    ] = None,
    debug: Debug = False,
    output: Annotated[Format, typer.Option("--format", help="How to show the result.")] = Format.TABLE,
) -> None:
    """Export logs to Parquet, with Spark and without Kafka.

    Sources are only read. The table is complete or does not exist; a manifest beside the data names the files and their
    sources. With --table the result is an Iceberg or Delta table. Exit status: 0 done, 1 a failure or findings of
    --check, 2 usage or unreadable input.
    """
    from kcli.cli.options import pairs, time_ms
    from kcli.errors import UsageError, needing

    with needing("spark"):
        from kcli.cli import export
    if check is not None:
        if sources or out is not None or tier is not None:
            raise UsageError("--check takes no other sources and no --out: the manifest knows them")
        raise typer.Exit(export.check(check, output))
    if not (sources or tier) or out is None:
        raise UsageError("say what to export and where to: kcli export-to-parquet SRC... --out DIR")
    source = export.source_options(
        sources or (),
        tier=tier,
        topics=topic,
        pattern=topic_pattern,
        partitions=partition,
        offsets=(from_offset, to_offset),
        times_ms=(
            None if from_time is None else time_ms(from_time, "--from-time"),
            None if to_time is None else time_ms(to_time, "--to-time"),
        ),
        columns=columns,
        flags={
            "includeInternalTopics": include_internal,
            "includeControl": include_control,
            "beyondHighWatermark": beyond_high_watermark,
        },
        isolation=isolation,
        on_corruption=on_corruption,
        out=out,
    )
    options = export.export_options(
        source,
        out,
        formats=(key_format, value_format),
        layout=partition_by,
        codec=codec,
        level=level,
        file_mb=file_mb,
        sort=sort,
        latest_by_key=latest_by_key,
        state=incremental,
        table=table,
    )
    target = export.table_of(options, table, catalog, table_name, compacts=compact)
    settings = pairs(spark_conf, "--spark-conf")
    status = export.run(options, master, settings, environment, output, debug=debug, table=target, compacts=compact)
    raise typer.Exit(status)

"""kcli dump-segment: show what is in any file that Kafka writes."""

from __future__ import annotations

from typing import Annotated

import typer

from kcli.cli.client_options import with_options
from kcli.cli.options import Codec, DumpFormat, not_empty
from kcli.cli.registry_options import SchemasOptions
from kcli.inspector.file_type import FileType

KAFKA = "Options of kafka-dump-log (for --format kafka)"
FILTERS = "Filters"
TABLE = "Table"

EPILOG = """
Examples:

kcli dump-segment orders-0/00000000000000368769.log

kcli dump-segment --format jsonl --from-time -2h orders-0 | jq -r .value

kcli dump-segment --format kafka --print-data-log --files 00000000000000000000.log

kcli dump-segment __consumer_offsets-3   (keys and values decoded)

kcli dump-segment orders-0 --schemas http://127.0.0.1:8081   (values in Confluent's wire format, as JSON)

zcat segment.log.gz | kcli dump-segment -

kcli dump-segment s3://bucket/tier/orders-0-Wq3Zp1TkQ2eVb7mJx5LrUA   (a partition in tiered storage)
"""


@with_options
def dump_segment(  # noqa: PLR0913, PLR0917 (one parameter an option)
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|DIR|URL...",
            help="Files or directories of logs, or URLs of objects in a bucket; - is stdin.",
            callback=not_empty,
        ),
    ] = None,
    files: Annotated[
        str | None, typer.Option(metavar="FILE,FILE", help="Files as kafka-dump-log takes them, comma-separated.")
    ] = None,
    output: Annotated[DumpFormat, typer.Option("--format", help="How to show it.")] = DumpFormat.TABLE,
    file_type: Annotated[
        FileType | None,
        typer.Option(
            "--type", metavar="TYPE", help=f"What the files hold, where names do not say it: {', '.join(FileType)}."
        ),
    ] = None,
    from_offset: Annotated[int | None, typer.Option(rich_help_panel=FILTERS, help="First offset wanted.")] = None,
    to_offset: Annotated[int | None, typer.Option(rich_help_panel=FILTERS, help="First offset not wanted.")] = None,
    from_time: Annotated[
        str | None,
        typer.Option(metavar="TIME", rich_help_panel=FILTERS, help="First timestamp wanted: epoch ms, ISO 8601, -2h."),
    ] = None,
    to_time: Annotated[
        str | None, typer.Option(metavar="TIME", rich_help_panel=FILTERS, help="First timestamp not wanted.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", rich_help_panel=FILTERS, help="Records of this key: text, or 0x....")
    ] = None,
    producer_id: Annotated[
        int | None,
        typer.Option(min=-1, rich_help_panel=FILTERS, help="Batches of this producer id (-1: of none)."),
    ] = None,
    codec: Annotated[Codec | None, typer.Option(rich_help_panel=FILTERS, help="Batches with this codec.")] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, rich_help_panel=FILTERS, help="Records to show at most, over all files.")
    ] = None,
    batches_only: Annotated[
        bool, typer.Option("--batches-only", rich_help_panel=TABLE, help="Leave out the records.")
    ] = False,
    raw_time: Annotated[
        bool, typer.Option("--raw-time", rich_help_panel=TABLE, help="Timestamps as stored: epoch milliseconds.")
    ] = False,
    unfolded: Annotated[
        bool, typer.Option("--unfolded", rich_help_panel=TABLE, help="Long values whole, on a terminal too.")
    ] = False,
    deep_iteration: Annotated[
        bool, typer.Option("--deep-iteration", rich_help_panel=KAFKA, help="Show records, not only batches.")
    ] = False,
    print_data_log: Annotated[
        bool, typer.Option("--print-data-log", rich_help_panel=KAFKA, help="Show keys and payloads.")
    ] = False,
    skip_record_metadata: Annotated[
        bool, typer.Option("--skip-record-metadata", rich_help_panel=KAFKA, help="Show only keys and payloads.")
    ] = False,
    verify_index_only: Annotated[
        bool, typer.Option("--verify-index-only", rich_help_panel=KAFKA, help="Check indexes, show no entries.")
    ] = False,
    index_sanity_check: Annotated[
        bool,
        typer.Option("--index-sanity-check", rich_help_panel=KAFKA, help="The check of indexes at a broker's start."),
    ] = False,
    max_bytes: Annotated[
        int | None, typer.Option(min=0, rich_help_panel=KAFKA, help="Bytes of each log to read at most.")
    ] = None,
    max_message_size: Annotated[
        int, typer.Option(min=0, rich_help_panel=KAFKA, help="Size of the largest message.")
    ] = 5 * 1024 * 1024,
    offsets_decoder: Annotated[
        bool, typer.Option("--offsets-decoder", rich_help_panel=KAFKA, help="Decode __consumer_offsets.")
    ] = False,
    transaction_log_decoder: Annotated[
        bool, typer.Option("--transaction-log-decoder", rich_help_panel=KAFKA, help="Decode __transaction_state.")
    ] = False,
    cluster_metadata_decoder: Annotated[
        bool, typer.Option("--cluster-metadata-decoder", rich_help_panel=KAFKA, help="Decode __cluster_metadata.")
    ] = False,
    share_group_state_decoder: Annotated[
        bool, typer.Option("--share-group-state-decoder", rich_help_panel=KAFKA, help="Decode __share_group_state.")
    ] = False,
    remote_log_metadata_decoder: Annotated[
        bool, typer.Option("--remote-log-metadata-decoder", rich_help_panel=KAFKA, help="Decode __remote_log_metadata.")
    ] = False,
    *,
    schemas: SchemasOptions,
) -> None:
    """Show what is in a log segment, an index, a snapshot or a checkpoint: any file that Kafka writes.

    The file's name decides its type, or else --type. A directory stands for the log segments in it and in the
    partition directories in it; with --type, for the files of that type. Only standard output is written to.
    """
    from kcli.cli import dump
    from kcli.cli.options import key_bytes, time_ms
    from kcli.errors import UsageError
    from kcli.inspector.inputs import path_of
    from kcli.inspector.kafka_options import IndexTextOptions, KafkaDumpOptions, KafkaTextOptions
    from kcli.inspector.selection import ALL

    texts = [*(targets or []), *(name for name in (files or "").split(",") if name)]
    if not texts:
        raise UsageError("no file given: kcli dump-segment FILE|DIR|URL...")
    named = [path_of(text) for text in texts]
    selection = ALL.narrowed(
        from_offset=from_offset,
        to_offset=to_offset,
        from_time_ms=None if from_time is None else time_ms(from_time, "--from-time"),
        to_time_ms=None if to_time is None else time_ms(to_time, "--to-time"),
        key=None if key is None else key_bytes(key, "--key"),
        producer_id=producer_id,
        codec=None if codec is None else list(Codec).index(codec),
        limit=limit,
    )
    if output is DumpFormat.KAFKA:
        if schemas.schemas is not None:
            raise UsageError("--schemas is for the formats table and jsonl")
        decoders = {
            "offsets": offsets_decoder,
            "transaction-log": transaction_log_decoder,
            "cluster-metadata": cluster_metadata_decoder,
            "remote-log-metadata": remote_log_metadata_decoder,
            "share-group-state": share_group_state_decoder,
        }
        options = KafkaDumpOptions(
            KafkaTextOptions(
                deep_iteration=deep_iteration,
                print_data_log=print_data_log,
                skip_record_metadata=skip_record_metadata,
                decoder=next((name for name, is_given in decoders.items() if is_given), None),
                max_bytes=max_bytes,
            ),
            IndexTextOptions(verify_index_only, index_sanity_check, max_message_size),
        )
        status = dump.as_kafka(named, file_type, selection, options)
    elif output is DumpFormat.JSONL:
        status = dump.as_jsonl(named, file_type, selection, schemas.reader())
    else:
        status = dump.as_table(
            named,
            file_type,
            selection,
            schemas.reader(),
            batches_only=batches_only,
            raw_time=raw_time,
            unfolded=unfolded,
        )
    raise typer.Exit(status)

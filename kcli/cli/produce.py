"""kcli produce: produce records to a topic."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.cli.client_options import ClusterOptions, with_options
from kcli.cli.options import INT32_MAX, Codec, key_bytes, not_empty
from kcli.cli.output import count_text, note
from kcli.cli.progress import size_text
from kcli.cli.registry_options import REGISTRY, RegistryOptions
from kcli.errors import KcliError, UnreadableInput, UsageError
from kcli.printable import is_utf8

if TYPE_CHECKING:
    from kcli.client.input import Encode, Encoders, Header, NewRecord
    from kcli.client.producing import Delivery
    from kcli.schema_client.http import Transport

INPUT = "Input"
DELIVERY = "Delivery"
SCHEMA = "FILE|SUBJECT[:VERSION][#MESSAGE]"
INTERRUPTED_S = 5.0

EPILOG = """
Examples:

echo 'order-1:{"total": 41.90}' | kcli produce orders -K :

kcli produce orders --format jsonl backup.jsonl

echo '{"id": 1}' | kcli produce orders --value-schema order.avsc --registry http://127.0.0.1:8081

kcli produce orders --compression zstd --linger-ms 50 --partitioner round-robin lines.txt
"""


class InputFormat(StrEnum):
    """The format of the input."""

    TEXT = "text"
    JSONL = "jsonl"


class Acks(StrEnum):
    """The replicas that must have a record before it counts as delivered (acks)."""

    ALL = "all"
    LEADER = "1"
    NONE = "0"


class Partition(StrEnum):
    """How a record's partition is chosen: in one of the ways of kcli.client.partitioner.Partitioning; INPUT takes the
    partition that the record has in the input."""

    MURMUR2 = "murmur2"
    STICKY = "sticky"
    ROUND_ROBIN = "round-robin"
    INPUT = "input"


@with_options
def produce(  # noqa: PLR0913, PLR0917 (one parameter an option)
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="The topic; - is the one that a JSON line names.", callback=not_empty)
    ],
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE...]", help="Where records are; else, and for -, stdin.")
    ] = None,
    input_format: Annotated[
        InputFormat,
        typer.Option(
            "--format", rich_help_panel=INPUT, help="Lines of text, or JSON lines as kcli consume prints them."
        ),
    ] = InputFormat.TEXT,
    key: Annotated[
        str | None, typer.Option("--key", "-k", rich_help_panel=INPUT, help="The key of every record (or 0x...).")
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator", "-K", metavar="TEXT", rich_help_panel=INPUT, help="What ends the key in a line."
        ),
    ] = None,
    delimiter: Annotated[
        str, typer.Option("--delimiter", "-D", metavar="TEXT", rich_help_panel=INPUT, help="What ends a record.")
    ] = "\\n",
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", rich_help_panel=INPUT, help="A header for every record."),
    ] = None,
    nulls: Annotated[
        bool, typer.Option("--nulls", "-Z", rich_help_panel=INPUT, help="Empty keys and values in text are null.")
    ] = False,
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition", "-p", min=0, max=INT32_MAX, rich_help_panel=DELIVERY, help="The partition for all."
        ),
    ] = None,
    partitioner: Annotated[
        Partition,
        typer.Option(
            "--partitioner",
            rich_help_panel=DELIVERY,
            help="By key as Java's producer, without regard to keys, in turn, or as a JSON line says.",
        ),
    ] = Partition.MURMUR2,
    acks: Annotated[
        Acks | None, typer.Option("--acks", rich_help_panel=DELIVERY, help="Who must have a record.  [default: all]")
    ] = None,
    idempotence: Annotated[
        bool | None,
        typer.Option(
            "--idempotence/--no-idempotence",
            rich_help_panel=DELIVERY,
            help="Retries never double or reorder.  [default: on with acks all]",
            show_default=False,
        ),
    ] = None,
    compression: Annotated[
        Codec | None, typer.Option("--compression", "-z", rich_help_panel=DELIVERY, help="The codec of batches.")
    ] = None,
    linger_ms: Annotated[
        float | None,
        typer.Option("--linger-ms", min=0, rich_help_panel=DELIVERY, help="How long a batch waits to fill."),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", min=1, rich_help_panel=DELIVERY, help="Bytes of a batch at most.")
    ] = None,
    value_schema: Annotated[
        str | None,
        typer.Option(
            "--value-schema",
            metavar=SCHEMA,
            rich_help_panel=REGISTRY,
            help="Encode values, which are JSON, by this schema.",
            callback=not_empty,
        ),
    ] = None,
    key_schema: Annotated[
        str | None,
        typer.Option(
            "--key-schema", metavar=SCHEMA, rich_help_panel=REGISTRY, help="Likewise keys.", callback=not_empty
        ),
    ] = None,
    *,
    registry: RegistryOptions,
    options: ClusterOptions,
) -> None:
    """Produce records from files or standard input, and report how many were delivered.

    Exit status: 0 all were delivered, 1 some were not, 2 wrong usage or input that is no record.
    """
    from kcli.client.formats import unescaped
    from kcli.client.partitioner import Partitioning
    from kcli.client.producing import ProducerSettings, TopicProducer

    as_json = input_format is InputFormat.JSONL
    _check(topic, partitioner, as_json=as_json, text_options=key_separator is not None or nulls, partition=partition)
    own = partitioner is Partition.INPUT
    settings = ProducerSettings(
        acks=acks,
        idempotence=idempotence,
        compression=compression,
        linger_ms=linger_ms,
        batch_bytes=batch_size,
        partition=partition,
        partitioning=Partitioning.MURMUR2 if own else Partitioning(partitioner),
        own_partitions=own,
    )
    end = unescaped(delimiter)
    if not end or key_separator == "":
        raise UsageError(f"{'--key-separator' if end else '--delimiter'} is empty")
    if key_schema is not None and key is not None:
        raise UsageError("--key and --key-schema exclude each other")
    encoders = _encoders(topic, key_schema, value_schema, registry)
    input_ = _Input(
        as_json=as_json,
        delimiter=end,
        separator=None if key_separator is None else unescaped(key_separator),
        nulls=nulls,
        key=None if key is None else key_bytes(key, "--key"),
        headers=[_header(text) for text in headers or []],
        encoders=encoders,
    )
    began = time.monotonic()
    producer = TopicProducer(options.connection(), settings, None if topic == "-" else topic)
    try:
        for path in files or [Path("-")]:
            producer.send(input_.records(path))
    except KeyboardInterrupt:
        _tell(producer.close(INTERRUPTED_S), began)
        raise
    except KcliError:
        _tell(producer.close(), began)
        raise
    raise typer.Exit(_tell(producer.close(), began))


def _check(topic: str, partitioner: Partition, *, as_json: bool, text_options: bool, partition: int | None) -> None:
    if not as_json and (topic == "-" or partitioner is Partition.INPUT):
        raise UsageError("only --format jsonl names topics and partitions")
    if as_json and text_options:
        raise UsageError("--key-separator and --nulls are for --format text")
    if partition is not None and partitioner is not Partition.MURMUR2:
        raise UsageError("--partition and --partitioner exclude each other")


def _header(text: str) -> Header:
    name, equals, value = text.partition("=")
    if not name:
        raise UsageError(f"-H {text!r} has no name")
    if not is_utf8(name):
        raise UsageError(f"-H {text!r} has a name that is not UTF-8")
    return name, value.encode("utf-8", "surrogateescape") if equals else None


def _encoders(topic: str, key: str | None, value: str | None, options: RegistryOptions) -> Encoders:
    """Return the encoders of keys and values for --key-schema and --value-schema; a schema file is registered under
    TOPIC-key or TOPIC-value. Raises UsageError, UnreadableInput, SchemaError, RegistryError."""
    from kcli.client.input import NO_ENCODERS, Encoders

    if key is None and value is None:
        return NO_ENCODERS
    if topic == "-":
        raise UsageError("--key-schema and --value-schema need a TOPIC, under which schemas are registered")
    transport = options.transport()
    made = [
        None if schema is None else _encode(schema, f"{topic}-{part}", transport)
        for schema, part in ((key, "key"), (value, "value"))
    ]
    return Encoders(*made)


def _encode(text: str, subject: str, transport: Transport) -> Encode:
    from kcli.schema_client.checking import is_file, schema_of_file
    from kcli.schema_client.client import RegistryClient, parse_subject
    from kcli.schema_client.registry import TransportRegistry
    from kcli.schema_client.writing import writer_of_file, writer_of_subject

    name, _, message = text.partition("#")
    client, registry = RegistryClient(transport), TransportRegistry(transport)
    if is_file(name):
        writer = writer_of_file(client, registry, subject, schema_of_file(Path(name), None, []), message or None)
    else:
        subject, version = parse_subject(name)
        version = "latest" if version is None else version
        writer = writer_of_subject(client, registry, subject, version, message or None)
    note(f"kcli: schema {writer.schema_id} of {writer.subject}")
    return writer.encode


def _tell(delivery: Delivery, began: float) -> int:
    """Write the failures and a summary to stderr. Returns the exit status."""
    for text, count in delivery.failures.items():
        note(f"kcli: {text} ({count_text(count, 'record')})")
    done = delivery.records - delivery.failed
    failed = f", {count_text(delivery.failed, 'record')} not" if delivery.failed else ""
    size = size_text(delivery.bytes)
    note(f"{count_text(done, 'record')} delivered{failed}  {size}  {time.monotonic() - began:.2f} s")
    return 1 if delivery.failed else 0


class _Input:
    """Reads records from files or stdin, in the format of the options."""

    def __init__(
        self,
        *,
        as_json: bool,
        delimiter: bytes,
        separator: bytes | None,
        nulls: bool,
        key: bytes | None,
        headers: list[Header],
        encoders: Encoders,
    ) -> None:
        self._encoders = encoders
        self._as_json = as_json
        self._delimiter = delimiter
        self._separator = separator
        self._nulls = nulls
        self._key = key
        self._headers = headers

    def records(self, path: Path) -> Iterator[NewRecord]:
        """Yield the records of a file, or of stdin if the path is "-". Raises UnreadableInput, BadInput."""
        from kcli.client.input import BadInput

        name = "standard input" if str(path) == "-" else str(path)
        try:
            file = 0 if str(path) == "-" else os.open(path, os.O_RDONLY)
            try:
                for record in self._parsed(file):
                    yield self._completed(record)
            finally:
                if file:
                    os.close(file)
        except OSError as error:
            raise UnreadableInput.of(name, error) from None
        except BadInput as error:
            raise BadInput(f"{name}: {error}") from None

    def _parsed(self, file: int) -> Iterator[NewRecord]:
        from kcli.client.input import json_records, pieces, text_records

        lines = pieces(lambda size: os.read(file, size), self._delimiter)
        if self._as_json:
            return json_records(lines, self._encoders)
        return text_records(lines, self._separator, empty_is_null=self._nulls, encoders=self._encoders)

    def _completed(self, record: NewRecord) -> NewRecord:
        if self._key is not None:
            record = record._replace(key=self._key)
        if self._headers:
            record = record._replace(headers=[*record.headers, *self._headers])
        return record

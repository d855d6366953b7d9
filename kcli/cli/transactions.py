"""kcli transactions: list and describe transactional ids and producers, find transactions that hang, abort them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kcli.cli.client_options import ClusterOptions, Output, SourceOptions, with_options
from kcli.cli.error_report import ErrorReport, cell
from kcli.cli.options import INT32_MAX, Format, chosen, current_ms, distinct, time_text
from kcli.cli.output import aligned, json_line, note, write_text
from kcli.errors import KcliError, UsageError
from kcli.protocol.topic_partition import TopicPartition
from kcli.views.groups import places_text
from kcli.views.transactions import (
    STATES,
    Open,
    Producer,
    Source,
    Transaction,
    TransactionFilter,
    good,
    hanging,
    open_for,
)

if TYPE_CHECKING:
    from kcli.client.transactions import Transactions

EPILOG = """
Examples:

kcli transactions list --state Ongoing

kcli transactions describe billing-1

kcli transactions describe-producers --topic orders --partition 0

kcli transactions find-hanging --topic orders

kcli transactions abort --topic orders --partition 0 --start-offset 1042 --execute

kcli transactions find-hanging --data-dir /var/lib/kafka/data
"""

app = typer.Typer(
    help="List and describe transactions, find those that hang and abort them; of a cluster or in a log directory.",
    epilog=EPILOG,
    no_args_is_help=True,
)

MINUTE_MS = 60_000
DEFAULT_MAX_TIMEOUT_MIN = 15

Topic = Annotated[str, typer.Option("--topic", metavar="TOPIC", help="The partition's topic.")]
Partition = Annotated[
    int, typer.Option("--partition", min=0, max=INT32_MAX, metavar="N", help="The partition's number.")
]
Broker = Annotated[
    int | None,
    typer.Option("--broker-id", max=INT32_MAX, metavar="ID", help="Ask this broker's replicas instead of leaders."),
]


@app.command("list")
@with_options
def list_transactions(
    states: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help=f"Only in this state: {', '.join(STATES)}.")
    ] = None,
    producer_ids: Annotated[
        list[int] | None, typer.Option("--producer-id", metavar="ID", help="Only of this producer.")
    ] = None,
    duration: Annotated[
        int | None,
        typer.Option("--duration-filter", metavar="MS", help="Only open for longer than this; negative: all."),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option("--transactional-id-pattern", metavar="REGEX", help="Only ids that match this whole, RE2 syntax."),
    ] = None,
    *,
    options: SourceOptions,
) -> None:
    """List transactional ids, with coordinator, producer and state."""
    selection = TransactionFilter(
        states=frozenset(chosen(states, STATES, "--state")),
        producer_ids=frozenset(producer_ids or ()),
        longer_than_ms=duration if duration is not None and duration >= 0 else None,
    )
    matches = _matcher(pattern)
    errors = ErrorReport()
    source = _source(options)
    rows = [each for each in errors.results(source.all(selection)) if matches(each.transactional_id)]
    if not rows and (selection != TransactionFilter() or pattern is not None):
        note("kcli: no transactional id matches")
    if options.output is Format.JSONL:
        write_text("".join(json_line(each._asdict()) for each in rows))
    else:
        write_text(_table(("TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE"), rows))
    raise typer.Exit(errors.status_with([*source.trouble, *source.unserved()]))


@app.command("describe")
@with_options
def describe(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TRANSACTIONAL-ID...]", help="Transactional ids.", show_default=False),
    ] = None,
    named: Annotated[
        list[str] | None,
        typer.Option("--transactional-id", metavar="ID", help="Likewise, as kafka-transactions takes it."),
    ] = None,
    *,
    options: SourceOptions,
) -> None:
    """Show transactional ids, all if none is named: producer, state, times, and the partitions of the transaction."""
    errors = ErrorReport()
    source = _source(options)
    transactional_ids = distinct(names, named)
    found = errors.results(
        source.describe(
            transactional_ids or [each.transactional_id for each in errors.results(source.all(TransactionFilter()))]
        )
    )
    _show_transactions(found, options.output)
    raise typer.Exit(errors.status_with([*source.trouble, *source.unserved()]))


@app.command("describe-producers")
@with_options
def describe_producers(
    topic: Topic,
    partition: Partition,
    broker: Broker = None,
    *,
    options: SourceOptions,
) -> None:
    """Show the idempotent and transactional producers that a partition knows."""
    errors = ErrorReport()
    source = _source(options)
    for _, producers in errors.results(source.producers([TopicPartition(topic, partition)], broker)):
        if not producers:
            note(f"kcli: {topic}-{partition} knows no producer")
        if options.output is Format.JSONL:
            write_text("".join(json_line(each._asdict()) for each in producers))
        else:
            write_text(_table(PRODUCERS_HEAD, [_producer_row(each) for each in producers]))
    raise typer.Exit(errors.status_with(source.trouble))


@app.command("find-hanging")
@with_options
def find_hanging(
    broker: Broker = None,
    max_timeout: Annotated[
        int,
        typer.Option(
            "--max-transaction-timeout",
            min=0,
            metavar="MINUTES",
            help="How long transactions may be open: younger ones are left out.",
        ),
    ] = DEFAULT_MAX_TIMEOUT_MIN,
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="Only in this topic.")] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, max=INT32_MAX, metavar="N", help="Only in this partition of it.")
    ] = None,
    *,
    options: SourceOptions,
) -> None:
    """Find transactions that are open in partitions and that no coordinator will end.

    Exit status: 1 if any is found.
    """
    if partition is not None and topic is None:
        raise UsageError("--partition wants --topic")
    errors = ErrorReport()
    source = _source(options)
    if topic is not None and partition is not None:
        places = [TopicPartition(topic, partition)]
    else:
        places = source.places(topic, broker)
    now_ms = current_ms()
    candidates = [
        each
        for place, producers in errors.results(source.producers(places, broker))
        for each in open_for(place, producers, max_timeout * MINUTE_MS, now_ms)
    ]
    found = list(hanging(source, candidates))
    if not found:
        note("kcli: no transaction hangs")
    _show_open(found, options.output, now_ms)
    raise typer.Exit(errors.status_with(source.trouble) or int(bool(found)))


@app.command("abort")
@with_options
def abort(  # noqa: PLR0913, PLR0917 (one parameter an option)
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="The partition's topic.")] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, max=INT32_MAX, metavar="N", help="The partition's number.")
    ] = None,
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", min=0, metavar="N", help="Where the transaction begins in it.")
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option("--producer-id", min=0, metavar="ID", help="Or whose it is, with both epochs.")
    ] = None,
    producer_epoch: Annotated[
        int | None, typer.Option("--producer-epoch", min=0, max=32767, metavar="N", help="The producer's epoch.")
    ] = None,
    coordinator_epoch: Annotated[
        int | None,
        typer.Option("--coordinator-epoch", max=2**31 - 1, metavar="N", help="The coordinator's; negative: 0."),
    ] = None,
    transactional_id: Annotated[
        str | None,
        typer.Option(
            "--transactional-id",
            metavar="ID",
            help="Instead of a partition's: what this id has open, everywhere; its producer is fenced.",
        ),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; else it is only shown.")] = False,
    data_dirs: Annotated[
        list[Path] | None,
        typer.Option("--data-dir", metavar="DIR", help="Refused: files are only read.", hidden=True),
    ] = None,
    output: Output = Format.TABLE,
    *,
    options: ClusterOptions,
) -> None:
    """Abort a transaction that hangs in a partition, or without --execute show which it is."""
    if data_dirs:
        raise UsageError("abort needs a broker: what is in --data-dir is only read")
    in_partition = (topic, partition, start_offset, producer_id, producer_epoch, coordinator_epoch)
    if transactional_id is not None:
        if any(each is not None for each in in_partition):
            raise UsageError("--transactional-id excludes --topic and all that belongs to it")
        cluster = _cluster(options)
        _abort_everywhere(cluster, transactional_id, execute=execute, output=output)
        return
    if topic is None or partition is None:
        raise UsageError("give --topic and --partition, or --transactional-id")
    place = TopicPartition(topic, partition)
    if start_offset is not None:
        if any(each is not None for each in (producer_id, producer_epoch, coordinator_epoch)):
            raise UsageError("--start-offset excludes --producer-id and epochs")
        cluster = _cluster(options)
        found = _opened_at(cluster, place, start_offset)
    elif producer_id is None or producer_epoch is None or coordinator_epoch is None:
        raise UsageError("give --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch")
    else:
        cluster = _cluster(options)
        found = _opened_by(cluster, place, producer_id)._replace(
            producer_epoch=producer_epoch, coordinator_epoch=max(coordinator_epoch, 0)
        )
    _show_open([Open(place, found)], output, current_ms())
    _warn_of_owner(cluster, Open(place, found))
    if execute:
        cluster.abort(place, found.producer_id, found.producer_epoch, found.coordinator_epoch or 0)
    else:
        note("kcli: nothing is changed without --execute")


def _opened_at(cluster: Transactions, place: TopicPartition, start_offset: int) -> Producer:
    producers = [each for _, found in map(good, cluster.producers([place], None)) for each in found]
    found = next((each for each in producers if each.start_offset == start_offset), None)
    if found is None:
        raise KcliError(f"{place}: no transaction is open that begins at offset {start_offset:,}")
    return found


def _opened_by(cluster: Transactions, place: TopicPartition, producer_id: int) -> Producer:
    """Return the state of a producer in a partition. If the partition does not know the producer, or its broker does
    not answer DescribeProducers, only the producer id is set: the transaction can be aborted without the rest of the
    state."""
    known = [each for _, producers in ErrorReport().results(cluster.producers([place], None)) for each in producers]
    unknown = Producer(producer_id, -1, None, None, -1, None)
    return next((each for each in known if each.producer_id == producer_id), unknown)


def _abort_everywhere(cluster: Transactions, transactional_id: str, *, execute: bool, output: Format) -> None:
    _show_transactions([good(each) for each in cluster.describe([transactional_id])], output)
    if execute:
        cluster.fence(transactional_id)
    else:
        note("kcli: nothing is changed without --execute")


def _warn_of_owner(cluster: Transactions, opened: Open) -> None:
    """Write a note if a transaction does not hang: an abort would end it in this partition only, while its coordinator
    has it open in all. Write another note if the partition has no open transaction, or if that is not known."""
    if opened.producer.start_offset is None:
        note("kcli: no transaction of this producer is open there, as far as is known")
        return
    try:
        if not list(hanging(cluster, [opened])):
            note("kcli: it does not hang: a coordinator has it in a transaction, and will end it")
    except KcliError as error:
        note(f"kcli: whether it hangs is not known: {error}")


# where the commands read transactions: from a cluster, or from the files of log directories


def _cluster(options: ClusterOptions) -> Transactions:
    from kcli.client.transactions import Transactions

    return Transactions(options.connection())


def _source(options: SourceOptions) -> Source:
    if not options.data_dirs:
        return _cluster(options)
    from kcli.inspector.transactions import TransactionFiles

    return TransactionFiles(options.data_dirs, current_ms())


def _matcher(pattern: str | None) -> Callable[[str], object]:
    """Return a function that returns whether the whole of a transactional id matches `pattern`; for None, every id
    matches. Raises UsageError if the pattern is not a regular expression of RE2."""
    if pattern is None:
        return lambda _: True
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        matches: Callable[[str], object] = re2.compile(pattern, options).fullmatch
    except re2.error as error:
        raise UsageError(f"--transactional-id-pattern {pattern!r}: {_reason(error)}") from None
    return matches


def _reason(error: Exception) -> str:
    (text,) = error.args
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)


# output


PRODUCERS_HEAD = (
    "PRODUCER-ID", "PRODUCER-EPOCH", "COORDINATOR-EPOCH", "LAST-SEQUENCE", "LAST-TIMESTAMP", "START-OFFSET",
)  # fmt: skip
OPEN_HEAD = (
    "TOPIC", "PARTITION", "PRODUCER-ID", "PRODUCER-EPOCH", "COORDINATOR-EPOCH", "START-OFFSET", "LAST-TIMESTAMP",
    "MINUTES",
)  # fmt: skip
TRANSACTIONS_HEAD = (
    "TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "PRODUCER-EPOCH", "STATE", "TIMEOUT-MS", "START", "PARTITIONS",
)  # fmt: skip


def _table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    table = [tuple(map(cell, row)) for row in rows]
    return aligned([head, *table]) if table else ""


def _time(time_ms: int | None) -> str | None:
    return None if time_ms is None or time_ms < 0 else time_text(time_ms)


def _producer_row(each: Producer) -> tuple[object, ...]:
    return (
        each.producer_id,
        each.producer_epoch,
        each.coordinator_epoch,
        each.last_sequence,
        _time(each.last_timestamp_ms),
        each.start_offset,
    )


def _show_transactions(found: list[Transaction], output: Format) -> None:
    if output is Format.JSONL:
        write_text("".join(json_line(each._asdict()) for each in found))
        return
    rows = [(*each[:6], _time(each.start_ms), places_text(each.partitions) or None) for each in found]
    write_text(_table(TRANSACTIONS_HEAD, rows))


def _show_open(found: list[Open], output: Format, now_ms: int) -> None:
    if output is Format.JSONL:
        write_text("".join(json_line(_open_object(each)) for each in found))
        return
    rows = []
    for (topic, number), each in found:
        since = each.last_timestamp_ms
        minutes = (now_ms - since) // MINUTE_MS if since >= 0 else None
        cells = (
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.start_offset,
            _time(since),
            minutes,
        )
        rows.append((topic, number, *cells))
    write_text(_table(OPEN_HEAD, rows))


def _open_object(opened: Open) -> dict[str, Any]:
    topic, number = opened.place
    return {"topic": topic, "partition": number, **opened.producer._asdict()}

"""kcli transactions: list and describe transactional ids and producers, find transactions that hang, abort them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kcli.cli.client_options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT_S,
    Bootstrap,
    DataDirs,
    Output,
    Properties,
    Timeout,
    Verbose,
    connection,
)
from kcli.cli.options import INT32_MAX, Format, chosen, current_ms, distinct, time_text
from kcli.cli.output import aligned, json_line, note, write_text
from kcli.cli.told import Told, cell
from kcli.errors import KcliError, UsageError
from kcli.group_view import Place, places_text
from kcli.transaction_view import STATES, Open, Producer, Source, Transaction, Wanted, good, hanging, open_for

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
def list_transactions(  # noqa: PLR0913, PLR0917 (one parameter an option)
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
    data_dirs: DataDirs = None,
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    verbose: Verbose = False,
) -> None:
    """List transactional ids, with coordinator, producer and state."""
    wanted = Wanted(
        states=frozenset(chosen(states, STATES, "--state")),
        producer_ids=frozenset(producer_ids or ()),
        longer_than_ms=duration if duration is not None and duration >= 0 else None,
    )
    matches = _matcher(pattern)
    told = Told()
    source = _source(data_dirs, bootstrap, properties, timeout, verbose)
    rows = [each for each in told.good(source.all(wanted)) if matches(each.transactional_id)]
    if not rows and (wanted != Wanted() or pattern is not None):
        note("kcli: no transactional id matches")
    if output is Format.JSONL:
        write_text("".join(json_line(each._asdict()) for each in rows))
    else:
        write_text(_table(("TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE"), rows))
    raise typer.Exit(told.status(source.trouble))


@app.command("describe")
def describe(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TRANSACTIONAL-ID...]", help="Transactional ids.", show_default=False),
    ] = None,
    named: Annotated[
        list[str] | None,
        typer.Option("--transactional-id", metavar="ID", help="Likewise, as kafka-transactions takes it."),
    ] = None,
    data_dirs: DataDirs = None,
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    verbose: Verbose = False,
) -> None:
    """Show transactional ids, all if none is named: producer, state, times, and the partitions of the transaction."""
    told = Told()
    source = _source(data_dirs, bootstrap, properties, timeout, verbose)
    asked = distinct(names, named)
    found = told.good(source.describe(asked or [each.transactional_id for each in told.good(source.all(Wanted()))]))
    _show_transactions(found, output)
    raise typer.Exit(told.status(source.trouble))


@app.command("describe-producers")
def describe_producers(  # noqa: PLR0913, PLR0917 (one parameter an option)
    topic: Topic,
    partition: Partition,
    broker: Broker = None,
    data_dirs: DataDirs = None,
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    verbose: Verbose = False,
) -> None:
    """Show the idempotent and transactional producers that a partition knows."""
    told = Told()
    source = _source(data_dirs, bootstrap, properties, timeout, verbose)
    for _, producers in told.good(source.producers([(topic, partition)], broker)):
        if not producers:
            note(f"kcli: {topic}-{partition} knows no producer")
        if output is Format.JSONL:
            write_text("".join(json_line(each._asdict()) for each in producers))
        else:
            write_text(_table(PRODUCERS_HEAD, [_producer_row(each) for each in producers]))
    raise typer.Exit(told.status(source.trouble))


@app.command("find-hanging")
def find_hanging(  # noqa: PLR0913, PLR0917 (one parameter an option)
    broker: Broker = None,
    max_timeout: Annotated[
        int,
        typer.Option(
            "--max-transaction-timeout",
            min=0,
            metavar="MINUTES",
            help="How long transactions may be open: younger ones are not looked at.",
        ),
    ] = DEFAULT_MAX_TIMEOUT_MIN,
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="Only in this topic.")] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, max=INT32_MAX, metavar="N", help="Only in this partition of it.")
    ] = None,
    data_dirs: DataDirs = None,
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    verbose: Verbose = False,
) -> None:
    """Find transactions that are open in partitions and that no coordinator will end; 1 if there are some."""
    if partition is not None and topic is None:
        raise UsageError("--partition wants --topic")
    told = Told()
    source = _source(data_dirs, bootstrap, properties, timeout, verbose)
    places = [(topic, partition)] if topic is not None and partition is not None else source.places(topic, broker)
    now_ms = current_ms()
    candidates = [
        each
        for place, producers in told.good(source.producers(places, broker))
        for each in open_for(place, producers, max_timeout * MINUTE_MS, now_ms)
    ]
    found = list(hanging(source, candidates))
    if not found:
        note("kcli: no transaction hangs")
    _show_open(found, output, now_ms)
    raise typer.Exit(told.status(source.trouble) or int(bool(found)))


@app.command("abort")
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
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    verbose: Verbose = False,
) -> None:
    """Abort a transaction that hangs in a partition, or without --execute show which it is."""
    if data_dirs:
        raise UsageError("abort needs a broker: what is in --data-dir is only read")
    in_partition = (topic, partition, start_offset, producer_id, producer_epoch, coordinator_epoch)
    if transactional_id is not None:
        if any(each is not None for each in in_partition):
            raise UsageError("--transactional-id excludes --topic and all that belongs to it")
        cluster = _cluster(bootstrap, properties, timeout, verbose)
        _abort_everywhere(cluster, transactional_id, execute=execute, output=output)
        return
    if topic is None or partition is None:
        raise UsageError("give --topic and --partition, or --transactional-id")
    place = topic, partition
    if start_offset is not None:
        if any(each is not None for each in (producer_id, producer_epoch, coordinator_epoch)):
            raise UsageError("--start-offset excludes --producer-id and epochs")
        cluster = _cluster(bootstrap, properties, timeout, verbose)
        found = _opened_at(cluster, place, start_offset)
    elif producer_id is None or producer_epoch is None or coordinator_epoch is None:
        raise UsageError("give --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch")
    else:
        cluster = _cluster(bootstrap, properties, timeout, verbose)
        found = _opened_by(cluster, place, producer_id)._replace(
            producer_epoch=producer_epoch, coordinator_epoch=max(coordinator_epoch, 0)
        )
    _show_open([Open(place, found)], output, current_ms())
    _warn_of_owner(cluster, Open(place, found))
    if execute:
        cluster.abort(place, found.producer_id, found.producer_epoch, found.coordinator_epoch or 0)
    else:
        note("kcli: nothing is changed without --execute")


def _opened_at(cluster: Transactions, place: Place, start_offset: int) -> Producer:
    producers = [each for _, told in map(good, cluster.producers([place], None)) for each in told]
    found = next((each for each in producers if each.start_offset == start_offset), None)
    if found is None:
        raise KcliError(f"{place[0]}-{place[1]}: no transaction is open that begins at offset {start_offset:,}")
    return found


def _opened_by(cluster: Transactions, place: Place, producer_id: int) -> Producer:
    """The producer as the partition knows it, where it does: a broker that is too old to tell may abort too."""
    known = [each for _, producers in Told().good(cluster.producers([place], None)) for each in producers]
    unknown = Producer(producer_id, -1, None, None, -1, None)
    return next((each for each in known if each.producer_id == producer_id), unknown)


def _abort_everywhere(cluster: Transactions, transactional_id: str, *, execute: bool, output: Format) -> None:
    _show_transactions([good(each) for each in cluster.describe([transactional_id])], output)
    if execute:
        cluster.fence(transactional_id)
    else:
        note("kcli: nothing is changed without --execute")


def _warn_of_owner(cluster: Transactions, opened: Open) -> None:
    """A transaction that does not hang would be ended behind the back of its coordinator, in one partition."""
    if opened.producer.start_offset is None:
        note("kcli: no transaction of this producer is open there, as far as is known")
        return
    try:
        if not list(hanging(cluster, [opened])):
            note("kcli: it does not hang: a coordinator has it in a transaction, and will end it")
    except KcliError as error:
        note(f"kcli: whether it hangs is not known: {error}")


# who is asked


def _cluster(bootstrap: str, properties: list[str] | None, timeout: float, verbose: bool) -> Transactions:
    from kcli.client.transactions import Transactions

    return Transactions(connection(bootstrap, properties, timeout, verbose))


def _source(
    data_dirs: list[Path] | None, bootstrap: str, properties: list[str] | None, timeout: float, verbose: bool
) -> Source:
    if not data_dirs:
        return _cluster(bootstrap, properties, timeout, verbose)
    from kcli.inspector.transactions import TransactionFiles

    return TransactionFiles(data_dirs, current_ms())


def _matcher(pattern: str | None) -> Callable[[str], object]:
    """Does a transactional id match the whole pattern? All do where there is none."""
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


# how they look


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

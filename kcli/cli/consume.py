"""kcli consume: show the records of a topic or, as a member of a group, those of several topics."""

from __future__ import annotations

import select
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.cli.client_options import ClusterOptions, with_options
from kcli.cli.options import INT32_MAX, Format, not_empty, time_ms
from kcli.cli.output import PipeClosed, note, on_terminal, terminal_width, write
from kcli.cli.registry_options import SchemasOptions
from kcli.client.membership import Assignor, Commit, Membership, Protocol, Reset
from kcli.errors import UsageError
from kcli.protocol.topic_partition import TopicPartition
from kcli.views.groups import places_text

if TYPE_CHECKING:
    from kcli.client.connection import Connection
    from kcli.client.consuming import Record, RecordSelection
    from kcli.client.formats import Printer, Style

EPILOG = """
Examples:

kcli consume orders

kcli consume orders -e -f '%p %o %k %s\\n'

kcli consume orders -p 0 -o -10 -e

kcli consume orders --time -2h:-1h --format jsonl | kcli produce orders-again --format jsonl

kcli consume orders --schemas http://127.0.0.1:8081      (values in Confluent's wire format, as JSON)

kcli consume orders payments --group billing --assignor cooperative-sticky --commit sync
"""

GROUP = "Group"
ALONE = Protocol.CLASSIC, Commit.AUTO, Reset.EARLIEST


class Isolation(StrEnum):
    """The isolation level of a consumer (isolation.level)."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


@with_options
def consume(  # noqa: PLR0913, PLR0917 (one parameter an option)
    topics: Annotated[
        list[str],
        typer.Argument(
            metavar="TOPIC...", help="The topic; with --group one or more.", show_default=False, callback=not_empty
        ),
    ],
    partitions: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", min=0, max=INT32_MAX, help="Only this partition; again for more."),
    ] = None,
    offsets: Annotated[
        list[str] | None,
        typer.Option(
            "--offset",
            "-o",
            metavar="[PARTITION:]OFFSET",
            help="Where to begin: beginning (the default), end, N, -N (the last N); for one partition P:N.",
        ),
    ] = None,
    times: Annotated[
        str | None,
        typer.Option("--time", metavar="FROM:TO", help="Records of these times: -2h:-1h, -90s:, epoch ms, ISO 8601."),
    ] = None,
    to_end: Annotated[bool, typer.Option("--exit", "-e", help="Exit at the end: where partitions now end.")] = False,
    count: Annotated[int | None, typer.Option("--count", "-c", min=0, help="Exit after so many records.")] = None,
    output: Annotated[Format, typer.Option("--format", help="How to show records.")] = Format.TABLE,
    template: Annotated[
        str | None,
        typer.Option(
            "--template",
            "-f",
            metavar="TEXT",
            help="Show each as TEXT, in which %t %p %o %T %k %K %s %S %R %h %% \\n \\r \\t \\xHH stand for something.",
        ),
    ] = None,
    nulls: Annotated[bool, typer.Option("--nulls", "-Z", help="With -f: show null as NULL, not as nothing.")] = False,
    unfolded: Annotated[bool, typer.Option("--unfolded", help="Long values whole, on a terminal too.")] = False,
    isolation: Annotated[
        Isolation, typer.Option("--isolation-level", help="Leave out what was aborted or is not committed, or not.")
    ] = Isolation.READ_COMMITTED,
    group: Annotated[
        str | None,
        typer.Option(
            "--group", "-g", rich_help_panel=GROUP, help="Join this group, and go on where it is.", callback=not_empty
        ),
    ] = None,
    assignors: Annotated[
        list[Assignor] | None,
        typer.Option(
            "--assignor", rich_help_panel=GROUP, help="Assignment strategy, range unless said; again for more."
        ),
    ] = None,
    instance_id: Annotated[
        str | None,
        typer.Option("--group-instance-id", metavar="ID", rich_help_panel=GROUP, help="Be a static member."),
    ] = None,
    protocol: Annotated[
        Protocol, typer.Option("--group-protocol", rich_help_panel=GROUP, help="consumer: the coordinator assigns.")
    ] = Protocol.CLASSIC,
    commit: Annotated[
        Commit,
        typer.Option("--commit", rich_help_panel=GROUP, help="Commit now and then, after all that is shown, or never."),
    ] = Commit.AUTO,
    reset: Annotated[
        Reset,
        typer.Option(
            "--auto-offset-reset",
            rich_help_panel=GROUP,
            help="Where to begin without a committed offset; none: that is a failure.",
        ),
    ] = Reset.EARLIEST,
    *,
    schemas: SchemasOptions,
    options: ClusterOptions,
) -> None:
    """Show the records of a topic's partitions, then new ones as they are appended, until interrupted.

    Without --group no group is joined and no offset committed. Records of one partition come in the order of their
    offsets; those of several partitions as brokers answer. The command ends by itself with -e, with -c, and at the end
    of a --time range, if it has one. In a group, assigned and revoked partitions are reported on standard error.
    """
    printer = _printer(output, template, schemas, nulls=nulls, unfolded=unfolded)
    cluster = options.connection()
    committed_only = isolation is Isolation.READ_COMMITTED
    if group is None:
        if len(topics) > 1:
            raise UsageError("several topics need a --group")
        if assignors or instance_id is not None or (protocol, commit, reset) != ALONE:
            raise UsageError(
                "--assignor, --group-instance-id, --group-protocol, --commit, --auto-offset-reset need a --group"
            )
        alone = _selection(topics[0], partitions, offsets, times)
        found = _records(cluster, replace(alone, to_end=to_end, count=count, committed_only=committed_only))
    else:
        if partitions or offsets or times is not None:
            raise UsageError("--group excludes --partition, --offset and --time: the group has assignments and offsets")
        if protocol is Protocol.CONSUMER and assignors:
            raise UsageError("--assignor is of the classic protocol: in the other the coordinator assigns")
        membership = Membership(
            group=group,
            topics=tuple(dict.fromkeys(topics)),
            protocol=protocol,
            assignors=tuple(assignors or ()),
            instance_id=instance_id,
            commit=commit,
            reset=reset,
            to_end=to_end,
            count=count,
            committed_only=committed_only,
        )
        found = _records_of_member(cluster, membership)
    with closing(found):
        for chunk in found:
            if chunk:
                write(memoryview(b"".join(map(printer, chunk))))
            elif _reader_gone():
                raise PipeClosed


def _selection(
    topic: str, partitions: list[int] | None, offsets: list[str] | None, times: str | None
) -> RecordSelection:
    from kcli.client.consuming import RecordSelection
    from kcli.client.ranges import parse_start, parse_times

    if times is not None and offsets:
        raise UsageError("--time and --offset exclude each other")
    return RecordSelection(
        topic=topic,
        partitions=tuple(dict.fromkeys(partitions or [])),
        starts=dict(parse_start(text) for text in offsets or []),
        times=None if times is None else parse_times(times, lambda text: time_ms(text, "--time")),
    )


def _records(cluster: Connection, selection: RecordSelection) -> Generator[list[Record]]:
    from kcli.client import consuming

    return consuming.consume(cluster, selection)


def _records_of_member(cluster: Connection, membership: Membership) -> Generator[list[Record]]:
    from kcli.client import group_consuming

    return group_consuming.consume(cluster, membership, _note_partitions)


def _note_partitions(change: str, places: list[TopicPartition]) -> None:
    note(f"kcli: {change} {places_text(places) or 'no partition'}")


def _printer(output: Format, template: str | None, schemas: SchemasOptions, *, nulls: bool, unfolded: bool) -> Printer:
    from kcli.client import formats

    null = b"NULL" if nulls else b""
    fold = -1 if unfolded or not on_terminal() else max(40, terminal_width())
    reader = schemas.reader()
    if reader is None:
        if template is not None:
            return formats.percent(template, null)
        return formats.jsonl if output is Format.JSONL else formats.table(fold, _styles())
    from kcli.client import decoded_formats

    if template is not None:
        return decoded_formats.percent(reader, template, null)
    return decoded_formats.jsonl(reader) if output is Format.JSONL else decoded_formats.table(reader, fold, _styles())


def _styles() -> list[Style] | None:
    if not on_terminal():
        return None
    from kcli.cli.dump import STYLES

    return STYLES[:5]


def _reader_gone() -> bool:
    """Whether the reader of stdout has closed the pipe. Without this check, the command would end only when it writes
    the next record."""
    watch = select.poll()
    watch.register(1, 0)
    return any(event & select.POLLERR for _, event in watch.poll(0))

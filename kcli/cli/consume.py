"""kcli consume: show the records of a topic."""

from __future__ import annotations

import select
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.cli.client_options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT_S,
    Bootstrap,
    Properties,
    Timeout,
    Verbose,
    connection,
)
from kcli.cli.options import Format, time_ms
from kcli.cli.output import PipeClosed, on_terminal, terminal_width, write
from kcli.errors import UsageError

if TYPE_CHECKING:
    from kcli.client.formats import Printer

EPILOG = """
Examples:

kcli consume orders

kcli consume orders -e -f '%p %o %k %s\\n'

kcli consume orders -p 0 -o -10 -e

kcli consume orders --time -2h:-1h --format jsonl | kcli produce orders-again --format jsonl
"""


class Isolation(StrEnum):
    """Which records of transactions are seen."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


def consume(  # noqa: PLR0913, PLR0917 (one parameter an option)
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", show_default=False)],
    partitions: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, help="Only this partition; again for more.")
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
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    verbose: Verbose = False,
) -> None:
    """Show the records of a topic's partitions, and those that come, until interrupted.

    No group is joined and no offset committed. Records of one partition come in order; those of several as brokers
    answer. A range of times that has an end, -e and -c end the command.
    """
    from kcli.client.consuming import Wanted
    from kcli.client.consuming import consume as records
    from kcli.client.ranges import parse_start, parse_times

    if times is not None and offsets:
        raise UsageError("--time and --offset exclude each other")
    wanted = Wanted(
        topic=topic,
        partitions=tuple(dict.fromkeys(partitions or [])),
        starts=dict(parse_start(text) for text in offsets or []),
        times=None if times is None else parse_times(times, lambda text: time_ms(text, "--time")),
        to_end=to_end,
        count=count,
        committed_only=isolation is Isolation.READ_COMMITTED,
    )
    printer = _printer(output, template, nulls=nulls, unfolded=unfolded)
    for chunk in records(connection(bootstrap, properties, timeout, verbose), wanted):
        if chunk:
            write(memoryview(b"".join(map(printer, chunk))))
        elif _reader_gone():
            raise PipeClosed


def _printer(output: Format, template: str | None, *, nulls: bool, unfolded: bool) -> Printer:
    from kcli.client import formats

    if template is not None:
        return formats.percent(template, b"NULL" if nulls else b"")
    if output is Format.JSONL:
        return formats.jsonl
    if not on_terminal():
        return formats.table(-1, None)
    from kcli.cli.dump import STYLES

    return formats.table(-1 if unfolded else max(40, terminal_width()), STYLES[:5])


def _reader_gone() -> bool:
    """Nobody reads stdout any more, which else only the next record would show."""
    watch = select.poll()
    watch.register(1, 0)
    return any(event & select.POLLERR for _, event in watch.poll(0))

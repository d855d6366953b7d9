"""Options that commands share which talk to a cluster, or are told the same by files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.cli.options import Format, not_empty, pairs

if TYPE_CHECKING:
    from kcli.client.connection import Connection

CONNECTION = "Connection"
TIMEOUT_MAX_S = 3600  # more the client library does not take
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="KCLI_BOOTSTRAP_SERVER",
        metavar="HOST:PORT,...",
        rich_help_panel=CONNECTION,
        help="Brokers to begin with.",
        callback=not_empty,
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Option("-X", metavar="NAME=VALUE", rich_help_panel=CONNECTION, help="A property of librdkafka."),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        min=0.1,
        max=TIMEOUT_MAX_S,
        metavar="SECONDS",
        rich_help_panel=CONNECTION,
        help="How long to wait for answers.",
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", rich_help_panel=CONNECTION, help="Show the log lines of the client library.")
]
Output = Annotated[Format, typer.Option("--format", help="How to show the result.")]
DataDirs = Annotated[
    list[Path] | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Read a broker's log directory instead of asking a cluster; again for more of that broker.",
    ),
]
DEFAULT_TIMEOUT_S = 10.0


def connection(bootstrap: str, properties: list[str] | None, timeout_s: float, verbose: bool) -> Connection:
    """Where these options lead. Raises UsageError."""
    from kcli.client.connection import Connection

    return Connection(bootstrap, pairs(properties, "-X"), timeout_s, verbose)


def count_text(number: int, noun: str) -> str:
    """1 record, 2,000 records."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

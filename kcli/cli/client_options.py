"""Options that all commands share which talk to a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kcli.cli.options import pairs

if TYPE_CHECKING:
    from kcli.client.connection import Connection

CONNECTION = "Connection"
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
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Option("-X", metavar="NAME=VALUE", rich_help_panel=CONNECTION, help="A property of librdkafka."),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", min=0.1, metavar="SECONDS", rich_help_panel=CONNECTION, help="How long to wait for answers."
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", rich_help_panel=CONNECTION, help="Show the log lines of the client library.")
]
DEFAULT_TIMEOUT_S = 10.0


def connection(bootstrap: str, properties: list[str] | None, timeout_s: float, verbose: bool) -> Connection:
    """Where these options lead. Raises UsageError."""
    from kcli.client.connection import Connection

    return Connection(bootstrap, pairs(properties, "-X"), timeout_s, verbose)


def count_text(number: int, noun: str) -> str:
    """1 record, 2,000 records."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

"""Options shared by the commands that run Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kcli.cli.output import note

if TYPE_CHECKING:
    from kcli.export.session import SparkFailed

SPARK = "Spark"
GOES_ON = "goes on from its checkpoint"

Master = Annotated[str, typer.Option(metavar="URL", rich_help_panel=SPARK, help="Spark's master.")]
SparkConf = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", rich_help_panel=SPARK, help="A setting of Spark's."),
]
Debug = Annotated[bool, typer.Option("--debug", rich_help_panel=SPARK, help="Show Spark's own errors.")]


def tell_failure(error: SparkFailed, goes_on: str, *, debug: bool) -> None:
    """Write Spark's log to stderr with --debug; and if Spark failed, not what it ran, add the next step to the error.
    goes_on: what the same command does."""
    for line in error.trace.rstrip().split("\n") if debug and error.trace else ():
        note(line)
    from kcli.export.session import DISK_FULL, KNOWN_REASONS

    if error.is_of_job:
        return
    reason = str(error)
    more = " when there is room" if reason == DISK_FULL else ""
    if not debug and reason not in KNOWN_REASONS:
        more += "; --debug shows Spark's log"
    error.args = (f"{reason}: the same command {goes_on}{more}",)

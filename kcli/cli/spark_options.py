"""Options shared by the commands that run Spark."""

from __future__ import annotations

from typing import Annotated

import typer

SPARK = "Spark"

Master = Annotated[str, typer.Option(metavar="URL", rich_help_panel=SPARK, help="Spark's master.")]
SparkConf = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", rich_help_panel=SPARK, help="A setting of Spark's."),
]
Debug = Annotated[bool, typer.Option("--debug", rich_help_panel=SPARK, help="Show Spark's own errors.")]

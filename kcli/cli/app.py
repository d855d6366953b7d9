"""The Typer application: every command, by name. Commands import what they need when they run."""

from __future__ import annotations

from typing import Annotated

import typer

from kcli.cli.cluster import EPILOG as CLUSTER_EXAMPLES
from kcli.cli.cluster import cluster
from kcli.cli.compact import EPILOG as COMPACT_EXAMPLES
from kcli.cli.compact import compact
from kcli.cli.consume import EPILOG as CONSUME_EXAMPLES
from kcli.cli.consume import consume
from kcli.cli.dump_segment import EPILOG as DUMP_SEGMENT_EXAMPLES
from kcli.cli.dump_segment import dump_segment
from kcli.cli.output import on_terminal
from kcli.cli.produce import EPILOG as PRODUCE_EXAMPLES
from kcli.cli.produce import produce
from kcli.cli.recover import EPILOG as RECOVER_EXAMPLES
from kcli.cli.recover import recover
from kcli.cli.topics import app as topics
from kcli.cli.verify import EPILOG as VERIFY_EXAMPLES
from kcli.cli.verify import verify

app = typer.Typer(
    name="kcli",
    help="Read, check and repair Apache Kafka logs, without a JVM.",
    epilog="Exit status: 0 fine, 1 findings or a failure, 2 usage or unreadable input. See also kcli(1).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown" if on_terminal() else None,  # rich takes as long to load as all the rest
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"kcli {version('kcli')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Read, check and repair Apache Kafka logs, without a JVM."""


app.command("dump-segment", no_args_is_help=True, epilog=DUMP_SEGMENT_EXAMPLES)(dump_segment)
app.command("verify", no_args_is_help=True, epilog=VERIFY_EXAMPLES)(verify)
app.command("recover", no_args_is_help=True, epilog=RECOVER_EXAMPLES)(recover)
app.command("compact", no_args_is_help=True, epilog=COMPACT_EXAMPLES)(compact)
app.add_typer(topics, name="topics")
app.command("produce", no_args_is_help=True, epilog=PRODUCE_EXAMPLES)(produce)
app.command("consume", no_args_is_help=True, epilog=CONSUME_EXAMPLES)(consume)
app.command("cluster", epilog=CLUSTER_EXAMPLES)(cluster)

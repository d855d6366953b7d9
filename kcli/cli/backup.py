"""kcli backup: adds what is new in a broker's log directory to a backup in a directory or a bucket."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.cli.options import Format, current_ms, time_text
from kcli.cli.output import aligned, count_text, json_line, verdict, write_text
from kcli.cli.progress import Progress, size_text
from kcli.errors import UsageError
from kcli.printable import printable

if TYPE_CHECKING:
    from kcli.tier.store import Store

EPILOG = """
Examples:

kcli backup /var/lib/kafka --to /mnt/backup/node-1

kcli backup /var/lib/kafka --to s3://bucket/node-1

kcli backup --to s3://bucket/node-1 --orphans         what no run needs
"""
REMOVED_AT_ONCE = 100


def backup(
    log_dir: Annotated[
        Path | None,
        typer.Argument(
            metavar="[LOG_DIR]", help="A broker's log directory, which the broker may be writing.", show_default=False
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="DIR|URL",
            help="The store of the backup: a directory, or a bucket: s3://, gs://, az://. One for each log directory.",
            show_default=False,
        ),
    ] = None,
    orphans: Annotated[
        bool,
        typer.Option("--orphans", help="Name the objects that no run needs, with the commands that remove them."),
    ] = False,
    output: Annotated[Format, typer.Option("--format", help="How to show the result.")] = Format.TABLE,
) -> None:
    """Back up a broker's log directory: segments, leader epochs, producers, the metadata log, groups, transactions.

    Each run copies what the store does not have yet, and ends with a manifest: the run is whole, or not there. The
    broker goes on meanwhile; nothing in the log directory is written. kcli restore makes a log directory of a run.

    Exit status: 0 done, 1 something is damaged, or there are orphans, 2 usage or unreadable input.
    """
    if to is None:
        raise UsageError("give --to: a directory, or the URL of a bucket")
    if orphans:
        if log_dir is not None:
            raise UsageError("--orphans asks the store alone: give no LOG_DIR")
        from kcli.tier.opening import open_store

        _show_orphans(open_store(to, option="--to"), output)
        return
    if log_dir is None:
        raise UsageError("give the LOG_DIR to back up")
    _back_up(log_dir, to, output)


def _back_up(log_dir: Path, to: str, output: Format) -> None:
    from kcli.backup.backup import back_up
    from kcli.tier.address import parse_address
    from kcli.tier.opening import make_store

    parsed = parse_address(to, "--to")
    if isinstance(parsed, str) and Path(parsed).resolve().is_relative_to(log_dir.resolve()):
        raise UsageError(f"--to {printable(parsed)} is inside the log directory; Kafka would not start with it")
    if not log_dir.is_dir():
        raise UsageError(f"{printable(log_dir)}: no such directory")
    progress = Progress(lambda: sum(each.stat().st_size for each in log_dir.glob("*/*.log")))
    result = back_up(log_dir, make_store(to, "--to"), current_ms, progress.advance)
    progress.clear()
    manifest = result.manifest
    status = 1 if result.troubles else 0
    with verdict(status):
        if output is Format.JSONL:
            row = {"run": result.name, "started": manifest.started_ms, "at": manifest.at_ms}
            row |= {"partitions": len(manifest.partitions), "bytes": manifest.size}
            row |= {"new_objects": result.objects, "new_bytes": result.copied, "troubles": result.troubles}
            write_text(json_line(row))
        else:
            parts = [count_text(len(manifest.partitions), "partition"), size_text(manifest.size)]
            parts.append(f"new: {count_text(result.objects, 'object')}, {size_text(result.copied)}")
            write_text(f"{time_text(manifest.at_ms)}  {', '.join(parts)}\n")
            for trouble in result.troubles:
                write_text(f"  wrong    {printable(trouble)}\n")
    raise typer.Exit(status)


def _show_orphans(store: Store, output: Format) -> None:
    from kcli.backup.garbage import orphans
    from kcli.inspector.verify.next_steps import remove_all

    found = list(orphans(store))
    status = 1 if found else 0
    with verdict(status):
        if output is Format.JSONL:
            for each in found:
                write_text(json_line({"object": each.name, "bytes": each.size, "odd": each.odd}))
        elif found:
            write_text(aligned([("BYTES", "OBJECT"), *((f"{each.size:,}", printable(each.name)) for each in found)]))
            names = [f"{store.address}/{each.name}" for each in found]
            write_text("If no backup to this store is running:\n")
            for begin in range(0, len(names), REMOVED_AT_ONCE):
                write_text(f"Next: {printable(remove_all(names[begin : begin + REMOVED_AT_ONCE]))}\n")
        else:
            write_text("every object is needed by a run\n")
    raise typer.Exit(status)

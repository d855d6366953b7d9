"""kcli restore: makes a log directory of a backup, as it was at a time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.cli.error_report import all_or_nothing
from kcli.cli.options import Format, not_empty, time_ms, time_text
from kcli.cli.output import aligned, count_text, json_line, verdict, write_text
from kcli.cli.progress import Progress, size_text
from kcli.errors import UnreadableInput, UsageError
from kcli.printable import printable

if TYPE_CHECKING:
    from kcli.backup.manifest import Manifest
    from kcli.backup.restore import Result
    from kcli.backup.runs import Run
    from kcli.tier.store import Store

EPILOG = """
Examples:

kcli restore /mnt/backup/node-1         the runs, with their times

kcli restore s3://bucket/node-1 --at 2026-11-27T12:00:00Z --out /var/lib/kafka

kcli restore s3://bucket/node-1 --at -2h --topic orders --out orders
"""


def restore(
    store: Annotated[str, typer.Argument(metavar="DIR|URL", help="The store of a backup, as --to of kcli backup.")],
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME",
            help="The newest run at or before this time: epoch ms, ISO 8601, or ago (-2h). Default: the newest.",
            show_default=False,
        ),
    ] = None,
    outs: Annotated[
        list[Path] | None,
        typer.Option(
            "--out",
            metavar="NEW",
            help="The new log directory; again for each more of the run. Without it, show the runs.",
            show_default=False,
        ),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="TOPIC",
            help="Only the partitions of this topic, without a metadata log; may be given again.",
            callback=not_empty,
            show_default=False,
        ),
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="How to show the result.")] = Format.TABLE,
) -> None:
    """Make a log directory of a backup: the same offsets, leader epochs, groups, transactions, metadata.

    Kafka opens it as after a crash. Every object is compared with its SHA-256. NEW is complete, or does not exist.

    Exit status: 0 done, 1 something in the backup is damaged or was when it was made, 2 usage or unreadable input.
    """
    from kcli.backup.runs import no_runs, runs
    from kcli.tier.opening import open_store

    opened = open_store(store, option="restore")
    found = runs(opened)
    if not found:
        raise no_runs(opened)
    if at is not None:
        until = time_ms(at, "--at")
        earlier = [each for each in found if each.at_ms <= until]
        if not earlier:
            raise UsageError(f"--at {printable(at)} is before the first run, at {time_text(found[0].at_ms)}")
        found = earlier
    if not outs:
        if topics:
            raise UsageError("--topic restores a topic: give --out, too")
        _show_runs(opened, found, output)
        return
    for out in outs:
        if not opened.is_remote and out.resolve().is_relative_to(Path(opened.address).resolve()):
            raise UsageError(f"--out {printable(out)} is inside the backup")
    _restore(opened, _newest(opened, found, outs, topics or []), outs, topics or [], output)


def _newest(store: Store, found: list[Run], outs: list[Path], topics: list[str]) -> Manifest:
    """Return the manifest of the newest of the runs `found`. If it is damaged, raises UnreadableInput with the command
    that restores the run before it, as older data is restored only on request."""
    from kcli.backup.runs import read_each
    from kcli.inspector.verify.next_steps import restore_backup

    damaged: tuple[Run, UnreadableInput] | None = None
    for run, manifest in read_each(store, reversed(found)):
        if isinstance(manifest, UnreadableInput):
            damaged = damaged or (run, manifest)
        elif damaged is None:
            return manifest
        elif run.at_ms < damaged[0].at_ms:
            command = restore_backup(store.address, time_text(run.at_ms), outs, topics)
            reason = f"{damaged[1].reason}; the newest run before it that can be read: {command}"
            raise UnreadableInput(damaged[1].path, reason)
    if damaged is None:
        raise UnreadableInput(store.address, "its runs were removed meanwhile")
    raise UnreadableInput(damaged[1].path, f"{damaged[1].reason}; no run before it can be read")


def _show_runs(store: Store, found: list[Run], output: Format) -> None:
    """Show the runs, also those whose manifests are damaged. Raises typer.Exit."""
    from kcli.backup.runs import read_each

    rows, damaged = [], []
    for run, manifest in read_each(store, found):
        row: dict[str, object] = {"run": run.name}
        if isinstance(manifest, UnreadableInput):
            damaged.append(manifest)
            row |= {"at": run.at_ms, "damaged": manifest.reason}
            rows.append((time_text(run.at_ms), "damaged", "", run.name))
        else:
            row |= {"started": manifest.started_ms, "at": manifest.at_ms}
            row |= {"partitions": len(manifest.partitions), "bytes": manifest.size}
            rows.append((time_text(run.at_ms), f"{len(manifest.partitions):,}", size_text(manifest.size), run.name))
        if output is Format.JSONL:
            write_text(json_line(row))
    status = 1 if damaged else 0
    with verdict(status):
        if output is Format.TABLE:
            write_text(aligned([("AT", "PARTITIONS", "SIZE", "MANIFEST"), *rows]))
            for each in damaged:
                write_text(f"  wrong    {printable(each.path)}: {each.reason}\n")
    raise typer.Exit(status)


def _restore(store: Store, manifest: Manifest, outs: list[Path], topics: list[str], output: Format) -> None:
    from kcli.backup.restore import restore, whole_bytes
    from kcli.log.disk import Disk

    progress = Progress(lambda: whole_bytes(manifest, topics))
    with all_or_nothing(outs[0]):
        result = restore(store, manifest, outs, disk=Disk(), topics=topics, advance=progress.advance)
    progress.clear()
    status = 1 if any(each.troubles for each in result.partitions) else 0
    with verdict(status):
        _show(manifest, result, outs, output)
    raise typer.Exit(status)


def _show(manifest: Manifest, result: Result, outs: list[Path], output: Format) -> None:
    if output is Format.JSONL:
        for each in result.partitions:
            row = {"topic": each.partition.topic, "partition": each.partition.partition, "at": manifest.at_ms}
            row |= {"start_offset": each.start, "end_offset": each.end, "bytes": each.size}
            write_text(json_line(row | {"left_out": each.left_out, "troubles": each.troubles}))
        return
    size = size_text(sum(each.size for each in result.partitions))
    write_text(f"{time_text(manifest.at_ms)}  {count_text(len(result.partitions), 'partition')}, {size}\n")
    for each in result.partitions:
        if each.left_out:
            what = f"{count_text(each.left_out, 'offset')} of transactions that begin or end later"
            write_text(f"  left out {printable(each.partition)}: {what}\n")
        for trouble in each.troubles:
            write_text(f"  wrong    {printable(each.partition)}: {printable(trouble)}\n")
    for partition in result.unknown:
        write_text(f"  left out {printable(partition)}: deleted by then\n")
    if not result.is_whole:
        write_text("There is no metadata log in it: Kafka does not start with this directory alone\n")
    from kcli.inspector.verify.next_steps import verify

    write_text(f"Next: {printable(verify(*outs))}\n")

"""kcli backup: adds the new bytes of a node's log directories, or of a cluster, to a backup in a directory or a
bucket."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from kcli.cli.client_options import (
    CONNECTION,
    DEFAULT_TIMEOUT_S,
    ClusterOptions,
    CommandConfig,
    Properties,
    Timeout,
)
from kcli.cli.error_report import all_or_nothing
from kcli.cli.options import Format, current_ms, not_empty, time_text
from kcli.cli.output import aligned, count_text, json_line, verdict, write_text
from kcli.cli.progress import Progress, size_text
from kcli.errors import UsageError
from kcli.printable import printable

if TYPE_CHECKING:
    from kcli.backup.backup import Result
    from kcli.backup.checking import Sound
    from kcli.tier.store import Store

EPILOG = """
Examples:

kcli backup /var/lib/kafka --to /mnt/backup/node-1

kcli backup /var/lib/kafka --to s3://bucket/node-1

kcli backup /disk1/kafka /disk2/kafka --to s3://bucket/node-2     of a node with log.dirs=/disk1/kafka,/disk2/kafka

kcli backup --config /etc/kafka/server.properties --to s3://bucket/node-2     all of its log.dirs

kcli backup --bootstrap-server broker:9092 --command-config admin.properties --to s3://bucket/cluster

kcli backup --to s3://bucket/node-1 --check           is all of it as it was written?

kcli backup --to s3://bucket/node-1 --orphans         what no run needs
"""
REMOVED_AT_ONCE = 100


def backup(  # noqa: PLR0913, PLR0917 (one parameter an option)
    log_dirs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[LOG_DIR]...",
            help="The log directories of a node, which it may be writing: all of log.dirs, and metadata.log.dir.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="DIR|URL",
            help="The store of the backup: a directory, or a bucket: s3://, gs://, az://. One for each node.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="The broker's server.properties: its log directories instead of LOG_DIR.",
            show_default=False,
        ),
    ] = None,
    orphans: Annotated[
        bool,
        typer.Option("--orphans", help="Name the objects that no run needs, with the commands that remove them."),
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Read every object of every run, and name those that are missing or damaged."),
    ] = False,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "-b",
            metavar="HOST:PORT,...",
            rich_help_panel=CONNECTION,
            help="Read a cluster over the network, instead of log directories.",
            callback=not_empty,
            show_default=False,
        ),
    ] = None,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    output: Annotated[Format, typer.Option("--format", help="How to show the result.")] = Format.TABLE,
) -> None:
    """Back up a node's log directories: segments, leader epochs, producers, the metadata log, groups, transactions.

    With --bootstrap-server, back up a cluster over the network: everything that brokers show to a client with all
    rights, which does not include the passwords of SCRAM users.

    Each run copies the bytes that the store does not have yet, and writes a manifest at its end; a run without a
    manifest does not count. Brokers may run meanwhile; nothing in a log directory is written. kcli restore makes log
    directories of a run.

    Exit status: 0 done, 1 something is damaged, or there are orphans, 2 usage or unreadable input.
    """
    if to is None:
        raise UsageError("give --to: a directory, or the URL of a bucket")
    if orphans or check:
        if log_dirs or config is not None or bootstrap is not None or (orphans and check):
            told = "give no LOG_DIR, --config or --bootstrap-server"
            raise UsageError(f"{'--check' if check else '--orphans'} asks the store alone: {told}")
        from kcli.tier.opening import open_store

        (_check if check else _show_orphans)(open_store(to, option="--to"), output)
        return
    if bootstrap is not None:
        if log_dirs or config is not None:
            raise UsageError("give LOG_DIR, --config or --bootstrap-server, one of them")
        options = ClusterOptions(bootstrap, command_config, properties, timeout)
        _back_up_cluster(options, to, output)
    if config is not None:
        if log_dirs:
            raise UsageError("give LOG_DIR, --config or --bootstrap-server, one of them")
        log_dirs = _log_directories(config)
    if not log_dirs:
        raise UsageError("give the LOG_DIR to back up, --config or --bootstrap-server")
    _back_up(log_dirs, to, output)


def _log_directories(config: Path) -> list[Path]:
    """Return the log directories of a server.properties, and its metadata.log.dir. Raises UsageError if it names none;
    UnreadableInput."""
    from kcli.log.log_directory import read_properties
    from kcli.log.recovery.node_directories import log_directories_of, metadata_home_of, same_path

    server = read_properties(config)
    found = log_directories_of(server)
    home = metadata_home_of(server)
    if home is not None and not any(same_path(home, each) for each in found):
        found.append(home)
    if not found:
        raise UsageError(f"--config {printable(config)}: it has neither log.dirs nor log.dir")
    return found


def _back_up_cluster(options: ClusterOptions, to: str, output: Format) -> NoReturn:
    from kcli.backup.cluster import back_up_cluster
    from kcli.client.cluster_settings import read_settings
    from kcli.client.log_reading import LogReader
    from kcli.tier.opening import make_store

    brokers = options.any_broker()
    progress = Progress(lambda: 0)
    with all_or_nothing(to), LogReader(brokers) as reader, _alone(store := make_store(to, "--to")):
        result = back_up_cluster(
            reader, lambda topics: read_settings(brokers, topics), store, current_ms, progress.advance
        )
    progress.clear()
    _show(result, output)


def _back_up(log_dirs: list[Path], to: str, output: Format) -> NoReturn:
    from kcli.backup.backup import back_up
    from kcli.tier.address import parse_address
    from kcli.tier.opening import make_store

    parsed = parse_address(to, "--to")
    for log_dir in log_dirs:
        if isinstance(parsed, str) and Path(parsed).resolve().is_relative_to(log_dir.resolve()):
            raise UsageError(f"--to {printable(parsed)} is inside the log directory; Kafka would not start with it")
        if not log_dir.is_dir():
            raise UsageError(f"{printable(log_dir)}: no such directory")
    if len({each.resolve() for each in log_dirs}) < len(log_dirs):
        raise UsageError("a log directory is given twice")
    progress = Progress(lambda: sum(log.stat().st_size for each in log_dirs for log in each.glob("*/*.log")))
    with all_or_nothing(to), _alone(store := make_store(to, "--to")):
        result = back_up(log_dirs, store, current_ms, progress.advance)
    progress.clear()
    _show(result, output)


def _show(result: Result, output: Format) -> NoReturn:
    """Show the result of a run, and end the command: with exit status 1 if the run has troubles, else 0."""
    manifest = result.manifest
    status = 1 if result.troubles else 0
    with verdict(status):
        if output is Format.JSONL:
            row = {"run": result.name, "started": manifest.started_ms, "at": manifest.at_ms}
            row |= {"partitions": len(manifest.partitions), "bytes": manifest.size}
            row |= {"new_objects": result.objects, "new_bytes": result.copied, "troubles": result.troubles}
            row |= {"left_out": result.left_out} if manifest.cluster is not None else {}
            write_text(json_line(row))
        else:
            parts = [count_text(len(manifest.partitions), "partition"), size_text(manifest.size)]
            parts.append(f"new: {count_text(result.objects, 'object')}, {size_text(result.copied)}")
            write_text(f"{time_text(manifest.at_ms)}  {', '.join(parts)}\n")
            for trouble in result.troubles:
                write_text(f"  wrong    {printable(trouble)}\n")
            for each in result.left_out:
                write_text(f"  left out {printable(each)}\n")
    raise typer.Exit(status)


@contextmanager
def _alone(store: Store) -> Iterator[None]:
    """Lock the store during a backup if it is a directory. Two backups may write to one bucket, as an object appears
    there only when it is whole.

    Raises UsageError if another backup to the directory runs.
    """
    from kcli.tier.local import LocalStore

    if not isinstance(store, LocalStore):
        yield
        return
    directory = os.open(store.address, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another backup to {printable(store.address)} is running") from None
        yield
    finally:
        os.close(directory)


def _check(store: Store, output: Format) -> None:
    from kcli.backup.checking import check, sound_runs
    from kcli.backup.runs import no_runs

    sound = sound_runs(store)
    if not sound.manifests and not sound.damaged:
        raise no_runs(store)
    pieces = {each for _, manifest in sound.manifests for each in manifest.pieces}
    progress = Progress(lambda: sum(each.size for each in pieces))
    found = list(check(store, sound, progress.advance))
    progress.clear()
    status = 1 if found else 0
    with verdict(status):
        for each in found:
            if output is Format.JSONL:
                write_text(json_line({"object": each.url, "reason": each.reason, "runs": each.runs}))
            else:
                whose = f"{each.runs[0]}{f' and {len(each.runs) - 1:,} more' if len(each.runs) > 1 else ''}"
                write_text(
                    f"  wrong    {printable(each.url)}: {each.reason}\n           needed by {printable(whose)}\n"
                )
        if output is Format.TABLE:
            objects = count_text(len(pieces), "object")
            size = size_text(sum(each.size for each in pieces))
            state = f"{count_text(len(found), 'object')} damaged" if found else "all as they were written"
            write_text(f"{count_text(len(sound.manifests), 'run')}, {objects}, {size}: {state}\n")
            _tell_orphans(store, sound)
    raise typer.Exit(status)


def _tell_orphans(store: Store, sound: Sound) -> None:
    """Write the number of objects that no run needs, and the command that names them. Write nothing if a manifest is
    damaged: it may name any of these objects."""
    from kcli.backup.garbage import unnamed
    from kcli.inspector.verify.next_steps import orphans_of_backup

    if sound.damaged:
        return
    found = unnamed(store, sound.manifests).orphans
    if found:
        size = size_text(sum(each.size for each in found))
        write_text(f"{count_text(len(found), 'object')}, {size}: needed by no run\n")
        write_text(f"Next: {printable(orphans_of_backup(store.address))}\n")


def _show_orphans(store: Store, output: Format) -> None:
    from kcli.backup.garbage import orphans
    from kcli.inspector.verify.next_steps import remove_all

    found, others = orphans(store)
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
            write_text(f"every object {'of the backup ' if others else ''}is needed by a run\n")
        if others and output is Format.TABLE:
            size = size_text(sum(each.size for each in others))
            example = printable(others[0].name)
            write_text(f"{count_text(len(others), 'object')}, {size}: written by no backup (one is {example})\n")
    raise typer.Exit(status)

"""Checks that keep a node from starting if its start would rename the directory of a partition with records to -stray
by mistake: the partition was not deleted, but its metadata is lost.

check_metadata: partitions of topics that a damaged metadata log no longer names

    damaged    the metadata log would be cut, is empty or missing, or ends before an offset that another file names
    suspect    the metadata log is sound, but the last shutdown was not clean: its end may be missing
    strays     partitions of a topic that the metadata log deletes are renamed: the broker had not yet done so;
               partitions of a topic that no record names prevent the start: the record that created the topic is lost
               with the end of the log, and the topic's data would be lost, too

This check is only for a node that is the only voter, as other nodes fetch missing records from the quorum. After a
clean shutdown, a log without damage is trusted, as in Kafka.

check_partition_metadata: partitions that have lost their partition.metadata. Kafka assumes that they have no
records, as it writes that file before the first record, and renames them whatever the metadata log contains. kcli
renames such a partition only if it has no records: such a directory is left if the broker crashes after it has created
the directory and before it writes partition.metadata.

The checks come before any file is changed. Source: LogManager.isStrayKraftReplica.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from formats.file_name import METADATA_DIRECTORY, METADATA_TOPIC, FileKind, parse
from kcli.broker.log_dirs.directories import LogDirs, LogDirsRefused

if TYPE_CHECKING:
    from kcli.metadata_log.lost import LostMetadata

NAMES_MAX = 10


def check_metadata(dirs: LogDirs, now_ms: int) -> None:
    """Refuse to start if the metadata log has lost partitions that are in the log directories.

    Raises LogDirsRefused, which names the partitions and the next step, and UnreadableInput.
    """
    partitions = [each for directory in dirs.online for each in directory.files.partitions()]
    if all(each.name.state or each.name.topic == METADATA_TOPIC for each in partitions):
        return
    # Importing the library Construct, which parses the metadata log, takes a tenth of the start time of a new node.
    from kcli.log.recovery.loader import LoadOptions
    from kcli.log.recovery.plan import plan
    from kcli.metadata_log.lost import LostMetadata, Stray

    home = dirs.metadata.path
    path = home / METADATA_DIRECTORY
    lost = LostMetadata(home, plan(path, LoadOptions(now_ms, is_metadata=True)) if path.is_dir() else None)
    if lost.plan is not None and lost.plan.refused is not None:
        return  # the later replay of the log raises this error
    if not lost.signs and all(directory.files.was_shut_down_cleanly for directory in dirs.online):
        return
    found = lost.strays(partitions, dirs.node_id)
    names = [each.partition.path.name for each in found if isinstance(each, Stray) and each.is_missed]
    if names:
        raise LogDirsRefused(_message(lost, names))


def check_partition_metadata(dirs: LogDirs) -> None:
    """Refuse to start if a partition has records but no partition.metadata.

    Raises LogDirsRefused, which names the partitions and the next step.
    """
    for directory in dirs.online:
        names = [
            each.path.name
            for each in directory.files.partitions()
            if each.name.state in ("", "future")
            and each.name.topic != METADATA_TOPIC
            and not os.path.lexists(each.path / FileKind.PARTITION_METADATA)
            and _has_records(each.path)
        ]
        if names:
            command = shlex.join(["kcli", "verify", str(directory.path)])
            raise LogDirsRefused(
                f"{_count(names)} in {directory.path} without partition.metadata, and with records: a start would "
                f"rename {'it' if len(names) == 1 else 'them'} to -stray: {_shown(names)}. Nothing was changed. "
                f"Next: {command}; or --allow-strays, to go on as Kafka does"
            )


def _has_records(path: Path) -> bool:
    """Whether a partition's directory has a segment that is not empty."""
    try:
        for each in path.iterdir():
            name = parse(each.name)
            if name is not None and name.kind is FileKind.LOG and each.stat().st_size:
                return True
    except OSError:  # opening the log raises the same error, and reports it
        return False
    return False


def _count(names: Sequence[str]) -> str:
    return f"{len(names):,} partition{'s' if len(names) > 1 else ''}"


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_MAX:,} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more


def _message(lost: LostMetadata, names: list[str]) -> str:
    reason = "; ".join(lost.signs) or "the last shutdown was not clean, and the end of the log may be missing"
    command = shlex.join(["kcli", "recover", "--dry-run", str(lost.home)])
    return (
        f"the metadata log in {lost.home} does not name {_count(names)} that the log directories hold, and a start "
        f"would rename them to -stray: {_shown(names)} ({reason}). Nothing was "
        f"changed. Next: {command}; or --allow-strays, to go on as Kafka does"
    )

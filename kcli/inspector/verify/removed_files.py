"""Files that one act has removed from a log directory, or has not copied: one finding, which names the cause of many.

all empty ones       indexes of several small segments are missing, and no file of 0 bytes is left in a partition,
                     as after `find -size 0 -delete`
all but the newest   several files that a start needs are missing, and the first segments of several partitions, as
                     where a program has removed what was old (systemd-tmpfiles), or a copy has only what had
                     changed. The time of the oldest file that is left tells since when
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from formats.checkpoint import parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import METADATA_TOPIC, FileKind, parse
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.index_files import MISSING_INDEX, REBUILT
from kcli.inspector.verify.surroundings import Surroundings
from kcli.log.log_directory import LogDirectory, PartitionDirectory
from kcli.log.source import read_whole
from kcli.printable import names_text

KIND = "files-removed"
LEAST = 3
"""The least number of missing files that one act has removed."""
BEGINS_LEAST = 2
SMALL_BYTES = 16 << 10
"""An index of a larger segment has entries: it was not empty."""
NAMES_SHOWN = 2

Cause = tuple[Finding, Callable[[Finding], bool]]


def removed_files(around: Surroundings) -> Iterator[Cause]:
    """Yield the findings, each with a predicate for its consequences among the other findings. Raises UnreadableInput,
    OSError."""
    partitions = [each for each in LogDirectory(around.path).partitions() if not each.name.state]
    for found in (_empty_ones(around.path, partitions), _old_ones(around, partitions)):
        if found is not None:
            yield found


def _empty_ones(home: Path, partitions: list[PartitionDirectory]) -> Cause | None:
    lacking: list[Path] = []
    has_index = False
    for each in partitions:
        files = {path.name: path.stat().st_size for path in each.path.iterdir() if path.is_file()}
        if 0 in files.values():
            return None
        logs = [Path(name) for name in files if _is_log(name)]
        indexes = [name.with_suffix(FileKind.OFFSET_INDEX) for name in logs]
        has_index |= any(index.name in files for index in indexes)
        gone = [log for log, index in zip(logs, indexes, strict=True) if index.name not in files]
        if any(files[log.name] > SMALL_BYTES for log in gone):
            return None
        lacking += (each.path / log.with_suffix(FileKind.OFFSET_INDEX) for log in gone)
    if len(lacking) < LEAST or not has_index:
        return None
    names = names_text(sorted(str(path.relative_to(home)) for path in lacking), NAMES_SHOWN)
    finding = Finding(
        path=str(home),
        kind=KIND,
        severity="warning",
        expected="the empty indexes of small segments",
        found=f"no file of 0 bytes is left in the partitions, as after find -size 0 -delete: {names} are missing",
        action=f"{REBUILT}, and looks at all batches of these segments then",
    )
    paths = {str(path) for path in lacking}

    def follows(other: Finding) -> bool:
        is_empty_log = other.kind == "log-missing" and other.severity == "warning"
        return (other.kind in MISSING_INDEX and other.path in paths) or is_empty_log

    return finding, follows


def _is_log(name: str) -> bool:
    parsed = parse(name)
    return parsed is not None and parsed.kind is FileKind.LOG and not parsed.state and name[:20].isdecimal()


def _old_ones(around: Surroundings, partitions: list[PartitionDirectory]) -> Cause | None:
    home = around.path
    needed = [home / FileKind.META_PROPERTIES]
    needed += (each.path / FileKind.PARTITION_METADATA for each in partitions if each.name.topic != METADATA_TOPIC)
    missing = [path for path in needed if not path.exists()]
    begins = [each for each in partitions if _lacks_begin(each)]
    if not around.is_broker or len(missing) < LEAST or len(missing) == len(needed) or len(begins) < BEGINS_LEAST:
        return None
    oldest = min(path.stat().st_mtime for each in (home, *(each.path for each in partitions)) for path in _files(each))
    refuses = needed[0] in missing
    since = datetime.fromtimestamp(oldest, UTC)
    finding = Finding(
        path=str(home),
        kind=KIND,
        severity="error",
        expected="all files, also those that have not changed for long",
        found=f"no file from before {since:%Y-%m-%d %H:%M:%S} UTC is left, as where a program has removed what was old "
        f"(systemd-tmpfiles), or a copy has only what had changed: {len(missing):,} files that a start needs are "
        f"missing, and the first segments of {len(begins):,} partitions{': Kafka does not start' if refuses else ''}",
        action="restore the older files from a backup, where this directory has none; else salvage makes what is there "
        "start, in a copy",
        command=next_steps.salvage_log_directory(home),
        refuses_start=refuses,
    )
    paths = {str(path) for path in missing}
    return finding, lambda other: other.path in paths


def _files(directory: Path) -> Iterator[Path]:
    return (path for path in directory.iterdir() if path.is_file())


def _lacks_begin(partition: PartitionDirectory) -> bool:
    """Whether the leader epochs of a partition begin below its first segment."""
    bases = [int(path.stem) for path in _files(partition.path) if _is_log(path.name)]
    checkpoint = partition.path / FileKind.LEADER_EPOCHS
    if not bases or not checkpoint.is_file():
        return False
    try:
        epochs = parse_leader_epochs(read_whole(checkpoint))
    except FormatError:
        return False
    return bool(epochs) and epochs[0][1] < min(bases)

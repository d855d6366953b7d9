"""The metadata log under another name: __cluster_metadata-0.bak, or with -delete or -stray; its .log files under other
names, as 00000000000000000000.log-20261129; and a snapshot under another name, as with .part: a broker gives a snapshot
its name when it is whole, and then deletes the log below, so that after a crash of the file system only the name may be
missing.

A directory counts as the metadata log if it has quorum-state, or if its partition.metadata has the id of the
metadata topic. Kafka, which finds no metadata log, begins an empty one, knows no topic, and renames all partitions to
-stray.
"""

from __future__ import annotations

import re
from contextlib import closing, suppress
from pathlib import Path

from formats.file_name import METADATA_DIRECTORY, FileKind, parse
from kcli.errors import KcliError, UnreadableInput
from kcli.log.inflated import archive_of, inflated_size
from kcli.log.partition_directory import METADATA_TOPIC_ID, topic_id_of
from kcli.log.partition_view import Content, FileRange, InflatedRange, PartitionView, offset_of
from kcli.log.recovery.salvage import is_log
from kcli.log.source import FileSource
from kcli.metadata_log.replay import begin_of_reading, snapshot_records

_OF_LOG = re.compile(r"\.?([0-9]{20}\.log).+")
"""The names under which a log rotation, an operator or a copying program keeps a .log file."""
_OF_SNAPSHOT = re.compile(r"\.?([0-9]{20}-[0-9]{10}\.checkpoint).+")


def renamed_metadata_log(home: Path) -> Path | None:
    """Return the metadata log under another name in the log directory `home`, which has none under its own name. If
    there are several, return the one that was changed last; None if there is none. Raises UnreadableInput."""
    if (home / METADATA_DIRECTORY).exists():
        return None
    try:
        found = [each for each in home.iterdir() if each.is_dir() and _is_one(each)]
        return max(found, key=lambda each: (_changed_at(each), each.name), default=None)
    except OSError as error:
        raise UnreadableInput.of(home, error) from error


def renamed_logs(directory: Path) -> dict[str, Content]:
    """Return the content of the .log files that have other names in the metadata log's directory, also of compressed
    ones, by the name that each had; of several for one name, the largest. Files that cannot be read are left out.
    Raises UnreadableInput."""
    found: dict[str, Content] = {}
    try:
        paths = sorted(directory.iterdir())
    except OSError as error:
        raise UnreadableInput.of(directory, error) from error
    for path in paths:
        name = _OF_LOG.fullmatch(path.name)
        if name is None or parse(path.name) is not None or not path.is_file():
            continue
        with suppress(UnreadableInput, OSError):
            content = _content(path)
            if content.size > found.get(name[1], Content(())).size:
                found[name[1]] = content
    return found


def renamed_snapshot(directory: Path) -> dict[str, Content]:
    """Return the content of the latest whole snapshot under another name in the metadata log's directory, by the name
    that it should have, if the log begins above 0 and no snapshot under its own name reaches that far; else an empty
    dict. Raises UnreadableInput."""
    files = PartitionView(directory).original
    bases = [offset_of(name) for name in files if is_log(name)]
    if begin_of_reading(files) >= min(bases, default=0):
        return {}
    named = ((_OF_SNAPSHOT.fullmatch(path.name), path) for path in sorted(directory.iterdir(), reverse=True))
    return next(
        (
            {name[1]: Content((FileRange(path, 0, path.stat().st_size),))}
            for name, path in named
            if name and int(name[1][:20]) >= min(bases) and path.is_file() and _is_whole(path)
        ),
        {},
    )


def _is_whole(snapshot: Path) -> bool:
    try:
        with closing(FileSource(snapshot)) as source:
            return any(True for _ in [*snapshot_records(source)])
    except UnreadableInput:
        return False


def _content(path: Path) -> Content:
    archive = archive_of(path)
    if archive is None:
        return Content((FileRange(path, 0, path.stat().st_size),))
    return Content((InflatedRange(path, 0, inflated_size(path, archive), archive=archive),))


def _is_one(directory: Path) -> bool:
    if (directory / FileKind.QUORUM_STATE).is_file():
        return True
    try:
        return topic_id_of(directory) == METADATA_TOPIC_ID
    except (KcliError, OSError):
        return False


def _changed_at(directory: Path) -> int:
    """Return when a .log file in a directory was last changed, in ns since 1970; -1 if the directory has none."""
    return max((each.stat().st_mtime_ns for each in directory.glob(f"*{FileKind.LOG}")), default=-1)

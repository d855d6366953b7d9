"""The metadata log under another name: __cluster_metadata-0.bak, or with -delete or -stray; and its .log files under
other names, as 00000000000000000000.log-20261129.

A directory counts as the metadata log if it has quorum-state, or if its partition.metadata has the id of the
metadata topic. Kafka, which finds no metadata log, begins an empty one, knows no topic, and renames all partitions to
-stray.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from formats.file_name import METADATA_DIRECTORY, FileKind, parse
from kcli.errors import KcliError, UnreadableInput
from kcli.log.inflated import archive_of, inflated_size
from kcli.log.partition_directory import METADATA_TOPIC_ID, topic_id_of
from kcli.log.partition_view import Content, FileRange, InflatedRange

_OF_LOG = re.compile(r"\.?([0-9]{20}\.log).+")
"""The names under which a log rotation, an operator or a copying program keeps a .log file."""


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

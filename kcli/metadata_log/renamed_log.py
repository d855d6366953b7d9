"""The metadata log under another name: __cluster_metadata-0.bak, or with -delete or -stray.

A directory counts as the metadata log if it has quorum-state, or if its partition.metadata has the id of the
metadata topic. Kafka, which finds no metadata log, begins an empty one, knows no topic, and renames all partitions to
-stray.
"""

from __future__ import annotations

from pathlib import Path

from formats.file_name import METADATA_DIRECTORY, FileKind
from kcli.errors import KcliError, UnreadableInput
from kcli.log.partition_directory import METADATA_TOPIC_ID, topic_id_of


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

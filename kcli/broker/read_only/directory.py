"""The partitions in the directories of a read-only broker.

    a log directory       each partition directory in it is a partition; checkpoints, meta.properties and the metadata
                          log may lie beside them
    any other directory   each subdirectory with segments is a partition; a subdirectory without the name of a partition
                          is partition 0 of a topic with the subdirectory's name
    one with segments     is itself one partition

Directories with names that end in -delete, -stray or -future are left out, and so are tiered segments. Unreadable files
are logged, and skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from formats.errors import FormatError
from formats.file_name import METADATA_TOPIC, FileKind, parse, parse_directory
from formats.properties import MetaProperties
from kcli.errors import KcliError, UnreadableInput, error_text
from kcli.log.log_directory import PARTITION_FILES, REMOTE_INDEX_CACHE, LogDirectory, read_meta_properties
from kcli.log.partition_directory import topic_id_of
from kcli.metadata.topic_names import LEGAL, LENGTH_MAX
from kcli.protocol.topic_partition import TopicPartition

log = logging.getLogger("kcli.broker")
METADATA_KEY: TopicPartition = TopicPartition(METADATA_TOPIC, 0)
DEFAULT_NODE_ID = 1


@dataclass(frozen=True, slots=True)
class FoundPartition:
    """A partition's directory (`path`). log_directory: the directory that was given to the broker: it contains `path`,
    or is `path` itself. log_start_offset: the partition's entry in the file log-start-offset-checkpoint in
    log_directory; None if there is no entry."""

    key: TopicPartition
    path: Path
    log_directory: Path
    log_start_offset: int | None = None

    def topic_id(self) -> str | None:
        """The topic id in partition.metadata; None if that file is missing, damaged or cannot be read."""
        try:
            return topic_id_of(self.path)
        except (KcliError, OSError) as error:
            log.warning("%s", _with_path(self.path / FileKind.PARTITION_METADATA, error))
            return None


def find_partitions(directories: Iterable[Path]) -> dict[TopicPartition, FoundPartition]:
    """Return all partitions in these directories, by topic and number. If two directories have the same partition, the
    first is returned, and a warning is logged. Raises UnreadableInput for a path that is not a directory."""
    found: dict[TopicPartition, FoundPartition] = {}
    for directory in directories:
        for each in _partitions(directory):
            first = found.setdefault(each.key, each)
            if first is not each:
                log.warning("%s is not served: %s is the same partition", each.path, first.path)
    return dict(sorted(found.items()))


def _partitions(directory: Path) -> Iterator[FoundPartition]:
    here = list(_entries(directory))
    if any(_is_segment(path) for path in here):
        yield FoundPartition(_key(directory), directory, directory)
        return
    files = LogDirectory(directory)
    starts = _offsets(files, FileKind.LOG_START_OFFSETS)
    for path in here:
        name = parse_directory(path.name)
        if not path.is_dir() or path.name == REMOTE_INDEX_CACHE:
            if name is not None:
                log.warning("%s is not served: not a directory, or a link to none", path)
            continue
        if name is not None and name.state:
            log.info("%s is not served: its name ends in -%s", path, name.state)
            continue
        if not _is_partition(path):
            log.info("%s is not served: no partition's directory", path)
            continue
        key = _key(path)
        yield FoundPartition(key, path, directory, starts.get(key))


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError as error:
        raise UnreadableInput.of(directory, error) from error


def _is_segment(path: Path) -> bool:
    name = parse(path.name)
    return name is not None and name.kind is FileKind.LOG and not name.state and name.remote_id is None


def _is_partition(path: Path) -> bool:
    """Whether a directory is a partition's. A directory that has the name of a partition must be empty or have at least
    one file of a partition; a directory with another name must have a segment."""
    try:
        entries = _entries(path)
    except UnreadableInput as error:
        log.warning("%s", error)
        return False
    if parse_directory(path.name) is None:
        return any(map(_is_segment, entries))
    names = [parse(each.name) for each in entries]
    return not entries or any(name is not None and name.kind in PARTITION_FILES for name in names)


def _key(directory: Path) -> TopicPartition:
    name = parse_directory(directory.absolute().name)
    if name is not None and name.state != "remote" and LEGAL.issuperset(name.topic):
        return TopicPartition(name.topic, name.partition)
    topic = "".join(each if each in LEGAL else "_" for each in directory.absolute().name)
    return TopicPartition(topic[:LENGTH_MAX] or "log", 0)


def _offsets(files: LogDirectory, kind: FileKind) -> dict[TopicPartition, int]:
    try:
        return files.offsets(kind)
    except KcliError as error:
        log.warning("%s: offsets are taken from the logs", _with_path(files.path / kind, error))
        return {}


def identity(directories: Iterable[Path]) -> tuple[int | None, str | None]:
    """Return the node id and the cluster id, each from the first meta.properties of the directories that has it; None
    for an id that no file has."""
    node_id = cluster_id = None
    for directory in directories:
        found = _meta_properties(directory)
        if found is not None:
            node_id = found.node_id if node_id is None else node_id
            cluster_id = cluster_id or found.cluster_id
    return node_id, cluster_id


def _meta_properties(directory: Path) -> MetaProperties | None:
    try:
        return read_meta_properties(directory)
    except (FormatError, UnreadableInput) as error:
        log.warning("%s", _with_path(directory / FileKind.META_PROPERTIES, error))
        return None


def _with_path(path: Path, error: Exception) -> str:
    """Return the text of an error about a file, with the file's path."""
    if isinstance(error, (UnreadableInput, OSError)):
        return error_text(error)
    return f"{path}: {getattr(error, 'reason', error)}"

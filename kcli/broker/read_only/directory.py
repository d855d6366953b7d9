"""What there is to serve in directories that are only looked at.

    a log directory      its partitions' directories, its checkpoints, meta.properties, the metadata log
    any directory        directories with segments in it; what their names do not tell is topic by name, partition 0
    one with segments    that one partition

Left out: -delete, -stray, -future, and what lies in tiered storage. Whatever is broken is said in the log, and passed
over.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from formats.errors import FormatError
from formats.file_name import METADATA_TOPIC, FileKind, parse, parse_directory
from formats.properties import MetaProperties
from kcli.errors import KcliError, UnreadableInput
from kcli.log.log_directory import PARTITION_FILES, REMOTE_INDEX_CACHE, LogDirectory, read_meta_properties
from kcli.log.partition_directory import topic_id_of
from kcli.metadata.topic_names import LEGAL, LENGTH_MAX

log = logging.getLogger("kcli.broker")
Key = tuple[str, int]
METADATA_KEY: Key = (METADATA_TOPIC, 0)
DEFAULT_NODE_ID = 1


@dataclass(frozen=True, slots=True)
class FoundPartition:
    """A partition's directory, and where its log begins by the checkpoint of its log directory."""

    key: Key
    path: Path
    log_directory: Path
    log_start_offset: int | None = None

    def topic_id(self) -> str | None:
        """What partition.metadata says; None where there is none, or a broken one."""
        try:
            return topic_id_of(self.path)
        except KcliError as error:
            log.warning("%s: %s", self.path, error)
            return None


def find_partitions(directories: Iterable[Path]) -> dict[Key, FoundPartition]:
    """Every partition to serve, by topic and number. Raises UnreadableInput for a directory that is none."""
    found: dict[Key, FoundPartition] = {}
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
        if not path.is_dir() or path.name == REMOTE_INDEX_CACHE:
            continue
        name = parse_directory(path.name)
        if name is not None and name.state:
            log.info("%s is not served: its name says -%s", path, name.state)
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
        raise UnreadableInput(str(directory), error.strerror or str(error)) from error


def _is_segment(path: Path) -> bool:
    name = parse(path.name)
    return name is not None and name.kind is FileKind.LOG and not name.state and name.remote_id is None


def _is_partition(path: Path) -> bool:
    """By the segments in it; with a partition's name also by its other files, or where it is empty."""
    try:
        entries = _entries(path)
    except UnreadableInput as error:
        log.warning("%s", error)
        return False
    if parse_directory(path.name) is None:
        return any(map(_is_segment, entries))
    names = [parse(each.name) for each in entries]
    return not entries or any(name is not None and name.kind in PARTITION_FILES for name in names)


def _key(directory: Path) -> Key:
    name = parse_directory(directory.absolute().name)
    if name is not None and name.state != "remote" and LEGAL.issuperset(name.topic):
        return name.topic, name.partition
    topic = "".join(each if each in LEGAL else "_" for each in directory.absolute().name)
    return topic[:LENGTH_MAX] or "log", 0


def _offsets(files: LogDirectory, kind: FileKind) -> dict[Key, int]:
    try:
        return files.offsets(kind)
    except KcliError as error:
        log.warning("%s: %s: offsets are taken from the logs", files.path, error)
        return {}


def identity(directories: Iterable[Path]) -> tuple[int | None, str | None]:
    """Node and cluster, as far as a meta.properties says so."""
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
        log.warning("%s: %s", directory / FileKind.META_PROPERTIES, error)
        return None

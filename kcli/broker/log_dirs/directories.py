"""The log directories of a broker (JBOD): finds or creates them, locks them, checks that they belong together, and
knows which are online.

    new       all directories are empty: they are formatted, and the cluster gets an id
    empty     one directory of a formatted node is empty, as a disk was added or replaced: it is formatted, too
    refused   meta.properties of another cluster or node, one directory id in two directories, a metadata log in another
              than the configured directory
    offline   a directory has an I/O error at the start or later: the broker runs without that directory, unless it has
              the metadata log

Source: KafkaRaftServer.initializeLogDirs, MetaPropertiesEnsemble, LogManager.createAndValidateLogDirs; KIP-112 (JBOD),
KIP-858 (ids of directories).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

from formats.errors import FormatError
from formats.file_name import METADATA_DIRECTORY, FileKind
from formats.properties import MetaProperties
from kcli.broker.metadata.format import Formatted, format_directories
from kcli.broker.process.clock import Clock
from kcli.errors import KcliError, UnreadableInput, error_text
from kcli.log.disk import Disk
from kcli.log.log_directory import RESERVED_IDS, DirectoryLock, LogDirectory, read_meta_properties
from kcli.metadata.partition import to_uuid

log = logging.getLogger("kcli.broker")


class LogDirsRefused(KcliError):
    """The node cannot start with these log directories."""


class LogDir:
    """One log directory. error: the reason why it is offline, None while it is online. is_loaded: whether all its logs
    have been opened since the node started. was_clean: whether its last shutdown was clean."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = LogDirectory(path)
        self.id = UUID(int=0)
        self.error: str | None = None
        self.is_loaded = False
        self.was_clean = False
        self.lock: DirectoryLock | None = None

    def __repr__(self) -> str:
        return f"LogDir({str(self.path)!r})"

    @property
    def is_online(self) -> bool:
        """Whether the directory is online."""
        return self.error is None

    def fail(self, error: object) -> None:
        """Take the directory offline, and release its lock."""
        self.error = error_text(error)
        self.unlock()

    def unlock(self) -> None:
        """Release the lock. An I/O error is logged."""
        lock, self.lock = self.lock, None
        if lock is not None:
            try:
                lock.release()
            except OSError as error:
                log.warning("lock of %s not given back: %s", self.path, error_text(error))


class LogDirs:
    """All log directories of a node. data: the directories for partitions. metadata: the directory of the metadata log,
    which may be one of `data`."""

    def __init__(self, data: Sequence[LogDir], metadata: LogDir, cluster_id: str, node_id: int) -> None:
        self.data = list(data)
        self.metadata = metadata
        self.cluster_id = cluster_id
        self.node_id = node_id

    @property
    def online(self) -> list[LogDir]:
        """The directories for partitions that are online."""
        return [each for each in self.data if each.is_online]

    def by_id(self, directory_id: UUID) -> LogDir | None:
        """Return the online directory with that id, None if there is none."""
        return next((each for each in self.online if each.id == directory_id), None)

    def unlock(self) -> None:
        """Release all locks."""
        for each in {*self.data, self.metadata}:
            each.unlock()


def open_log_dirs(
    paths: Sequence[Path],
    metadata_path: Path,
    node_id: int | None,
    disk: Disk,
    clock: Clock | None = None,
    cluster_id: str | None = None,
) -> LogDirs:
    """Lock and check the log directories, and format new ones.

    node_id, cluster_id: the ids that meta.properties must have; None for any.

    Raises LogDirsRefused, DirectoryLocked, NotThisNode, StartRefused, UnreadableInput.
    """
    data = [LogDir(_absolute(path)) for path in paths]
    metadata = next((each for each in data if each.path == _absolute(metadata_path)), None)
    every = data if metadata is not None else [*data, LogDir(_absolute(metadata_path))]
    metadata = metadata or every[-1]
    try:
        _take(every, disk)
        found = dict(_read_all(every))
        cluster_id = _verify(found, cluster_id, node_id)
        _check_metadata_place(every, metadata)
        formatted = _format(every, found, cluster_id, node_id, disk, now_ms=(clock or Clock()).now_ms())
    except OSError as error:
        _unlock(every)
        raise LogDirsRefused(error_text(error)) from error
    except BaseException:
        _unlock(every)
        raise
    return LogDirs(data, metadata, formatted.cluster_id, formatted.node_id)


def _unlock(every: Sequence[LogDir]) -> None:
    for each in every:
        each.unlock()


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100  (symbolic links are not resolved, as in Kafka)


def _take(every: Sequence[LogDir], disk: Disk) -> None:
    """Create missing log directories, and lock all of them. A directory for which this fails goes offline. Raises
    LogDirsRefused if all are offline, or if a directory is given twice."""
    real_paths: set[Path] = set()
    for each in every:
        try:
            if not each.path.exists():
                log.info("log directory %s not found, making it", each.path)
                disk.make_directory(each.path)
                disk.sync_directory(each.path.parent)
            if not each.path.is_dir() or not os.access(each.path, os.R_OK):
                raise OSError(f"{each.path} is not a readable log directory")  # noqa: TRY301  (handled like an OSError of the disk)
            real = each.path.resolve()
            if real in real_paths:
                raise LogDirsRefused(f"log directory {each.path} is given twice")
            real_paths.add(real)
            each.lock = DirectoryLock(disk, each.path)
        except OSError as error:
            log.error("log directory %s is offline: %s", each.path, error_text(error))  # noqa: TRY400  (no stack trace)
            each.fail(error)
    if not any(each.is_online for each in every):
        names = ", ".join(str(each.path) for each in every)
        raise LogDirsRefused(f"none of the log directories can be used: {names}: {every[0].error}")


def _read_all(every: Sequence[LogDir]) -> Iterator[tuple[LogDir, MetaProperties]]:
    for each in every:
        if not each.is_online:
            continue
        try:
            found = read_meta_properties(each.path)
        except (FormatError, UnreadableInput) as error:
            log.error("%s: %s", each.path / FileKind.META_PROPERTIES, error)  # noqa: TRY400  (the message names the file and the reason)
            each.fail(error)
        else:
            if found is not None:
                yield each, found


def _is_empty(each: LogDir) -> bool:
    """Whether the directory is empty, apart from files that formatting has left when a crash or a full disk interrupted
    it."""
    unfinished = {f"{name}.tmp" for name in (FileKind.BOOTSTRAP, FileKind.META_PROPERTIES)}
    return {entry.name for entry in each.path.iterdir()} <= {FileKind.LOCK, FileKind.BOOTSTRAP} | unfinished


def _verify(found: dict[LogDir, MetaProperties], cluster_id: str | None, node_id: int | None) -> str | None:
    """Check that the meta.properties belong together, as MetaPropertiesEnsemble.verify does. Return the cluster id,
    None if no meta.properties has one yet. Raises LogDirsRefused."""
    owners: dict[str, LogDir] = {}
    for each, meta in found.items():
        path = each.path / FileKind.META_PROPERTIES
        if meta.cluster_id is not None:
            if cluster_id is not None and meta.cluster_id != cluster_id:
                raise LogDirsRefused(
                    f"Invalid cluster.id in: {path}. Expected {cluster_id}, but read {meta.cluster_id}"
                )
            cluster_id = meta.cluster_id
        node_id = meta.node_id if node_id is None else node_id
        if meta.node_id not in (None, node_id):
            raise LogDirsRefused(
                f"Stored node id {meta.node_id} doesn't match previous node id {node_id} in {path}: "
                "set node.id to what the data was written with, or start with empty directories"
            )
        if meta.directory_id is not None:
            if to_uuid(meta.directory_id).int < RESERVED_IDS:
                raise LogDirsRefused(f"Invalid reserved directory ID {meta.directory_id} found in {each.path}")
            if other := owners.get(meta.directory_id):
                raise LogDirsRefused(
                    f"Duplicate directory ID {meta.directory_id} found. It was the ID of {other.path}, "
                    f"but also of {each.path}"
                )
            owners[meta.directory_id] = each
    return cluster_id


def _check_metadata_place(every: Sequence[LogDir], metadata: LogDir) -> None:
    if not metadata.is_online:
        raise LogDirsRefused(f"I/O error in metadata log directory {metadata.path}: {metadata.error}")
    for each in every:
        if each is not metadata and each.is_online and (each.path / METADATA_DIRECTORY).exists():
            raise LogDirsRefused(
                f"Found unexpected metadata location in data directory `{each.path / METADATA_DIRECTORY}` "
                f"(the configured metadata directory is {metadata.path})."
            )


def _format(
    every: Sequence[LogDir],
    found: dict[LogDir, MetaProperties],
    cluster_id: str | None,
    node_id: int | None,
    disk: Disk,
    *,
    now_ms: int,
) -> Formatted:
    """Format the log directories that are online, empty and without meta.properties, and add a directory.id to each
    meta.properties that lacks one.

    every: all log directories, whose `id` is set here. found: those with a meta.properties. cluster_id, node_id: None
    to take the ids from `found` or, if that is empty, a random cluster id and node id 1. Returns the ids of cluster,
    node and directories.

    Raises LogDirsRefused for a meta.properties without node.id or cluster.id, and for a directory that has files but no
    meta.properties; NotThisNode, StartRefused, UnreadableInput, OSError.
    """
    for each, meta in found.items():
        if meta.node_id is None or meta.cluster_id is None:
            lacks = "node ID" if meta.node_id is None else "cluster ID"
            raise LogDirsRefused(f"Error: {lacks} not found in {each.path}")
    online = [each for each in every if each.is_online]
    for each in online:
        if each not in found and not _is_empty(each):
            raise LogDirsRefused(f"No `meta.properties` found in {each.path}, which is not empty")
    paths = [each.path for each in online]
    formatted = format_directories(paths, now_ms=now_ms, node_id=node_id, cluster_id=cluster_id, disk=disk)
    for each in online:
        each.id = to_uuid(formatted.directory_ids[each.path])
    return formatted

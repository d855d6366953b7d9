"""Formatting: what `kafka-storage format` of 4.3 writes for one node.

    each log directory   bootstrap.checkpoint   the features of the release and SCRAM users, as a snapshot of epoch 0
                         meta.properties        version 1, cluster id, node id, directory id (KIP-858); written last
    with first voters    __cluster_metadata-0/00000000000000000000-0000000000.checkpoint in the metadata directory:
                         kraft.version 1 and the voters, without a record (KIP-853)

A directory that has meta.properties counts as formatted: it is only checked, and gets a directory id if it has none.
The same applies to a meta.properties of version 0 or without version, as brokers with ZooKeeper wrote it; its version
is kept. Source: Formatter, BootstrapDirectory, MetaPropertiesEnsemble; KIP-1022 for the features.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from formats.errors import FormatError
from formats.file_name import METADATA_DIRECTORY, FileKind
from formats.message_compiler import uuid_text
from formats.properties import MetaProperties, Properties, build
from kcli.broker.metadata.snapshots import Snapshots
from kcli.errors import KcliError, StartRefused
from kcli.log.disk import Disk
from kcli.log.log_directory import read_meta_properties, unusable
from kcli.metadata.features import first_levels
from kcli.metadata.image import Record
from kcli.metadata_log.snapshot_file import SnapshotId, snapshot_batches
from kcli.raft.controls import kraft_version, kraft_voters
from kcli.raft.voters import VoterSet

Value = TypeVar("Value", int, str)

DEFAULT_LEVELS: Final[Mapping[str, int]] = first_levels()
"""Feature -> its level in 4.3, in the order in which the features are written."""


class NotThisNode(KcliError):
    """A log directory belongs to another node or cluster, or two log directories have the same directory id."""


@dataclass(frozen=True, slots=True)
class FirstVoters:
    """The first voters of a new quorum, which formatting writes. directory: metadata.log.dir."""

    directory: Path
    voters: VoterSet


@dataclass(frozen=True, slots=True)
class Formatted:
    """The ids of the cluster, the node and the directories of formatted log directories."""

    cluster_id: str
    node_id: int
    directory_ids: Mapping[Path, str]


def random_id() -> str:
    """A random id of 22 characters. It does not begin with -, as in Kafka, so that no tool takes it for an option."""
    while True:
        raw = bytearray(os.urandom(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        text = uuid_text(bytes(raw))
        if not text.startswith("-"):
            return text


def format_directories(  # noqa: PLR0913 (all but one are passed by name)
    directories: Sequence[Path],
    *,
    now_ms: int,
    node_id: int | None = None,
    cluster_id: str | None = None,
    levels: Mapping[str, int] = DEFAULT_LEVELS,
    users: Sequence[Record] = (),
    directory_ids: Mapping[Path, str] | None = None,
    first_voters: FirstVoters | None = None,
    disk: Disk | None = None,
) -> Formatted:
    """Format the log directories that are not formatted yet, metadata.log.dir among them. Create missing ones.

    node_id, cluster_id: None to take the ids of a formatted directory or, if no directory is formatted, 1 and a random
    id. levels: feature name -> level; a feature of level 0 is not written.
    users: UserScramCredentialRecords with which the metadata log begins (KIP-900).
    directory_ids: log directory -> the id to give it, if it has none yet; ids of other directories are random.
    first_voters: the voters to write to the first snapshot of the metadata log, None for no such snapshot.

    Raises NotThisNode, StartRefused, UnreadableInput, OSError.
    """
    disk = Disk() if disk is None else disk
    directories = list(dict.fromkeys(directories))
    found = {each: meta for each in directories if (meta := _read(each)) is not None}
    node = _the_only("node.id", {each: meta.node_id for each, meta in found.items()}, node_id)
    cluster = _the_only("cluster.id", {each: meta.cluster_id for each, meta in found.items()}, cluster_id)
    node_id, cluster_id = 1 if node is None else node, random_id() if cluster is None else cluster
    ids = {each: meta.directory_id for each, meta in found.items() if meta.directory_id is not None}
    if len(set(ids.values())) < len(ids):
        raise NotThisNode(f"two log directories have the same directory.id: {', '.join(map(str, ids))}")
    bootstrap = _bootstrap(levels, users, now_ms) if len(found) < len(directories) else b""
    for each in directories:
        if each not in found:
            disk.make_directory(each)
            disk.write_file(each / FileKind.BOOTSTRAP, bootstrap)
            if first_voters is not None and each == first_voters.directory:
                _write_voters(first_voters, now_ms, disk)
        if each not in ids:
            ids[each] = (directory_ids or {}).get(each) or random_id()
            version = found[each].version if each in found else 1
            disk.write_file(each / FileKind.META_PROPERTIES, _meta(version, node_id, ids[each], cluster_id, now_ms))
    return Formatted(cluster_id, node_id, {each: ids[each] for each in directories})


def _read(directory: Path) -> MetaProperties | None:
    path = directory / FileKind.META_PROPERTIES
    try:
        meta = read_meta_properties(directory)
    except FormatError as error:
        raise StartRefused(str(path), error.reason, error.position) from None
    reason = unusable(meta)
    if reason is not None:
        raise StartRefused(str(path), reason)
    return meta


def _the_only(name: str, values: Mapping[Path, Value | None], expected: Value | None) -> Value | None:
    """Return the value that all directories have, or `expected` if no directory has a value. Raises NotThisNode for a
    directory with another value. name: the name of the property, for the error message."""
    for path, value in values.items():
        if expected is None:
            expected = value
        if value != expected:
            raise NotThisNode(f"{path}: {name} is {value}, not {expected}")
    return expected


def _bootstrap(levels: Mapping[str, int], users: Sequence[Record], now_ms: int) -> bytes:
    records: list[Record] = [
        ("FeatureLevelRecord", 0, {"name": name, "featureLevel": level}) for name, level in levels.items() if level
    ]
    return b"".join(snapshot_batches([*records, *users], 0, now_ms, 0))


def _write_voters(first: FirstVoters, now_ms: int, disk: Disk) -> None:
    directory = first.directory / METADATA_DIRECTORY
    disk.make_directory(directory)
    batches = snapshot_batches([], 0, now_ms, now_ms, [kraft_version(1), kraft_voters(first.voters)])
    Snapshots(disk, directory).write(SnapshotId(0, 0), batches)


def _meta(version: int, node_id: int, directory_id: str, cluster_id: str, now_ms: int) -> bytes:
    """Return the bytes of meta.properties, with the order of entries and the comment that Java's Properties write.

    version: 1; or 0 for a directory that a broker with ZooKeeper has used, as Kafka keeps that version.
    """
    date = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(now_ms / 1000))
    node_key = "node.id" if version else "broker.id"
    entries = {node_key: str(node_id), "directory.id": directory_id, "version": str(version), "cluster.id": cluster_id}
    return build(Properties(entries, ("", date)))

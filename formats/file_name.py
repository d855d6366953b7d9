"""Names of Kafka's files and directories, and the states that their suffixes stand for.

    in a partition's directory
      <offset>.log .index .timeindex .txnindex   a segment; 20 digits: its base offset; no offset in it is lower
      <offset>.snapshot                          producer state of the records below the offset
      <offset>-<epoch>.checkpoint                KRaft snapshot of the metadata log below the offset; 20 and 10 digits
      leader-epoch-checkpoint partition.metadata quorum-state
    in a log directory
      meta.properties bootstrap.checkpoint .kafka_cleanshutdown .lock and four *-offset-checkpoint files
      remote-log-index-cache/<offset>_<id>.index .timeindex .txnindex   (offset without leading zeros)
    in tiered storage, as Kafka's LocalTieredStorage lays it out
      <topic>-<partition>-<topic id>/<offset>-<id>.log .index .timeindex .txnindex .snapshot .leader_epoch_checkpoint
    suffixes of any of these
      .deleted   removed after file.delete.delay.ms        .cleaned   being written by the cleaner
      .swap      replaces segments, then loses the suffix  .tmp .part  being written, then renamed
    directories
      <topic>-<partition>                     a partition
      <topic>-<partition>.<unique>-delete     removed after file.delete.delay.ms
      <topic>-<partition>.<unique>-future     being moved to this log directory from another one
      <topic>-<partition>.<unique>-stray      a replica that the metadata does not assign to this broker

Ids are UUIDs in 22 characters of base64.
Source: LogFileUtils, LocalLog, Snapshots, RemoteIndexCache, LocalTieredStorage.
"""

import re
from enum import StrEnum
from typing import Final, NamedTuple

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_DIRECTORY: Final = f"{METADATA_TOPIC}-0"
INTERNAL_TOPICS: Final = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))
"""The topics in which coordinators keep their state, and to which clients must not produce."""
NEVER_TIERED: Final = frozenset((METADATA_TOPIC, "__remote_log_metadata", *INTERNAL_TOPICS))
"""The topics that have no tiered storage, whatever their configuration (UnifiedLog.isRemoteLogEnabled)."""


class FileKind(StrEnum):
    """The kind of a file: the value is its suffix or its whole name."""

    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TXN_INDEX = ".txnindex"
    PRODUCER_SNAPSHOT = ".snapshot"
    REMOTE_LEADER_EPOCHS = ".leader_epoch_checkpoint"
    KRAFT_SNAPSHOT = ".checkpoint"
    BOOTSTRAP = "bootstrap.checkpoint"
    LEADER_EPOCHS = "leader-epoch-checkpoint"
    RECOVERY_POINTS = "recovery-point-offset-checkpoint"
    REPLICATION_OFFSETS = "replication-offset-checkpoint"
    LOG_START_OFFSETS = "log-start-offset-checkpoint"
    CLEANER_OFFSETS = "cleaner-offset-checkpoint"
    META_PROPERTIES = "meta.properties"
    PARTITION_METADATA = "partition.metadata"
    QUORUM_STATE = "quorum-state"
    CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
    LOCK = ".lock"


class FileName(NamedTuple):
    """The parts of a file name; None for a part that the name does not have.

    `state` is "" or the suffix behind the name, without its dot: "deleted", "cleaned", "swap", "tmp", "part". `epoch`
    is that of a KRaft snapshot, `remote_id` that of a segment in tiered storage or of a cached index of one.
    """

    kind: FileKind
    base_offset: int | None = None
    epoch: int | None = None
    remote_id: str | None = None
    state: str = ""


class DirectoryName(NamedTuple):
    """The parts of a partition directory's name; `state` is "", "delete", "future", "stray" or "remote".

    `unique` makes the name of a directory with a state unique; in tiered storage it is the topic id.
    """

    topic: str
    partition: int
    state: str = ""
    unique: str | None = None


_HIDDEN = (FileKind.CLEAN_SHUTDOWN, FileKind.LOCK)
_STATE = r"(?:\.(?P<state>deleted|cleaned|swap|tmp|part))?"
_SEGMENT_STATE = r"(?:\.(?P<state>deleted|cleaned|swap))?"
_ID = "[A-Za-z0-9_-]{22}"
_OFFSET = "(?P<offset>[0-9]{1,20})"
_WHOLE_NAMES = "|".join(re.escape(kind) for kind in FileKind if not kind.startswith(".") or kind in _HIDDEN)
_FILES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_OFFSET}(?P<kind>\.(?:log|index|timeindex|txnindex|snapshot)){_SEGMENT_STATE}",
        rf"{_OFFSET}-(?P<epoch>[0-9]{{10}})(?:-[0-9]+)?(?P<kind>\.checkpoint){_STATE}",
        rf"{_OFFSET}[-_](?P<id>{_ID})(?P<kind>\.(?:log|index|timeindex|txnindex|snapshot|leader_epoch_checkpoint)){_STATE}",
        f"(?P<kind>{_WHOLE_NAMES}){_STATE}",
    )
)
_PARTITION = r"-(?P<partition>\+?[0-9]+)"  # the forms that Java's Integer.parseInt accepts
_DIRECTORIES = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        rf"(?P<topic>.+){_PARTITION}",
        rf"(?P<topic>\S+){_PARTITION}\.(?P<unique>[^.\s]+)-(?P<state>delete|future|stray)",
        rf"(?P<topic>[A-Za-z0-9._-]+){_PARTITION}-(?P<unique>{_ID})(?P<state>)",
    )
)


def parse(name: str) -> FileName | None:
    """Return the parts of a file's name, given without its directory; None for a name that no file of Kafka has."""
    for pattern in _FILES:
        if match := pattern.fullmatch(name):
            found = match.groupdict()
            offset, epoch = found.get("offset"), found.get("epoch")
            if offset is not None and int(offset) >= 2**63:
                return None
            return FileName(
                FileKind(found["kind"]),
                None if offset is None else int(offset),
                None if epoch is None else int(epoch),
                found.get("id"),
                found["state"] or "",
            )
    return None


def build(name: FileName) -> str:
    """Return the file name with these parts. With a `remote_id` it is the name in tiered storage, not that in the index
    cache."""
    parts = [] if name.base_offset is None else [f"{name.base_offset:020}"]
    parts += [] if name.epoch is None else [f"-{name.epoch:010}"]
    parts += [] if name.remote_id is None else [f"-{name.remote_id}"]
    return "".join([*parts, name.kind, *([f".{name.state}"] if name.state else [])])


def parse_directory(name: str) -> DirectoryName | None:
    """Return the parts of a partition directory's name, given without its parent; None for any other name.

    Like Kafka's parser, it checks neither that the topic name is legal nor that the number has no + or leading zeros.
    """
    for pattern in _DIRECTORIES:
        if match := pattern.fullmatch(name):
            found = match.groupdict()
            if int(found["partition"]) >= 2**31:
                return None
            state = found.get("state", "") or ("remote" if "unique" in found else "")
            return DirectoryName(found["topic"], int(found["partition"]), state, found.get("unique"))
    return None


def build_directory(name: DirectoryName) -> str:
    """Return the directory name that has these parts."""
    plain = f"{name.topic}-{name.partition}"
    if name.state == "remote":
        return f"{plain}-{name.unique}"
    return f"{plain}.{name.unique}-{name.state}" if name.state else plain

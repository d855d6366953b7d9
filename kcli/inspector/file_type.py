"""The types of files that a dump can show."""

from __future__ import annotations

from enum import StrEnum


class FileType(StrEnum):
    """The type of a file's content; the values are those of the option --type."""

    LOG = "log"
    INDEX = "index"
    TIMEINDEX = "timeindex"
    TXNINDEX = "txnindex"
    SNAPSHOT = "snapshot"
    KRAFT_SNAPSHOT = "kraft-snapshot"
    LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
    OFFSET_CHECKPOINT = "offset-checkpoint"
    META_PROPERTIES = "meta.properties"
    PARTITION_METADATA = "partition.metadata"
    QUORUM_STATE = "quorum-state"

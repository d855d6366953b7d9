"""The settings of a member of a group: assignor, protocol, commits, reset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from kcli.protocol.topic_partition import TopicPartition


class Assignor(StrEnum):
    """partition.assignment.strategy: how a classic group's leader assigns partitions. If a member has several
    assignors, the coordinator picks one that all members support."""

    RANGE = "range"
    ROUNDROBIN = "roundrobin"
    COOPERATIVE_STICKY = "cooperative-sticky"


class Protocol(StrEnum):
    """group.protocol: classic (a member assigns partitions) or consumer (the coordinator assigns them, KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Commit(StrEnum):
    """When the offsets of yielded records are committed.

    AUTO: every five seconds, before partitions are revoked, and at the end; SYNC: before the next records are fetched;
    NONE: never.
    """

    AUTO = "auto"
    SYNC = "sync"
    NONE = "none"


class Reset(StrEnum):
    """auto.offset.reset: the first offset to read in a partition without a committed offset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Membership:
    """The settings of a member. assignors: none for Kafka's default; instance_id: group.instance.id of a static member,
    None for a dynamic one; to_end: leave the group when all assigned partitions are read to their ends; count: the
    maximum number of records, None for no limit; committed_only: whether to read with read_committed."""

    group: str
    topics: tuple[str, ...]
    protocol: Protocol = Protocol.CLASSIC
    assignors: tuple[Assignor, ...] = ()
    instance_id: str | None = None
    commit: Commit = Commit.AUTO
    reset: Reset = Reset.EARLIEST
    to_end: bool = False
    count: int | None = None
    committed_only: bool = True


Report = Callable[[str, list[TopicPartition]], None]
"""A callback that receives an event of the member (the text `assigned`, `revoked` or `lost`, or why a commit failed)
and the event's partitions."""

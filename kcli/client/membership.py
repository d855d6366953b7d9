"""How to be a member of a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from kcli.group_view import Place


class Assignor(StrEnum):
    """How the leader of a classic group gives out partitions; several names: what all members know is taken."""

    RANGE = "range"
    ROUNDROBIN = "roundrobin"
    COOPERATIVE_STICKY = "cooperative-sticky"


class Protocol(StrEnum):
    """Who assigns: a member, or the coordinator (KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Commit(StrEnum):
    """When offsets of records that were shown are committed.

    AUTO: every five seconds, before partitions go, and at the end; SYNC: before more records are fetched.
    """

    AUTO = "auto"
    SYNC = "sync"
    NONE = "none"


class Reset(StrEnum):
    """Where to begin in a partition without a committed offset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Membership:
    """How to be in a group. assignors: Kafka's default for none; to_end: leave once all partitions that are assigned
    have been read to their end; count: records at most."""

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


Told = Callable[[str, list[Place]], None]
"""What happens in the group: `assigned`, `revoked`, `lost`, or a commit that came too late, and to which partitions."""

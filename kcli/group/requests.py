"""What a group coordinator is asked, and what it answers, as plain values.

Each request is handled by the machine of its group's partition; those without a group go to every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

from kcli.group.errors import ErrorCode

ZERO_ID = "A" * 22
"""The topic id of a commit that names none: sixteen zero bytes."""

NONE: ErrorCode = ErrorCode.NONE

Protocols = tuple[tuple[str, bytes], ...]
"""Names and metadata, those preferred first."""

Partition = tuple[str, int]
"""A topic's name and a partition's number."""


# members of classic groups


class JoinGroup(NamedTuple):
    """A member comes, or comes again. member_id: "" for a new one."""

    group_id: str
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str
    client_host: str
    requires_known_member_id: bool
    """A new member is told its id first, and has to come again with it (KIP-394)."""
    can_skip_assignment: bool
    """The leader understands that it need not assign (KIP-814)."""


class JoinedMember(NamedTuple):
    """A member as its leader is told of it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    """The generation that a member is in. members: told only to the leader."""

    error: ErrorCode = NONE
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncGroup(NamedTuple):
    """A member asks for its assignment; the leader brings everyone's."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]


class SyncAnswer(NamedTuple):
    """A member's assignment."""

    error: ErrorCode = NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class Heartbeat(NamedTuple):
    """A member is alive. Answered with an ErrorCode."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaver:
    """A member that goes; a static one may be named by its instance alone. error: only in answers."""

    member_id: str
    instance_id: str | None
    error: ErrorCode = NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroup:
    """Members go."""

    group_id: str
    members: tuple[Leaver, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveAnswer:
    """How it went for each of them."""

    error: ErrorCode = NONE
    members: tuple[Leaver, ...] = ()


# members of consumer groups


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """A member of a consumer group joins (epoch 0), is alive, or leaves (-1; -2 to come back under its instance id).

    None, and -1 for the time-out, where it says nothing new. owned: the partitions that it has.
    """

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Mapping[UUID, tuple[int, ...]] | None = None
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatAnswer:
    """Where the member is now. assignment: what it shall have, None where that is as before."""

    error: ErrorCode = NONE
    error_message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Mapping[UUID, tuple[int, ...]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsChanged:
    """Topics are new, are gone, or have other partitions: their names. has_new: some are new. Answered with None."""

    topics: frozenset[str]
    has_new: bool


# offsets


class OffsetToCommit(NamedTuple):
    """One partition's offset. topic_id: ZERO_ID where it is not known. leader_epoch: -1 for none."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None


class CommitOffsets(NamedTuple):
    """Commit offsets, in a transaction where there is a producer: they count when it commits.

    generation: -1 from who is no member. retention_ms: -1 for the broker's. version: of the request, whose errors
    differ.
    """

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    offsets: tuple[OffsetToCommit, ...]
    version: int
    retention_ms: int = -1
    producer_id: int = -1
    producer_epoch: int = -1


class OffsetsAnswer(NamedTuple):
    """An error for everything, or errors of single partitions; partitions that are not in it are done."""

    errors: Mapping[Partition, ErrorCode]
    error: ErrorCode = NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchTopic:
    """Partitions of one topic. topic_id: an offset of a topic of another id does not count; ZERO_ID: any does."""

    name: str
    topic_id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffsets:
    """What offsets are committed. topics: None for all that the group has. member_id, epoch: of the consumer group's
    member that asks, None and -1 where none does."""

    group_id: str
    topics: tuple[FetchTopic, ...] | None
    require_stable: bool
    member_id: str | None = None
    epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedOffset:
    """A partition's offset, -1 where there is none."""

    partition: int
    error: ErrorCode = NONE
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer:
    """Offsets by topic, as they were asked for; none with an error."""

    error: ErrorCode = NONE
    topics: tuple[tuple[FetchTopic, tuple[FetchedOffset, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsets:
    """Forget offsets. Answered with an OffsetsAnswer."""

    group_id: str
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsDeleted:
    """Topics are gone, and with them their offsets: names and ids. Answered with None."""

    topics: tuple[tuple[str, str], ...]


# groups


@dataclass(frozen=True, kw_only=True)
class ListGroups:
    """All groups in these states and of these types; () for any. Answered with a list of ListedGroup."""

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    @cached_property
    def folded_states(self) -> frozenset[str]:
        """Case does not matter. Every shard is asked, and it may be a long list."""
        return frozenset(state.strip().lower() for state in self.states)

    @cached_property
    def folded_types(self) -> frozenset[str]:
        """As with states."""
        return frozenset(kind.lower() for kind in self.types)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group by its outside."""

    group_id: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroup:
    """A classic group with its members. Answered with a DescribedGroup."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """A member; its metadata only in a stable group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A classic group. One that is not there is Dead, with GROUP_ID_NOT_FOUND."""

    group_id: str
    error: ErrorCode = NONE
    error_message: str | None = None
    state: str = "Dead"
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup:
    """Forget a group without members, and its offsets. Answered with an ErrorCode."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConsumerGroup:
    """A consumer group with its members. Answered with a DescribedConsumerGroup."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumer:
    """A member of a consumer group; what it has, and what it shall have, by topics that there are."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    regex: str | None
    assignment: Mapping[UUID, tuple[int, ...]]
    target: Mapping[UUID, tuple[int, ...]]
    is_classic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerGroup:
    """A consumer group, or why it is none."""

    group_id: str
    error: ErrorCode = NONE
    error_message: str | None = None
    state: str = ""
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumer, ...] = ()

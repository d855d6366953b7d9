"""The requests to a GroupMachine and their answers, as plain values.

A request about a group goes to the GroupMachine of that group's partition of __consumer_offsets; a request without a
group goes to the GroupMachine of every partition.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition

ZERO_ID = "A" * 22
"""The topic id of a commit that names none: sixteen zero bytes."""

NONE: ErrorCode = ErrorCode.NONE

Protocols = tuple[tuple[str, bytes], ...]
"""The protocols of a JoinGroup, in the member's order of preference: name and metadata."""


# members of classic groups


class JoinGroup(NamedTuple):
    """A member joins a classic group for the first time or joins again. member_id: "" for a new member. The answer is
    a JoinAnswer."""

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
    """Whether a new dynamic member is refused with MEMBER_ID_REQUIRED and a member id, and must join again with that id
    (KIP-394)."""
    can_skip_assignment: bool
    """Whether the client understands `skip_assignment` in the answer (KIP-814)."""
    describable: Container[str] | None = None
    """The topics that the client may describe, None for all of them."""


class JoinedMember(NamedTuple):
    """A member as the group's leader receives it in its JoinAnswer."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    """The generation that the member has joined. members: all members of the group in the leader's answer, () in
    others. skip_assignment: whether the leader must not compute an assignment (KIP-814)."""

    error: ErrorCode = NONE
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncGroup(NamedTuple):
    """A member requests its assignment. assignments: the assignment of each member by member id, in the leader's
    request; {} in that of any other member. The answer is a SyncAnswer."""

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
    """A member extends its session. The answer is an ErrorCode."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaver:
    """A member that leaves. member_id: "" if a static member is named by its instance id alone. error: set in
    answers only."""

    member_id: str
    instance_id: str | None
    error: ErrorCode = NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroup:
    """Members leave their group. The answer is a LeaveAnswer."""

    group_id: str
    members: tuple[Leaver, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveAnswer:
    """The leaving members with the error of each. error: of the whole request."""

    error: ErrorCode = NONE
    members: tuple[Leaver, ...] = ()


# members of consumer groups


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """A member joins a consumer group (epoch 0), extends its session, or leaves (epoch -1; a static member that will
    rejoin under its instance id: -2). The answer is a ConsumerHeartbeatAnswer.

    A field of None, and a rebalance timeout of -1, leaves the member's value unchanged. owned: the partitions, by topic
    id, that the member owns. describable: the topics that the client may describe, None for all of them.
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
    describable: Container[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatAnswer:
    """The member's id and epoch after its heartbeat. assignment: the partitions, by topic id, that the member may own
    now; None if they have not changed."""

    error: ErrorCode = NONE
    error_message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Mapping[UUID, tuple[int, ...]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsChanged:
    """Topics were created or deleted, or their partitions changed. topics: their names. has_new: whether some were
    created. The answer is None."""

    topics: frozenset[str]
    has_new: bool


# offsets


class OffsetToCommit(NamedTuple):
    """The offset to commit for a partition. topic_id: ZERO_ID if the request has none. leader_epoch: the leader
    epoch of the last consumed record, -1 for none."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None


class CommitOffsets(NamedTuple):
    """Commit offsets of a group. With a producer id, the offsets are part of that producer's transaction and become
    committed when the transaction commits. The answer is a CommitAnswer.

    generation: that of a classic group, or the member epoch in a consumer group; -1 from a client that is no member.
    retention_ms: -1 for offsets.retention.minutes of the broker. version: of OffsetCommit; error codes depend on it.
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


class CommitAnswer(NamedTuple):
    """The answer to CommitOffsets. error: of the whole request. errors: of single offsets, by their place among those
    of the request, which may name a partition twice; the others succeeded."""

    errors: Mapping[int, ErrorCode]
    error: ErrorCode = NONE


class OffsetsAnswer(NamedTuple):
    """The answer to DeleteOffsets. error: of the whole request. errors: of single partitions; a
    partition that is not in `errors` succeeded."""

    errors: Mapping[TopicPartition, ErrorCode]
    error: ErrorCode = NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchTopic:
    """The partitions of one topic whose committed offsets FetchOffsets reads. topic_id: an offset that was committed
    for another topic id is not returned; ZERO_ID matches any id."""

    name: str
    topic_id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffsets:
    """Read a group's committed offsets. The answer is a FetchAnswer.

    topics: None for all partitions that the group has an offset for. require_stable: refuse a partition while an open
    transaction has an offset pending for it. member_id, epoch: those of the consumer group's member that sends the
    request; None and -1 if the client is no member.
    """

    group_id: str
    topics: tuple[FetchTopic, ...] | None
    require_stable: bool
    member_id: str | None = None
    epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedOffset:
    """A partition's committed offset, -1 if there is none."""

    partition: int
    error: ErrorCode = NONE
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer:
    """The offsets by topic, in the order of the request; no topics if `error` is set."""

    error: ErrorCode = NONE
    topics: tuple[tuple[FetchTopic, tuple[FetchedOffset, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsets:
    """Delete committed offsets of a group. The answer is an OffsetsAnswer."""

    group_id: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsDeleted:
    """Topics were deleted: the committed offsets of all groups for them are deleted too. topics: (name, id) of each.
    The answer is None."""

    topics: tuple[tuple[str, str], ...]


# requests about whole groups


@dataclass(frozen=True, kw_only=True)
class ListGroups:
    """List the groups in these states and of these types; () for any. The answer is a list of ListedGroup."""

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    @cached_property
    def folded_states(self) -> frozenset[str]:
        """The states in lower case, since the filter ignores case. Cached, as the GroupMachine of every partition
        handles the same request, and the list may be long."""
        return frozenset(state.strip().lower() for state in self.states)

    @cached_property
    def folded_types(self) -> frozenset[str]:
        """The types in lower case."""
        return frozenset(kind.lower() for kind in self.types)

    def fold(self) -> None:
        """Compute and cache the states and types in lower case, which takes long for long lists."""
        _ = self.folded_states, self.folded_types


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group as ListGroups shows it."""

    group_id: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroup:
    """Describe a classic group and its members. The answer is a DescribedGroup."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """A member of a classic group. metadata: b"" unless the group is Stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A classic group. A group that does not exist has the state Dead and the error GROUP_ID_NOT_FOUND."""

    group_id: str
    error: ErrorCode = NONE
    error_message: str | None = None
    state: str = "Dead"
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup:
    """Delete a group without members, and its offsets. The answer is an ErrorCode."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConsumerGroup:
    """Describe a consumer group and its members. The answer is a DescribedConsumerGroup."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumer:
    """A member of a consumer group. assignment: the partitions that the member owns, or has still to revoke. target:
    its target assignment. Both have only existing topics, by topic id. is_classic: whether it speaks the classic
    protocol."""

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
    """A consumer group, or the error if there is no consumer group of that id."""

    group_id: str
    error: ErrorCode = NONE
    error_message: str | None = None
    state: str = ""
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumer, ...] = ()

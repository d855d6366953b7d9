"""What raft nodes ask each other, and answer: the fields of Kafka's messages that matter, for the only partition.

    Answer   top_error: of the whole response, which then says nothing else; error: of the partition
             leader_id (-1: none), epoch: whom the node knows as leader; endpoints: where the leader is reached, all its
             listeners in an answer given, that of the connection's listener in one received

Directories are 22 characters; None stands for the one of zeros. Whether a request is about `__cluster_metadata`
partition 0 is for the caller to see. Schemas: Vote (52), BeginQuorumEpoch (53), EndQuorumEpoch (54), Fetch (1),
FetchSnapshot (59), AddRaftVoter (80), RemoveRaftVoter (81), UpdateRaftVoter (82), ApiVersions (18).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kcli.raft.errors import ErrorCode
from kcli.raft.voters import Endpoints, ReplicaKey

Token = int
"""Names a request whose answer is due."""

Records = bytes | bytearray | memoryview
"""Whole batches one behind another; from another node the last may be cut off."""


class OffsetAndEpoch(NamedTuple):
    """The end of a log, or a snapshot: the offset behind the last record, and that record's epoch."""

    offset: int
    epoch: int

    @property
    def order(self) -> tuple[int, int]:
        """Which log is further: by epoch, then by offset."""
        return self.epoch, self.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What all have. cluster_id: None is not checked."""

    cluster_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote(Request):
    """Vote, or would you, for `replica` in `epoch`? last: the end of its log. voter: who is asked."""

    voter: ReplicaKey | None
    replica: ReplicaKey
    epoch: int
    last: OffsetAndEpoch
    pre_vote: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpoch(Request):
    """I lead this epoch. endpoints: all of the leader's."""

    voter: ReplicaKey | None
    leader_id: int
    epoch: int
    endpoints: Endpoints = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpoch(Request):
    """I lead this epoch no more. preferred_successors: who should be elected, best first."""

    leader_id: int
    epoch: int
    preferred_successors: Sequence[ReplicaKey] = ()
    endpoints: Endpoints = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch(Request):
    """What comes at `offset`? The log of `replica` (id -1: nobody's) ends there, with last_fetched_epoch."""

    replica: ReplicaKey
    epoch: int
    offset: int
    last_fetched_epoch: int
    high_watermark: int = -1
    max_wait_ms: int = 0
    max_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshot(Request):
    """What does that snapshot have at `position`?"""

    replica: ReplicaKey
    epoch: int
    snapshot: OffsetAndEpoch
    position: int
    max_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AddRaftVoter(Request):
    """Make that replica a voter (KIP-853; ack_when_committed: KIP-1186)."""

    voter: ReplicaKey
    endpoints: Endpoints
    timeout_ms: int = 0
    ack_when_committed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveRaftVoter(Request):
    """Make that replica a voter no more."""

    voter: ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRaftVoter(Request):
    """What a voter says of itself. min_version and max_version: of kraft.version."""

    epoch: int
    voter: ReplicaKey
    endpoints: Endpoints
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersions(Request):
    """Which levels of kraft.version can you do?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What all have, see above; also the whole answer to BeginQuorumEpoch, EndQuorumEpoch, UpdateRaftVoter."""

    top_error: ErrorCode = ErrorCode.NONE
    error: ErrorCode = ErrorCode.NONE
    leader_id: int = -1
    epoch: int = -1
    endpoints: Endpoints = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAnswer(Answer):
    """To Vote."""

    granted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer(Answer):
    """To Fetch: records; or where the logs part, or a snapshot to fetch first."""

    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None
    records: Records = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotAnswer(Answer):
    """To FetchSnapshot: `data` at `position` of the snapshot's `size` bytes."""

    snapshot: OffsetAndEpoch | None = None
    size: int = 0
    position: int = 0
    data: Records = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterAnswer(Answer):
    """To AddRaftVoter and RemoveRaftVoter: only `top_error` and why. message None: that which the code always has."""

    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsAnswer(Answer):
    """To ApiVersions: least and most of kraft.version; None where the node does not know of it."""

    kraft_versions: tuple[int, int] | None = None


class Node(NamedTuple):
    """Where to send to. Those of controller.quorum.bootstrap.servers have ids from -2 down."""

    id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Send:
    """A request to send; hand it back to `Raft.answered` with the answer, or None if there was none in time."""

    to: Node
    request: Request
    correlation: int


@dataclass(slots=True)
class Outcome:
    """What is to be done: answer these, send these; doubts: what others have said that cannot be, to be logged."""

    answers: list[tuple[Token, Answer]] = field(default_factory=list)
    messages: list[Send] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

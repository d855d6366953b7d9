"""The requests and answers of raft nodes: the fields of Kafka's messages that raft uses. All are about the one
partition of `__cluster_metadata`.

    Answer   top_error: the error of the whole response, which then has no other field; error: that of the partition
             leader_id (-1: not known), epoch: the leader that the answering node knows; endpoints: the leader's. In an
             answer of this node these are all the leader's endpoints; in an answer of another node only the one for
             the listener by which this node had connected

Directory ids have 22 characters; None stands for the directory id of zeros. The caller checks that a request is for
partition 0 of `__cluster_metadata`. Schemas: Vote (52), BeginQuorumEpoch (53), EndQuorumEpoch (54), Fetch (1),
FetchSnapshot (59), AddRaftVoter (80), RemoveRaftVoter (81), UpdateRaftVoter (82), ApiVersions (18).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kcli.protocol.error_code import ErrorCode
from kcli.raft.voters import Endpoints, ReplicaKey

Token = int
"""Identifies a request of another node until it is answered."""

Records = bytes | bytearray | memoryview
"""Whole batches, end to end; in the answer of another node the last batch may be incomplete."""


class OffsetAndEpoch(NamedTuple):
    """The end of a log, or of a snapshot: the offset after the last record, and that record's epoch."""

    offset: int
    epoch: int

    @property
    def order(self) -> tuple[int, int]:
        """The key by which logs are ordered: epoch, then offset."""
        return self.epoch, self.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The base of all requests. cluster_id: the sender's cluster id; None: it is not checked."""

    cluster_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote(Request):
    """`replica`, whose log ends at `last`, requests the vote of `voter` in `epoch`. voter: None if the sender does not
    name one. pre_vote: whether `replica` only asks if the voter would grant the vote."""

    voter: ReplicaKey | None
    replica: ReplicaKey
    epoch: int
    last: OffsetAndEpoch
    pre_vote: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpoch(Request):
    """The leader of `epoch` makes itself known. voter: the replica that the leader means to address; None: the sender
    does not name one. endpoints: all endpoints of the leader."""

    voter: ReplicaKey | None
    leader_id: int
    epoch: int
    endpoints: Endpoints = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpoch(Request):
    """The leader of `epoch` has resigned. preferred_successors: the voters, best candidate first."""

    leader_id: int
    epoch: int
    preferred_successors: Sequence[ReplicaKey] = ()
    endpoints: Endpoints = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch(Request):
    """A fetch of the log from `offset` on. replica: the replica that fetches (id -1: no replica). epoch: the leader
    epoch that the replica knows. last_fetched_epoch: the epoch of the last record in the replica's log. high_watermark:
    the replica's; -1 if it knows none."""

    replica: ReplicaKey
    epoch: int
    offset: int
    last_fetched_epoch: int
    high_watermark: int = -1
    max_wait_ms: int = 0
    max_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshot(Request):
    """A fetch of a snapshot from byte `position` on."""

    replica: ReplicaKey
    epoch: int
    snapshot: OffsetAndEpoch
    position: int
    max_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AddRaftVoter(Request):
    """Make a replica a voter (KIP-853). ack_when_committed: answer only once the new voters are committed
    (KIP-1186)."""

    voter: ReplicaKey
    endpoints: Endpoints
    timeout_ms: int = 0
    ack_when_committed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveRaftVoter(Request):
    """Make a replica an observer."""

    voter: ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRaftVoter(Request):
    """A voter's endpoints and levels of kraft.version, from min_version to max_version."""

    epoch: int
    voter: ReplicaKey
    endpoints: Endpoints
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersions(Request):
    """Ask a node for the levels of kraft.version that it supports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The base of all answers, with the fields in the module's docstring. The answers to BeginQuorumEpoch,
    EndQuorumEpoch and UpdateRaftVoter have no others."""

    top_error: ErrorCode = ErrorCode.NONE
    error: ErrorCode = ErrorCode.NONE
    leader_id: int = -1
    epoch: int = -1
    endpoints: Endpoints = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAnswer(Answer):
    """The answer to Vote."""

    granted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer(Answer):
    """The answer to Fetch. It has one of three: records, perhaps none; diverging, if the logs diverge: the epoch to
    truncate to, and this epoch's end offset in the leader's log; or snapshot: the snapshot to fetch first. The other
    ones are empty or None. high_watermark, log_start_offset: the leader's; -1: not known."""

    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None
    records: Records = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotAnswer(Answer):
    """The answer to FetchSnapshot: `data` at `position` of the snapshot's `size` bytes. snapshot: None in an answer
    with an error."""

    snapshot: OffsetAndEpoch | None = None
    size: int = 0
    position: int = 0
    data: Records = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterAnswer(Answer):
    """The answer to AddRaftVoter and RemoveRaftVoter: `top_error` and a message. A message of None stands for the
    default message of that error."""

    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsAnswer(Answer):
    """The answer to ApiVersions: the lowest and the highest level of kraft.version; None if the node does not
    support the feature."""

    kraft_versions: tuple[int, int] | None = None


class Node(NamedTuple):
    """A node's id and address. Those of controller.quorum.bootstrap.servers have ids from -2 down."""

    id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Send:
    """A request to send. The answer is passed to `Raft.answered` together with this object; if no answer comes in time,
    None is passed."""

    to: Node
    request: Request
    correlation: int


@dataclass(slots=True)
class Outcome:
    """What the caller of raft must do: send the answers and messages, and log the doubts, which are claims of other
    nodes that cannot be true."""

    answers: list[tuple[Token, Answer]] = field(default_factory=list)
    messages: list[Send] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

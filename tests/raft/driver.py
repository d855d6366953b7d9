"""One node of a quorum of three: tests bring it into a state, send requests, and look at its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, Final

from formats.batch_writer import write_batch
from formats.quorum_state import QuorumState, build
from kcli.raft.config import RaftConfig
from kcli.raft.messages import (
    Answer,
    BeginQuorumEpoch,
    EndQuorumEpoch,
    Fetch,
    FetchAnswer,
    OffsetAndEpoch,
    Outcome,
    Request,
    Send,
    Vote,
    VoteAnswer,
)
from kcli.raft.raft import Raft
from kcli.raft.voters import Endpoint, ReplicaKey, VoterNode, VoterSet
from tests.raft.memory import Disk, MemoryLog, MemoryStore

CLUSTER: Final = "c" * 21 + "A"
VOTERS: Final = (1, 2, 3)
NOW: Final = 1_795_000_000_000
LOG_EPOCH, EPOCH = 4, 5


def directory(node_id: int) -> str:
    """The directory of a node."""
    return f"{node_id}" * 21 + "A"


def key(node_id: int) -> ReplicaKey:
    """A node in its directory."""
    return ReplicaKey(node_id, directory(node_id))


def endpoint(node_id: int) -> Endpoint:
    """Return the endpoint of a node."""
    return Endpoint("CONTROLLER", f"host{node_id}", 9093)


def voters(*ids: int) -> VoterSet:
    """Return a set of dynamic voters."""
    return VoterSet.of(VoterNode(key(each), (endpoint(each),), 0, 1) for each in ids)


def batch(size: int = 1) -> bytearray:
    """Return a batch with some records."""
    return write_batch([(None, b"x")] * size, NOW)


def config(node_id: int = 1, *, static: Sequence[int] = VOTERS, **changes: Any) -> RaftConfig:
    """The configuration of a node of a static quorum; of a dynamic one where `static` is empty."""
    fields: dict[str, Any] = {
        "directory_id": directory(node_id),
        "cluster_id": CLUSTER,
        "endpoints": (endpoint(node_id),),
        "voters": {each: (f"host{each}", 9093) for each in static},
        "bootstrap_servers": [] if static else [(f"host{each}", 9093) for each in VOTERS if each != node_id],
    }
    return RaftConfig(node_id=node_id, **{**fields, **changes})


@dataclass
class Driven:
    """A raft node. sent: its requests without an answer."""

    config: RaftConfig
    disk: Disk
    now_ms: int = NOW
    sent: list[Send] = field(default_factory=list)
    answers: dict[int, Answer] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._tokens = count()
        self.log = MemoryLog(self.disk)
        self.raft = Raft(self.config, self.log, MemoryStore(self.disk), Random(1))
        self.take(self.raft.start(self.now_ms))

    def take(self, outcome: Outcome) -> None:
        """Keep its requests and answers; flush its disk at once."""
        self.sent += outcome.messages
        self.answers |= dict(outcome.answers)
        self.doubts += outcome.doubts
        if self.raft.flushed_offset < self.log.end_offset:
            self.take(self.raft.flushed(self.log.end_offset, self.now_ms))

    def ask(self, request: Request) -> int:
        """Give the node a request; return its token."""
        token = next(self._tokens)
        self.take(self.raft.handle(token, request, self.now_ms))
        return token

    def answer_to(self, request: Request) -> Answer:
        """Return the answer that the node gives at once."""
        return self.answers[self.ask(request)]

    def reply(self, answer: Answer | None, *, kind: type[Request] = Request, source: int | None = None) -> Send:
        """Answer the last request of that kind to that node."""
        found = [each for each in self.sent if isinstance(each.request, kind) and source in (None, each.to.id)]
        self.sent.remove(found[-1])
        self.take(self.raft.answered(found[-1], answer, self.now_ms))
        return found[-1]

    def wait(self, ms: int) -> None:
        """Let time pass, with a tick at each deadline."""
        until = self.now_ms + ms
        while (deadline_ms := self.raft.deadline_ms()) is not None and deadline_ms <= until:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.take(self.raft.tick(self.now_ms))
        self.now_ms = until

    @property
    def state(self) -> str:
        """Return the name of its state."""
        return type(self.raft.state).__name__

    def kinds(self) -> list[str]:
        """Return the kinds of its requests, with their receivers."""
        return sorted(f"{type(each.request).__name__} {each.to.id}" for each in self.sent)


def disk_with(records: int = 10, *, epoch: int = LOG_EPOCH, state: QuorumState | None = None) -> Disk:
    """Return a disk with a log of `records` records in one epoch, and a quorum-state."""
    disk = Disk()
    log = MemoryLog(disk)
    for _ in range(records):
        log.append_as_leader(batch(), epoch)
    disk.flushed_offset = log.end_offset
    disk.state = None if state is None else build(state)
    return disk


def quorum_state(leader: int = -1, voted: int = -1, epoch: int = EPOCH) -> QuorumState:
    """Return a quorum-state of version 0."""
    return QuorumState(0, leader, epoch, voted, cluster_id="", applied_offset=0, current_voters=VOTERS)


def to_candidate(driven: Driven) -> None:
    """Let its election timeout expire, with a PreVote of node 2."""
    driven.wait(2001)
    driven.reply(VoteAnswer(epoch=driven.raft.epoch, granted=True), kind=Vote, source=2)
    assert driven.state == "Candidate"


def to_leader(driven: Driven) -> None:
    """Make it leader with the vote of node 2."""
    if driven.state != "Candidate":
        to_candidate(driven)
    driven.reply(VoteAnswer(epoch=driven.raft.epoch, granted=True), kind=Vote, source=2)
    assert driven.state == "Leader"


def in_state(name: str) -> Driven:
    """Return node 1 in that state of epoch 5, or 6 where it has voted for itself; its log ends at offset 10 in epoch
    4."""
    states: Mapping[str, QuorumState] = {
        "voted for 2": quorum_state(voted=2),
        "resigned": quorum_state(leader=1),
        "follower of 2": quorum_state(leader=2),
        "fetched from 2": quorum_state(leader=2),
        "prospective after 2": quorum_state(leader=2),
    }
    node_id = 4 if name == "observer" else 1
    driven = Driven(config(node_id), disk_with(state=states.get(name, quorum_state())))
    if name == "fetched from 2":
        driven.reply(FetchAnswer(leader_id=2, epoch=EPOCH, high_watermark=10), kind=Fetch)
    elif name in ("prospective", "prospective after 2"):
        driven.wait(2001)
        assert driven.state == "Prospective"
    elif name == "candidate":
        to_candidate(driven)
    elif name == "leader":
        to_leader(driven)
    driven.sent = [each for each in driven.sent if name != "leader" or not isinstance(each.request, Vote)]
    return driven


def vote(source: int = 2, epoch: int = EPOCH, last: tuple[int, int] = (10, LOG_EPOCH), **changes: Any) -> Vote:
    """Return a Vote. last: offset and epoch at the end of the candidate's log."""
    fields = {"voter": key(1), "replica": key(source), "epoch": epoch, "last": OffsetAndEpoch(*last)}
    return Vote(**{**fields, **changes})


def begin(source: int = 2, epoch: int = EPOCH, **changes: Any) -> BeginQuorumEpoch:
    """Return a BeginQuorumEpoch of node 2."""
    fields = {"voter": key(1), "leader_id": source, "epoch": epoch, "endpoints": (endpoint(source),)}
    return BeginQuorumEpoch(**{**fields, **changes})


def end(source: int = 2, epoch: int = EPOCH, successors: Sequence[int] = (), **changes: Any) -> EndQuorumEpoch:
    """Return an EndQuorumEpoch of node 2."""
    fields = {"leader_id": source, "epoch": epoch, "preferred_successors": tuple(map(key, successors))}
    return EndQuorumEpoch(**{**fields, **changes})


def fetch(source: int = 2, epoch: int = EPOCH + 1, at: tuple[int, int] = (11, EPOCH + 1), **changes: Any) -> Fetch:
    """Return a Fetch. at: fetch offset, last fetched epoch."""
    fields = {"replica": key(source), "epoch": epoch, "offset": at[0], "last_fetched_epoch": at[1]}
    return Fetch(**{**fields, **changes})

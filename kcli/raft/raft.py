"""Raft: one node of the quorum, as its broker or controller calls it.

    start(now_ms)                       enter the state that follows from quorum-state and the log; an only voter then
                                        leads
    handle(token, request, now_ms)      handle a request of another node; the answer comes with the same token, in the
                                        Outcome of this call or of a later one
    answered(send, answer, now_ms)      handle the answer to a request of this node; None: there will be no answer
    tick(now_ms)                        do what is due: the time of deadline_ms() has come
    append(batches, now_ms)             on the leader: append batches of records to the log
    flushed(offset, now_ms)             note that all of the log below `offset` is on disk

Each returns an Outcome, whose answers and messages the caller sends, in any order. Afterwards `committed_offset`,
`leader_id` and `epoch` may have changed: records below the committed offset may be applied. If `log.end_offset` is
above the offset last given to `flushed`, the caller flushes the log and calls `flushed`. Times are milliseconds since
1970 and never go back. Each call may raise RaftFault, FormatError, or what the log and the store raise: then the node
must stop.

Source: KafkaRaftClient.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Final

from kcli.raft import fetching, membership, serving, votes
from kcli.raft.config import RaftConfig
from kcli.raft.controls import Controls
from kcli.raft.core import Core, State
from kcli.raft.election import NEVER, NOBODY, next_epoch
from kcli.raft.errors import NotLeader
from kcli.raft.log import QuorumStore, RaftLog
from kcli.raft.messages import (
    AddRaftVoter,
    Answer,
    ApiVersionsAnswer,
    BeginQuorumEpoch,
    EndQuorumEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    OffsetAndEpoch,
    Outcome,
    Records,
    RemoveRaftVoter,
    Request,
    Send,
    Token,
    UpdateRaftVoter,
    Vote,
    VoteAnswer,
    VoterAnswer,
)
from kcli.raft.polling import poll
from kcli.raft.states.follower import Follower
from kcli.raft.states.leader import Leader
from kcli.raft.states.resigned import Resigned
from kcli.raft.states.unattached import Unattached
from kcli.raft.voters import Endpoints, ReplicaKey, VoterSet

ELECTED_WITHIN_MS: Final = 1500
"""How long a resigned leader that shuts down waits for another voter to be elected, in ms, from the time at which every
other voter has acknowledged EndQuorumEpoch or is unreachable; an election that can succeed takes less."""
STEPS_MAX: Final = 8
"""The maximum number of changes of state that one call makes; one event never causes so many."""
PEER_DIED_STEP_MS: Final = 100
"""The time in ms between the elections that the remaining voters begin after `peer_died`; one election takes less."""


class Raft:
    """A raft node without I/O and without a clock; the calls are in the module's docstring."""

    def __init__(self, config: RaftConfig, log: RaftLog, store: QuorumStore, chance: random.Random) -> None:
        self._core = Core(config, log, store, chance)
        self._core.refetch = partial(serving.refetch, self._core)
        self._deadline_ms = NEVER
        self._now_ms = 0

    # state

    @property
    def state(self) -> State:
        """The state that the node is in, to be read only."""
        return self._core.state

    @property
    def key(self) -> ReplicaKey:
        """The replica key of this node: its id and the id of its log's directory."""
        return self._core.key

    @property
    def config(self) -> RaftConfig:
        """The configuration of the node."""
        return self._core.config

    @property
    def epoch(self) -> int:
        """The latest epoch that the node knows."""
        return self._core.state.epoch

    @property
    def leader_id(self) -> int | None:
        """The leader of this epoch, also after it has resigned; None if the leader is not known."""
        leader_id = self._core.state.leader_id
        return None if leader_id == NOBODY else leader_id

    @property
    def leader_endpoints(self) -> Endpoints:
        """The leader's endpoints, by listener; empty if they are not known."""
        return self._core.state.leader_endpoints

    @property
    def is_leader(self) -> bool:
        """Whether this node leads. It may act on committed records once the high watermark is above
        `epoch_start_offset`."""
        return isinstance(self._core.state, Leader)

    @property
    def epoch_start_offset(self) -> int | None:
        """On the leader: the offset of the LeaderChange record that began its epoch; else None."""
        state = self._core.state
        return state.epoch_start_offset if isinstance(state, Leader) else None

    @property
    def high_watermark(self) -> int | None:
        """The high watermark in the present state. None if it is not known yet; a leader knows it once its LeaderChange
        record is committed."""
        return self._core.state.high_watermark

    @property
    def committed_offset(self) -> int:
        """The committed offset: records below it may be applied. It is 0 until the node knows of committed records, and
        never decreases."""
        return self._core.committed_offset

    @property
    def flushed_offset(self) -> int:
        """The offset below which all of the log is on disk, as the calls of `flushed` have reported."""
        return self._core.flushed_offset

    @property
    def voters(self) -> VoterSet:
        """The voters of the last VotersRecord in the log, committed or not; without one, those of
        controller.quorum.voters."""
        return self._core.controls.voters

    @property
    def is_voter(self) -> bool:
        """Whether this node is one of the voters."""
        return self._core.is_voter

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version; on a leader that is upgrading it, the new level."""
        state = self._core.state
        requested = state.requested_kraft_version if isinstance(state, Leader) else None
        return self._core.controls.kraft_version if requested is None else requested

    @property
    def controls(self) -> Controls:
        """The voters and kraft.version by the log offset of the control records that set them. The header of a snapshot
        has the values that are in effect at the snapshot's offset."""
        return self._core.controls

    @property
    def is_following(self) -> bool:
        """Whether the node fetches from a leader, and has not learned that this leader has resigned."""
        return isinstance(self._core.state, Follower)

    @property
    def is_shut_down(self) -> bool:
        """Whether the shutdown that `shutdown` began is complete."""
        core, state = self._core, self._core.state
        if not core.is_shutting_down:
            return False
        if not core.is_voter or core.is_only_voter or core.has_remote_leader:
            return True
        if isinstance(state, Resigned):
            voters, majority = core.controls.voters.ids, core.controls.voters.majority
            acknowledged = len(voters) - 1 - len(state.unacknowledged)
            if acknowledged >= majority or len(voters) - len(state.unreachable) < majority:
                return True  # enough voters have acknowledged EndQuorumEpoch, or too few are reachable
            if state.notified_ms is not None and self._now_ms >= state.notified_ms + ELECTED_WITHIN_MS:
                return True
        return self._now_ms >= core.shutdown_deadline_ms

    # events

    def start(self, now_ms: int) -> Outcome:
        """Start the node; called once, before any other method. Everything in the log counts as flushed."""
        self._core.start(now_ms)
        return self._finish(now_ms)

    def handle(self, token: Token, request: Request, now_ms: int) -> Outcome:
        """Apply a request of another node, any of kcli.raft.messages but ApiVersions. The answer is in the Outcome of
        this call, or of a later one."""
        core = self._core
        match request:
            case Fetch():
                serving.handle_fetch(core, token, request, now_ms)
            case FetchSnapshot():
                serving.handle_fetch_snapshot(core, token, request, now_ms)
            case Vote():
                votes.handle_vote(core, token, request, now_ms)
            case BeginQuorumEpoch():
                votes.handle_begin(core, token, request, now_ms)
            case EndQuorumEpoch():
                votes.handle_end(core, token, request, now_ms)
            case AddRaftVoter():
                membership.handle_add(core, token, request, now_ms)
            case RemoveRaftVoter():
                membership.handle_remove(core, token, request, now_ms)
            case UpdateRaftVoter():
                membership.handle_update(core, token, request, now_ms)
            case _:
                raise AssertionError(f"{type(request).__name__} is not for raft to answer")
        return self._finish(now_ms)

    def answered(self, send: Send, answer: Answer | None, now_ms: int) -> Outcome:
        """Apply the answer to a request that this node sent. answer: None if the request will not be answered."""
        core = self._core
        if core.connections.expects(send.to.id, send.correlation):
            success = self._take(send, answer, now_ms)
            core.connections.answered(send.to.id, send.correlation, now_ms, success=success)
        return self._finish(now_ms)

    def _take(self, send: Send, answer: Answer | None, now_ms: int) -> bool:
        core, request = self._core, send.request
        state = core.state
        if isinstance(state, Resigned):
            (state.unreachable.add if answer is None else state.unreachable.discard)(send.to.id)
        match request, answer:
            case _, None:
                return membership.add_unanswered(core, send)
            case Fetch(), FetchAnswer():
                return fetching.fetch_answered(core, send.to, answer, now_ms)
            case FetchSnapshot(), FetchSnapshotAnswer():
                return fetching.snapshot_answered(core, answer, now_ms)
            case Vote(), VoteAnswer():
                return votes.vote_answered(core, send.to, answer, now_ms)
            case BeginQuorumEpoch(), Answer():
                return votes.begin_answered(core, answer, now_ms)
            case EndQuorumEpoch(), Answer():
                return votes.end_answered(core, send.to, answer, now_ms)
            case AddRaftVoter() | RemoveRaftVoter(), VoterAnswer():
                return membership.join_answered(core, answer, now_ms)
            case UpdateRaftVoter(), Answer():
                return membership.update_answered(core, answer, now_ms)
            case _, ApiVersionsAnswer():
                return membership.versions_answered(core, send, answer, now_ms)
        raise AssertionError(f"{type(answer).__name__} does not answer {type(request).__name__}")

    def tick(self, now_ms: int) -> Outcome:
        """Send the requests and take the decisions that are due at `now_ms`: time-outs, elections, retries, fetches."""
        return self._finish(now_ms)

    def deadline_ms(self) -> int | None:
        """Return the time at which to call `tick` next, in ms since 1970; None if nothing will be due by time alone."""
        return None if self._deadline_ms >= NEVER else self._deadline_ms

    def append(self, batches: Sequence[Records], now_ms: int) -> Outcome:
        """Append batches, none of which has control records. The log sets the offsets of their records, beginning at
        the log end offset. Raises NotLeader."""
        core, state = self._core, self._core.state
        if not isinstance(state, Leader):
            raise NotLeader(f"node {core.key.id} does not lead epoch {state.epoch}")
        for batch in batches:
            core.log.append_as_leader(batch, state.epoch)
        core.controls.skip()
        core.appended(state, now_ms)
        return self._finish(now_ms)

    def flushed(self, offset: int, now_ms: int) -> Outcome:
        """Record that the log below `offset` is on disk. This may raise a leader's high watermark, and a voter may
        fetch again."""
        core, state = self._core, self._core.state
        core.flushed_offset = max(core.flushed_offset, min(offset, core.log.end_offset))
        if isinstance(state, Leader) and state.flushed(core.flushed_offset):
            core.committed(state, now_ms)
        return self._finish(now_ms)

    def upgrade_kraft_version(self, epoch: int, level: int, now_ms: int, *, validate_only: bool = False) -> Outcome:
        """Raise kraft.version to `level`, unless it has that level. validate_only: append no records. Raises NotLeader
        if this node does not lead `epoch`; InvalidUpdateVersion."""
        membership.upgrade_kraft_version(self._core, epoch, level, now_ms, validate_only=validate_only)
        return self._finish(now_ms)

    def resign(self, epoch: int, now_ms: int) -> Outcome:
        """Resign as leader of `epoch`; do nothing if this node does not lead that epoch."""
        state = self._core.state
        if isinstance(state, Leader) and state.epoch == epoch:
            state.is_resigning = True
        return self._finish(now_ms)

    def shutdown(self, now_ms: int, timeout_ms: int) -> Outcome:
        """Begin to shut down; a leader resigns. `is_shut_down` becomes true when the shutdown is complete, at the
        latest after timeout_ms."""
        self._core.is_shutting_down = True
        self._core.shutdown_deadline_ms = now_ms + timeout_ms
        return self._finish(now_ms)

    def peer_died(self, node_id: int, now_ms: int) -> Outcome:
        """Note that the process of another node has ended. If that node was the leader, this voter begins an election
        early; the voters do so one after another."""
        core, state = self._core, self._core.state
        if isinstance(state, Follower) and state.leader_id == node_id and core.is_voter:
            left = [each for each in core.controls.voters.ids if each != node_id]
            delay_ms = left.index(core.key.id) * PEER_DIED_STEP_MS + core.chance.randrange(10, 20)
            state.fetch_deadline_ms = min(state.fetch_deadline_ms, now_ms + delay_ms)
            state.has_fetched = False
        return self._finish(now_ms)

    def stand_for_election(self, now_ms: int) -> Outcome:
        """Begin an election at once, if this node is a voter that follows no leader, or has not fetched yet from the
        leader that it follows; a resigned leader first enters the next epoch. In any other state, do nothing. If other
        voters have a leader, they refuse the pre-vote, and the election ends."""
        core, state = self._core, self._core.state
        if isinstance(state, Resigned) and not core.is_shutting_down:
            core.to_unattached(next_epoch(state.epoch), now_ms)
            state = core.state
        if isinstance(state, Unattached) and core.is_voter:
            state.election_deadline_ms = now_ms
        elif isinstance(state, Follower) and core.is_voter and not state.has_fetched:
            state.fetch_deadline_ms = now_ms
        return self._finish(now_ms)

    def snapshot_written(self, snapshot: OffsetAndEpoch) -> None:
        """Drop the history of voters and kraft.version that a snapshot written by this node replaces."""
        self._core.controls.truncate_old(snapshot.offset)

    def _finish(self, now_ms: int) -> Outcome:
        """Do all that is due in the node's state, and compute the next deadline. Returns the outcome of the call."""
        core, self._now_ms = self._core, now_ms
        parked_ms = serving.expire_parked(core, now_ms)
        for _ in range(STEPS_MAX):
            state = core.state
            wait_ms = poll(core, now_ms)
            if wait_ms > 0 and core.state is state:
                break
        self._deadline_ms = min(parked_ms, now_ms + max(1, wait_ms))
        out, core.out = core.out, Outcome()
        return out

"""Raft: one node of the quorum, as its broker or controller sees it.

    start(now_ms)                       take up what quorum-state and the log say; a sole voter leads when this returns
    handle(token, request, now_ms)      a request has come; its answer names the token, in this outcome or a later one
    answered(send, answer, now_ms)      what was sent is answered; None: it is not, and will not be
    tick(now_ms)                        deadline_ms() has come
    append(batches, now_ms)             the leader's: batches of records into the log
    flushed(offset, now_ms)             the log is on disk up to there (as it was when that flush began)

All give an Outcome: answer its answers and send its messages, in whatever order. After each, `committed_offset`,
`leader_id`, `epoch` may be other than before: all before the committed offset may be applied. Where
`log.end_offset` is above what was flushed last, flush, and tell. Times are milliseconds since 1970 that never go back.
Any call may raise RaftFault, FormatError or what the log and the store raise: then the node must stop.

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
from kcli.raft.follower import Follower
from kcli.raft.leader import Leader
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
from kcli.raft.resigned import Resigned
from kcli.raft.unattached import Unattached
from kcli.raft.voters import Endpoints, ReplicaKey, VoterSet

ELECTED_WITHIN_MS: Final = 1500
"""Who was told that the leader has resigned, and can be elected, is."""
STEPS_MAX: Final = 8
"""More changes of state than one event can bring about."""
PEER_DIED_STEP_MS: Final = 100
"""Between the elections of the voters that are left: long enough for one to be over."""


class Raft:
    """See above. state: one of the states of kcli.raft, to be looked at only."""

    def __init__(self, config: RaftConfig, log: RaftLog, store: QuorumStore, chance: random.Random) -> None:
        self._core = Core(config, log, store, chance)
        self._core.refetch = partial(serving.refetch, self._core)
        self._deadline_ms = NEVER
        self._now_ms = 0

    # what it is

    @property
    def state(self) -> State:
        """See above."""
        return self._core.state

    @property
    def key(self) -> ReplicaKey:
        """Which replica this is."""
        return self._core.key

    @property
    def epoch(self) -> int:
        """The epoch that it knows of."""
        return self._core.state.epoch

    @property
    def leader_id(self) -> int | None:
        """Who leads this epoch; None where that is not known. A leader that has resigned is still named."""
        leader_id = self._core.state.leader_id
        return None if leader_id == NOBODY else leader_id

    @property
    def leader_endpoints(self) -> Endpoints:
        """Where the leader is reached; empty where that is not known."""
        return self._core.state.leader_endpoints

    @property
    def is_leader(self) -> bool:
        """Does it lead? It may act on what is committed once the high watermark is above `epoch_start_offset`."""
        return isinstance(self._core.state, Leader)

    @property
    def epoch_start_offset(self) -> int | None:
        """Of the leader: where the LeaderChange record of its epoch is."""
        state = self._core.state
        return state.epoch_start_offset if isinstance(state, Leader) else None

    @property
    def high_watermark(self) -> int | None:
        """As this state knows it; None until then, of a leader: until its epoch's first record is committed."""
        return self._core.state.high_watermark

    @property
    def committed_offset(self) -> int:
        """All before it is committed, and may be applied; 0 until more is known. It only moves on."""
        return self._core.committed_offset

    @property
    def flushed_offset(self) -> int:
        """How far its log is on disk, as it was told."""
        return self._core.flushed_offset

    @property
    def voters(self) -> VoterSet:
        """Who votes."""
        return self._core.controls.voters

    @property
    def is_voter(self) -> bool:
        """Is it one of them?"""
        return self._core.is_voter

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version, with a change that is under way."""
        state = self._core.state
        requested = state.requested_kraft_version if isinstance(state, Leader) else None
        return self._core.controls.kraft_version if requested is None else requested

    @property
    def controls(self) -> Controls:
        """What the control records say, at each offset: for snapshots."""
        return self._core.controls

    @property
    def is_following(self) -> bool:
        """Does it fetch from a leader that has not resigned, as far as it knows?"""
        return isinstance(self._core.state, Follower)

    @property
    def is_shut_down(self) -> bool:
        """`shutdown` was called, and nothing holds it up any more."""
        core, state = self._core, self._core.state
        if not core.is_shutting_down:
            return False
        if not core.is_voter or core.is_only_voter or core.has_remote_leader:
            return True
        if isinstance(state, Resigned):
            voters, majority = core.controls.voters.ids, core.controls.voters.majority
            told = len(voters) - 1 - len(state.unacknowledged)
            if told >= majority or len(voters) - len(state.unreachable) < majority:
                return True  # the others need no vote of it, or there are none to elect anybody
            if state.told_ms is not None and self._now_ms >= state.told_ms + ELECTED_WITHIN_MS:
                return True
        return self._now_ms >= core.shutdown_deadline_ms

    # what happens

    def start(self, now_ms: int) -> Outcome:
        """See above. To be called once, first; all that is in the log then counts as flushed."""
        self._core.start(now_ms)
        return self._finish(now_ms)

    def handle(self, token: Token, request: Request, now_ms: int) -> Outcome:
        """See above. The requests are those of kcli.raft.messages, but ApiVersions."""
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
        """See above."""
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
        """See above."""
        return self._finish(now_ms)

    def deadline_ms(self) -> int | None:
        """When `tick` is wanted; None: never, as things are."""
        return None if self._deadline_ms >= NEVER else self._deadline_ms

    def append(self, batches: Sequence[Records], now_ms: int) -> Outcome:
        """Append batches without control records, each with its offsets from the log's end on. Raises NotLeader."""
        core, state = self._core, self._core.state
        if not isinstance(state, Leader):
            raise NotLeader(f"node {core.key.id} does not lead epoch {state.epoch}")
        for batch in batches:
            core.log.append_as_leader(batch, state.epoch)
        core.controls.skip()
        core.appended(state, now_ms)
        return self._finish(now_ms)

    def flushed(self, offset: int, now_ms: int) -> Outcome:
        """See above."""
        core, state = self._core, self._core.state
        core.flushed_offset = max(core.flushed_offset, min(offset, core.log.end_offset))
        if isinstance(state, Leader) and state.flushed(core.flushed_offset):
            core.committed(state, now_ms)
        return self._finish(now_ms)

    def upgrade_kraft_version(self, epoch: int, level: int, now_ms: int, *, validate_only: bool = False) -> Outcome:
        """Raise kraft.version, if it is not there yet. Raises NotLeader, InvalidUpdateVersion."""
        membership.upgrade_kraft_version(self._core, epoch, level, now_ms, validate_only=validate_only)
        return self._finish(now_ms)

    def resign(self, epoch: int, now_ms: int) -> Outcome:
        """Lead that epoch no more, if it does."""
        state = self._core.state
        if isinstance(state, Leader) and state.epoch == epoch:
            state.is_resigning = True
        return self._finish(now_ms)

    def shutdown(self, now_ms: int, timeout_ms: int) -> Outcome:
        """Resign, if it leads, and go on until `is_shut_down`, which it is after timeout_ms at the latest."""
        self._core.is_shutting_down = True
        self._core.shutdown_deadline_ms = now_ms + timeout_ms
        return self._finish(now_ms)

    def peer_died(self, node_id: int, now_ms: int) -> Outcome:
        """The process of that node is gone. Where it led, the voters elect another one, one after another."""
        core, state = self._core, self._core.state
        if isinstance(state, Follower) and state.leader_id == node_id and core.is_voter:
            left = [each for each in core.controls.voters.ids if each != node_id]
            delay_ms = left.index(core.key.id) * PEER_DIED_STEP_MS + core.chance.randrange(10, 20)
            state.fetch_deadline_ms = min(state.fetch_deadline_ms, now_ms + delay_ms)
            state.has_fetched = False
        return self._finish(now_ms)

    def stand_for_election(self, now_ms: int) -> Outcome:
        """Do not wait for a leader of whom nothing was heard since the start: who knows better says so (pre-vote)."""
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
        """The log has a snapshot more, written by this node."""
        self._core.controls.truncate_old(snapshot.offset)

    def _finish(self, now_ms: int) -> Outcome:
        """Do what the state wants done now, and when it wants to be asked again."""
        core, self._now_ms = self._core, now_ms
        parked_ms = serving.expire_parked(core, now_ms)
        for _ in range(STEPS_MAX):
            state = core.state
            wait_ms = state.poll(core, now_ms)
            if wait_ms > 0 and core.state is state:
                break
        self._deadline_ms = min(parked_ms, now_ms + max(1, wait_ms))
        out, core.out = core.out, Outcome()
        return out

"""The node on which all modules of raft work: its state and the changes of state, its log, its connections and the
Fetch requests that wait.

Each change of state follows the table in the docstring of kcli.raft. If the epoch, the vote or the leader change,
quorum-state is saved first. Source: QuorumState, KafkaRaftClient (transitionTo…, onBecome…, maybeTransition,
maybeSendRequest).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kcli.protocol.error_code import ErrorCode
from kcli.raft import controls
from kcli.raft.config import RaftConfig
from kcli.raft.connections import Connections
from kcli.raft.controls import Controls
from kcli.raft.election import NEVER, NOBODY, Election, Votes, is_in_reach, next_epoch, parse_election
from kcli.raft.log import QuorumStore, RaftLog
from kcli.raft.messages import (
    Answer,
    Fetch,
    Node,
    OffsetAndEpoch,
    Outcome,
    Token,
    VoterAnswer,
)
from kcli.raft.states.candidate import Candidate
from kcli.raft.states.follower import Follower
from kcli.raft.states.leader import Leader
from kcli.raft.states.prospective import Prospective
from kcli.raft.states.resigned import Resigned
from kcli.raft.states.unattached import Unattached
from kcli.raft.voters import (
    SUPPORTED_KRAFT_VERSIONS,
    Endpoint,
    Endpoints,
    ReplicaKey,
    VoterNode,
    VoterSet,
    address_or_first,
)

State = Unattached | Prospective | Candidate | Leader | Resigned | Follower

FIRST_BOOTSTRAP_ID: Final = -2


@dataclass(frozen=True, slots=True)
class Parked:
    """A Fetch at the end of the log, which waits for records. otherwise: the answer that the Fetch gets if no record is
    appended before the deadline."""

    token: Token
    request: Fetch
    deadline_ms: int
    otherwise: Answer


@dataclass(slots=True)
class Core:
    """A raft node.

    store: the quorum-state file. chance: for random timeouts. key: the node's id and directory id. out: the outcome of
    the call in progress. parked: the Fetch requests that wait. flushed_offset: the records below it are on disk.
    committed_offset: the records below it are known to be committed, even if the high watermark of the present state is
    lower. refetch(parked, now_ms): answers a parked Fetch. correlation: the id of the last request sent.
    """

    config: RaftConfig
    log: RaftLog
    store: QuorumStore
    chance: random.Random
    key: ReplicaKey = field(init=False)
    controls: Controls = field(init=False)
    connections: Connections = field(init=False)
    state: State = field(init=False)
    out: Outcome = field(default_factory=Outcome)
    parked: list[Parked] = field(default_factory=list)
    flushed_offset: int = 0
    committed_offset: int = 0
    shutdown_deadline_ms: int = NEVER
    is_shutting_down: bool = False
    refetch: Callable[[Parked, int], None] | None = None
    _saved: Election | None = None
    correlation: int = 0

    def __post_init__(self) -> None:
        config = self.config
        self.key = ReplicaKey(config.node_id, config.directory_id)
        self.controls = Controls(VoterSet.static(config.listener, config.voters), self.log)
        bootstrap = [
            Node(FIRST_BOOTSTRAP_ID - i, host, port) for i, (host, port) in enumerate(config.bootstrap_servers)
        ] or [Node(each, *where) for each, where in config.voters.items() if each != config.node_id]
        self.connections = Connections(bootstrap, config.request_timeout_ms, config.retry_backoff_ms, self.chance)

    def start(self, now_ms: int) -> None:
        """Enter the state that follows from quorum-state and the log."""
        self.controls.load()
        self.flushed_offset = self.log.end_offset
        if self.log.latest_snapshot is not None:
            self.move_committed(self.log.latest_snapshot.offset)
        saved = self.store.load()
        election = Election(0) if saved is None else parse_election(saved)
        self.state = self._first_state(election, now_ms)
        self._save(self.state.election)
        if self.is_only_voter and isinstance(self.state, Unattached | Follower | Resigned):
            self.to_prospective(now_ms)
        elif isinstance(self.state, Candidate):
            self._became_candidate(self.state, now_ms)

    def _first_state(self, election: Election, now_ms: int) -> State:
        deadline_ms = now_ms + self._election_timeout_ms()
        if election.epoch < self.log.last_epoch:
            return Unattached(self.log.last_epoch, deadline_ms)
        epoch, leader_id, voted = election
        if leader_id == self.key.id:
            others = set(self.controls.voters.ids) - {self.key.id}
            return Resigned(epoch, leader_id, self.config.endpoints, others, deadline_ms)
        lost = leader_id != NOBODY or self.log.last_epoch == epoch  # another node won this epoch, so do not stand in it
        if voted is not None and voted.admits(self.key) and self.is_voter and not lost:
            return Candidate(epoch, self._votes(), deadline_ms, self.key)
        endpoints = self.controls.voters.endpoints(leader_id)
        if endpoints:
            return self._follower(epoch, leader_id, endpoints, voted, None, now_ms)
        return Unattached(epoch, deadline_ms, leader_id, voted)

    # queries

    @property
    def is_voter(self) -> bool:
        """Whether this node is one of the voters that the log names now."""
        return self.controls.voters.is_voter(self.key)

    @property
    def is_only_voter(self) -> bool:
        """Whether this node is the only voter."""
        return self.controls.voters.is_only_voter(self.key)

    @property
    def voter(self) -> VoterNode:
        """This node with its endpoints and levels, as an entry of a VotersRecord."""
        return VoterNode(self.key, self.config.endpoints, *SUPPORTED_KRAFT_VERSIONS)

    @property
    def has_remote_leader(self) -> bool:
        """Whether the leader is known and is another node."""
        return self.state.leader_id not in (NOBODY, self.key.id)

    @property
    def must_flush(self) -> bool:
        """Whether this node must flush its log before it may fetch: a voter's Fetch at N says that it has everything
        below N on disk."""
        return (self.is_voter or self.config.can_become_voter) and self.flushed_offset < self.log.end_offset

    @property
    def log_end(self) -> OffsetAndEpoch:
        """The log's end offset, and the epoch of its last record."""
        return OffsetAndEpoch(self.log.end_offset, self.log.last_epoch)

    def answer(self, token: Token, answer: Answer) -> None:
        """Add an answer to the outcome of the call in progress. token: the request's."""
        self.out.answers.append((token, answer))

    # changes of state

    def to_unattached(self, epoch: int, now_ms: int, leader_id: int = NOBODY) -> None:
        """Become unattached in a higher epoch; a prospective that gives up becomes unattached in its own epoch.
        leader_id: the leader of `epoch`, if it is known but its endpoints are not."""
        old = self.state
        assert epoch > old.epoch or (epoch == old.epoch and isinstance(old, Prospective)), "epochs grow"
        if not self.is_voter:
            deadline_ms = NEVER
        elif isinstance(old, Candidate | Unattached | Resigned) or (
            isinstance(old, Prospective) and not old.votes.is_lost
        ):
            deadline_ms = max(now_ms, old.election_deadline_ms)
        else:
            deadline_ms = now_ms + self._election_timeout_ms()
        voted = old.voted if epoch == old.epoch else None
        self._become(Unattached(epoch, deadline_ms, leader_id, voted, old.high_watermark), now_ms)
        self.connections.reset()

    def add_vote(self, candidate: ReplicaKey, now_ms: int) -> None:
        """Vote for `candidate` in this epoch and save the vote, if this node is unattached or prospective and has not
        voted in the epoch."""
        old = self.state
        if isinstance(old, Unattached | Prospective) and old.voted is None:
            assert candidate.id != self.key.id, "its own vote makes it a candidate"
            deadline_ms = now_ms + self._election_timeout_ms()
            if isinstance(old, Unattached):
                new: State = Unattached(old.epoch, deadline_ms, old.leader_id, candidate, old.high_watermark)
            else:
                new = self._prospective(old, candidate, now_ms)
            self._become(new, now_ms)

    def to_prospective(self, now_ms: int) -> None:
        """Become prospective after an election timeout or a fetch timeout. An only voter then becomes candidate and
        leader at once."""
        assert self.is_voter, "observers are not elected"
        assert not isinstance(self.state, Leader | Prospective), "it is past that"
        state = self._prospective(self.state, self.state.voted, now_ms)
        self._become(state, now_ms)
        if state.votes.is_won:
            self.to_candidate(now_ms)
        else:
            self.connections.reset()

    def _prospective(self, old: State, voted: ReplicaKey | None, now_ms: int) -> Prospective:
        return Prospective(
            old.epoch,
            self._votes(),
            now_ms + self._election_timeout_ms(),
            old.leader_id,
            old.leader_endpoints,
            voted,
            old.high_watermark,
        )

    def give_up_prospect(self, state: Prospective, now_ms: int) -> None:
        """End a pre-vote without a majority: follow the leader that was followed before, if its endpoints are known,
        and otherwise become unattached."""
        if state.leader_id != NOBODY and state.leader_endpoints:
            self.to_follower(state.epoch, state.leader_id, state.leader_endpoints, now_ms)
        else:
            self.to_unattached(state.epoch, now_ms, state.leader_id)

    def to_candidate(self, now_ms: int) -> None:
        """Become a candidate: vote for this node in a new epoch. An only voter then becomes leader at once."""
        old = self.state
        assert isinstance(old, Prospective), "a pre-vote comes before a vote"
        deadline_ms = now_ms + self._election_timeout_ms()
        state = Candidate(next_epoch(old.epoch), self._votes(), deadline_ms, self.key, old.high_watermark)
        self._become(state, now_ms)
        self._became_candidate(state, now_ms)

    def _became_candidate(self, state: Candidate, now_ms: int) -> None:
        if state.votes.is_won:
            self.to_leader(state, now_ms)
        else:
            self.connections.reset()

    def to_leader(self, old: Candidate, now_ms: int) -> None:
        """Become the leader, and append the LeaderChange record; with kraft.version 1 also a VotersRecord, if the log
        lacks one or this voter's endpoints or levels have changed."""
        assert old.votes.is_won, "a majority has voted for it"
        voters, version, offset = self.controls.voters, self.controls.kraft_version, self.log.end_offset
        fetch_timeout_ms = self.config.fetch_timeout_ms
        check_ms = now_ms + fetch_timeout_ms * 3 // 2
        endpoints, granting = self.config.endpoints, old.votes.granting
        state = Leader(old.epoch, self.key, endpoints, offset, granting, fetch_timeout_ms, check_ms, now_ms)
        state.set_voters(voters)
        if not version:
            state.volatile_voters = voters.updated(self.voter, whatever_directory=True)
        self._become(state, now_ms)
        self.log.begin_epoch(state.epoch)
        self.connections.reset()
        records = [controls.leader_change(self.key.id, voters.ids, granting)]
        last = self.controls.voter_history.last
        if version and (last is None or last[0] == -1 or voters.needs_update(self.voter)):
            updated = voters.updated(self.voter)
            assert updated is not None, "it is a voter"
            records += [controls.kraft_version(version), controls.kraft_voters(updated)]
        self.append_controls(state, controls.batch(records, now_ms), now_ms)

    def to_resigned(self, now_ms: int) -> None:
        """Resign as the leader of this epoch. The epoch stays the same."""
        old = self.state
        assert isinstance(old, Leader), "only a leader resigns"
        others = set(self.controls.voters.ids) - {self.key.id}
        deadline_ms = now_ms + self._election_timeout_ms()
        self._become(
            Resigned(
                old.epoch, self.key.id, self.config.endpoints, others, deadline_ms, old.successors(), old.high_watermark
            ),
            now_ms,
        )
        self.connections.reset()

    def to_follower(self, epoch: int, leader_id: int, endpoints: Endpoints, now_ms: int) -> None:
        """Become a follower of node leader_id, the leader of `epoch`: this node's epoch or a higher one."""
        old = self.state
        assert endpoints, "the endpoints of the leader are known"
        assert leader_id != self.key.id, "a node does not follow itself"
        assert epoch >= old.epoch, "epochs grow"
        voted = old.voted if epoch == old.epoch else None
        new = self._follower(epoch, leader_id, endpoints, voted, old.high_watermark, now_ms)
        if isinstance(old, Follower) and epoch == old.epoch:  # only an answered Fetch restarts the fetch timeout
            new.fetch_deadline_ms = old.fetch_deadline_ms
        self._become(new, now_ms)
        self.connections.reset()

    def _follower(
        self,
        epoch: int,
        leader_id: int,
        endpoints: Endpoints,
        voted: ReplicaKey | None,
        high_watermark: int | None,
        now_ms: int,
    ) -> Follower:
        timeout_ms = self.config.fetch_timeout_ms
        due_ms = now_ms + timeout_ms
        return Follower(epoch, leader_id, endpoints, timeout_ms, due_ms, due_ms, voted, high_watermark)

    def _become(self, new: State, now_ms: int) -> None:
        old = self.state
        self._save(new.election)
        if isinstance(old, Follower) and old.snapshot is not None:
            old.snapshot.close()
        self.state = new
        if isinstance(old, Leader):
            self.change_ended(old, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.serve_parked(now_ms)

    def _save(self, election: Election) -> None:
        """Save quorum-state if it has changed; called before any message that follows from the change is added."""
        if election != self._saved:
            self.store.save(election.state(self.controls.kraft_version, self.controls.voters.ids))
            self._saved = election

    def _election_timeout_ms(self) -> int:
        timeout_ms = self.config.election_timeout_ms
        return timeout_ms + self.chance.randrange(timeout_ms) if timeout_ms else 0

    def _votes(self) -> Votes:
        return Votes(self.controls.voters.keys, self.key.id)

    # claims of other nodes about the leader

    def is_in_reach(self, epoch: int) -> bool:
        """Return whether this node may adopt `epoch`, which another node has named (see kcli.raft.election). If it may
        not, add a text that says so to the outcome's doubts."""
        if epoch <= self.state.epoch or is_in_reach(epoch, self.state.epoch):
            return True
        self.doubt(f"epoch {epoch:,} is passed over: it is out of reach of epoch {self.state.epoch:,}")
        return False

    def learn_leader(self, leader_id: int, epoch: int, endpoints: Endpoints, now_ms: int) -> None:
        """Learn the leader and epoch that another node has named: follow a new leader, or adopt additional endpoints of
        the known one.

        endpoints: the leader's; empty: the leader or its endpoints are not known. Any client can name a leader, and
        nodes repeat what other nodes have told them, so a contradiction is ignored (Kafka's voter stops). A leader that
        has answered a Fetch of this node leads for certain, as each epoch has one leader: another leader, or another
        endpoint, is then ignored. Before such an answer, this node follows the leader named most recently. If another
        node names this node as the leader of a higher epoch, the quorum-state of this node may have been lost: it
        enters that epoch, and votes for no candidate in it.
        """
        state, own = self.state, leader_id == self.key.id
        if not self.is_in_reach(epoch):
            return
        if own and not (epoch == state.epoch and isinstance(state, Leader | Resigned)):
            self.doubt(
                f"node {leader_id}, which this one is, is said to lead epoch {epoch:,}, of which it knows nothing: "
                "another node has the same node.id, the quorum-state of this one was lost, or it is not true"
            )
        if epoch > state.epoch:
            if own or not endpoints:
                self.to_unattached(epoch, now_ms, leader_id)
            else:
                self.to_follower(epoch, leader_id, endpoints, now_ms)
        elif not own and endpoints and self._is_news(leader_id, endpoints):
            self.to_follower(epoch, leader_id, endpoints, now_ms)

    def answered_by(self, state: Follower, source: Node, answer: Answer, now_ms: int) -> Follower:
        """Learn the leader from an answer to a Fetch of this epoch: the node that has answered is the leader, at the
        address to which the Fetch was sent.

        Returns the follower's state; a new state if this node had followed another leader.
        """
        leader_id = state.leader_id if answer.leader_id < 0 else answer.leader_id
        endpoints = answer.endpoints or (Endpoint(self.config.listener, source.host, source.port),)
        if leader_id not in (state.leader_id, self.key.id):
            self.to_follower(state.epoch, leader_id, endpoints, now_ms)
        elif source != state.leader_node(self.config.listener) and self._place(endpoints) != self._place(
            state.leader_endpoints
        ):
            state.leader_endpoints = endpoints
            self.connections.forget(leader_id)
        assert isinstance(self.state, Follower), "it follows"
        return self.state

    def _is_news(self, leader_id: int, endpoints: Endpoints) -> bool:
        """Whether another node's claim about the leader of this epoch is credible, and new to this node."""
        state = self.state
        is_same = leader_id == state.leader_id and self._place(endpoints) == self._place(state.leader_endpoints)
        is_certain = isinstance(state, Leader | Resigned) or (isinstance(state, Follower) and state.has_fetched)
        if is_same:
            return len(endpoints) > len(state.leader_endpoints)
        if is_certain and leader_id != state.leader_id:
            self.doubt(f"node {leader_id} is said to lead epoch {state.epoch:,}, which node {state.leader_id} leads")
        return not is_certain

    def _place(self, endpoints: Endpoints) -> Endpoint | None:
        return address_or_first(endpoints, self.config.listener)

    def doubt(self, claim: str) -> None:
        """Add to the outcome's doubts a claim of another node that cannot be true. claim: text for the log."""
        self.out.doubts.append(claim)

    def endpoints_of(self, leader_id: int, endpoints: Endpoints) -> Endpoints:
        """Return the leader's endpoints: `endpoints`, which a message from any node had for the leader, or if it had
        none, those in the VotersRecord."""
        return endpoints or self.controls.voters.endpoints(leader_id)

    # the log

    def append_controls(self, leader: Leader, batch: bytearray, now_ms: int) -> int:
        """Append a batch of control records. Returns the offset of its last record."""
        self.log.append_as_leader(batch, leader.epoch)
        self.controls.load()
        leader.set_voters(self.controls.voters)
        self.appended(leader, now_ms)
        return self.log.end_offset - 1

    def appended(self, leader: Leader, now_ms: int) -> None:
        """Complete an append on the leader: compute the high watermark again, and answer the parked fetches at offsets
        below the log end offset."""
        if leader.move_high_watermark():
            self.committed(leader, now_ms)
        self.serve_parked(now_ms, behind=self.log.end_offset)

    def committed(self, leader: Leader, now_ms: int) -> None:
        """Complete a rise of the leader's high watermark: end a change of voters that is now committed, and answer the
        Fetches that wait."""
        assert leader.high_watermark is not None, "it has moved"
        self.move_committed(leader.high_watermark)
        change = leader.change
        if change is not None and change.last_offset is not None and leader.high_watermark > change.last_offset:
            self.finish_change(leader)
        self.serve_parked(now_ms)

    def move_committed(self, offset: int) -> None:
        """Raise the committed offset to `offset`, unless `offset` is lower: a new leader's high watermark may be lower
        at first."""
        if offset > self.committed_offset:
            self.committed_offset = offset
            self.log.update_high_watermark(offset)

    def serve_parked(self, now_ms: int, behind: int | None = None) -> None:
        """Answer the parked fetches; with `behind`, only fetches at an offset below `behind`."""
        parked, self.parked = self.parked, []
        due: list[Parked] = []
        for each in parked:
            (due if behind is None or each.request.offset < behind else self.parked).append(each)
        for each in due:
            assert self.refetch is not None, "it is set before there are requests"
            self.refetch(each, now_ms)

    # changes of voters

    def finish_change(self, leader: Leader, *, timed_out: bool = False) -> None:
        """End the change of voters in progress, as it is committed or, with `timed_out`, out of time. A leader that was
        removed begins to resign."""
        change = leader.change
        if timed_out:
            self.change_ended(leader, ErrorCode.REQUEST_TIMED_OUT)
            return
        self.change_ended(leader, ErrorCode.NONE)
        if change is not None and not change.is_addition and not self.is_voter:
            leader.is_resigning = True

    def change_ended(self, leader: Leader, error: ErrorCode, message: str | None = None) -> None:
        """End the change of voters in progress, if there is one, and answer the request for it with `error`. message:
        the error message; None: the default one of `error`."""
        change, leader.change = leader.change, None
        if change is not None and change.token is not None:
            self.answer(change.token, VoterAnswer(top_error=error, message=message))

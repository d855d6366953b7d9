"""Unattached: does not know the leader of its epoch, or does not know the leader's address. Source: UnattachedState."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.raft.election import NOBODY, Election, may_vote
from kcli.raft.voters import Endpoints, ReplicaKey


@dataclass(slots=True)
class Unattached:
    """The state of a node without a leader to fetch from. leader_id: the leader, if it is known but its endpoints are
    not; otherwise NOBODY. election_deadline_ms: when a voter's election timeout is over. voted: the candidate that this
    node has voted for in this epoch; None: for none. high_watermark: None if this node knows none."""

    epoch: int
    election_deadline_ms: int
    leader_id: int = NOBODY
    voted: ReplicaKey | None = None
    high_watermark: int | None = None

    @property
    def election(self) -> Election:
        """The content of quorum-state in this state."""
        return Election(self.epoch, self.leader_id, self.voted)

    @property
    def leader_endpoints(self) -> Endpoints:
        """Empty: the leader's endpoints are not known."""
        return ()

    def may_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Whether this node may grant a vote, or a pre-vote, to `candidate`, by `kcli.raft.election.may_vote`."""
        return may_vote(self.election, candidate, up_to_date=up_to_date, pre_vote=pre_vote)

"""Prospective: requests pre-votes, to learn whether a majority would elect it. Source: ProspectiveState; KIP-996."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.raft.election import NOBODY, Election, Votes, may_vote
from kcli.raft.voters import Endpoints, ReplicaKey


@dataclass(slots=True)
class Prospective:
    """The state of a prospective. votes: the voters' answers. leader_id, leader_endpoints: those of the leader that it
    followed before and can no longer reach; NOBODY and empty if it followed none. voted: the candidate that this node
    has voted for in this epoch; None: for none. high_watermark: None if this node knows none."""

    epoch: int
    votes: Votes
    election_deadline_ms: int
    leader_id: int = NOBODY
    leader_endpoints: Endpoints = ()
    voted: ReplicaKey | None = None
    high_watermark: int | None = None

    @property
    def election(self) -> Election:
        """The content of quorum-state in this state."""
        return Election(self.epoch, self.leader_id, self.voted)

    def may_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Whether this node may grant a vote, or a pre-vote, to `candidate`, by `kcli.raft.election.may_vote`."""
        return may_vote(self.election, candidate, up_to_date=up_to_date, pre_vote=pre_vote)

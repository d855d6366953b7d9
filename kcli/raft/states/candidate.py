"""Candidate: has voted for itself in a new epoch, and requests the votes of the other voters. Source:
CandidateState."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.raft.election import NOBODY, Election, Votes
from kcli.raft.voters import Endpoints, ReplicaKey


@dataclass(slots=True)
class Candidate:
    """The state of a candidate. votes: the voters' answers. voted: this node's key, as it votes for itself.
    high_watermark: None if this node knows none."""

    epoch: int
    votes: Votes
    election_deadline_ms: int
    voted: ReplicaKey
    high_watermark: int | None = None

    @property
    def leader_id(self) -> int:
        """NOBODY: the epoch has no leader yet."""
        return NOBODY

    @property
    def election(self) -> Election:
        """The content of quorum-state in this state."""
        return Election(self.epoch, NOBODY, self.voted)

    @property
    def leader_endpoints(self) -> Endpoints:
        """Empty: the epoch has no leader yet."""
        return ()

    def may_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:  # noqa: ARG002 (one signature for all states)
        """Return whether this node may grant a vote, or a pre-vote, to another candidate. A candidate grants no vote,
        as it has voted for itself in this epoch. It grants a pre-vote, for a later epoch, if up_to_date."""
        return pre_vote and up_to_date

"""Resigned: was the leader of this epoch, and no longer leads. Source: ResignedState."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kcli.raft.election import Election
from kcli.raft.voters import Endpoints, ReplicaKey


@dataclass(slots=True)
class Resigned:
    """The state of a leader that has resigned. unacknowledged: the voters that have not acknowledged EndQuorumEpoch.
    unreachable: the nodes that did not answer the most recent request to them.

    notified_ms: during a shutdown, the time since which every voter has acknowledged EndQuorumEpoch or is unreachable;
    None while this is not true of every voter. high_watermark: None if this node knows none. voted: always None.
    """

    epoch: int
    leader_id: int
    leader_endpoints: Endpoints
    unacknowledged: set[int]
    election_deadline_ms: int
    preferred_successors: Sequence[ReplicaKey] = ()
    high_watermark: int | None = None
    voted: ReplicaKey | None = None
    unreachable: set[int] = field(default_factory=set)
    notified_ms: int | None = None

    @property
    def election(self) -> Election:
        """The content of quorum-state in this state."""
        return Election(self.epoch, self.leader_id)

    def may_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:  # noqa: ARG002 (one signature for all states)
        """Return whether this node may grant a vote, or a pre-vote, to a candidate. A resigned leader grants no vote in
        the epoch that it led. It grants a pre-vote, which is for a later epoch, if up_to_date."""
        return pre_vote and up_to_date

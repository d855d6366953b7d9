"""Follower: knows the leader of the epoch and fetches from it, as a voter or as an observer. Source: FollowerState."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.raft.election import Election
from kcli.raft.log import SnapshotWriter
from kcli.raft.messages import Node
from kcli.raft.voters import Endpoints, ReplicaKey, address_or_first


@dataclass(slots=True)
class Follower:
    """The state of a follower. fetch_deadline_ms: when the fetch timeout is over. update_deadline_ms: when
    UpdateRaftVoter or AddRaftVoter is due next.

    has_fetched: whether this leader has answered a Fetch. has_updated_leader: whether this leader has acknowledged
    UpdateRaftVoter. snapshot: the snapshot that is being fetched; None while records are fetched. voted: the candidate
    that this node has voted for in this epoch; None: for none. high_watermark: None if this node knows none.
    """

    epoch: int
    leader_id: int
    leader_endpoints: Endpoints
    fetch_timeout_ms: int
    fetch_deadline_ms: int
    update_deadline_ms: int
    voted: ReplicaKey | None = None
    high_watermark: int | None = None
    has_fetched: bool = False
    has_updated_leader: bool = False
    snapshot: SnapshotWriter | None = None

    @property
    def election(self) -> Election:
        """The content of quorum-state in this state."""
        return Election(self.epoch, self.leader_id, self.voted)

    def may_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:  # noqa: ARG002 (one signature for all states)
        """Return whether this node may grant a vote, or a pre-vote, to a candidate. A follower grants no vote, as the
        epoch has a leader. It grants a pre-vote if up_to_date, until that leader has answered a Fetch."""
        return pre_vote and up_to_date and not self.has_fetched

    def fetched(self, now_ms: int) -> None:
        """Restart the fetch timeout, as the leader has given a usable answer."""
        self.fetch_deadline_ms = now_ms + self.fetch_timeout_ms
        self.has_fetched = True

    def put_off_update(self, now_ms: int) -> None:
        """Set the next UpdateRaftVoter or AddRaftVoter to a fetch timeout from now."""
        self.update_deadline_ms = now_ms + self.fetch_timeout_ms

    def leader_node(self, listener: str) -> Node:
        """Return the leader's id and its address on `listener`; if the leader has no listener of that name, the address
        of its first listener."""
        where = address_or_first(self.leader_endpoints, listener)
        assert where is not None, "a follower knows where its leader is"
        return Node(self.leader_id, where.host, where.port)

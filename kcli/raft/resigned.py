"""Resigned: was the leader of this epoch, and does not lead any more. Source: ResignedState, pollResigned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.raft.election import Election, next_epoch
from kcli.raft.messages import EndQuorumEpoch
from kcli.raft.outgoing import send_all, voter_node
from kcli.raft.voters import Endpoints, ReplicaKey

if TYPE_CHECKING:
    from kcli.raft.core import Core


@dataclass(slots=True)
class Resigned:
    """unacknowledged: whom it has yet to tell. unreachable: of them, who did not answer the last time. told_ms: since
    when, while it shuts down, nobody is left whom it could tell."""

    epoch: int
    leader_id: int
    leader_endpoints: Endpoints
    unacknowledged: set[int]
    election_deadline_ms: int
    preferred_successors: Sequence[ReplicaKey] = ()
    high_watermark: int | None = None
    voted: ReplicaKey | None = None
    unreachable: set[int] = field(default_factory=set)
    told_ms: int | None = None

    @property
    def election(self) -> Election:
        """What quorum-state is to have."""
        return Election(self.epoch, self.leader_id)

    def may_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:  # noqa: ARG002
        """It led this epoch; it may say that it would in another one."""
        return pre_vote and up_to_date

    def poll(self, core: Core, now_ms: int) -> int:
        """Tell the voters; after the timeout go on in the next epoch. Returns how long to wait."""
        request = EndQuorumEpoch(
            cluster_id=core.config.cluster_id,
            leader_id=self.leader_id,
            epoch=self.epoch,
            preferred_successors=self.preferred_successors,
        )
        nodes = [node for each in sorted(self.unacknowledged) if (node := voter_node(core, each)) is not None]
        wait_ms = send_all(core, [(node, request) for node in nodes], now_ms)
        if core.is_shutting_down:
            if self.told_ms is None and self.unacknowledged <= self.unreachable:
                self.told_ms = now_ms
            return min(wait_ms, core.shutdown_deadline_ms - now_ms)
        if now_ms >= self.election_deadline_ms:
            core.to_unattached(next_epoch(self.epoch), now_ms)
            return 0
        return min(wait_ms, self.election_deadline_ms - now_ms)

"""Unattached: no leader of the epoch to fetch from is known. Source: UnattachedState, pollUnattached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.raft.election import NOBODY, Election, may_vote
from kcli.raft.outgoing import fetch_from_any
from kcli.raft.voters import Endpoints, ReplicaKey

if TYPE_CHECKING:
    from kcli.raft.core import Core


@dataclass(slots=True)
class Unattached:
    """leader_id: it may be known who leads, but not where. election_deadline_ms: of a voter."""

    epoch: int
    election_deadline_ms: int
    leader_id: int = NOBODY
    voted: ReplicaKey | None = None
    high_watermark: int | None = None

    @property
    def election(self) -> Election:
        """What quorum-state is to have."""
        return Election(self.epoch, self.leader_id, self.voted)

    @property
    def leader_endpoints(self) -> Endpoints:
        """Not known."""
        return ()

    def may_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Would it vote for that candidate?"""
        return may_vote(self.election, candidate, up_to_date=up_to_date, pre_vote=pre_vote)

    def poll(self, core: Core, now_ms: int) -> int:
        """Ask for the leader; after the timeout begin an election. Returns how long to wait."""
        if not core.is_voter:
            return fetch_from_any(core, now_ms)
        if core.is_shutting_down:
            return core.shutdown_deadline_ms - now_ms
        if now_ms >= self.election_deadline_ms:
            core.to_prospective(now_ms)
            return 0
        return min(fetch_from_any(core, now_ms), self.election_deadline_ms - now_ms)

"""Prospective: would a majority vote for this node? Source: ProspectiveState, pollProspective; KIP-996."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.raft.election import NOBODY, Election, Votes, may_vote
from kcli.raft.outgoing import ask_for_votes
from kcli.raft.voters import Endpoints, ReplicaKey

if TYPE_CHECKING:
    from kcli.raft.core import Core


@dataclass(slots=True)
class Prospective:
    """leader_id, leader_endpoints: of the leader that it has lost sight of, if it had one."""

    epoch: int
    votes: Votes
    election_deadline_ms: int
    leader_id: int = NOBODY
    leader_endpoints: Endpoints = ()
    voted: ReplicaKey | None = None
    high_watermark: int | None = None

    @property
    def election(self) -> Election:
        """What quorum-state is to have."""
        return Election(self.epoch, self.leader_id, self.voted)

    def may_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Would it vote for that candidate?"""
        return may_vote(self.election, candidate, up_to_date=up_to_date, pre_vote=pre_vote)

    def poll(self, core: Core, now_ms: int) -> int:
        """Ask the voters until the timeout. Returns how long to wait."""
        if core.is_shutting_down:
            return min(core.shutdown_deadline_ms - now_ms, ask_for_votes(core, self.votes, now_ms, pre_vote=True))
        if now_ms >= self.election_deadline_ms:
            core.give_up_prospect(self, now_ms)
            return 0
        return min(ask_for_votes(core, self.votes, now_ms, pre_vote=True), self.election_deadline_ms - now_ms)

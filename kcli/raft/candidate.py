"""Candidate: has voted for itself in a new epoch. Source: CandidateState, pollCandidate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.raft.election import NOBODY, Election, Votes
from kcli.raft.outgoing import ask_for_votes
from kcli.raft.voters import Endpoints, ReplicaKey

if TYPE_CHECKING:
    from kcli.raft.core import Core


@dataclass(slots=True)
class Candidate:
    """voted: itself."""

    epoch: int
    votes: Votes
    election_deadline_ms: int
    voted: ReplicaKey
    high_watermark: int | None = None

    @property
    def leader_id(self) -> int:
        """There is none yet."""
        return NOBODY

    @property
    def election(self) -> Election:
        """What quorum-state is to have."""
        return Election(self.epoch, NOBODY, self.voted)

    @property
    def leader_endpoints(self) -> Endpoints:
        """Not known."""
        return ()

    def may_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:  # noqa: ARG002
        """It has voted; it may say that it would in another epoch."""
        return pre_vote and up_to_date

    def poll(self, core: Core, now_ms: int) -> int:
        """Ask the voters until the timeout; then it waits no longer for this epoch. Returns how long to wait."""
        if core.is_shutting_down:
            return min(core.shutdown_deadline_ms - now_ms, ask_for_votes(core, self.votes, now_ms, pre_vote=False))
        if now_ms >= self.election_deadline_ms:
            core.to_prospective(now_ms)
            return 0
        return min(ask_for_votes(core, self.votes, now_ms, pre_vote=False), self.election_deadline_ms - now_ms)

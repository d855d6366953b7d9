"""Who is leader, for whom a node has voted, and how its own election goes.

An epoch is an int32, and every election needs a larger one than the last. A request that anybody can send names an
epoch, so one frame could use up all of them: Kafka's voter takes 2^31 - 1 over, adds one, writes -2^31 and ends. Here

    reach        an epoch heard from another node is taken over only within `reach` of the own one: a 1,024th of what is
                 left. No number of frames brings a node to the largest epoch, and an honest quorum never makes such a
                 leap: it would be two million elections that this node has not heard of
    beyond it    the request is answered with the own, lower epoch and no vote; the answer is passed over. Both are what
                 a message that was lost would come to, which Raft allows for. Kafka's voters take such an answer for a
                 late one
    the last     a node whose epoch is EPOCH_MAX cannot begin an election: `next_epoch` raises NoEpochLeft

Source: ElectionState, EpochElection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from formats.quorum_state import QuorumState
from kcli.raft.errors import NoEpochLeft
from kcli.raft.voters import ReplicaKey, replica_key

NOBODY: Final = -1
NEVER: Final = 1 << 62
"""A wait without end."""


EPOCH_MAX: Final = (1 << 31) - 1
REACH_SHIFT: Final = 10


def is_in_reach(epoch: int, own: int) -> bool:
    """May a node whose epoch is `own` take over `epoch`, which another one named? See above."""
    return epoch < EPOCH_MAX and epoch - own <= max(1, EPOCH_MAX - own >> REACH_SHIFT)


def next_epoch(epoch: int) -> int:
    """The epoch of the next election. Raises NoEpochLeft."""
    if epoch >= EPOCH_MAX:
        raise NoEpochLeft(epoch)
    return epoch + 1


class Election(NamedTuple):
    """What quorum-state keeps of an epoch. leader_id: NOBODY where none is known."""

    epoch: int
    leader_id: int = NOBODY
    voted: ReplicaKey | None = None

    def state(self, kraft_version: int, voters: Sequence[int]) -> QuorumState:
        """The file: version 0 with kraft.version 0, version 1 from kraft.version 1 on."""
        voted_id = NOBODY if self.voted is None else self.voted.id
        if kraft_version:
            directory = (self.voted or ReplicaKey(NOBODY)).written_directory
            return QuorumState(1, self.leader_id, self.epoch, voted_id, directory)
        return QuorumState(
            0, self.leader_id, self.epoch, voted_id, cluster_id="", applied_offset=0, current_voters=tuple(voters)
        )


def parse_election(state: QuorumState) -> Election:
    """What a quorum-state file says."""
    voted = None if state.voted_id == NOBODY else replica_key(state.voted_id, state.voted_directory_id)
    return Election(state.leader_epoch, state.leader_id, voted)


class Votes:
    """The votes of one election, by voter."""

    def __init__(self, voters: Sequence[ReplicaKey], own_id: int) -> None:
        self._votes: dict[int, bool | None] = dict.fromkeys((each.id for each in voters), None)
        self._keys = {each.id: each for each in voters}
        self.record(own_id, granted=True)

    def record(self, voter_id: int, *, granted: bool) -> None:
        """What a voter has answered; what others say does not count."""
        if voter_id in self._votes:
            self._votes[voter_id] = granted

    @property
    def granting(self) -> list[int]:
        """Who has voted for it."""
        return [each for each, vote in self._votes.items() if vote]

    @property
    def unanswered(self) -> list[ReplicaKey]:
        """Whose vote is open."""
        return [self._keys[each] for each, vote in self._votes.items() if vote is None]

    @property
    def is_won(self) -> bool:
        """Is there a majority for it?"""
        return len(self.granting) >= self._majority

    @property
    def is_lost(self) -> bool:
        """Can there be none any more?"""
        return len(self.granting) + len(self.unanswered) < self._majority

    @property
    def _majority(self) -> int:
        return len(self._votes) // 2 + 1


def may_vote(election: Election, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
    """Would one that has no leader to fetch from vote for that candidate? up_to_date: its log is not behind."""
    if pre_vote:
        return up_to_date
    if election.voted is not None:
        return election.voted.admits(candidate)
    return election.leader_id == NOBODY and up_to_date

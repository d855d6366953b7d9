"""The content of quorum-state, the votes of an election, and how far an epoch may jump.

An epoch is an int32, and every election needs a larger one than the election before. Any client can send a request with
an epoch, so one request could use up all epochs: Kafka's voter adopts 2^31 - 1, adds one, writes -2^31 and stops. kcli
differs:

    in reach      an epoch that exceeds the node's own by at most a 1,024th of the epochs that are left. Of the epochs
                  that other nodes name, a node adopts only these, so no number of requests brings it to the largest
                  epoch. An honest quorum never makes a larger jump, as two million elections would have taken place
                  without this node
    out of reach  any higher epoch. A request with such an epoch gets no vote, and an error in place of an answer; an
                  answer with such an epoch is ignored. To the other node this is like a lost message, which Raft allows
                  for
    the largest   a node whose epoch is EPOCH_MAX cannot begin an election: `next_epoch` raises NoEpochLeft

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
"""The deadline of a wait that never ends, in ms since 1970."""


EPOCH_MAX: Final = (1 << 31) - 1
REACH_SHIFT: Final = 10


def is_in_reach(epoch: int, own: int) -> bool:
    """Return whether a node whose epoch is `own` may adopt `epoch`, which another node has named (see the module)."""
    return epoch < EPOCH_MAX and epoch - own <= max(1, EPOCH_MAX - own >> REACH_SHIFT)


def next_epoch(epoch: int) -> int:
    """Return the epoch of the next election. Raises NoEpochLeft."""
    if epoch >= EPOCH_MAX:
        raise NoEpochLeft(epoch)
    return epoch + 1


class Election(NamedTuple):
    """The content of quorum-state for an epoch: its leader (NOBODY: not known), and the candidate that this node has
    voted for (None: for none)."""

    epoch: int
    leader_id: int = NOBODY
    voted: ReplicaKey | None = None

    def state(self, kraft_version: int, voters: Sequence[int]) -> QuorumState:
        """Return the election as the content of quorum-state: version 0 of the file with kraft.version 0, version 1
        with kraft.version 1."""
        voted_id = NOBODY if self.voted is None else self.voted.id
        if kraft_version:
            directory = (self.voted or ReplicaKey(NOBODY)).written_directory
            return QuorumState(1, self.leader_id, self.epoch, voted_id, directory)
        return QuorumState(
            0, self.leader_id, self.epoch, voted_id, cluster_id="", applied_offset=0, current_voters=tuple(voters)
        )


def parse_election(state: QuorumState) -> Election:
    """Return the epoch, the leader and the vote that a quorum-state file contains."""
    voted = None if state.voted_id == NOBODY else replica_key(state.voted_id, state.voted_directory_id)
    return Election(state.leader_epoch, state.leader_id, voted)


class Votes:
    """The votes of one election, by voter; the node's own vote is granted."""

    def __init__(self, voters: Sequence[ReplicaKey], own_id: int) -> None:
        self._votes: dict[int, bool | None] = dict.fromkeys((each.id for each in voters), None)
        self._keys = {each.id: each for each in voters}
        self.record(own_id, granted=True)

    def record(self, voter_id: int, *, granted: bool) -> None:
        """Record the answer of a voter; an answer of a node that is no voter is ignored."""
        if voter_id in self._votes:
            self._votes[voter_id] = granted

    @property
    def granting(self) -> list[int]:
        """The ids of the voters that have granted their vote."""
        return [each for each, vote in self._votes.items() if vote]

    @property
    def unanswered(self) -> list[ReplicaKey]:
        """The keys of the voters that have not answered."""
        return [self._keys[each] for each, vote in self._votes.items() if vote is None]

    @property
    def is_won(self) -> bool:
        """Whether a majority of the voters has granted the vote."""
        return len(self.granting) >= self._majority

    @property
    def is_lost(self) -> bool:
        """Whether a majority can no longer be reached."""
        return len(self.granting) + len(self.unanswered) < self._majority

    @property
    def _majority(self) -> int:
        return len(self._votes) // 2 + 1


def may_vote(election: Election, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
    """Return whether a node that follows no leader may vote for a candidate in its epoch: if it has voted, only for the
    same candidate again; otherwise if `up_to_date`, and the epoch has no known leader.

    election: the leader and the vote that the node knows. up_to_date: whether the candidate's log ends at or after the
    end of that node's log, by epoch, then offset. pre_vote: whether the candidate asks for a pre-vote, which the node
    may give to several candidates: `up_to_date` alone decides.
    """
    if pre_vote:
        return up_to_date
    if election.voted is not None:
        return election.voted.admits(candidate)
    return election.leader_id == NOBODY and up_to_date

"""Leader: the end offsets of the replicas, the high watermark that follows from them, and when the leader must resign.

    high watermark   the offset below which a majority of the voters has the log on disk, once this offset is above that
                     of the epoch's first record. A voter has on disk the records below the offset of its last Fetch,
                     the leader those that it has flushed
    check quorum     the leader resigns if no majority of the voters has fetched for 1.5 fetch timeouts

A VotersRecord is in effect as soon as it is appended. Source: LeaderState.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from kcli.raft.election import Election
from kcli.raft.messages import Token
from kcli.raft.voters import Endpoints, ReplicaKey, VoterNode, VoterSet

OBSERVER_SESSION_MS: Final = 300_000
"""The time in ms without a Fetch after which the leader forgets an observer."""
OBSERVERS_MAX: Final = 10_000
"""The maximum number of observers that the leader keeps, as any client can send a Fetch with any id. When it is
reached, the observer that was added first is forgotten until it fetches again."""
CAUGHT_UP_MS: Final = 3_600_000
"""The time in ms after its last Fetch for which an observer can count as caught up."""


@dataclass(slots=True)
class Replica:
    """The leader's state of a voter or an observer, from the Fetch requests of that replica. Times are ms since 1970,
    -1 before its first Fetch. end_offset: the replica's log end offset; None before its first Fetch. last_caught_up_ms:
    the last time at which the replica had all records that the leader then had. last_fetch_leader_end: the leader's log
    end offset at the replica's last Fetch; -1 before the first. ahead_since_ms: the time since which all Fetches of the
    replica have been in a higher epoch than the leader's; -1 if the last Fetch was not."""

    key: ReplicaKey
    endpoints: Endpoints = ()
    end_offset: int | None = None
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    last_fetch_leader_end: int = -1
    ahead_since_ms: int = -1

    def fetched(self, offset: int, leader_end: int | None, now_ms: int) -> None:
        """Update this state by a Fetch of the replica at `offset`, its log end offset. leader_end: the leader's log end
        offset at that time."""
        if leader_end is not None:
            if offset >= leader_end:
                self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
            elif 0 < self.last_fetch_leader_end <= offset:
                self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
            self.last_fetch_leader_end = leader_end
        self.last_fetch_ms = max(self.last_fetch_ms, now_ms)
        self.ahead_since_ms = -1
        self.end_offset = offset


@dataclass(slots=True)
class VoterChange:
    """The addition or removal of a voter. last_offset: the offset of the VotersRecord; None before that is appended.
    token: that of the request to answer; None once it is answered. voter: the one that is added or removed.
    deadline_ms: when the change times out."""

    token: Token | None
    voter: VoterNode
    deadline_ms: int
    is_addition: bool
    ack_when_committed: bool = True
    last_offset: int | None = None


@dataclass(slots=True)
class Leader:
    """The state of a leader. epoch_start_offset: the offset of the LeaderChange record. granting: the voters that
    elected it.

    check_deadline_ms: when the leader resigns unless a majority has fetched. begin_deadline_ms: when BeginQuorumEpoch
    is due next. volatile_voters: the endpoints and levels in the voters' UpdateRaftVoter requests while kraft.version
    is 0; None if its level is higher, or is being raised. change: the change of voters in progress; None if there is
    none. requested_kraft_version: the level to which kraft.version is being raised; None if it is not. high_watermark:
    None until the LeaderChange record is committed. voted: always None.
    """

    epoch: int
    key: ReplicaKey
    leader_endpoints: Endpoints
    epoch_start_offset: int
    granting: list[int]
    fetch_timeout_ms: int
    check_deadline_ms: int
    begin_deadline_ms: int
    voters: dict[int, Replica] = field(default_factory=dict)
    observers: dict[ReplicaKey, Replica] = field(default_factory=dict)
    high_watermark: int | None = None
    is_resigning: bool = False
    change: VoterChange | None = None
    volatile_voters: VoterSet | None = None
    requested_kraft_version: int | None = None
    voted: ReplicaKey | None = None
    _fetched: set[int] = field(default_factory=set)

    @property
    def leader_id(self) -> int:
        """The id of this node, as it is the leader."""
        return self.key.id

    @property
    def election(self) -> Election:
        """The content of quorum-state in this state."""
        return Election(self.epoch, self.key.id)

    def may_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:  # noqa: ARG002 (one signature for all states)
        """Return False: a leader grants no vote and no pre-vote."""
        return False

    # the logs of the other replicas

    def set_voters(self, voters: VoterSet) -> None:
        """Set the voters: removed voters become observers, and added voters are no longer observers."""
        old = self.voters
        self.voters = {}
        for node in voters.nodes.values():
            found = old.get(node.key.id)
            if found is None or not found.key.admits(node.key):
                found = self.observers.get(node.key) or Replica(node.key)
            else:
                del old[node.key.id]
            self.observers.pop(node.key, None)
            found.key, found.endpoints = node.key, node.endpoints
            self.voters[node.key.id] = found
        for replica in old.values():
            replica.endpoints = ()
            self.observers.setdefault(replica.key, replica)

    def replica(self, key: ReplicaKey) -> Replica:
        """Return the state of a replica; an unknown replica is added as an observer. Beyond OBSERVERS_MAX observers,
        the one that was added first is dropped."""
        found = self.voters.get(key.id)
        if found is not None and found.key.admits(key):
            return found
        if key not in self.observers and len(self.observers) >= OBSERVERS_MAX:
            del self.observers[next(each for each in self.observers if each != self.key)]
        return self.observers.setdefault(key, Replica(key))

    def is_caught_up(self, key: ReplicaKey, now_ms: int) -> bool:
        """Whether a replica is an observer that has caught up with the log, and has fetched within CAUGHT_UP_MS."""
        found = self.observers.get(key)
        return found is not None and found.last_caught_up_ms > 0 and found.last_fetch_ms > now_ms - CAUGHT_UP_MS

    def flushed(self, offset: int) -> bool:
        """Update the leader's own end offset: its log is on disk below `offset`. Returns whether the high watermark
        rose."""
        self.replica(self.key).end_offset = offset
        return self.move_high_watermark()

    def fetched(self, key: ReplicaKey, offset: int, leader_end: int, now_ms: int) -> bool:
        """Update the state of a replica by its Fetch at `offset`, its log end offset. leader_end: the leader's log end
        offset at that time. Returns whether the high watermark rose."""
        if key.id < 0:
            return False
        self.replica(key).fetched(offset, leader_end, now_ms)
        self.note_following(key, now_ms)
        return self.is_voter(key) and self.move_high_watermark()

    def is_voter(self, key: ReplicaKey) -> bool:
        """Whether a replica is a voter."""
        return key.id in self.voters and self.voters[key.id].key.admits(key)

    def move_high_watermark(self) -> bool:
        """Raise the high watermark to the highest end offset that a majority of the voters has, if this is above
        epoch_start_offset. Returns whether the high watermark rose."""
        offsets = sorted(-1 if each.end_offset is None else each.end_offset for each in self.voters.values())
        offset = offsets[(len(offsets) - 1) // 2]
        if offset <= self.epoch_start_offset or offset <= (self.high_watermark or 0):
            return False
        self.high_watermark = offset
        return True

    def note_following(self, key: ReplicaKey, now_ms: int) -> None:
        """Count the replica `key` among those that have fetched. Once a majority of the voters has fetched since the
        last check, the deadline of the next check is set to 1.5 fetch timeouts from now."""
        if self.is_voter(key):
            self._fetched.add(key.id)
        majority = len(self.voters) // 2 + 1
        if self.key.id in self.voters:
            majority -= 1
        if len(self._fetched) >= majority:
            self._fetched.clear()
            self.check_deadline_ms = now_ms + self.fetch_timeout_ms * 3 // 2

    def forget_observers(self, now_ms: int) -> None:
        """Forget the observers that have not fetched for OBSERVER_SESSION_MS."""
        for key in [key for key, each in self.observers.items() if now_ms - each.last_fetch_ms >= OBSERVER_SESSION_MS]:
            if key != self.key:
                del self.observers[key]

    def silent_voters(self, now_ms: int) -> list[Replica]:
        """Return the voters, without this node, that have not fetched for half a fetch timeout."""
        return [
            each
            for each in self.voters.values()
            if each.key.id != self.key.id and now_ms - each.last_fetch_ms >= self.fetch_timeout_ms // 2
        ]

    def successors(self) -> list[ReplicaKey]:
        """Return the voters, without this node, those with the longest log first."""

        def order(replica: Replica) -> tuple[int, int, str]:
            offset = -1 if replica.end_offset is None else replica.end_offset
            return -offset, replica.key.id, replica.key.written_directory

        others: Iterable[Replica] = (each for each in self.voters.values() if not each.key.admits(self.key))
        return [each.key for each in sorted(others, key=order)]

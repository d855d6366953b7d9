"""Leader: what it knows of the others' logs, how far all is committed, and when it must give up.

    high watermark   the offset that a majority of the voters have on disk, once it is behind the epoch's first record.
                     A voter has what is before the offset that it fetches from; the leader what it has flushed
    check quorum     where 1.5 fetch timeouts go by without a fetch from a majority, it resigns
    BeginQuorumEpoch every half fetch timeout, to voters that have not fetched for so long

A voters record counts from when it is appended. Source: LeaderState, pollLeader.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kcli.raft.election import NEVER, Election
from kcli.raft.messages import BeginQuorumEpoch, Token
from kcli.raft.outgoing import send_all, voter_node
from kcli.raft.voters import Endpoints, ReplicaKey, VoterNode, VoterSet

if TYPE_CHECKING:
    from kcli.raft.core import Core

OBSERVER_SESSION_MS: Final = 300_000
"""After so long an observer is forgotten."""
OBSERVERS_MAX: Final = 10_000
"""Anybody can fetch, with any id: of more observers the first one is forgotten, until it fetches again."""
CAUGHT_UP_MS: Final = 3_600_000
"""Who fetched within it may be caught up."""


@dataclass(slots=True)
class Replica:
    """What is known of a copy of the log; -1: nothing. end_offset None: it has not fetched."""

    key: ReplicaKey
    endpoints: Endpoints = ()
    end_offset: int | None = None
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    last_fetch_leader_end: int = -1

    def fetched(self, offset: int, leader_end: int | None, now_ms: int) -> None:
        """Its log ends at `offset`."""
        if leader_end is not None:
            if offset >= leader_end:
                self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
            elif 0 < self.last_fetch_leader_end <= offset:
                self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
            self.last_fetch_leader_end = leader_end
        self.last_fetch_ms = max(self.last_fetch_ms, now_ms)
        self.end_offset = offset


@dataclass(slots=True)
class VoterChange:
    """A voter is being added or removed. last_offset: of its record, once that is appended. token None: answered."""

    token: Token | None
    voter: VoterNode
    deadline_ms: int
    is_addition: bool
    ack_when_committed: bool = True
    last_offset: int | None = None


@dataclass(slots=True)
class Leader:
    """epoch_start_offset: of the LeaderChange record. volatile_voters: what voters say of themselves while
    kraft.version is 0; None once it is being raised."""

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
        """It is."""
        return self.key.id

    @property
    def election(self) -> Election:
        """What quorum-state is to have."""
        return Election(self.epoch, self.key.id)

    def may_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:  # noqa: ARG002
        """It leads."""
        return False

    # the others' logs

    def set_voters(self, voters: VoterSet) -> None:
        """These are the voters from now on."""
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
        """What is known of that copy, from now on."""
        found = self.voters.get(key.id)
        if found is not None and found.key.admits(key):
            return found
        if key not in self.observers and len(self.observers) >= OBSERVERS_MAX:
            del self.observers[next(each for each in self.observers if each != self.key)]
        return self.observers.setdefault(key, Replica(key))

    def is_caught_up(self, key: ReplicaKey, now_ms: int) -> bool:
        """Has that observer been at the end of the log?"""
        found = self.observers.get(key)
        return found is not None and found.last_caught_up_ms > 0 and found.last_fetch_ms > now_ms - CAUGHT_UP_MS

    def flushed(self, offset: int) -> bool:
        """Its own log is on disk up to there. Returns whether the high watermark moved."""
        self.replica(self.key).end_offset = offset
        return self.move_high_watermark()

    def fetched(self, key: ReplicaKey, offset: int, leader_end: int, now_ms: int) -> bool:
        """A replica's log ends there. Returns whether the high watermark moved."""
        if key.id < 0:
            return False
        self.replica(key).fetched(offset, leader_end, now_ms)
        self.heard_of(key, now_ms)
        return self.is_voter(key) and self.move_high_watermark()

    def is_voter(self, key: ReplicaKey) -> bool:
        """Is that replica a voter?"""
        return key.id in self.voters and self.voters[key.id].key.admits(key)

    def move_high_watermark(self) -> bool:
        """To what a majority has. Returns whether it moved."""
        offsets = sorted(-1 if each.end_offset is None else each.end_offset for each in self.voters.values())
        offset = offsets[(len(offsets) - 1) // 2]
        if offset <= self.epoch_start_offset or offset <= (self.high_watermark or 0):
            return False
        self.high_watermark = offset
        return True

    def heard_of(self, key: ReplicaKey, now_ms: int) -> None:
        """A voter follows: with a majority of them the time begins anew."""
        if self.is_voter(key):
            self._fetched.add(key.id)
        majority = len(self.voters) // 2 + 1
        if self.key.id in self.voters:
            majority -= 1
        if len(self._fetched) >= majority:
            self._fetched.clear()
            self.check_deadline_ms = now_ms + self.fetch_timeout_ms * 3 // 2

    def forget_observers(self, now_ms: int) -> None:
        """Those that have not fetched for long."""
        for key in [key for key, each in self.observers.items() if now_ms - each.last_fetch_ms >= OBSERVER_SESSION_MS]:
            if key != self.key:
                del self.observers[key]

    def successors(self) -> list[ReplicaKey]:
        """The other voters, those with most of the log first."""

        def order(replica: Replica) -> tuple[int, int, str]:
            offset = -1 if replica.end_offset is None else replica.end_offset
            return -offset, replica.key.id, replica.key.written_directory

        others: Iterable[Replica] = (each for each in self.voters.values() if not each.key.admits(self.key))
        return [each.key for each in sorted(others, key=order)]

    # time

    def poll(self, core: Core, now_ms: int) -> int:
        """Resign where it must; tell voters that do not fetch. Returns how long to wait."""
        check_ms = NEVER if len(self.voters) == 1 else self.check_deadline_ms
        if core.is_shutting_down or self.is_resigning or now_ms >= check_ms:
            core.to_resigned(now_ms)
            return 0
        if self.change is not None and now_ms >= self.change.deadline_ms:
            core.finish_change(self, timed_out=True)
        deadline_ms = check_ms if self.change is None else min(check_ms, self.change.deadline_ms)
        wait_ms = NEVER
        if now_ms >= self.begin_deadline_ms:
            self.forget_observers(now_ms)
            wait_ms = send_all(
                core,
                [
                    (node, self._begin(core, each))
                    for each in self.voters.values()
                    if each.key.id != self.key.id
                    and now_ms - each.last_fetch_ms >= self.fetch_timeout_ms // 2
                    and (node := voter_node(core, each.key.id)) is not None
                ],
                now_ms,
            )
            self.begin_deadline_ms = now_ms + max(1, self.fetch_timeout_ms // 2)
        if len(self.voters) > 1 or self.key.id not in self.voters:
            wait_ms = min(wait_ms, self.begin_deadline_ms - now_ms)
        return min(wait_ms, deadline_ms - now_ms)

    def _begin(self, core: Core, voter: Replica) -> BeginQuorumEpoch:
        return BeginQuorumEpoch(
            cluster_id=core.config.cluster_id,
            voter=voter.key,
            leader_id=self.key.id,
            epoch=self.epoch,
            endpoints=self.leader_endpoints,
        )

"""Follower: fetches from the leader of the epoch, as a voter or as an observer.

    a voter      the fetch timeout without an answer of use, and it begins an election; every fetch timeout it looks
                 whether the leader should know more of it (UpdateRaftVoter)
    an observer  where it may become a voter by itself (controller.quorum.auto.join.enable), it asks for that every
                 fetch timeout; first for the removal of a voter of its id with another directory. It may be a voter
                 and not know of it: after a fetch timeout it too says whom it would vote for (Kafka's never does)

Source: FollowerState, pollFollowerAsVoter, pollFollowerAsObserver; KIP-853, KIP-1186.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.raft.election import NEVER, Election
from kcli.raft.log import SnapshotWriter
from kcli.raft.messages import (
    AddRaftVoter,
    FetchSnapshot,
    Node,
    RemoveRaftVoter,
    Request,
    UpdateRaftVoter,
)
from kcli.raft.outgoing import fetch_from_any, fetch_request, send
from kcli.raft.voters import SUPPORTED_KRAFT_VERSIONS, Endpoints, ReplicaKey, address_or_first

if TYPE_CHECKING:
    from kcli.raft.core import Core


@dataclass(slots=True)
class Follower:
    """has_fetched: from this leader. snapshot: the one that it fetches instead of the log."""

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
        """What quorum-state is to have."""
        return Election(self.epoch, self.leader_id, self.voted)

    def may_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:  # noqa: ARG002
        """There is a leader; before it was reached, it may say that it would."""
        return pre_vote and up_to_date and not self.has_fetched

    def fetched(self, now_ms: int) -> None:
        """The leader gave an answer of use."""
        self.fetch_deadline_ms = now_ms + self.fetch_timeout_ms
        self.has_fetched = True

    def put_off_update(self, now_ms: int) -> None:
        """Look again later whether the leader is to know something."""
        self.update_deadline_ms = now_ms + self.fetch_timeout_ms

    def leader_node(self, listener: str) -> Node:
        """Where to send to."""
        where = address_or_first(self.leader_endpoints, listener)
        assert where is not None, "a follower knows where its leader is"
        return Node(self.leader_id, where.host, where.port)

    def poll(self, core: Core, now_ms: int) -> int:
        """Fetch, or what is due instead. Returns how long to wait."""
        if core.is_shutting_down:
            return max(1, core.shutdown_deadline_ms - now_ms)
        return self._poll_voter(core, now_ms) if core.is_voter else self._poll_observer(core, now_ms)

    def _poll_voter(self, core: Core, now_ms: int) -> int:
        if now_ms >= self.fetch_deadline_ms:
            core.to_prospective(now_ms)
            return 0
        if now_ms < self.update_deadline_ms:
            return self._fetch(core, now_ms)
        if self._should_update(core):
            sent, wait_ms = send(core, self.leader_node(core.config.listener), _update(core), now_ms)
            if sent:
                self.put_off_update(now_ms)
        else:
            wait_ms = self._fetch(core, now_ms)
            self.put_off_update(now_ms)
        return min(wait_ms, self.fetch_deadline_ms - now_ms)

    def _should_update(self, core: Core) -> bool:
        if core.controls.kraft_version:
            return core.controls.voters.needs_update(core.voter)
        return not self.has_updated_leader

    def _poll_observer(self, core: Core, now_ms: int) -> int:
        if now_ms >= self.fetch_deadline_ms:
            self.has_fetched = False
        config = core.config
        joins = core.controls.kraft_version and config.can_become_voter and config.auto_join_enable
        if not joins or now_ms < self.update_deadline_ms:
            return self._fetch(core, now_ms)
        old = core.controls.voters.nodes.get(core.key.id)
        request = _join(core) if old is None else RemoveRaftVoter(cluster_id=config.cluster_id, voter=old.key)
        sent, wait_ms = send(core, self.leader_node(config.listener), request, now_ms)
        if sent:
            self.put_off_update(now_ms)
        return wait_ms

    def _fetch(self, core: Core, now_ms: int) -> int:
        """From the leader; where it does not answer, ask anybody whether there is another one."""
        deadline_ms = self.fetch_deadline_ms if core.is_voter else NEVER
        if core.must_flush:
            return deadline_ms - now_ms
        connections, leader = core.connections, self.leader_node(core.config.listener)
        if connections.has_timed_out(leader.id, now_ms):
            connections.forget(leader.id)
            wait_ms = fetch_from_any(core, now_ms)
        elif connections.is_backing_off(leader.id, now_ms):
            wait_ms = fetch_from_any(core, now_ms)
        elif not connections.has_any_in_flight(now_ms):
            _, wait_ms = send(core, leader, self._request(core), now_ms)
        else:
            wait_ms = connections.bootstrap_wait_ms(now_ms)
        return min(wait_ms, deadline_ms - now_ms)

    def _request(self, core: Core) -> Request:
        if self.snapshot is None:
            return fetch_request(core)
        return FetchSnapshot(
            cluster_id=core.config.cluster_id,
            replica=core.key,
            epoch=self.epoch,
            snapshot=self.snapshot.id,
            position=self.snapshot.size,
            max_bytes=core.config.fetch_snapshot_max_bytes,
        )


def _update(core: Core) -> UpdateRaftVoter:
    least, most = SUPPORTED_KRAFT_VERSIONS
    return UpdateRaftVoter(
        cluster_id=core.config.cluster_id,
        epoch=core.state.epoch,
        voter=core.key,
        endpoints=core.config.endpoints,
        min_version=least,
        max_version=most,
    )


def _join(core: Core) -> AddRaftVoter:
    return AddRaftVoter(
        cluster_id=core.config.cluster_id,
        voter=core.key,
        endpoints=core.config.endpoints,
        timeout_ms=core.config.request_timeout_ms,
        ack_when_committed=False,
    )

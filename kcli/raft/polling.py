"""What is due in each state as time passes: requests to send, and timeouts that end the state.

    Unattached    fetches from any bootstrap server, to learn the leader; a voter's election timeout begins an election
    Prospective   requests pre-votes of the voters; after the election timeout it gives up
    Candidate     requests votes of the voters; after the election timeout it requests pre-votes again
    Leader        every half fetch timeout sends BeginQuorumEpoch to voters that have not fetched for that time; resigns
                  if no majority has fetched for 1.5 fetch timeouts
    Resigned      sends EndQuorumEpoch to voters that have not acknowledged it; after the election timeout it enters the
                  next epoch
    Follower      fetches from the leader, or, if the leader does not answer, from any bootstrap server
      a voter     after a fetch timeout without a usable answer it begins an election; every fetch timeout it sends
                  UpdateRaftVoter if the leader may not know its present endpoints and levels
      an observer with controller.quorum.auto.join.enable, it sends AddRaftVoter every fetch timeout; before that,
                  it sends RemoveRaftVoter for a voter of its id with another directory. An observer may be a voter
                  whose log lacks the VotersRecord: after a fetch timeout it may grant votes, too (Kafka's observer
                  never does)

Every function returns the milliseconds until it must be called again; 0: at once, as the state has changed.
Source: KafkaRaftClient (pollCurrentState, pollUnattached and its like); KIP-595, KIP-853, KIP-996, KIP-1186.
"""

from __future__ import annotations

from kcli.raft.core import Core
from kcli.raft.election import NEVER, next_epoch
from kcli.raft.messages import (
    AddRaftVoter,
    BeginQuorumEpoch,
    EndQuorumEpoch,
    FetchSnapshot,
    RemoveRaftVoter,
    Request,
    UpdateRaftVoter,
)
from kcli.raft.outgoing import fetch_from_any, fetch_request, send, send_all, send_votes, voter_node
from kcli.raft.states.candidate import Candidate
from kcli.raft.states.follower import Follower
from kcli.raft.states.leader import Leader, Replica
from kcli.raft.states.prospective import Prospective
from kcli.raft.states.resigned import Resigned
from kcli.raft.states.unattached import Unattached
from kcli.raft.voters import SUPPORTED_KRAFT_VERSIONS


def poll(core: Core, now_ms: int) -> int:
    """Do what is due in the node's state, which may change. Returns the ms until the next call; 0 or less: call again
    at once."""
    match core.state:
        case Unattached() as state:
            return _poll_unattached(core, state, now_ms)
        case Prospective() as state:
            return _poll_prospective(core, state, now_ms)
        case Candidate() as state:
            return _poll_candidate(core, state, now_ms)
        case Leader() as state:
            return _poll_leader(core, state, now_ms)
        case Resigned() as state:
            return _poll_resigned(core, state, now_ms)
        case Follower() as state:
            return _poll_follower(core, state, now_ms)


def _poll_unattached(core: Core, state: Unattached, now_ms: int) -> int:
    if not core.is_voter:
        return fetch_from_any(core, now_ms)
    if core.is_shutting_down:
        return core.shutdown_deadline_ms - now_ms
    if now_ms >= state.election_deadline_ms:
        core.to_prospective(now_ms)
        return 0
    return min(fetch_from_any(core, now_ms), state.election_deadline_ms - now_ms)


def _poll_prospective(core: Core, state: Prospective, now_ms: int) -> int:
    if core.is_shutting_down:
        return min(core.shutdown_deadline_ms - now_ms, send_votes(core, state.votes, now_ms, pre_vote=True))
    if now_ms >= state.election_deadline_ms:
        core.give_up_prospect(state, now_ms)
        return 0
    return min(send_votes(core, state.votes, now_ms, pre_vote=True), state.election_deadline_ms - now_ms)


def _poll_candidate(core: Core, state: Candidate, now_ms: int) -> int:
    if core.is_shutting_down:
        return min(core.shutdown_deadline_ms - now_ms, send_votes(core, state.votes, now_ms, pre_vote=False))
    if now_ms >= state.election_deadline_ms:
        core.to_prospective(now_ms)
        return 0
    return min(send_votes(core, state.votes, now_ms, pre_vote=False), state.election_deadline_ms - now_ms)


def _poll_resigned(core: Core, state: Resigned, now_ms: int) -> int:
    request = EndQuorumEpoch(
        cluster_id=core.config.cluster_id,
        leader_id=state.leader_id,
        epoch=state.epoch,
        preferred_successors=state.preferred_successors,
    )
    nodes = [node for each in sorted(state.unacknowledged) if (node := voter_node(core, each)) is not None]
    wait_ms = send_all(core, [(node, request) for node in nodes], now_ms)
    if core.is_shutting_down:
        if state.notified_ms is None and state.unacknowledged <= state.unreachable:
            state.notified_ms = now_ms
        return min(wait_ms, core.shutdown_deadline_ms - now_ms)
    if now_ms >= state.election_deadline_ms:
        core.to_unattached(next_epoch(state.epoch), now_ms)
        return 0
    return min(wait_ms, state.election_deadline_ms - now_ms)


# the leader


def _poll_leader(core: Core, state: Leader, now_ms: int) -> int:
    check_ms = NEVER if len(state.voters) == 1 else state.check_deadline_ms
    if core.is_shutting_down or state.is_resigning or now_ms >= check_ms:
        core.to_resigned(now_ms)
        return 0
    if state.change is not None and now_ms >= state.change.deadline_ms:
        core.finish_change(state, timed_out=True)
    deadline_ms = check_ms if state.change is None else min(check_ms, state.change.deadline_ms)
    wait_ms = NEVER
    if now_ms >= state.begin_deadline_ms:
        state.forget_observers(now_ms)
        silent = state.silent_voters(now_ms)
        requests = [
            (node, _begin(core, state, each)) for each in silent if (node := voter_node(core, each.key.id)) is not None
        ]
        wait_ms = send_all(core, requests, now_ms)
        state.begin_deadline_ms = now_ms + max(1, state.fetch_timeout_ms // 2)
    if len(state.voters) > 1 or state.key.id not in state.voters:
        wait_ms = min(wait_ms, state.begin_deadline_ms - now_ms)
    return min(wait_ms, deadline_ms - now_ms)


def _begin(core: Core, state: Leader, voter: Replica) -> BeginQuorumEpoch:
    return BeginQuorumEpoch(
        cluster_id=core.config.cluster_id,
        voter=voter.key,
        leader_id=state.key.id,
        epoch=state.epoch,
        endpoints=state.leader_endpoints,
    )


# what a follower sends, and when


def _poll_follower(core: Core, state: Follower, now_ms: int) -> int:
    if core.is_shutting_down:
        return max(1, core.shutdown_deadline_ms - now_ms)
    return _poll_voter(core, state, now_ms) if core.is_voter else _poll_observer(core, state, now_ms)


def _poll_voter(core: Core, state: Follower, now_ms: int) -> int:
    if now_ms >= state.fetch_deadline_ms:
        core.to_prospective(now_ms)
        return 0
    if now_ms < state.update_deadline_ms:
        return _fetch(core, state, now_ms)
    if _should_update(core, state):
        sent, wait_ms = send(core, state.leader_node(core.config.listener), _update(core), now_ms)
        if sent:
            state.put_off_update(now_ms)
    else:
        wait_ms = _fetch(core, state, now_ms)
        state.put_off_update(now_ms)
    return min(wait_ms, state.fetch_deadline_ms - now_ms)


def _should_update(core: Core, state: Follower) -> bool:
    if core.controls.kraft_version:
        return core.controls.voters.needs_update(core.voter)
    return not state.has_updated_leader


def _poll_observer(core: Core, state: Follower, now_ms: int) -> int:
    if now_ms >= state.fetch_deadline_ms:
        state.has_fetched = False
    config = core.config
    joins = core.controls.kraft_version and config.can_become_voter and config.auto_join_enable
    if not joins or now_ms < state.update_deadline_ms:
        return _fetch(core, state, now_ms)
    old = core.controls.voters.nodes.get(core.key.id)
    request = _join(core) if old is None else RemoveRaftVoter(cluster_id=config.cluster_id, voter=old.key)
    sent, wait_ms = send(core, state.leader_node(config.listener), request, now_ms)
    if sent:
        state.put_off_update(now_ms)
    return wait_ms


def _fetch(core: Core, state: Follower, now_ms: int) -> int:
    """Fetch from the leader; if the leader does not answer, from any bootstrap server, which may know of another
    leader. A voter whose log must be flushed first (`Core.must_flush`) does not fetch yet."""
    deadline_ms = state.fetch_deadline_ms if core.is_voter else NEVER
    if core.must_flush:
        return deadline_ms - now_ms
    connections, leader = core.connections, state.leader_node(core.config.listener)
    if connections.has_timed_out(leader.id, now_ms):
        connections.forget(leader.id)
        wait_ms = fetch_from_any(core, now_ms)
    elif connections.is_backing_off(leader.id, now_ms):
        wait_ms = fetch_from_any(core, now_ms)
    elif not connections.has_any_in_flight(now_ms):
        _, wait_ms = send(core, leader, _fetch_or_snapshot(core, state), now_ms)
    else:
        wait_ms = connections.bootstrap_wait_ms(now_ms)
    return min(wait_ms, deadline_ms - now_ms)


def _fetch_or_snapshot(core: Core, state: Follower) -> Request:
    if state.snapshot is None:
        return fetch_request(core)
    return FetchSnapshot(
        cluster_id=core.config.cluster_id,
        replica=core.key,
        epoch=state.epoch,
        snapshot=state.snapshot.id,
        position=state.snapshot.size,
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

"""The requests that a node sends by itself: Vote to the voters, Fetch to the leader or to a bootstrap server. Source:
KafkaRaftClient, maybeSendRequest etc."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.raft.config import FETCH_WAIT_MAX_MS
from kcli.raft.election import NEVER, Votes
from kcli.raft.messages import Fetch, Node, Request, Send, Vote
from kcli.raft.voters import ReplicaKey, address

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.raft.core import Core


def send(core: Core, to: Node, request: Request, now_ms: int) -> tuple[bool, int]:
    """Send a request to a node, unless an earlier request to that node is pending or its retry backoff lasts. Returns
    whether the request was sent, and the ms until the node may be sent another one."""
    if not core.connections.is_ready(to.id, now_ms):
        return False, core.connections.wait_ms(to.id, now_ms)
    core.correlation += 1
    core.connections.sent(to.id, core.correlation, now_ms)
    core.out.messages.append(Send(to, request, core.correlation))
    return True, core.connections.wait_ms(to.id, now_ms)


def send_all(core: Core, requests: Iterable[tuple[Node, Request]], now_ms: int) -> int:
    """Send requests to their nodes, as `send` does. Returns the ms until the first of the nodes may be sent another
    request; NEVER if there are no requests."""
    return min((send(core, to, request, now_ms)[1] for to, request in requests), default=NEVER)


def send_votes(core: Core, votes: Votes, now_ms: int, *, pre_vote: bool) -> int:
    """Send Vote to the voters that have not answered, unless the election is lost. Returns the ms until the first of
    them may be sent another request; NEVER if no Vote is to be sent."""
    if votes.is_lost:
        return NEVER
    nodes = [(each, voter_node(core, each.id)) for each in votes.unanswered]
    requests = [(node, _vote(core, each, pre_vote=pre_vote)) for each, node in nodes if node is not None]
    return send_all(core, requests, now_ms)


def _vote(core: Core, voter: ReplicaKey, *, pre_vote: bool) -> Vote:
    return Vote(
        cluster_id=core.config.cluster_id,
        voter=voter,
        replica=core.key,
        epoch=core.state.epoch,
        last=core.log_end,
        pre_vote=pre_vote,
    )


def fetch_from_any(core: Core, now_ms: int) -> int:
    """Send Fetch to one of the bootstrap servers, chosen at random. Returns the ms until another Fetch may be sent."""
    node = core.connections.ready_bootstrap(now_ms)
    if node is None or core.must_flush:
        return max(1, core.connections.bootstrap_wait_ms(now_ms))
    return send(core, node, fetch_request(core), now_ms)[1]


def fetch_request(core: Core) -> Fetch:
    """Return a Fetch at the end of this node's log."""
    end = core.log_end
    high_watermark = core.state.high_watermark
    return Fetch(
        cluster_id=core.config.cluster_id,
        replica=core.key,
        epoch=core.state.epoch,
        offset=end.offset,
        last_fetched_epoch=end.epoch,
        high_watermark=-1 if high_watermark is None else high_watermark,
        max_wait_ms=min(FETCH_WAIT_MAX_MS, core.config.fetch_timeout_ms // 2),
        max_bytes=core.config.fetch_max_bytes,
    )


def voter_node(core: Core, voter_id: int) -> Node | None:
    """Return a voter's id and address; None if the voter has no endpoint for the listener of the configuration."""
    where = address(core.controls.voters.endpoints(voter_id), core.config.listener)
    return None if where is None else Node(voter_id, where.host, where.port)

"""The state of the quorum as its leader knows it, for DescribeQuorum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kcli.raft.states.leader import Leader, Replica


class ReplicaView(NamedTuple):
    """A replica of the metadata log.

    directory_id: None if unknown. log_end_offset: for the leader that of its log, for another replica the fetch offset
    of its last Fetch, -1 before its first. last_fetch_ms: the time of the replica's last Fetch. last_caught_up_ms: the
    last time at which the replica had all records that the leader then had. Both are in ms since 1970, -1 if unknown;
    for the leader they are not used.
    """

    id: int
    directory_id: str | None
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class QuorumView(NamedTuple):
    """The state of the quorum as its leader knows it. high_watermark: -1 while unknown."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[ReplicaView, ...]
    observers: tuple[ReplicaView, ...]


def of_only_voter(
    node_id: int, directory_id: str | None, epoch: int, log_end_offset: int, high_watermark: int
) -> QuorumView:
    """Return the state of the quorum on a node that is the only voter."""
    own = ReplicaView(node_id, directory_id, log_end_offset, -1, -1)
    return QuorumView(node_id, epoch, high_watermark, (own,), ())


def of_leader(state: Leader, log_end_offset: int) -> QuorumView:
    """Return the state of the quorum on its leader. log_end_offset: that of the leader's log."""

    def views(replicas: Iterable[Replica]) -> tuple[ReplicaView, ...]:
        return tuple(
            ReplicaView(
                each.key.id,
                each.key.directory_id,
                log_end_offset
                if each.key.id == state.leader_id
                else -1
                if each.end_offset is None
                else each.end_offset,
                each.last_fetch_ms,
                each.last_caught_up_ms,
            )
            for each in replicas
        )

    high_watermark = -1 if state.high_watermark is None else state.high_watermark
    voters, observers = views(state.voters.values()), views(state.observers.values())
    return QuorumView(state.leader_id, state.epoch, high_watermark, voters, observers)

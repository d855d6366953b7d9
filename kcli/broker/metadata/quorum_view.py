"""The quorum as its leader sees it, for DescribeQuorum."""

from __future__ import annotations

from typing import NamedTuple


class ReplicaView(NamedTuple):
    """A replica of the metadata log. Times are milliseconds since 1970, -1 where they are not known; the leader itself
    is always up to date.

    directory_id: None where it is not known. log_end_offset: as of its last Fetch.
    """

    id: int
    directory_id: str | None
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class QuorumView(NamedTuple):
    """high_watermark: -1 where it is not known yet."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[ReplicaView, ...]
    observers: tuple[ReplicaView, ...]


def of_only_voter(
    node_id: int, directory_id: str | None, epoch: int, log_end_offset: int, high_watermark: int
) -> QuorumView:
    """The view of a node that is alone."""
    own = ReplicaView(node_id, directory_id, log_end_offset, -1, -1)
    return QuorumView(node_id, epoch, high_watermark, (own,), ())

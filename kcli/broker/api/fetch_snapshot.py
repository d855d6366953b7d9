"""FetchSnapshot (59): bytes of a snapshot of the metadata log. v1 directories, endpoints (KIP-853). KIP-630."""

from __future__ import annotations

from kcli.broker.metadata.answers import answer
from kcli.broker.metadata.raft_answers import fetch_snapshot_of, fetch_snapshot_response
from kcli.broker.network.messages import Call, Entity


async def fetch_snapshot(call: Call) -> Entity:
    """Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST, NOT_LEADER_OR_FOLLOWER, SNAPSHOT_NOT_FOUND,
    POSITION_OUT_OF_RANGE."""
    return await answer(call, fetch_snapshot_of, fetch_snapshot_response)

"""EndQuorumEpoch (54): the leader resigns; who should be next. v1 flexible; directories, endpoints (KIP-853)."""

from __future__ import annotations

from kcli.broker.metadata.answers import answer
from kcli.broker.metadata.raft_answers import end_of, epoch_response
from kcli.broker.network.messages import Call, Entity


async def end_quorum_epoch(call: Call) -> Entity:
    """Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST, FENCED_LEADER_EPOCH."""
    return await answer(call, end_of, epoch_response)

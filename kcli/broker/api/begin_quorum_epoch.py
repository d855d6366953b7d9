"""BeginQuorumEpoch (53): the leader of a new epoch tells the voters. v1 flexible; directories, endpoints
(KIP-853)."""

from __future__ import annotations

from kcli.broker.metadata.answers import answer
from kcli.broker.metadata.raft_answers import begin_of, epoch_response
from kcli.broker.network.messages import Call, Entity


async def begin_quorum_epoch(call: Call) -> Entity:
    """Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST, FENCED_LEADER_EPOCH, INVALID_VOTER_KEY."""
    return await answer(call, begin_of, epoch_response)

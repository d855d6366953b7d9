"""Vote (52): would this voter, or does it, vote for that candidate? v1 directories, endpoints (KIP-853). v2 pre-vote
(KIP-996)."""

from __future__ import annotations

from kcli.broker.metadata.answers import answer
from kcli.broker.metadata.raft_answers import vote_of, vote_response
from kcli.broker.network.messages import Call, Entity


async def vote(call: Call) -> Entity:
    """Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST, FENCED_LEADER_EPOCH, INCONSISTENT_VOTER_SET,
    INVALID_VOTER_KEY."""
    return await answer(call, vote_of, vote_response)

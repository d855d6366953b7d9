"""UpdateRaftVoter (82): what a voter says of itself: endpoints, levels of kraft.version. KIP-853."""

from __future__ import annotations

from kcli.broker.metadata.answers import answer
from kcli.broker.metadata.raft_answers import update_of, update_response
from kcli.broker.network.messages import Call, Entity


async def update_raft_voter(call: Call) -> Entity:
    """Errors: INCONSISTENT_CLUSTER_ID, NOT_LEADER_OR_FOLLOWER, VOTER_NOT_FOUND, INVALID_UPDATE_VERSION."""
    return await answer(call, update_of, update_response)

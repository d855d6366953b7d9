"""AddRaftVoter (80): one more voter. v1 answered at once, or once it is committed (KIP-1186). KIP-853."""

from __future__ import annotations

from kcli.broker.metadata.answers import answer
from kcli.broker.metadata.raft_answers import add_of, voter_response
from kcli.broker.network.messages import Call, Entity


async def add_raft_voter(call: Call) -> Entity:
    """Errors: INCONSISTENT_CLUSTER_ID, NOT_LEADER_OR_FOLLOWER, UNSUPPORTED_VERSION, DUPLICATE_VOTER,
    REQUEST_TIMED_OUT, INVALID_REQUEST."""
    return await answer(call, add_of, voter_response)

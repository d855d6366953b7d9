"""RemoveRaftVoter (81): one voter less. KIP-853."""

from __future__ import annotations

from kcli.broker.metadata.answers import answer
from kcli.broker.metadata.raft_answers import remove_of, voter_response
from kcli.broker.network.messages import Call, Entity


async def remove_raft_voter(call: Call) -> Entity:
    """Errors: INCONSISTENT_CLUSTER_ID, NOT_LEADER_OR_FOLLOWER, UNSUPPORTED_VERSION, VOTER_NOT_FOUND,
    REQUEST_TIMED_OUT."""
    return await answer(call, remove_of, voter_response)

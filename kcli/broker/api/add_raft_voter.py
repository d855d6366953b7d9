"""AddRaftVoter (80): add a voter to the quorum of the metadata log. v1: the response may come before the new voters are
committed (KIP-1186). KIP-853."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.metadata.answers import answer
from kcli.broker.metadata.raft_answers import add_of, voter_response
from kcli.broker.wire.messages import Message
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import add_raft_voter as types


async def add_raft_voter(broker: Broker, call: types.AddRaftVoterCall) -> Message:
    """Errors: INCONSISTENT_CLUSTER_ID, NOT_LEADER_OR_FOLLOWER, UNSUPPORTED_VERSION, DUPLICATE_VOTER,
    REQUEST_TIMED_OUT, INVALID_REQUEST."""
    broker.access.require(call, Operation.ALTER, ResourceType.CLUSTER)
    return await answer(broker.metadata, broker.cluster_id, call, add_of, voter_response)

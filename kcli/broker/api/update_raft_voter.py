"""UpdateRaftVoter (82): a voter updates its own endpoints and supported levels of kraft.version. KIP-853."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.metadata.answers import answer
from kcli.broker.metadata.raft_answers import update_of, update_response
from kcli.broker.wire.messages import Message
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import update_raft_voter as types


async def update_raft_voter(broker: Broker, call: types.UpdateRaftVoterCall) -> Message:
    """Errors: INCONSISTENT_CLUSTER_ID, NOT_LEADER_OR_FOLLOWER, VOTER_NOT_FOUND, INVALID_UPDATE_VERSION."""
    broker.access.require(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    return await answer(broker.metadata, broker.cluster_id, call, update_of, update_response)

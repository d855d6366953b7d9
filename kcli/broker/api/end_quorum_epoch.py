"""EndQuorumEpoch (54): the leader resigns, and names its preferred successors. v1 flexible; directories, endpoints
(KIP-853)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.metadata.answers import answer
from kcli.broker.metadata.raft_answers import end_of, epoch_response
from kcli.broker.wire.messages import Message
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import end_quorum_epoch as types


async def end_quorum_epoch(broker: Broker, call: types.EndQuorumEpochCall) -> Message:
    """Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST, FENCED_LEADER_EPOCH."""
    broker.access.require(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    return await answer(broker.metadata, broker.cluster_id, call, end_of, epoch_response)

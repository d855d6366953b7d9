"""Vote (52): a candidate asks this node for its vote; in a pre-vote, it asks whether it would get the vote.

v1 directory ids of voters, and endpoints (KIP-853). v2 pre-vote (KIP-996).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.metadata.answers import answer
from kcli.broker.metadata.raft_answers import vote_of, vote_response
from kcli.broker.wire.messages import Message
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import vote as types


async def vote(broker: Broker, call: types.VoteCall) -> Message:
    """Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST, FENCED_LEADER_EPOCH, INCONSISTENT_VOTER_SET,
    INVALID_VOTER_KEY."""
    broker.access.require(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    return await answer(broker.metadata, broker.cluster_id, call, vote_of, vote_response)

"""RemoveRaftVoter (81): remove a voter from the quorum of the metadata log. KIP-853."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.metadata.answers import answer
from kcli.broker.metadata.raft_answers import remove_of, voter_response
from kcli.broker.wire.messages import Message
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import remove_raft_voter as types


async def remove_raft_voter(broker: Broker, call: types.RemoveRaftVoterCall) -> Message:
    """Errors: INCONSISTENT_CLUSTER_ID, NOT_LEADER_OR_FOLLOWER, UNSUPPORTED_VERSION, VOTER_NOT_FOUND,
    REQUEST_TIMED_OUT."""
    broker.access.require(call, Operation.ALTER, ResourceType.CLUSTER)
    return await answer(broker.metadata, broker.cluster_id, call, remove_of, voter_response)

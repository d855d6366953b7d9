"""FetchSnapshot (59): bytes of a snapshot of the metadata log. v1 directories, endpoints (KIP-853). KIP-630."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.metadata.answers import answer
from kcli.broker.metadata.raft_answers import fetch_snapshot_of, fetch_snapshot_response
from kcli.broker.wire.messages import Message
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import fetch_snapshot as types


async def fetch_snapshot(broker: Broker, call: types.FetchSnapshotCall) -> Message:
    """Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST, NOT_LEADER_OR_FOLLOWER, SNAPSHOT_NOT_FOUND,
    POSITION_OUT_OF_RANGE."""
    broker.access.require(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    return await answer(broker.metadata, broker.cluster_id, call, fetch_snapshot_of, fetch_snapshot_response)

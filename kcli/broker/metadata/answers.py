"""What other nodes ask of the quorum is answered by raft: Vote, Fetch of `__cluster_metadata`, and so on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kcli.broker.metadata.raft_answers import InvalidRaftRequest, fetch_of, fetch_response
from kcli.broker.metadata.replicated import ReplicatedMetadataLog
from kcli.broker.network.failures import failed
from kcli.broker.network.messages import Call, Entity, ErrorCode

if TYPE_CHECKING:
    from kcli.raft.messages import Answer, Request


DOING = {80: "adding", 81: "removing"}
"""API keys of what clients ask of the quorum."""


async def answer(call: Call, read: Callable[[Call], Request], write: Callable[[Call, Answer], Entity]) -> Entity:
    """Raft's answer. read: of the request; write: of the answer."""
    metadata = call.broker.metadata
    if not isinstance(metadata, ReplicatedMetadataLog):
        return _alone(call)
    try:
        request = read(call)
    except InvalidRaftRequest:
        return failed(call, ErrorCode.invalid_request)
    return write(call, await metadata.ask(request))


def _alone(call: Call) -> Entity:
    """A node that is its quorum's only voter, a static one, for ever."""
    doing = DOING.get(call.header.api_key)
    if doing is None:
        return failed(call, ErrorCode.not_controller)
    if call.request.cluster_id not in (None, call.broker.cluster_id):
        return failed(call, ErrorCode.inconsistent_cluster_id)
    reason = f"Cluster doesn't support {doing} voter because the kraft.version feature is 0"
    return failed(call, ErrorCode.unsupported_version, reason)


async def fetch_metadata(call: Call) -> Entity:
    """Fetch through a controller's listener. Errors: INVALID_REQUEST for any other partition, and those of raft."""
    return await answer(call, fetch_of, fetch_response)

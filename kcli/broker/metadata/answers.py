"""Raft's responses to the requests of other nodes: Vote, Fetch of `__cluster_metadata`, and so on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kcli.broker.metadata.raft_answers import InvalidRaftRequest, fetch_of, fetch_response
from kcli.broker.metadata.replicated import ReplicatedMetadataLog
from kcli.broker.wire.call import Call
from kcli.broker.wire.failures import failed
from kcli.broker.wire.messages import Message
from kcli.protocol.error_code import ErrorCode

if TYPE_CHECKING:
    from kcli.broker.metadata.log import MetadataLog
    from kcli.broker.wire.types.fetch import FetchCall
    from kcli.raft.messages import Answer, Request


C = TypeVar("C", bound=Call)
DOING = {80: "adding", 81: "removing"}
"""API key of a request that changes the voters -> the verb in that request's error message."""


async def answer(
    metadata: MetadataLog,
    cluster_id: str,
    call: C,
    read: Callable[[C], Request],
    write: Callable[[C, Answer], Message],
) -> Message:
    """Return raft's response to a request, or an error response if `read` raises InvalidRaftRequest, or if this node is
    the only voter of its quorum. read: converts the message to a request for raft. write: converts raft's answer to a
    response in the request's version."""
    if not isinstance(metadata, ReplicatedMetadataLog):
        return _alone(cluster_id, call)
    try:
        request = read(call)
    except InvalidRaftRequest:
        return failed(call, ErrorCode.INVALID_REQUEST)
    return write(call, await metadata.handle(request))


def _alone(cluster_id: str, call: Call) -> Message:
    """Return the error response to a request for raft on a node that is the only voter of its quorum: to AddRaftVoter
    and RemoveRaftVoter UNSUPPORTED_VERSION, as with kraft.version 0, or INCONSISTENT_CLUSTER_ID for another cluster id;
    to any other request NOT_CONTROLLER."""
    doing = DOING.get(call.header.api_key)
    if doing is None:
        return failed(call, ErrorCode.NOT_CONTROLLER)
    if getattr(call.request, "cluster_id", None) not in (None, cluster_id):
        return failed(call, ErrorCode.INCONSISTENT_CLUSTER_ID)
    reason = f"Cluster doesn't support {doing} voter because the kraft.version feature is 0"
    return failed(call, ErrorCode.UNSUPPORTED_VERSION, reason)


async def fetch_metadata(metadata: MetadataLog, cluster_id: str, call: FetchCall) -> Message:
    """Return the response to a Fetch on a controller listener. Errors: INVALID_REQUEST for a partition other than
    __cluster_metadata-0, and the errors of raft."""
    return await answer(metadata, cluster_id, call, fetch_of, fetch_response)

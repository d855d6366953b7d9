"""What other nodes ask of the quorum is answered by raft: Vote, Fetch of `__cluster_metadata`, and so on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kcli.broker.metadata.errors import NotController
from kcli.broker.metadata.raft_answers import InvalidRaftRequest, fetch_of, fetch_response
from kcli.broker.metadata.replicated import ReplicatedMetadataLog
from kcli.broker.network.failures import failed
from kcli.broker.network.messages import Call, Entity, ErrorCode

if TYPE_CHECKING:
    from kcli.raft.messages import Answer, Request


async def answer(call: Call, read: Callable[[Call], Request], write: Callable[[Call, Answer], Entity]) -> Entity:
    """Raft's answer. read: of the request; write: of the answer. Raises NotController."""
    metadata = call.broker.metadata
    if not isinstance(metadata, ReplicatedMetadataLog):
        raise NotController("this node is alone")
    try:
        request = read(call)
    except InvalidRaftRequest:
        return failed(call, ErrorCode.invalid_request)
    return write(call, await metadata.ask(request))


async def fetch_metadata(call: Call) -> Entity:
    """Fetch through a controller's listener. Errors: INVALID_REQUEST for any other partition, and those of raft."""
    return await answer(call, fetch_of, fetch_response)

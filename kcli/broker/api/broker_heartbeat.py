"""BrokerHeartbeat (63): a broker reports that it is alive, the offset up to which it has applied the metadata
log, and whether it wants to be unfenced or to shut down.

v1 directories that are offline (KIP-858). v2 directories that take no new replicas (KIP-1066). All versions are
flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from kcli.broker.broker import Broker
from kcli.metadata.heartbeats import Heartbeat
from kcli.metadata.result import Refused
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import broker_heartbeat as types

NONE = UUID(int=0)


async def broker_heartbeat(broker: Broker, call: types.BrokerHeartbeatCall) -> types.BrokerHeartbeatResponse:
    """Errors: STALE_BROKER_EPOCH."""
    broker.access.require(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    request = call.request
    assert broker.active is not None, "only controllers get this request"
    cordoned = call.get("cordoned_log_dirs", default=None)
    beat = Heartbeat(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        metadata_offset=request.current_metadata_offset,
        wants_fence=request.want_fence,
        wants_shutdown=request.want_shut_down,
        offline=tuple(each or NONE for each in call.get("offline_log_dirs", default=())),
        cordoned=None if cordoned is None else tuple(each or NONE for each in cordoned),
    )
    try:
        answer = await broker.active.heartbeat(beat)
    except Refused as refused:
        code = refused.error.code
        return call.respond(error_code=code, is_caught_up=False, is_fenced=True, should_shut_down=False)
    return call.respond(
        error_code=ErrorCode.NONE,
        is_caught_up=answer.is_caught_up,
        is_fenced=answer.is_fenced,
        should_shut_down=answer.should_shut_down,
    )

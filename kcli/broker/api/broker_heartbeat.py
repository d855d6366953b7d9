"""BrokerHeartbeat (63): a broker lives, wants to serve or to go, and says how far it has read the metadata log.

v1 directories that are offline (KIP-858). v2 directories that take no new replicas (KIP-1066). All flexible.
"""

from __future__ import annotations

from uuid import UUID

from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.metadata.heartbeats import Heartbeat
from kcli.metadata.result import Refused

NONE = UUID(int=0)


async def broker_heartbeat(call: Call) -> Entity:
    """Errors: STALE_BROKER_EPOCH."""
    broker, request = call.broker, call.request
    assert broker.active is not None, "controllers are asked"
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
        code = ErrorCode(refused.error.code)
        return call.respond(error_code=code, is_caught_up=False, is_fenced=True, should_shut_down=False)
    return call.respond(
        error_code=ErrorCode.none,
        is_caught_up=answer.is_caught_up,
        is_fenced=answer.is_fenced,
        should_shut_down=answer.should_shut_down,
    )

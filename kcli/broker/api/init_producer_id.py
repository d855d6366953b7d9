"""InitProducerId (22): an id and an epoch for a producer.

v1 the same. v2 flexible. v3 the id and epoch that the producer has (KIP-360). v4 PRODUCER_FENCED. v5 abortable errors
(KIP-890). v6 two-phase commit (KIP-939). KIP-98.

A producer without a transactional id gets a new id, of epoch 0, whatever it had. One with a transactional id is its
transaction coordinator's, which this broker does not have.
"""

from __future__ import annotations

from kcli.broker.messages import Call, Entity, ErrorCode
from kcli.metadata.result import Refused

NONE = -1


async def init_producer_id(call: Call) -> Entity:
    """Errors: INVALID_REQUEST; COORDINATOR_NOT_AVAILABLE for a transactional id; UNKNOWN_SERVER_ERROR."""
    known = call.get("producer_id", NONE), call.get("producer_epoch", NONE)
    transactional_id = call.request.transactional_id
    if (known[0] == NONE) != (known[1] == NONE) or transactional_id == "":
        return _refused(call, ErrorCode.invalid_request)
    if transactional_id is not None:
        return _refused(call, ErrorCode.coordinator_not_available)
    try:
        producer_id = await call.broker.producer_ids.next()
    except Refused:
        return _refused(call, ErrorCode.unknown_server_error)
    return call.respond(error_code=ErrorCode.none, producer_id=producer_id, producer_epoch=0)


def _refused(call: Call, code: ErrorCode) -> Entity:
    return call.respond(error_code=code, producer_id=NONE, producer_epoch=NONE)

"""InitProducerId (22): assign a producer id and a producer epoch.

v1 as v0. v2 flexible. v3 the producer's current id and epoch (KIP-360). v4 PRODUCER_FENCED. v5 TRANSACTION_ABORTABLE
(KIP-890). v6 two-phase commit (KIP-939), not stable in Kafka 4.3 and not offered. KIP-98.

A producer without a transactional id always gets a new producer id with epoch 0. For a producer with a transactional
id, its transaction coordinator chooses both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.coordinators.groups import milliseconds
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.coordinators.transactions import ask_producer, for_version
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType
from kcli.txn.requests import InitProducerId

if TYPE_CHECKING:
    from kcli.broker.wire.types import init_producer_id as types

NONE = -1
FENCED_SINCE = 4


async def init_producer_id(broker: Broker, call: types.InitProducerIdCall) -> types.InitProducerIdResponse:
    """Errors: INVALID_REQUEST, UNKNOWN_SERVER_ERROR if all producer ids are used up, any code of CoordinatorError, and
    the codes that the transaction coordinator (kcli/txn) returns for an InitProducerId."""
    known = call.get("producer_id", NONE), call.get("producer_epoch", NONE)
    transactional_id = call.request.transactional_id
    refused = _refused(broker, call)
    if refused is not None:
        return call.respond(error_code=refused, producer_id=NONE, producer_epoch=NONE)
    if (known[0] == NONE) != (known[1] == NONE):
        return call.respond(error_code=ErrorCode.INVALID_REQUEST, producer_id=NONE, producer_epoch=NONE)
    if transactional_id is not None:
        code, producer_id, epoch = await ask_producer(
            broker.transactions, broker.producer_ids, transactional_id, _request(call, transactional_id, known)
        )
        return call.respond(
            error_code=for_version(code, call.version, FENCED_SINCE), producer_id=producer_id, producer_epoch=epoch
        )
    try:
        producer_id = await broker.producer_ids.next()
    except CoordinatorError as error:
        return call.respond(error_code=error.code, producer_id=NONE, producer_epoch=NONE)
    return call.respond(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)


def _refused(broker: Broker, call: types.InitProducerIdCall) -> ErrorCode | None:
    """Return the authorization error with which the request is refused, None if the request is allowed. A producer
    without a transactional id needs IDEMPOTENT_WRITE on the cluster, or WRITE on any topic."""
    access, transactional_id = broker.access, call.request.transactional_id
    if transactional_id is None:
        allowed = access.allows(call, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, log_denied=False)
        allowed = allowed or access.allows_any(call, Operation.WRITE, ResourceType.TOPIC)
        return None if allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if access.allows(call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return None
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _request(call: types.InitProducerIdCall, transactional_id: str, known: tuple[int, int]) -> InitProducerId:
    return InitProducerId(
        transactional_id=transactional_id,
        timeout_ms=milliseconds(call.request.transaction_timeout),
        producer_id=known[0],
        producer_epoch=known[1],
    )

"""InitProducerId (22): an id and an epoch for a producer.

v1 the same. v2 flexible. v3 the id and epoch that the producer has (KIP-360). v4 PRODUCER_FENCED. v5 abortable errors
(KIP-890). v6 two-phase commit (KIP-939), not stable in Kafka 4.3 and not offered. KIP-98.

A producer without a transactional id gets a new id, of epoch 0, whatever it had; one with a transactional id what its
transaction coordinator says.
"""

from __future__ import annotations

from kcli.broker.coordinators.groups import milliseconds
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.coordinators.transactions import ask_producer, for_version
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.txn.requests import InitProducerId

NONE = -1
FENCED_SINCE = 4


async def init_producer_id(call: Call) -> Entity:
    """Errors: INVALID_REQUEST, UNKNOWN_SERVER_ERROR, and the transaction coordinator's."""
    known = call.get("producer_id", NONE), call.get("producer_epoch", NONE)
    transactional_id = call.request.transactional_id
    if (known[0] == NONE) != (known[1] == NONE):
        return call.respond(error_code=ErrorCode.invalid_request, producer_id=NONE, producer_epoch=NONE)
    if transactional_id is not None:
        code, producer_id, epoch = await ask_producer(call.broker, transactional_id, _request(call, known))
        return call.respond(
            error_code=for_version(code, call.version, FENCED_SINCE), producer_id=producer_id, producer_epoch=epoch
        )
    try:
        producer_id = await call.broker.producer_ids.next()
    except CoordinatorError as error:
        return call.respond(error_code=error.code, producer_id=NONE, producer_epoch=NONE)
    return call.respond(error_code=ErrorCode.none, producer_id=producer_id, producer_epoch=0)


def _request(call: Call, known: tuple[int, int]) -> InitProducerId:
    return InitProducerId(
        transactional_id=call.request.transactional_id,
        timeout_ms=milliseconds(call.request.transaction_timeout),
        producer_id=known[0],
        producer_epoch=known[1],
        two_phase_commit=call.get("enable2_pc", default=False),
        keep_prepared=call.get("keep_prepared_txn", default=False),
    )

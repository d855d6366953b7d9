"""EndTxn (26): commit a transaction, or abort it.

v1 as v0. v2 PRODUCER_FENCED. v3 flexible. v4 TRANSACTION_ABORTABLE (KIP-890). v5 the producer's next epoch in the
response, with a new producer id if epochs are used up (KIP-890). KIP-98.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.coordinators.transactions import ask_producer, for_version
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType
from kcli.txn.requests import EndTransaction
from kcli.txn.transaction import EPOCH_BUMP_VERSION

if TYPE_CHECKING:
    from kcli.broker.wire.types import end_txn as types

FENCED_SINCE = 2
EPOCH_BUMP_SINCE = 5


async def end_txn(broker: Broker, call: types.EndTxnCall) -> types.EndTxnResponse:
    """Errors: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS,
    INVALID_TXN_STATE, and any code of CoordinatorError."""
    request = call.request
    if not broker.access.allows(call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return call.respond(error_code=refused, producer_id=-1, producer_epoch=-1)
    code, producer_id, epoch = await ask_producer(
        broker.transactions,
        broker.producer_ids,
        request.transactional_id,
        EndTransaction(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            commit=request.committed,
            client_version=EPOCH_BUMP_VERSION if call.version >= EPOCH_BUMP_SINCE else 0,
        ),
    )
    return call.respond(
        error_code=for_version(code, call.version, FENCED_SINCE), producer_id=producer_id, producer_epoch=epoch
    )

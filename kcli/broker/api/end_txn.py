"""EndTxn (26): commit a transaction, or abort it.

v1 the same. v2 PRODUCER_FENCED. v3 flexible. v4 abortable errors (KIP-890). v5 the next epoch in the answer, perhaps
with another producer id (KIP-890). KIP-98.
"""

from __future__ import annotations

from kcli.broker.coordinators.transactions import ask_producer, for_version
from kcli.broker.network.messages import Call, Entity
from kcli.txn.requests import EndTransaction
from kcli.txn.transaction import EPOCH_BUMP_VERSION

FENCED_SINCE = 2
EPOCH_BUMP_SINCE = 5


async def end_txn(call: Call) -> Entity:
    """Errors: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS,
    INVALID_TXN_STATE, and the coordinator's."""
    request = call.request
    code, producer_id, epoch = await ask_producer(
        call.broker,
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

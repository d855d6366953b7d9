"""AddOffsetsToTxn (25): offsets of a group become part of a transaction: its partition of __consumer_offsets does.

v1 the same. v2 PRODUCER_FENCED. v3 flexible. v4 abortable errors (KIP-890); clients of transaction version 2 leave the
request out. KIP-98.
"""

from __future__ import annotations

from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.coordinators.transactions import for_version
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.group.records import TOPIC as GROUPS
from kcli.txn.requests import AddPartitions

FENCED_SINCE = 2


async def add_offsets_to_txn(call: Call) -> Entity:
    """Errors: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, and the
    coordinators'."""
    return call.respond(error_code=for_version(await _add(call), call.version, FENCED_SINCE))


async def _add(call: Call) -> ErrorCode:
    request, broker = call.request, call.broker
    if not request.transactional_id:
        return ErrorCode.invalid_request
    try:
        number = broker.groups.partition_of(request.group_id)
        code = await broker.transactions.ask(
            request.transactional_id,
            AddPartitions(
                transactional_id=request.transactional_id,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                partitions=frozenset({(GROUPS, number)}),
                client_version=0,
            ),
        )
    except CoordinatorError as error:
        return error.code
    return ErrorCode(code.value)

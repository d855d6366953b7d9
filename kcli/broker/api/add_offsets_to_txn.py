"""AddOffsetsToTxn (25): add a group's partition of __consumer_offsets to a transaction. A producer sends it before it
commits offsets of the group in the transaction (TxnOffsetCommit).

v1 as v0. v2 PRODUCER_FENCED. v3 flexible. v4 TRANSACTION_ABORTABLE (KIP-890); clients of transaction version 2 do not
send this request. KIP-98.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.coordinators.transactions import for_version
from kcli.group.records import TOPIC as GROUPS
from kcli.java.hashing import partition_of
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from kcli.security.acls import Operation, ResourceType
from kcli.txn.requests import AddPartitions

if TYPE_CHECKING:
    from kcli.broker.wire.types import add_offsets_to_txn as types

FENCED_SINCE = 2


async def add_offsets_to_txn(broker: Broker, call: types.AddOffsetsToTxnCall) -> types.AddOffsetsToTxnResponse:
    """Errors: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, and any code of
    CoordinatorError."""
    return call.respond(error_code=for_version(await _add(broker, call), call.version, FENCED_SINCE))


async def _add(broker: Broker, call: types.AddOffsetsToTxnCall) -> ErrorCode:
    request = call.request
    broker.access.require(call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    broker.access.require(call, Operation.READ, ResourceType.GROUP, request.group_id)
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    try:
        code: ErrorCode = await broker.transactions.handle(
            request.transactional_id,
            AddPartitions(
                transactional_id=request.transactional_id,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                partitions=frozenset({TopicPartition(GROUPS, _partition(broker, request.group_id))}),
                client_version=0,
            ),
        )
    except CoordinatorError as error:
        return error.code
    return code


def _partition(broker: Broker, group: str) -> int:
    """Return the number of the group's partition of __consumer_offsets. If that topic does not exist yet, the number is
    computed from offsets.topic.num.partitions: the client's FindCoordinator for the group, which creates the topic,
    comes only after this request."""
    return partition_of(group, broker.groups.partition_count or broker.config.number("offsets.topic.num.partitions"))

"""DescribeTransactions (65): producer, state and partitions of transactional ids. KIP-664."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.wire.messages import EPOCH
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType
from kcli.txn.requests import DescribeTransaction, TransactionDescription

if TYPE_CHECKING:
    from kcli.broker.wire.types import describe_transactions as types


async def describe_transactions(
    broker: Broker, call: types.DescribeTransactionsCall
) -> types.DescribeTransactionsResponse:
    """Errors of each transactional id: INVALID_REQUEST, TRANSACTIONAL_ID_NOT_FOUND, and any code of
    CoordinatorError."""
    return call.respond(
        transaction_states=tuple([await _state(broker, call, each) for each in call.request.transactional_ids])
    )


async def _state(broker: Broker, call: types.DescribeTransactionsCall, transactional_id: str) -> types.TransactionState:
    describable = broker.access.among(call, Operation.DESCRIBE, ResourceType.TOPIC)
    found, code = TransactionDescription(), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if broker.access.allows(call, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        try:
            found = await broker.transactions.handle(transactional_id, DescribeTransaction(transactional_id))
            code = found.code
        except CoordinatorError as error:
            code = error.code
    return call.new(
        "TransactionState",
        error_code=code,
        transactional_id=transactional_id,
        transaction_state=found.state,
        transaction_timeout=timedelta(milliseconds=found.timeout_ms),
        transaction_start_time=EPOCH + timedelta(milliseconds=found.start_ms),
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=tuple(
            [
                call.new("TopicData", topic=topic, partitions=tuple(numbers))
                async for topic, numbers in broker.turns.over(found.topics.items())
                if topic in describable
            ]
        ),
    )

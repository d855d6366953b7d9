"""DescribeTransactions (65): producer, state and partitions of transactional ids. KIP-664."""

from __future__ import annotations

from datetime import timedelta

from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.network.messages import EPOCH, Call, Entity, ErrorCode
from kcli.txn.requests import DescribeTransaction, TransactionDescription


async def describe_transactions(call: Call) -> Entity:
    """Errors of each: INVALID_REQUEST, TRANSACTIONAL_ID_NOT_FOUND, the coordinator's."""
    return call.respond(transaction_states=tuple([await _state(call, each) for each in call.request.transactional_ids]))


async def _state(call: Call, transactional_id: str) -> Entity:
    try:
        found = await call.broker.transactions.ask(transactional_id, DescribeTransaction(transactional_id))
        code = ErrorCode(found.code.value)
    except CoordinatorError as error:
        found, code = TransactionDescription(), error.code
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
            call.new("TopicData", topic=topic, partitions=tuple(numbers)) for topic, numbers in found.topics.items()
        ),
    )

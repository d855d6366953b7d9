"""Records of __transaction_state: the state of a transactional id to key and value bytes, and back.

    key    int16 0, TransactionLogKey     the transactional id
    value  int16 version, TransactionLogValue; null for a tombstone: the transactional id has expired
             version 0  written with transaction.version 0
             version 1  flexible: previous and next producer id, the client's transaction version (KIP-890)

Partitions are null in state Empty. Keys and values of unknown versions are ignored: a newer version of Kafka may have
written them before a downgrade. Source: TransactionLog.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from formats.errors import BadValue, Truncated
from formats.message import reader
from formats.message_writer import write
from kcli.coordinator.machine import TRANSACTIONS_TOPIC, Pair
from kcli.protocol.topic_partition import TopicPartition
from kcli.txn.state_value import write_key, write_value
from kcli.txn.transaction import NONE, State, Transaction

TOPIC: Final = TRANSACTIONS_TOPIC
KEY, VALUE = "TransactionLogKey", "TransactionLogValue"
TYPE_BYTES = VERSION_BYTES = 2
KEY_TYPE = 0
VALUE_VERSIONS = (0, 1)


class Record(NamedTuple):
    """A parsed record of __transaction_state: the state of a transactional id. transaction: None for a tombstone."""

    transactional_id: str
    transaction: Transaction | None


def tombstone(transactional_id: str) -> Pair:
    """Return the record that removes a transactional id: its tombstone."""
    return _key(transactional_id), None


def transaction_record(transactional_id: str, transaction: Transaction, transaction_version: int) -> Pair:
    """Return the record of a transactional id's state. transaction_version: the cluster's feature
    transaction.version."""
    if transaction_version:
        return _key(transactional_id), write_value(transaction)
    value: dict[str, Any] = {
        "producerId": transaction.producer_id,
        "producerEpoch": transaction.producer_epoch,
        "transactionTimeoutMs": transaction.timeout_ms,
        "transactionStatus": int(transaction.state),
        "transactionPartitions": _topics(transaction),
        "transactionLastUpdateTimestampMs": transaction.last_update_ms,
        "transactionStartTimestampMs": transaction.start_ms,
    }
    return _key(transactional_id), bytes(VERSION_BYTES) + write(VALUE, 0, value)


def _key(transactional_id: str) -> bytes:
    key = write_key(transactional_id)
    if key is None:
        key = KEY_TYPE.to_bytes(TYPE_BYTES) + write(KEY, 0, {"transactionalId": transactional_id})
    return key


def _topics(transaction: Transaction) -> list[dict[str, Any]] | None:
    if transaction.state is State.EMPTY:
        return None
    return [{"topic": topic, "partitionIds": numbers} for topic, numbers in transaction.by_topic]


def parse(record: Pair) -> Record | None:
    """Parse a record; None if its key or value has an unknown version. Raises FormatError."""
    key, value = record
    if key is None or len(key) < TYPE_BYTES:
        raise Truncated("a record of __transaction_state without a key", 0)
    if int.from_bytes(key[:TYPE_BYTES], signed=True) != KEY_TYPE:
        return None
    transactional_id: str = reader(KEY, 0)(key, TYPE_BYTES)[0]["transactionalId"]
    if value is None:
        return Record(transactional_id, None)
    if len(value) < VERSION_BYTES:
        raise Truncated("a value of __transaction_state without a version", 0)
    version = int.from_bytes(value[:VERSION_BYTES], signed=True)
    if version not in VALUE_VERSIONS:
        return None
    return Record(transactional_id, _transaction(reader(VALUE, version)(value, VERSION_BYTES)[0]))


def _transaction(value: dict[str, Any]) -> Transaction:
    try:
        state = State(value["transactionStatus"])
    except ValueError:
        raise BadValue(f"a transaction in state {value['transactionStatus']}") from None
    topics = value["transactionPartitions"] if state is not State.EMPTY else None
    return Transaction(
        producer_id=value["producerId"],
        previous_producer_id=value.get("previousProducerId", NONE),
        next_producer_id=value.get("nextProducerId", NONE),
        producer_epoch=value["producerEpoch"],
        timeout_ms=value["transactionTimeoutMs"],
        state=state,
        partitions=frozenset(
            TopicPartition(each["topic"], number) for each in topics or () for number in each["partitionIds"]
        ),
        start_ms=value["transactionStartTimestampMs"],
        last_update_ms=value["transactionLastUpdateTimestampMs"],
        client_version=value.get("clientTransactionVersion", 0),
    )

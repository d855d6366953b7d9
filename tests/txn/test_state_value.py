"""The hand-written record of a transaction has the bytes that its field tables give."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from formats.message_writer import write
from kcli.txn.records import KEY, TYPE_BYTES, VALUE, Record, parse, transaction_record
from kcli.txn.transaction import NONE, State, Transaction

LONGS = st.integers(-(2**63), 2**63 - 1)
IDS = st.just(NONE) | LONGS
SHORTS, INTS = st.integers(-(2**15), 2**15 - 1), st.integers(-(2**31), 2**31 - 1)
TOPICS = st.sampled_from(["t", "orders", "\u00e9", "x" * 249])
TRANSACTIONS = st.builds(
    Transaction,
    producer_id=LONGS,
    timeout_ms=INTS,
    previous_producer_id=IDS,
    next_producer_id=IDS,
    producer_epoch=SHORTS,
    last_producer_epoch=st.just(NONE),
    state=st.sampled_from([state for state in State if state <= State.COMPLETE_ABORT]),
    partitions=st.frozensets(st.tuples(TOPICS, INTS), max_size=200),
    start_ms=LONGS,
    last_update_ms=LONGS,
    client_version=SHORTS,
)


@given(st.text(max_size=200), TRANSACTIONS)
def test_it_is_what_the_tables_make(transactional_id: str, each: Transaction) -> None:
    topics: list[dict[str, Any]] | None = [
        {"topic": topic, "partitionIds": sorted(number for name, number in each.partitions if name == topic)}
        for topic in sorted({name for name, _ in each.partitions})
    ]
    if each.state is State.EMPTY:
        topics, each = None, each._replace(partitions=frozenset())
    value: dict[str, Any] = {
        "producerId": each.producer_id,
        "previousProducerId": each.previous_producer_id,
        "nextProducerId": each.next_producer_id,
        "producerEpoch": each.producer_epoch,
        "transactionTimeoutMs": each.timeout_ms,
        "transactionStatus": int(each.state),
        "transactionPartitions": topics,
        "transactionLastUpdateTimestampMs": each.last_update_ms,
        "transactionStartTimestampMs": each.start_ms,
        "clientTransactionVersion": each.client_version,
    }
    record = transaction_record(transactional_id, each, 2)
    key = bytes(TYPE_BYTES) + write(KEY, 0, {"transactionalId": transactional_id})
    assert record == (key, b"\0\x01" + write(VALUE, 1, value))
    assert parse(record) == Record(transactional_id, each)

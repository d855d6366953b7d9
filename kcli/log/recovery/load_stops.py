"""The records at which the group, share or transaction coordinator stops the load of a partition of its topic.

    part of the record   group, share                       transaction
    key                  is missing, or cannot be parsed    is missing, or cannot be parsed
    record type          an unknown one is passed over      an unknown one is passed over
    value                cannot be parsed, or has an        cannot be parsed; an unknown version is passed over
                         unknown version
    transaction state    -                                  is none of Kafka's states

Bytes behind a key or a value are passed over. Source: CoordinatorLoaderImpl, CoordinatorRecordSerde, TransactionLog.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from formats.errors import FormatError
from formats.internal_topic import record_types
from formats.kernels.batches import FAULT_CONTROL_KEY
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.records import RecordTable
from formats.message import MessageSchema, reader
from kcli.log.segment_reader import Window

COORDINATORS = {"__consumer_offsets": "group", "__transaction_state": "transaction", "__share_group_state": "share"}
"""The coordinator that keeps its state in a topic, by topic."""
TRANSACTIONS = "__transaction_state"
PREFIX_BYTES = 2
"""The size in bytes of the type before a key, and of the version before a value."""
KEYS_KEPT = 10_000
STATES = range(8)
"""The numbers of the states of a transaction, from Empty to PrepareEpochFence."""
EMPTY = 0
CLIENT_VERSIONS = range(3)
"""The levels of the feature transaction.version."""


class Stop(NamedTuple):
    """A record at which a load stops. batch: the index of the record's batch in the window; offset: the record's
    offset."""

    batch: int
    offset: int
    reason: str


def stops(topic: str, window: Window, records: RecordTable, buffer: memoryview) -> Iterator[Stop]:
    """Yield the records at which the load of a coordinator's partition stops; none for a topic that is not one of a
    coordinator.

    records: a slice of the window's records. buffer: the buffer to which their positions refer (see
    kcli.log.batch_records.decode).
    """
    if topic not in COORDINATORS:
        return
    batch, is_control = -1, False
    for i in range(records.count):
        row = RecordRow._make(records.row(i))
        if row.batch != batch:
            batch, header = row.batch, BatchRow._make(window.batches.row(row.batch))
            is_control = header.is_control
            if is_control and header.faults & FAULT_CONTROL_KEY:
                yield Stop(batch, row.offset, "a control record without a readable type")
        reason = None if is_control else _fault(topic, row.key(buffer), row.value(buffer))
        if reason is not None:
            yield Stop(batch, row.offset, reason)


def _fault(topic: str, key: bytes | None, value: bytes | None) -> str | None:
    """Return the reason why the load stops at a record; None if it does not stop there."""
    if key is None:
        return "a record without a key"
    schema, reason = _key(topic, key)
    if reason is not None or schema is None or value is None:
        return reason
    version = int.from_bytes(value[:PREFIX_BYTES], signed=True)
    if len(value) < PREFIX_BYTES:
        return f"{schema.name}: the version is cut off"
    if version not in schema.versions:
        kinds = f"{schema.name} has version {version:,}; Kafka 4.3 knows {schema.versions}"
        return None if topic == TRANSACTIONS else kinds
    try:
        fields, _ = reader(schema.name, version)(value, PREFIX_BYTES)
    except FormatError as error:
        return f"{schema.name}: {error.reason}"
    return _transaction_fault(fields) if topic == TRANSACTIONS else None


@lru_cache(maxsize=KEYS_KEPT)
def _key(topic: str, key: bytes) -> tuple[MessageSchema | None, str | None]:
    """Return the schema of the value that belongs to this key, and None. For an unknown type of key, return None and
    None; for a key at which the load stops, None and the reason."""
    if len(key) < PREFIX_BYTES:
        return None, "a key without a type"
    schemas = record_types(topic).get(int.from_bytes(key[:PREFIX_BYTES], signed=True))
    if schemas is None:
        return None, None
    try:
        reader(schemas[0].name, 0)(key, PREFIX_BYTES)
    except FormatError as error:
        return None, f"{schemas[0].name} is broken: {error.reason}"
    return schemas[1], None


def _transaction_fault(fields: dict[str, int | list[object] | None]) -> str | None:
    state = fields["transactionStatus"]
    if state not in STATES:
        return f"TransactionLogValue has a transaction in state {state}"
    if state != EMPTY and fields["transactionPartitions"] is None:
        return "TransactionLogValue has a transaction without partitions"
    version = fields.get("clientTransactionVersion", 0)
    return None if version in CLIENT_VERSIONS else f"TransactionLogValue has transaction.version {version}"

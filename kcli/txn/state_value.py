"""A fast writer of TransactionLogKey and TransactionLogValue: one transaction appends about four such records in turn.

    version              int16           1
    producer id          int64
    producer epoch       int16
    timeout              int32           ms
    state                int8
    partitions           compact array   null in state Empty
      topic              compact string
      partitions         compact array   of int32; then no tags
    last update, start   int64, int64    ms since 1970
    tags                 0: previous producer id, int64; 1: next producer id, int64; 2: the client's transaction
                         version, int16; each is left out if it has its default

Source: TransactionLogKey.json, TransactionLogValue.json; KIP-890.
"""

from __future__ import annotations

import struct

from formats.varint import put_uvarint
from kcli.txn.transaction import NONE, State, Transaction

VERSION = 1
ID_BYTES_MAX = 2**15 - 1
_KEY = struct.Struct(">hh")
_HEAD = struct.Struct(">hqhib")
_TIMES = struct.Struct(">qq")
_ID_TAG = struct.Struct(">BBq")
_VERSION_TAG = struct.Struct(">BBh")
_NULL, _NO_TAGS = 0, 0


def write_key(transactional_id: str) -> bytes | None:
    """Return the record's key; None for a transactional id that is too long for the format."""
    name = transactional_id.encode()
    return _KEY.pack(0, len(name)) + name if len(name) <= ID_BYTES_MAX else None


def write_value(transaction: Transaction) -> bytes:
    """Return the record's value, of version 1."""
    producer = transaction.producer_id, transaction.producer_epoch
    out = bytearray(_HEAD.pack(VERSION, *producer, transaction.timeout_ms, transaction.state))
    if transaction.state is State.EMPTY:
        out.append(_NULL)
    else:
        _put_partitions(out, transaction.by_topic)
    out += _TIMES.pack(transaction.last_update_ms, transaction.start_ms)
    tags = []
    if transaction.previous_producer_id != NONE:
        tags.append(_ID_TAG.pack(0, 8, transaction.previous_producer_id))
    if transaction.next_producer_id != NONE:
        tags.append(_ID_TAG.pack(1, 8, transaction.next_producer_id))
    if transaction.client_version:
        tags.append(_VERSION_TAG.pack(2, 2, transaction.client_version))
    out.append(len(tags))
    out += b"".join(tags)
    return bytes(out)


def _put_partitions(out: bytearray, by_topic: list[tuple[str, list[int]]]) -> None:
    put_uvarint(out, len(by_topic) + 1)
    for topic, numbers in by_topic:
        name = topic.encode()
        put_uvarint(out, len(name) + 1)
        out += name
        put_uvarint(out, len(numbers) + 1)
        out += struct.pack(f">{len(numbers)}i", *numbers)
        out.append(_NO_TAGS)

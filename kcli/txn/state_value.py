"""The key and the value of a transaction's record by hand: a transaction has four of them, one behind the other.

    version              int16           1
    producer id          int64
    producer epoch       int16
    timeout              int32           ms
    state                int8
    partitions           compact array   null in state Empty
      topic              compact string
      numbers            compact array   of int32; then no tags
    last update, start   int64, int64    ms since 1970
    tags                 0: previous producer id, int64; 1: next producer id, int64; 2: the client's transaction
                         version, int16; each only where it is not the default

Source: TransactionLogKey.json, TransactionLogValue.json; KIP-890.
"""

from __future__ import annotations

import struct
from itertools import groupby
from operator import itemgetter

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
_topic = itemgetter(0)


def write_key(transactional_id: str) -> bytes | None:
    """The key; None for an id that no record can have."""
    name = transactional_id.encode()
    return _KEY.pack(0, len(name)) + name if len(name) <= ID_BYTES_MAX else None


def write_value(transaction: Transaction) -> bytes:
    """The value."""
    each = transaction
    out = bytearray(_HEAD.pack(VERSION, each.producer_id, each.producer_epoch, each.timeout_ms, each.state))
    if each.state is State.EMPTY:
        out.append(_NULL)
    else:
        _put_partitions(out, each)
    out += _TIMES.pack(each.last_update_ms, each.start_ms)
    tags = []
    if each.previous_producer_id != NONE:
        tags.append(_ID_TAG.pack(0, 8, each.previous_producer_id))
    if each.next_producer_id != NONE:
        tags.append(_ID_TAG.pack(1, 8, each.next_producer_id))
    if each.client_version:
        tags.append(_VERSION_TAG.pack(2, 2, each.client_version))
    out.append(len(tags))
    out += b"".join(tags)
    return bytes(out)


def _put_partitions(out: bytearray, transaction: Transaction) -> None:
    topics = [(name, list(each)) for name, each in groupby(sorted(transaction.partitions), key=_topic)]
    put_uvarint(out, len(topics) + 1)
    for topic, partitions in topics:
        name = topic.encode()
        put_uvarint(out, len(name) + 1)
        out += name
        put_uvarint(out, len(partitions) + 1)
        out += struct.pack(f">{len(partitions)}i", *[number for _, number in partitions])
        out.append(_NO_TAGS)

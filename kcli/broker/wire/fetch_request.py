"""Encodes a follower's Fetch request without kio. A follower sends a Fetch for every few batches, and encoding it with
kio's objects and writer would take as long as all other work of the follower.

    max_wait int32 (ms), min_bytes int32, max_bytes int32, isolation_level int8, session_id int32, session_epoch int32
    topics      id | partitions | tagged fields
    partition   index int32, leader epoch int32, offset int64, last fetched epoch int32, log start int64,
                max bytes int32 | tagged fields: 0 directory id
    forgotten   topic id | partitions int32 | tagged fields
    rack_id     | tagged fields: 0 cluster id, 1 replica state (id int32, epoch int64)

This is version 17; kio encodes other versions, and requests with other fields. Source: FetchRequest.json.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from formats.varint import uvarint

VERSION: Final = 17
FIELDS: Final = frozenset(
    {
        "replica_state",
        "max_wait",
        "min_bytes",
        "max_bytes",
        "session_id",
        "session_epoch",
        "topics",
        "forgotten_topics_data",
    }
)
PARTITION_FIELDS: Final = frozenset(
    {
        "partition",
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "partition_max_bytes",
    }
)
_HEAD: Final = struct.Struct(">iiibii")
_PARTITION: Final = struct.Struct(">iiqiqix")
_INT32: Final = struct.Struct(">i")
_END: Final = struct.Struct(">BBBBiqx")
NO_TAGS: Final = b"\0"


def lay_out(fields: Mapping[str, Any]) -> bytes | None:
    """Return the encoded body of a request. fields: plain values by field name. Return None if the request does not
    have exactly the fields in FIELDS and PARTITION_FIELDS, so that kio must encode it."""
    if fields.keys() != FIELDS:
        return None
    body = bytearray(
        _HEAD.pack(
            fields["max_wait"],
            fields["min_bytes"],
            fields["max_bytes"],
            0,
            fields["session_id"],
            fields["session_epoch"],
        )
    )
    body += uvarint(len(fields["topics"]) + 1)
    for topic in fields["topics"]:
        partitions = topic["partitions"]
        body += topic["topic_id"].bytes + uvarint(len(partitions) + 1)
        for each in partitions:
            if each.keys() != PARTITION_FIELDS:
                return None
            body += _PARTITION.pack(
                each["partition"],
                each["current_leader_epoch"],
                each["fetch_offset"],
                each["last_fetched_epoch"],
                each["log_start_offset"],
                each["partition_max_bytes"],
            )
        body += NO_TAGS
    body += uvarint(len(fields["forgotten_topics_data"]) + 1)
    for topic in fields["forgotten_topics_data"]:
        body += topic["topic_id"].bytes + uvarint(len(topic["partitions"]) + 1)
        for number in topic["partitions"]:
            body += _INT32.pack(number)
        body += NO_TAGS
    replica = fields["replica_state"]
    body += _END.pack(1, 1, 1, 13, replica["replica_id"], replica["replica_epoch"])
    return bytes(body)

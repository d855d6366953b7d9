"""The partition of a coordinator's topic to which the records of a directory belong: a hash of each record's key.

    topic                  key of a record                                    what is hashed
    __consumer_offsets     version (int16), group id, ...                     the group id
    __transaction_state    version (int16), transactional id                  the transactional id
    __share_group_state    version (int16), group id, topic id, partition     "<group id>:<topic id>:<partition>"

A string has its length before it, as int16. Source: GroupCoordinatorService.partitionFor, TransactionStateManager
.partitionFor, ShareCoordinatorService.partitionFor; the schemas of the keys.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from formats.message_compiler import uuid_text
from kcli.errors import UnreadableInput
from kcli.java.hashing import partition_of
from kcli.log.coordinator_records import read_records

SHARE_TOPIC = "__share_group_state"
KEYS_OF = {"__consumer_offsets": "group", "__transaction_state": "transactional id", SHARE_TOPIC: "share group"}
"""By topic, the kind of id with which the keys of a coordinator's topic begin."""
KEYS_MAX = 1_000
"""The maximum number of keys that are read from the records in one directory."""
HEAD = struct.Struct(">hh")
SHARE_TAIL = struct.Struct(">16si")


def owners(directory: Path, topic: str, count: int) -> dict[int, str]:
    """Return the numbers of the partitions of `topic` to which the first records in a directory belong, each with the
    group id or transactional id in the key of one such record. Returns an empty dict if the directory cannot be read.
    count: the topic's number of partitions."""
    found: dict[int, str] = {}
    keys = (record.key for _, record in read_records(directory, lambda _: None) if record.key is not None)
    with suppress(UnreadableInput):
        for key in islice(keys, KEYS_MAX):
            for name, hashed in hashed_keys(key, topic):
                found.setdefault(partition_of(hashed, count), name)
    return found


def hashed_keys(key: bytes, topic: str) -> Iterator[tuple[str, str]]:
    """Yield the group id or transactional id with which a key begins, and the text whose hash gives the key's
    partition; nothing if the key has another form."""
    try:
        _, length = HEAD.unpack_from(key)
        end = HEAD.size + length
        name = key[HEAD.size : end].decode()
        if topic != SHARE_TOPIC:
            tail = ""
        else:
            topic_id, number = SHARE_TAIL.unpack_from(key, end)
            tail = f":{uuid_text(topic_id)}:{number}"
    except (struct.error, UnicodeDecodeError):
        return
    if 0 <= length <= len(key) - HEAD.size:
        yield name, f"{name}{tail}"

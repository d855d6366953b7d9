"""What a consumer group remembers of its topics: when the hash changes, it rebalances (KIP-848, KIP-1101).

    topic   byte 0 (how it is hashed), id (two longs), name (string), number of partitions (int), for each partition:
            its number (int), the racks of its replicas in order, each: length (int), rack (string)
    group   the hashes of its topics that exist, in the order of their names (longs); 0 without any

Names and racks are ordered as Java does. A replica without a rack, or on a broker that is not known, counts for
nothing. The group's hash is in its ConsumerGroupMetadataValue, so it must be Kafka's own to the bit.
Source: Utils.computeTopicHash, Utils.computeGroupHash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from formats.xxh3 import SIGN, put_int, put_long, put_string, xxh3_64
from kcli.java import java_order

MAGIC = b"\0"
NO_TOPICS = 0


def topic_hash(name: str, topic_id: UUID, partitions: Mapping[int, Sequence[str]]) -> int:
    """The hash of a topic; `partitions` are all of them, each with the racks of its replicas. 64 bits with a sign."""
    parts = [MAGIC, *map(_half, (topic_id.int >> 64, topic_id.int)), put_string(name), put_int(len(partitions))]
    for partition in range(len(partitions)):
        parts.append(put_int(partition))
        for rack in sorted(partitions.get(partition, ()), key=java_order):
            units = put_string(rack)
            parts += units[-4:], units
    return xxh3_64(b"".join(parts))


def group_hash(hashes: Mapping[str, int]) -> int:
    """The hash of a group from those of the topics it reads, by name. 64 bits with a sign."""
    if not hashes:
        return NO_TOPICS
    return xxh3_64(b"".join(put_long(hashes[name]) for name in sorted(hashes, key=java_order)))


def _half(bits: int) -> bytes:
    return put_long(((bits & (SIGN << 1) - 1) ^ SIGN) - SIGN)

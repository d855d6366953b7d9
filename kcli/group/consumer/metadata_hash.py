"""The hash of the metadata of a consumer group's topics: when it changes, the group rebalances (KIP-848, KIP-1101).

    topic   byte 0 (version of the hash), id (two longs), name (string), number of partitions (int), for each partition:
            its number (int), the racks of its replicas in order, each: length (int), rack (string)
    group   the hashes (longs) of the group's topics that exist, in the order of the topics' names; 0 without any

Names and racks are sorted as Java sorts strings. A replica without a rack, or on an unknown broker, adds nothing to the
hash. The group's hash is stored in ConsumerGroupMetadataValue, so it must equal Kafka's to the bit. Source:
Utils.computeTopicHash, Utils.computeGroupHash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from formats.xxh3 import SIGN, put_int, put_long, put_string, xxh3_64
from kcli.java.hashing import java_order

MAGIC = b"\0"
NO_TOPICS = 0


def topic_hash(name: str, topic_id: UUID, partitions: Mapping[int, Sequence[str]]) -> int:
    """Return the hash of a topic, as a signed 64-bit integer. partitions: the racks of the replicas, by partition."""
    parts = [MAGIC, *map(_half, (topic_id.int >> 64, topic_id.int)), put_string(name), put_int(len(partitions))]
    for partition in range(len(partitions)):
        parts.append(put_int(partition))
        for rack in sorted(partitions.get(partition, ()), key=java_order):
            units = put_string(rack)
            parts += units[-4:], units
    return xxh3_64(b"".join(parts))


def group_hash(hashes: Mapping[str, int]) -> int:
    """Return the hash of a group, as a signed 64-bit integer. hashes: the hashes of its topics, by name."""
    if not hashes:
        return NO_TOPICS
    return xxh3_64(b"".join(put_long(hashes[name]) for name in sorted(hashes, key=java_order)))


def _half(bits: int) -> bytes:
    return put_long(((bits & (SIGN << 1) - 1) ^ SIGN) - SIGN)

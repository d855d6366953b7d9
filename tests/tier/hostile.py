"""Records of `__remote_log_metadata` that no broker writes: each is a message of the topic, or nearly, and absurd.

Anybody with the right to write to the topic can append them. Each kind is a list of records, which come in this order
between those of a broker.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from formats.internal_topic import decode
from formats.message import uuid_bytes
from kcli.tier.metadata import TOPIC
from kcli.tier.segment import TieredPartition
from tests.tier.records import PARTITION, deleted, record, started, updated, uuid

INT64_MAX = 2**63 - 1
ID = uuid(666)
EPOCHS_MAX = 20_000
NAMES = {
    "empty": "",
    "dot": ".",
    "dots": "..",
    "slash": "a/b",
    "traversal": "../../etc/passwd",
    "nul": "a\0b",
    "long": "x" * 300,
    "lines": "a\nb\x1b[31m",
    "foreign": "Bücher",
}
"""Names that no topic has."""


def changed(value: bytes, **fields: Any) -> bytes:
    """A record with other values in some fields, of the segment or of its partition."""
    old = decode(TOPIC, None, value)
    assert old.value is not None
    new = old.value | {name: each for name, each in fields.items() if name in old.value}
    assert len(new) == len(old.value)
    return record(old.value_name, old.key_type, new)


def at(start: int, end: int, epochs: list[tuple[int, int]], **fields: Any) -> list[bytes]:
    """Both records of a copied segment."""
    first = started(ID, start, end, [(0, 0)])
    entries = [{"leaderEpoch": epoch, "offset": offset} for epoch, offset in epochs]
    return [changed(first, segmentLeaderEpochs=entries, **fields), updated(ID, 1)]


def copied(partition: TieredPartition) -> list[bytes]:
    """Both records of a copied segment of another partition."""
    return [started(ID, 0, 9, partition=partition), updated(ID, 1, partition=partition)]


def partitions(whose: TieredPartition) -> dict[str, TieredPartition]:
    """Partitions that no topic has, or another one."""
    return {
        **{f"name {kind}": whose._replace(topic=name) for kind, name in NAMES.items()},
        "partition -1": whose._replace(partition=-1),
        "partition 2^31-1": whose._replace(partition=2**31 - 1),
        "topic id zero": whose._replace(topic_id=uuid(0)),
        "topic id one": whose._replace(topic_id=uuid(1)),
        "topic id unknown": whose._replace(topic_id=uuid(12345)),
        "name of another topic": whose._replace(topic="another"),
    }


def segments() -> dict[str, list[bytes]]:
    """Segments of PARTITION."""
    whole = started(ID, 1_000, 1_009)
    return {
        "end below start": [started(ID, 9, 0), updated(ID, 1)],
        "negative start": [started(ID, -5, 9), updated(ID, 1)],
        "negative end": [started(ID, 0, -1)],
        "offsets 2^63-1": [started(ID, INT64_MAX, INT64_MAX), updated(ID, 1)],
        "all offsets": [started(ID, 0, INT64_MAX, [(77, 0)]), updated(ID, 1)],
        "id twice": [started(ID, 1_000, 1_009), started(ID, 2_000, 2_009), updated(ID, 1)],
        "id again after the copy": [started(ID, 1_000, 1_009), updated(ID, 1), started(ID, 2_000, 2_009)],
        "overlapping": [*at(1_000, 1_009, [(0, 1_000)]), started(uuid(667), 1_005, 1_014), updated(uuid(667), 1)],
        "no epoch": at(1_000, 1_009, []),
        "negative epoch": at(1_000, 1_009, [(-7, 1_000)]),
        "epochs unsorted": at(1_000, 1_009, [(5, 1_005), (3, 1_000)]),
        "epochs go back": at(1_000, 1_009, [(3, 1_005), (5, 1_000)]),
        "epochs outside": at(1_000, 1_009, [(0, 5_000), (1, -3), (2, INT64_MAX), (3, -(2**63))]),
        "epoch twice": at(1_000, 1_009, [(0, 1_000), (0, 1_005)]),
        "many epochs": at(0, INT64_MAX, [(1_000 + i, i) for i in range(EPOCHS_MAX)]),
        "size negative": [changed(whole, segmentSizeInBytes=-1), updated(ID, 1)],
        "size 2^31-1": [changed(whole, segmentSizeInBytes=2**31 - 1), updated(ID, 1)],
        "timestamp negative": [changed(whole, maxTimestampMs=-(2**63)), updated(ID, 1)],
        "timestamp 2^63-1": [changed(whole, maxTimestampMs=INT64_MAX, eventTimestampMs=INT64_MAX), updated(ID, 1)],
        "broker -1": [changed(whole, brokerId=-1), changed(updated(ID, 1), brokerId=-1)],
        "custom metadata": [changed(whole, customMetadata=bytes(900_000)), updated(ID, 1)],
        "begins copied": [started(ID, 0, 9, state=1)],
        "begins deleted": [started(ID, 0, 9, state=3)],
        "state -1": [started(ID, 0, 9, state=-1), updated(ID, -1)],
        "state 127": [whole, updated(ID, 127)],
        "finished before started": [updated(ID, 1)],
        "deletion of nothing": [updated(ID, 2), updated(ID, 3)],
        "started twice": [whole, whole, updated(ID, 0)],
        "copied while deleted": [whole, updated(ID, 2), updated(ID, 1)],
        "deleted before": [whole, updated(ID, 3)],
        "after the end": [whole, updated(ID, 2), updated(ID, 3), updated(ID, 1), updated(ID, 3)],
    }


def broken() -> dict[str, list[bytes | None]]:
    """Values that are no message of the topic."""
    whole = started(ID, 1_000, 1_009)
    latin = deleted(1, partition=PARTITION._replace(topic="o?ders")).replace(b"o?ders", b"o\xe9ders")
    return {
        "null": [None],
        "empty": [b""],
        "text": [b"hello"],
        "frame 0": [b"\0" + whole[1:]],
        "frame 2": [b"\2" + whole[1:]],
        "api key 3": [b"\1\3\0" + whole[3:]],
        "api key 77": [b"\1\x4d\0" + whole[3:]],
        "version 1": [b"\1\0\1" + whole[3:]],
        "bytes behind": [whole + b"!"],
        "cut": [whole[:end] for end in range(len(whole))],
        "not utf-8": [latin],
        "length of the name": [b"\1\0\0\xff\xff\xff\xff\x0f" + whole[4:], b"\1\0\0\0" + whole[4:]],
        "length of a varint": [b"\1\0\0" + b"\xff" * 12, b"\xff" * 20],
    }


def deletions() -> dict[str, list[bytes]]:
    """Of PARTITION, which is in use."""
    return {
        **{f"deletion {state}": [deleted(state)] for state in range(3)},
        "deletion whole": [deleted(state) for state in range(3)],
        "deletion -1": [deleted(-1)],
        "deletion 9": [deleted(9)],
    }


def about(whose: TieredPartition, value: bytes) -> bytes:
    """A record about another partition."""
    old = decode(TOPIC, None, value).value
    assert old is not None
    entry = {"name": whose.topic, "id": whose.topic_id, "partition": whose.partition}
    if "topicIdPartition" in old:
        return changed(value, topicIdPartition=entry)
    return changed(value, remoteLogSegmentId=old["remoteLogSegmentId"] | {"topicIdPartition": entry})


@cache
def kinds(whose: TieredPartition = PARTITION) -> dict[str, list[bytes | None]]:
    """All of them, each about a segment of its own. whose: the partition that is in use."""
    found: dict[str, list[bytes | None]] = broken()
    for number, (kind, records) in enumerate({**segments(), **deletions()}.items()):
        own = uuid_bytes(uuid(10_000 + number))
        found[kind] = [about(whose, each).replace(uuid_bytes(ID), own) for each in records]
    for name, other in partitions(whose).items():
        found[name] = [*copied(other), *(deleted(state, partition=other) for state in range(3))]
    return found


def flipped(seed: int, length: int = 60) -> list[bytes]:
    """Records of all kinds in any order, some with other fields, some with wrong bytes."""
    dice = random.Random(seed)
    small = [each for kind in kinds().values() for each in kind if each is not None and len(each) < 1_000]
    found = []
    for _ in range(length):
        each = bytearray(dice.choice(small))
        if dice.random() < 0.5 and each:
            for _ in range(dice.randrange(1, 4)):
                each[dice.randrange(len(each))] = dice.choice((0, 1, 127, 128, 255, dice.randrange(256)))
        found.append(bytes(each))
    return found

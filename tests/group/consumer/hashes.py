"""Topics and groups with the hashes that Kafka 4.3's classes gave them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Topic:
    name: str
    id: int
    partitions: dict[int, list[str]]
    hash: int


ID = 0x0123456789ABCDEFFEDCBA9876543210
NEGATIVE_ID = (1 << 128) - 2

TOPICS = [
    Topic("", 0, {}, 6868502005073071843),
    Topic("foo", ID, {0: []}, -1958573093798846571),
    Topic("foo", NEGATIVE_ID, {0: []}, -5867730404349900962),
    Topic("foo", ID, {0: ["rack1"], 1: ["rack1", "rack2"], 2: []}, 6669030966107718134),
    Topic("foo", ID, {0: ["rack2", "rack1"], 1: ["rack1", "rack1"], 2: ["r"]}, 1933033744973419928),
    Topic(
        "b" * 249,
        ID,
        {number: ["eu-west-1a", "eu-west-1b", "eu-west-1c"] for number in range(100)},
        -4991505119228917155,
    ),
    Topic("räcks", ID, {0: ["\uffff", "\U0001f600", "ä", ""]}, 6956079310551680730),
]

GROUPS: list[tuple[dict[str, int], int]] = [
    ({}, 0),
    ({"foo": 1}, 3439722301264460078),
    ({"foo": -1, "bar": 1 << 62}, 6952915890990796584),
    ({"\uffff": 1, "\U0001f600": 2, "a": -(1 << 63), "A": (1 << 63) - 1}, -6240110311106716601),
    ({f"topic-{i}": i * 0x0123456789AB for i in range(100)}, 1970784971567548305),
]

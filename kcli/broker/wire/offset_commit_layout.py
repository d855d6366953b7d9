"""Encodes OffsetCommit's response without kio. Consumers commit often, and kio's objects and writer would take a third
of the time of the whole request.

    throttle_time_ms int32 (3+) | topics | tagged fields (8+)
    topic      name (2-9) or id (10+) | partitions | tagged fields (8+)
    partition  index int32, error int16 | tagged fields (8+)

Source: OffsetCommitResponse.json.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from uuid import UUID

from kcli.broker.wire.answers import Laid
from kcli.broker.wire.layout import NO_TAGS, framed, length, string
from kcli.broker.wire.messages import Messages

THROTTLE = 3
TOPICS_KEPT = 1_000
PARTITIONS_KEPT = 100
"""The greatest number of partitions of a topic whose encoded result is cached. The last TOPICS_KEPT results are cached,
because consumers commit the same partitions over and over, usually few of a topic."""
_PARTITION = struct.Struct(">ih")


Answered = tuple[str | UUID | None, tuple[tuple[int, int], ...]]
"""A topic's name or id, and each partition's index and error code."""


def lay_out(kind: Messages, correlation_id: int, topics: list[Answered]) -> Laid:
    """Return the response's frame, in one part. topics: the topics in the order of the response."""
    flexible = kind.flexible
    parts = [
        (_kept if len(partitions) <= PARTITIONS_KEPT else _topic)(topic, partitions, flexible)
        for topic, partitions in topics
    ]
    return framed(kind, correlation_id, [length(len(parts), flexible=flexible), *parts], throttle_since=THROTTLE)


def _topic(topic: str | UUID | None, partitions: tuple[tuple[int, int], ...], flexible: bool) -> bytes:
    tags = NO_TAGS if flexible else b""
    name = string(topic, flexible=flexible) if isinstance(topic, str) else (topic or UUID(int=0)).bytes
    items = [_PARTITION.pack(index, code) + tags for index, code in partitions]
    return b"".join((name, length(len(items), flexible=flexible), *items, tags))


_kept = lru_cache(maxsize=TOPICS_KEPT)(_topic)
